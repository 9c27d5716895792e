"""Write the README's table of speed beside other programs from the benchmarks' JSON: `python docs/readme_table.py`.

Only rows whose peer finished, was measured in the same run and stopped by the same rule are printed. All others stand
on the page `peers.md`, marked as what they are.
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


def peers_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return one line for each fair comparison of speed; rows about memory are left out.

    Raises
    ------
    InvalidInputError
        A row does not say whether its peer finished, or how the two sides compare and stop.
    """
    lines = ["| what | beside | each stops | times faster |", "|---|---|---|---|"]
    lines += [
        f"| {row['workload']} | {row['peer']} | {row['stopping']} | {ratio_text(row, digits=2)} |"
        for row in rows
        if is_fair(row) and "memory" not in row["workload"]
    ]
    return "\n".join(lines)


def with_table(readme: str) -> str:
    """Return the README with the table of the stored rows."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{peers_table(stored_rows())}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
