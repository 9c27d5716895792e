"""Every program of the gallery runs and draws its picture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Tests of intarsia.torch and intarsia.worlds run these with less training.
TESTED_ELSEWHERE = {"network_under_grid", "visual_sudoku", "match_names", "tag_and_cluster"}


@pytest.mark.parametrize(
    "example", [path for path in EXAMPLES if path.stem not in TESTED_ELSEWHERE], ids=lambda path: path.stem
)
def test_example_draws_its_picture(example, tmp_path):
    picture = tmp_path / "picture.png"
    subprocess.run(
        [sys.executable, str(example), str(picture)],
        cwd=tmp_path, check=True, capture_output=True, env=os.environ | {"MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_gallery_has_a_picture_of_every_example():
    pictures = {path.stem for path in (ROOT / "docs" / "images" / "gallery").glob("*.png")}
    assert pictures == {path.stem for path in EXAMPLES}
