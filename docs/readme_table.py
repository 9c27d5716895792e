"""The README's table against peers, from the benchmarks' JSON: `python docs/readme_table.py` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- peers: written by docs/readme_table.py -->", "<!-- end of peers -->"
# Those who are other programs; rows that compare us with ourselves stay on the page.
_NOT_PEERS = ("Intarsia", "the way forward", "a call of its oracle", "the same")


def peers_table() -> str:
    """One line for each comparison of speed with another program, in the order of the benchmarks."""
    lines = ["| what | beside | times faster |", "|---|---|---|"]
    for path in sorted((ROOT / "docs" / "results").glob("bench_*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            peer, ratio = row["peer"], row["ratio"]
            if not peer or not ratio or peer.startswith(_NOT_PEERS) or "memory" in row["workload"]:
                continue
            lines.append(
                f"| {row['workload']} | {peer} | {ratio:,.0f} |"
                if ratio >= 100
                else f"| {row['workload']} | {peer} | {ratio:.2g} |"
            )
    return "\n".join(lines)


def with_table(readme: str) -> str:
    """The README with the table of now."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{peers_table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
