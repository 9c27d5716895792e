"""Which pairs of records are worth comparing: those that share a value, a word, or a place in an order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.registry import Registry
from intarsia._core.validation import IntArray, check_number
from intarsia.clusters.tables import Table, plain_text, token_matrix, tokens
from intarsia.exceptions import TooLargeError

_ROWS = 2_000  # of the table of shared words at a time


class Blocking(BaseEstimator, ABC):  # type: ignore[misc]
    """A rule for candidate pairs; abstract."""

    name: ClassVar[str]

    def named(self) -> list[str]:
        """Columns that it names; none where it takes all."""
        columns = getattr(self, "columns", None)
        return [columns] if isinstance(columns, str) else list(columns or ())

    @abstractmethod
    def pairs(self, table: Table) -> IntArray:
        """Candidate pairs of a table.

        Returns
        -------
        (n_pairs, 2) int array
            Numbers of records, the smaller first, each pair once, in order.
        """


class AllPairs(Blocking):
    """Every pair of records: for small tables only.

    Parameters
    ----------
    max_pairs : int
        More are refused.

    Examples
    --------
    >>> from intarsia.clusters.tables import read_table
    >>> AllPairs().pairs(read_table({"name": ["a", "b", "c"]})).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """

    name = "all_pairs"

    def __init__(self, max_pairs: int = 10_000_000) -> None:
        self.max_pairs = max_pairs

    def pairs(self, table: Table) -> IntArray:
        """See `Blocking.pairs`."""
        n_pairs = table.n_rows * (table.n_rows - 1) // 2
        if n_pairs > self.max_pairs:
            raise TooLargeError(
                f"{table.n_rows} records have {n_pairs} pairs, more than max_pairs={self.max_pairs}. Use "
                f"blocking='shared_tokens' or 'shared_values'."
            )
        return np.column_stack(np.triu_indices(table.n_rows, 1)).astype(np.int64)


class SharedValues(Blocking):
    """Pairs of records with the same values in some columns, such as the same postcode and beginning of the surname.

    Text is compared without case, accents and superfluous blanks. A record that lacks one of the values is in no pair.
    Where more than `max_block` records share the values, each is paired only with its neighbours in the order of its
    other values, so that the number of pairs stays below `n_records * max_block`.

    Parameters
    ----------
    columns : str or list of str
        All of them must agree.
    prefix : int, optional
        Only so many letters are looked at.
    max_block : int
        Largest number of records of which all pairs are taken.

    Examples
    --------
    >>> from intarsia.clusters.tables import read_table
    >>> table = read_table({"name": ["Ann", "Bob", "Anna"], "town": ["X", "X", "x"]})
    >>> SharedValues(["town", "name"], prefix=3).pairs(table).tolist()
    [[0, 2]]
    """

    name = "shared_values"

    def __init__(self, columns: str | Sequence[str] = (), prefix: int | None = None, max_block: int = 100) -> None:
        self.columns = columns
        self.prefix = prefix
        self.max_block = max_block

    def pairs(self, table: Table) -> IntArray:
        """See `Blocking.pairs`."""
        check_number(self.max_block, "SharedValues: max_block", low=2, integer=True)
        columns = [table.column(name) for name in self.named() or table.columns]
        blocks: dict[tuple[str, ...], list[int]] = {}
        for row, values in enumerate(zip(*columns, strict=True)):
            if all(value is not None for value in values):
                key = tuple(plain_text(value)[: self.prefix] for value in values)
                blocks.setdefault(key, []).append(row)
        order = _text_order(table)
        return _united(_block_pairs(rows, order, self.max_block) for rows in blocks.values())


class SharedTokens(Blocking):
    """Pairs of records with a word in common that few others have.

    Words that more than `max_records` records have are passed over, since they tell little and make many pairs.
    Records whose texts are the same are paired whatever their words, with their neighbours where there are many.

    Parameters
    ----------
    columns : str or list of str
        Where words are looked for; a word counts only within its column. None are all columns.
    max_records : int
        Most records that a word may have.
    min_shared : int
        Number of such words that a pair must have in common.
    ngram : int, optional
        Runs of so many letters take the place of words, which finds misspelt ones.

    Examples
    --------
    >>> from intarsia.clusters.tables import read_table
    >>> table = read_table({"title": ["learning to rank", "to be", "rank by learning"]})
    >>> SharedTokens("title", max_records=2).pairs(table).tolist()
    [[0, 1], [0, 2]]
    """

    name = "shared_tokens"

    def __init__(
        self,
        columns: str | Sequence[str] | None = None,
        max_records: int = 50,
        min_shared: int = 1,
        ngram: int | None = None,
    ) -> None:
        self.columns = columns
        self.max_records = max_records
        self.min_shared = min_shared
        self.ngram = ngram

    def pairs(self, table: Table) -> IntArray:
        """See `Blocking.pairs`."""
        check_number(self.max_records, "SharedTokens: max_records", low=2, integer=True)
        check_number(self.min_shared, "SharedTokens: min_shared", low=1, integer=True)
        names = self.named() or list(table.columns)
        columns = [table.column(name) for name in names]
        sets: list[list[str]] = []
        same: dict[tuple[Any, ...], list[int]] = {}
        for row, values in enumerate(zip(*columns, strict=True)):
            found = [
                f"{k} {token}"
                for k, value in enumerate(values)
                if value is not None
                for token in tokens(value, self.ngram)
            ]
            sets.append(found)
            if found:
                same.setdefault(tuple(found), []).append(row)
        order = _text_order(table)
        equal = (_block_pairs(rows, order, self.max_records) for rows in same.values() if len(rows) > 1)
        return _united([*equal, *self._sharing(sets)])

    def _sharing(self, sets: list[list[str]]) -> Iterator[IntArray]:
        words = token_matrix(sets)
        frequency = np.bincount(words.indices, minlength=words.shape[1])
        rare = words[:, np.flatnonzero((frequency > 1) & (frequency <= self.max_records))].tocsr()
        across = rare.T.tocsr()
        for start in range(0, len(sets), _ROWS):
            shared = (rare[start : start + _ROWS] @ across).tocoo()
            row, column = shared.coords[0] + start, shared.coords[1]
            kept = (row < column) & (shared.data >= self.min_shared)
            yield np.column_stack([row[kept], column[kept]]).astype(np.int64)


class SortedNeighbourhood(Blocking):
    """Pairs of records that stand near each other when records are sorted by some columns.

    Parameters
    ----------
    columns : str or list of str
        What is sorted by, in this order; records that lack the first are left out.
    window : int
        How far apart the places may be.

    Examples
    --------
    >>> from intarsia.clusters.tables import read_table
    >>> table = read_table({"name": ["smith", "jones", "smyth"]})
    >>> SortedNeighbourhood("name", window=1).pairs(table).tolist()
    [[0, 1], [0, 2]]
    """

    name = "sorted_neighbourhood"

    def __init__(self, columns: str | Sequence[str] = (), window: int = 5) -> None:
        self.columns = columns
        self.window = window

    def pairs(self, table: Table) -> IntArray:
        """See `Blocking.pairs`."""
        check_number(self.window, "SortedNeighbourhood: window", low=1, integer=True)
        columns = [table.column(name) for name in self.named() or table.columns]
        keys = [
            (tuple("" if value is None else plain_text(value) for value in values), row)
            for row, values in enumerate(zip(*columns, strict=True))
            if values[0] is not None
        ]
        rows = np.array([row for _, row in sorted(keys)], dtype=np.int64)
        return _united([_near(rows, self.window)])


BLOCKINGS: Registry[Blocking] = Registry(
    "blocking",
    "intarsia.clusters",
    {
        "shared_tokens": "blocking:SharedTokens",
        "shared_values": "blocking:SharedValues",
        "sorted_neighbourhood": "blocking:SortedNeighbourhood",
        "all_pairs": "blocking:AllPairs",
    },
    Blocking,  # type: ignore[type-abstract]
)


def candidate_pairs(table: Table, blocking: str | Blocking | Sequence[str | Blocking]) -> IntArray:
    """Pairs that any of the rules gives, the smaller number first, each pair once, in order.

    Examples
    --------
    >>> from intarsia.clusters.tables import read_table
    >>> table = read_table({"name": ["ann", "ann", "bob"], "town": ["x", "y", "y"]})
    >>> candidate_pairs(table, [SharedValues("name"), SharedValues("town")]).tolist()
    [[0, 1], [1, 2]]
    """
    several = [blocking] if isinstance(blocking, (str, Blocking)) else list(blocking)
    return _united([BLOCKINGS.resolve(one).pairs(table) for one in several])


def _text_order(table: Table) -> IntArray:
    """Place of each record in the order of all its text."""
    rows = zip(*table.columns.values(), strict=True)
    keys = [tuple("" if value is None else str(value) for value in values) for values in rows]
    place = np.empty(table.n_rows, dtype=np.int64)
    place[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return place


def _block_pairs(rows: list[int], order: IntArray, most: int) -> IntArray:
    """All pairs of a block, or those of neighbours if it is larger than `most`."""
    sorted_rows = np.array(sorted(rows, key=lambda row: order[row]), dtype=np.int64)
    return _near(sorted_rows, len(rows) - 1 if len(rows) <= most else most // 2)


def _near(rows: IntArray, window: int) -> IntArray:
    """Pairs of rows at most `window` places apart."""
    parts = [np.column_stack([rows[:-step], rows[step:]]) for step in range(1, min(window, len(rows) - 1) + 1)]
    return np.concatenate(parts) if parts else np.empty((0, 2), np.int64)


def _united(parts: Iterable[IntArray]) -> IntArray:
    """Each pair once, the smaller number first, in order."""
    found = [np.empty((0, 2), np.int64), *parts]
    pairs = np.sort(np.concatenate(found), axis=1)
    n = int(pairs.max(initial=0)) + 1
    key = np.unique(pairs[:, 0] * n + pairs[:, 1])
    return np.column_stack([key // n, key % n])
