"""Write the README's table of speed beside other programs from the benchmarks' JSON: `python docs/readme_table.py`.

Only rows whose peer finished, was measured in the same run and stopped by the same rule are considered. For each peer
the row with the lowest ratio is printed. A sentence below the table names the peers that are faster where the two sides
do not compute the same. The page `peers.md` shows all rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from intarsia_reproduction.benchmarks.measurement import is_fair, ratio_text

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- peers: written by docs/readme_table.py -->", "<!-- end of peers -->"


def stored_rows() -> list[dict[str, Any]]:
    """Return the rows of all benchmarks, in the order of their files."""
    paths = sorted((ROOT / "docs" / "results").glob("bench_*.json"))
    return [row for path in paths for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]


def program_of(row: Mapping[str, Any]) -> str:
    """Return the name of the program in a row's peer, such as 'PGMax' for "PGMax differentiated by JAX"."""
    return row["peer"].replace(",", " ").replace("'s", "").split()[0]


def lowest_rows(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the fair comparison of speed with the lowest ratio for each peer, in the order of the peers.

    Raises
    ------
    InvalidInputError
        A row does not say whether its peer finished, or how the two sides compare and stop.
    """
    lowest: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if is_fair(row) and "memory" not in row["workload"]:
            program = program_of(row)
            if program not in lowest or row["ratio"] < lowest[program]["ratio"]:
                lowest[program] = row
    return list(lowest.values())


def peers_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the README: one line for each peer."""
    lines = ["| workload | peer | both stop at | times faster |", "|---|---|---|---|"]
    lines += [
        f"| {row['workload']} | {row['peer']} | {row['stopping']} | {ratio_text(row, digits=2)} |"
        for row in lowest_rows(rows)
    ]
    return "\n".join(lines)


def faster_peers(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence with the lowest ratio of each peer that is faster in a comparison with rules of its own."""
    lowest: dict[str, float] = {}
    for row in rows:
        is_program = row["peer"] is not None and not row["peer"].startswith("imports of")  # a unit of time
        if is_program and row["comparison"] == "own rules" and row["peer_finished"] and "memory" not in row["workload"]:
            peer = row["peer"].removeprefix("import ").split(",")[0].split(".")[0].split(" and ")[0].split(" at ")[0]
            if row["ratio"] < min(1.0, lowest.get(peer, 1.0)):
                lowest[peer] = row["ratio"]
    peers = [f"{peer} ({ratio:.2g})" for peer, ratio in sorted(lowest.items(), key=lambda item: -item[1])]
    return (
        "Comparisons in which the two sides do not compute the same are not in the table. Peers that are faster there, "
        f"with the lowest ratio: {', '.join(peers)}."
    )


def with_table(readme: str) -> str:
    """Return the README with the table of the stored rows."""
    before, rest = readme.split(BEGIN)
    rows = stored_rows()
    return f"{before}{BEGIN}\n{peers_table(rows)}\n\n{faster_peers(rows)}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
