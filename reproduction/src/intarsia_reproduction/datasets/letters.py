"""Handwritten words (OCR), with one small image per letter."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray, frozen, read_only
from intarsia_reproduction.datasets.archive import Field, damaged, read_arrays
from intarsia_reproduction.datasets.location import require

HEIGHT, WIDTH = 16, 8
_LAYOUT = {
    "pixels_packed": Field(("letters", HEIGHT * WIDTH // 8), kinds="u"),
    "letter": Field(("letters",), high=25),
    "word_start": Field(("ends",)),
    "word_fold": Field(("words",), high=9),
}


@dataclass(frozen=True, eq=False)
class LetterWords:
    """Words as sequences of letter images.

    Attributes
    ----------
    pixels : list of (n_letters, 128) int8 arrays
        Pixels, 0 or 1; each row is an image of 16 rows and 8 columns.
    letters : list of (n_letters,) int8 arrays
        Letters, 0 for a to 25 for z.
    fold : (n_words,) int array
        Fold of each word, 0 to 9, as published.

    Examples
    --------
    >>> letters = [np.array([2, 0, 1], dtype=np.int8), np.array([0], dtype=np.int8)]
    >>> pixels = [np.zeros((3, 128), dtype=np.int8), np.zeros((1, 128), dtype=np.int8)]
    >>> data = LetterWords(pixels, letters, fold=np.array([0, 9]))
    >>> ["".join(chr(ord("a") + k) for k in word) for word in data.letters]
    ['cab', 'a']
    >>> data.pixels[0][0].reshape(16, 8).shape
    (16, 8)
    """

    pixels: list[NDArray[np.int8]]
    letters: list[NDArray[np.int8]]
    fold: IntArray


def load_ocr_letters(data: str | os.PathLike[str] | None = None) -> LetterWords:
    """Load the handwritten words with their ten published folds, from `ocr_letters.npz`.

    First letters of words are not in the set, since some were capitals. The file contains `pixels_packed` (n_letters,
    16: `numpy.packbits` of the 128 pixels), `letter` (n_letters), `word_start` (n_words + 1) and `word_fold` (n_words).

    Parameters
    ----------
    data : path, optional
        Folder to search first; by default the folder in INTARSIA_DATA. The user's cache folder is searched last.

    Raises
    ------
    MissingDataError
        The file is missing; the message says where to obtain it.
    FileFormatError
        The file is damaged.

    Examples
    --------
    >>> data = load_ocr_letters()       # doctest: +SKIP
    >>> "".join(chr(97 + k) for k in data.letters[0])        # doctest: +SKIP
    'ommanding'
    """
    (path,) = require("ocr_letters", data)
    arrays = read_arrays(path, _LAYOUT)
    start, n_letters = arrays["word_start"].astype(np.int64), len(arrays["letter"])
    if (
        len(start) != len(arrays["word_fold"]) + 1
        or start[0] != 0
        or start[-1] != n_letters
        or (np.diff(start) < 1).any()
    ):
        raise damaged(
            path, f"'word_start' should increase from 0 to {n_letters} and have one entry more than 'word_fold'"
        )
    pixels = frozen(np.unpackbits(arrays["pixels_packed"], axis=1).astype(np.int8))
    letters = frozen(arrays["letter"].astype(np.int8))
    spans = [slice(a, b) for a, b in pairwise(start)]
    return LetterWords(
        [read_only(pixels[span]) for span in spans],
        [read_only(letters[span]) for span in spans],
        frozen(arrays["word_fold"].astype(np.int64)),
    )
