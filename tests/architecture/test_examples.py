"""Every program of the gallery runs, does what its text says, and has its picture."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "images" / "gallery"
# What `main` must return: between these, both chosen by what is known without the library.
BETWEEN = {
    "denoise_photograph": (0.8, 1.0),  # pixels right; a single pixel tells 0.5 ** (1 / 1.5) = 0.63
    "follow_walkers": (0.0, 0.25),  # share in the wrong cell; the mean of the weeks before and after gives 0.50
    "led_astray": (1.0, 1.0),  # errors by belief propagation less those by the relaxation: all, and none
    "opinions_in_a_network": (0.0, 0.05),  # mean error of marginals
    "read_codes": (0.8, 1.0),  # strings right
    "resolve_customers": (0.85, 1.0),  # B-cubed F1; that of connected components is below
    "restore_grey_levels": (0.0, 0.75),  # error beside that of the input
    "smooth_curve": (0.0, 0.5),  # the same
    "solve_sudoku": (1.0, 1.0),  # rows, columns and boxes with every digit
    "take_sides": (0.9, 1.0),  # sides right
}
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def test_every_example_is_known():
    assert sorted(BETWEEN) == EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name, tmp_path):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    picture = tmp_path / "picture.png"
    with warnings.catch_warnings():  # examples may silence warnings
        spec.loader.exec_module(module)
        found = module.main(str(picture))
    low, high = BETWEEN[name]
    assert low <= found <= high
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_has_its_picture_in_the_gallery(name):
    assert (GALLERY / f"{name}.png").is_file(), f"run: python docs/make_gallery.py {name}"


def test_every_picture_has_its_example():
    assert sorted(path.stem for path in GALLERY.glob("*.png")) == EXAMPLES


def test_the_gallery_shows_all_of_it():
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "_hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = hooks.gallery()
    for name in EXAMPLES:
        code = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
        assert page.count(f"images/gallery/{name}.png") == 1
        assert all(line.strip() in page for line in code.splitlines())
