"""One call of `fit` passes through few files, so that a reader can follow it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import intarsia
from intarsia import ChainCRF
from intarsia.energies import at_most_one

SOURCE = Path(intarsia.__file__).parent
MOST_FILES = 40


def files_called(function):
    """Files of the package in which a function is called, compiled kernels included, while `function` runs."""
    files = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name != "<module>" and path.is_relative_to(SOURCE):
            files.add(path.relative_to(SOURCE).as_posix())

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(previous)
    return files


def test_fit_with_an_energy_passes_through_few_files():
    rng = np.random.default_rng(0)
    y = [rng.choice(["B-x", "O"], int(rng.integers(1, 9)), p=[0.4, 0.6]).tolist() for _ in range(30)]
    X = [[[f"w={label if rng.random() < 0.7 else rng.integers(3)}", "b"] for label in labels] for labels in y]
    crf = ChainCRF(energies=at_most_one("x"))
    crf.fit(X, y)  # imports modules and compiles kernels
    files = files_called(lambda: crf.fit(X, y))
    assert "sequences/chain_crf.py" in files
    assert "inference/chains/bethe_chains.py" in files
    assert len(files) <= MOST_FILES, sorted(files)
