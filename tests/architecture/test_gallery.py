"""Every program of the gallery runs, draws its picture, and prints what it printed for the picture in the gallery."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Tests of intarsia.torch and intarsia.worlds run these with less training.
TESTED_ELSEWHERE = {"network_under_grid", "visual_sudoku", "match_names", "tag_and_cluster"}

STORED = ROOT / "docs" / "images" / "gallery"
NUMBER = re.compile(r"\d+(?:\.\d+)?%?")


@pytest.mark.parametrize(
    "example", [path for path in EXAMPLES if path.stem not in TESTED_ELSEWHERE], ids=lambda path: path.stem
)
def test_example_draws_its_picture(example, tmp_path):
    spec = spec_from_file_location("make_gallery", ROOT / "docs" / "make_gallery.py")
    gallery = module_from_spec(spec)
    spec.loader.exec_module(gallery)
    text = gallery.run_example(example, tmp_path / f"{example.stem}.png")
    with Image.open(tmp_path / f"{example.stem}.png") as drawn, Image.open(STORED / f"{example.stem}.png") as stored:
        assert drawn.format == stored.format == "PNG"
    # A picture with other numbers is older than its program: run docs/make_gallery.py again.
    assert NUMBER.findall(text) == NUMBER.findall(stored.info["Description"])


def test_gallery_has_a_picture_of_every_example():
    pictures = {path.stem for path in STORED.glob("*.png")}
    assert pictures == {path.stem for path in EXAMPLES}
