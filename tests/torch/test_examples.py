"""The examples with networks run, with less training than in the gallery."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_epochs", "at_least"), [("visual_sudoku", 2, 0.4), ("network_under_grid", 6, 0.005)]
)
def test_examples_learn(name, n_epochs, at_least, tmp_path, capsys):
    """More than 40 % of the boards are solved (none before training); fewer pixels are wrong than without the grid."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    picture = tmp_path / "picture.png"
    assert module.main(str(picture), n_epochs=n_epochs) > at_least
    assert picture.stat().st_size > 10_000
    assert "see" in capsys.readouterr().out
