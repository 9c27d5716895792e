"""Columns of named features, from a hash table in arrays that is smaller than a dict of strings and faster for many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import IntArray

# Names are decoded and hashed in blocks of this size, so that few strings exist at a time.
_BLOCK = 8192
# The hash of a string is never -1.
_FREE = -1
# Number of slots of a bucket: a cache line has four hashes.
_WIDTH = 4


class FeatureIndex:
    """Hash table from the names of features to their columns, in buckets of four.

    The table has the 64-bit hashes of the names and not the names. A name that is not in the table has the hash of
    one of n names with probability n / 2**64, about 1e-14 for a model of 200,000 features; it is then taken for that
    name. Python chooses its hash function at random in each process.

    Parameters
    ----------
    text : str
        All names, one after the other.
    ptr : (n + 1,) int array
        First character of each name, followed by the number of characters.

    Examples
    --------
    >>> index = FeatureIndex("sunrain", np.array([0, 3, 7]))
    >>> index.columns(["rain", "fog", "sun"]).tolist()
    [1, 2, 0]
    >>> index.names()
    ['sun', 'rain']
    """

    def __init__(self, text: str, ptr: IntArray) -> None:
        self._text, self._ptr, self.size = text, ptr.astype(np.int32 if len(text) < 2**31 else np.int64), ptr.size - 1
        n_buckets = 1 << max(1, (self.size // 2).bit_length())
        self._mask = n_buckets - 1
        self._hashes = np.full((n_buckets, _WIDTH), _FREE, dtype=np.int64)
        self._columns = np.full(n_buckets * _WIDTH, self.size, dtype=np.int32)
        for first in range(0, self.size, _BLOCK):
            self._insert(self._names(first, min(first + _BLOCK, self.size)), first)

    def _insert(self, names: list[str], first: int) -> None:
        """Add names with the columns from `first` on."""
        if len(set(names)) < len(names) or (self.columns(names) != self.size).any():
            raise ValueError("vocabulary")  # a name occurs twice
        hashes = np.fromiter(map(hash, names), np.int64, len(names))
        waiting, buckets = np.arange(len(names)), hashes & self._mask
        while waiting.size:
            order = np.argsort(buckets, kind="stable")
            waiting, buckets = waiting[order], buckets[order]
            # A name takes the slot after those used and those of the names before it, or tries the next bucket.
            slots = (self._hashes[buckets] != _FREE).sum(1) + np.arange(buckets.size) - buckets.searchsorted(buckets)
            fits = slots < _WIDTH
            self._hashes[buckets[fits], slots[fits]] = hashes[waiting[fits]]
            self._columns[buckets[fits] * _WIDTH + slots[fits]] = waiting[fits] + first
            waiting, buckets = waiting[~fits], (buckets[~fits] + 1) & self._mask

    def columns(self, names: Sequence[str]) -> NDArray[np.int32]:
        """Return the column of each name, and the number of features for unknown names."""
        hashes = np.fromiter(map(hash, names), np.int64, len(names))
        buckets = hashes & self._mask
        columns, is_pending = self._in_buckets(hashes, buckets)
        pending = is_pending.nonzero()[0]
        while pending.size:
            buckets = (buckets[is_pending] + 1) & self._mask
            columns[pending], is_pending = self._in_buckets(hashes[pending], buckets)
            pending = pending[is_pending]
        return columns

    def _in_buckets(self, hashes: IntArray, buckets: IntArray) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the columns of hashes in their buckets, and whether each hash may be in the next bucket."""
        entries = self._hashes.take(buckets, 0)
        cells = (entries == hashes[:, None]).ravel().nonzero()[0]
        rows = cells // _WIDTH
        columns = np.full(hashes.size, self.size, dtype=np.int32)
        columns[rows] = self._columns.take(buckets[rows] * _WIDTH + cells % _WIDTH)
        return columns, (entries[:, -1] != _FREE) & (columns == self.size)

    def names(self) -> list[str]:
        """Return the names in the order of their columns."""
        return self._names(0, self.size)

    def _names(self, first: int, last: int) -> list[str]:
        text, ptr = self._text, self._ptr[first : last + 1].tolist()
        return [text[a:b] for a, b in pairwise(ptr)]
