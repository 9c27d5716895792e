"""Every Python block of the README and of the pages runs, and prints the output that is shown after it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if re.search(r"^```python", page.read_text(encoding="utf-8"), flags=re.M)
]
EXTRAS = "torch|pandas|polars|distributed|networkx"
_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", flags=re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_blocks_run(page, tmp_path, monkeypatch, capsys):
    text = page.read_text(encoding="utf-8")
    for extra in re.findall(rf"^(?:import|from) ({EXTRAS})\b", text, flags=re.M):
        pytest.importorskip(extra)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "MPLBACKEND", "Agg")
    namespace: dict[str, object] = {"__name__": "page"}
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1)) + 1
        # Failures show the line numbers of the page.
        code = compile("\n" * (line - 1) + block[1], str(page), "exec")
        capsys.readouterr()
        exec(code, namespace)
        if block[2] is not None:
            assert capsys.readouterr().out == block[2], f"{page.name}, line {line}: the output shown is not the output"


def test_readme_begins_with_a_short_example_and_shows_every_output():
    blocks = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 5
    assert len(blocks[0][0].splitlines()) <= 12
    assert all(output for _, output in blocks)
