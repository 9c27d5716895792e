"""Texts made comparable: without case and accents, as words, as a table of words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from intarsia._validation import check_number


def plain_text(value: Any) -> str:
    """Text without case, accents, and superfluous blanks.

    Examples
    --------
    >>> plain_text("  Hélène   O'Hara")
    "helene o'hara"
    """
    split = unicodedata.normalize("NFKD", str(value))
    return " ".join("".join(letter for letter in split if not unicodedata.combining(letter)).casefold().split())


def tokens(value: Any, ngram: int | None = None) -> list[str]:
    """Words of a text, letters and digits only, or its runs of `ngram` letters.

    Examples
    --------
    >>> tokens("Proc. 36th Annual")
    ['proc', '36th', 'annual']
    >>> tokens("ann", ngram=2)
    [' a', 'an', 'nn', 'n ']
    """
    words = re.findall(r"\w+", plain_text(value))
    if ngram is None:
        return words
    check_number(ngram, "ngram", low=1, integer=True)
    padded = f" {' '.join(words)} "
    return [padded[k : k + ngram] for k in range(len(padded) - ngram + 1)]


def token_matrix(sets: Sequence[Sequence[str] | frozenset[str]]) -> csr_array:
    """1 where a set (row) has a token (column), in the order of appearance.

    Examples
    --------
    >>> token_matrix([["a", "b"], ["b"]]).toarray()
    array([[1., 1.],
           [0., 1.]])
    """
    number: dict[str, int] = {}
    columns = [number.setdefault(token, len(number)) for one in sets for token in sorted(set(one))]
    ends = np.cumsum([0, *(len(set(one)) for one in sets)])
    return csr_array((np.ones(len(columns)), np.array(columns, dtype=np.int64), ends), shape=(len(sets), len(number)))
