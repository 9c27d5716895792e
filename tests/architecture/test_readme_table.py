"""The README's table of peers is what the benchmarks' JSON says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_that_of_the_json():
    spec = importlib.util.spec_from_file_location("readme_table", ROOT / "docs" / "readme_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert module.with_table(readme) == readme, "run: python docs/readme_table.py"
    assert readme.count("| CRFsuite |") >= 3
