"""Make `ocr_letters.npz` from `letter.data` or `letter.data.gz` (http://ai.stanford.edu/~btaskar/ocr/)."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.datasets.make.command import run, write_arrays

# Columns: id, letter, id of the next letter or -1, word and position (from 1), fold, 128 pixels.
_N_COLUMNS = 6 + 128


def make_ocr_letters(original: Path, output: Path) -> None:
    """Convert the tab-separated letters in the order of the file; a word ends where the next letter is -1."""
    content = original.read_bytes()
    text = (gzip.decompress(content) if original.suffix == ".gz" else content).decode("ascii")
    rows = [line.split("\t")[:_N_COLUMNS] for line in text.splitlines() if line.strip()]
    for k, row in enumerate(rows):
        if len(row) < _N_COLUMNS:
            raise InvalidInputError(f"{original}, line {k + 1}: {len(row)} columns, expected {_N_COLUMNS}.")
    if not rows or rows[-1][2] != "-1":
        raise InvalidInputError(f"{original} ends inside a word. Download it again.")
    ends = np.array([row[2] == "-1" for row in rows])
    word_start = np.concatenate([[0], np.flatnonzero(ends) + 1]).astype(np.int32)
    fold = np.array([int(row[5]) for row in rows], dtype=np.uint8)
    arrays = {
        "pixels_packed": np.packbits(np.array([row[6:] for row in rows]).astype(np.uint8), axis=1),
        "letter": np.array([ord(row[1]) - ord("a") for row in rows], dtype=np.uint8),
        "word_id": np.array([int(row[3]) - 1 for row in rows], dtype=np.uint16),
        "position": np.array([int(row[4]) - 1 for row in rows], dtype=np.uint8),
        "fold": fold,
        "word_start": word_start,
        "word_fold": fold[word_start[:-1]],
    }
    write_arrays(output / "ocr_letters.npz", arrays)


if __name__ == "__main__":
    run(make_ocr_letters, "letter.data or letter.data.gz from http://ai.stanford.edu/~btaskar/ocr/")
