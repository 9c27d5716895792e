"""Entities as users name them, turned into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from intarsia._validation import IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.pairs import is_hidden


def cluster_codes(clusters: Any, n_records: int, where: str) -> IntArray:
    """Number of each record's entity, from 0 by first occurrence; -1 where it is None, NaN or -1: not known.

    Examples
    --------
    >>> cluster_codes(["b", None, "a", "b"], 4, "fit")
    array([ 0, -1,  1,  0])
    """
    if isinstance(clusters, (str, Mapping)) or not hasattr(clusters, "__len__"):
        raise InvalidInputError(
            f"{where}: clusters is of type {type(clusters).__name__}; expected one for each record."
        )
    if len(clusters) != n_records:
        raise InvalidInputError(
            f"{where}: there are {n_records} records, but {len(clusters)} clusters. Give one for each record, None "
            f"where it is not known."
        )
    as_list = getattr(clusters, "tolist", None) or getattr(clusters, "to_list", None)
    number: dict[Any, int] = {}
    codes = np.full(n_records, -1, dtype=np.int64)
    for row, given in enumerate(as_list() if as_list is not None else clusters):
        label = given.item() if isinstance(given, np.generic) else given
        if not (is_hidden(label) or label != label):
            codes[row] = number.setdefault(label, len(number))
    if not number:
        raise InvalidInputError(
            f"{where}: {'no record' if n_records else 'there are no records, so none'} has a known cluster. Label some."
        )
    return codes


def first_numbers(labels: IntArray) -> IntArray:
    """The same clusters, numbered from 0 in the order in which they first occur.

    Examples
    --------
    >>> first_numbers(np.array([7, 3, 7]))
    array([0, 1, 0])
    """
    _, first, code = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[code].astype(np.int64)
