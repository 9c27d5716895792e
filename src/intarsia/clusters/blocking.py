"""Blocking: rules that select the candidate pairs of records by shared values, shared words or sort order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import IntArray, check_number
from intarsia.clusters.tables import Table, plain_text, token_matrix, tokens
from intarsia.exceptions import TooLargeError

_ROWS = 2_000  # rows of the matrix of shared words that are computed at a time


class Blocking(Settings, ABC):
    """Abstract base of blocking rules, which select candidate pairs."""

    name: ClassVar[str]

    def named(self) -> list[str]:
        """Return the columns that the rule names; empty if it uses all columns."""
        columns = getattr(self, "columns", None)
        return [columns] if isinstance(columns, str) else list(columns or ())

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""

    @abstractmethod
    def pairs(self, table: Table) -> IntArray:
        """Return the candidate pairs of a table.

        Returns
        -------
        (n_pairs, 2) int array
            Row numbers of the records, the smaller first; each pair once, sorted.
        """


class AllPairs(Blocking):
    """All pairs of records, for small tables only.

    Parameters
    ----------
    max_pairs : int
        Raise TooLargeError if there are more pairs.

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
        """Return the candidate pairs, as documented in `Blocking.pairs`."""
        n_pairs = table.n_rows * (table.n_rows - 1) // 2
        if n_pairs > self.max_pairs:
            raise TooLargeError(
                f"{table.n_rows} records have {n_pairs} pairs, more than max_pairs={self.max_pairs}. Use "
                f"blocking='shared_tokens' or 'shared_values'."
            )
        return np.column_stack(np.triu_indices(table.n_rows, 1)).astype(np.int64)


class SharedValues(Blocking):
    """Pairs of records with equal values in some columns, such as postcode and first letters of the surname.

    Strings are compared without case, accents and extra whitespace. A record with a missing value is in no pair. If
    more than `max_block` records share the values, each is paired only with its neighbours in the sort order of all
    values, so that the number of pairs stays below `n_records * max_block`.

    Parameters
    ----------
    columns : str or list of str
        Columns that must all be equal.
    prefix : int, optional
        Compare only this many first letters.
    max_block : int
        Largest block of records of which all pairs are candidates.

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

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        check_number(self.max_block, "SharedValues: max_block", low=2, integer=True)

    def pairs(self, table: Table) -> IntArray:
        """Return the candidate pairs, as documented in `Blocking.pairs`."""
        self.check_settings()
        columns = [table.column(name) for name in self.named() or table.columns]
        blocks: dict[tuple[str, ...], list[int]] = {}
        for row, values in enumerate(zip(*columns, strict=True)):
            if all(value is not None for value in values):
                key = tuple(plain_text(value)[: self.prefix] for value in values)
                blocks.setdefault(key, []).append(row)
        rank = _sort_rank(table)
        return unique_pairs(_block_pairs(rows, rank, self.max_block) for rows in blocks.values())


class SharedTokens(Blocking):
    """Pairs of records that share a rare word.

    Words that occur in more than `max_records` records are ignored, because they are weak evidence and give many pairs.
    Records with equal strings are always paired; if there are many of them, with their neighbours only.

    Parameters
    ----------
    columns : str or list of str
        Columns whose words are compared; a word is shared only within a column. None: all columns.
    max_records : int
        Largest number of records in which a word may occur.
    min_shared : int
        Number of rare words that a pair must share.
    ngram : int, optional
        Use character n-grams of this length instead of words, which also pairs misspelt words.

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

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        check_number(self.max_records, "SharedTokens: max_records", low=2, integer=True)
        check_number(self.min_shared, "SharedTokens: min_shared", low=1, integer=True)

    def pairs(self, table: Table) -> IntArray:
        """Return the candidate pairs, as documented in `Blocking.pairs`."""
        self.check_settings()
        names = self.named() or list(table.columns)
        columns = [table.column(name) for name in names]
        token_lists: list[list[str]] = []
        rows_of_tokens: dict[tuple[Any, ...], list[int]] = {}
        for row, values in enumerate(zip(*columns, strict=True)):
            row_tokens = [
                f"{k} {token}"
                for k, value in enumerate(values)
                if value is not None
                for token in tokens(value, self.ngram)
            ]
            token_lists.append(row_tokens)
            if row_tokens:
                rows_of_tokens.setdefault(tuple(row_tokens), []).append(row)
        rank = _sort_rank(table)
        equal_rows = (_block_pairs(rows, rank, self.max_records) for rows in rows_of_tokens.values() if len(rows) > 1)
        return unique_pairs([*equal_rows, *self._pairs_sharing_words(token_lists)])

    def shares_words(self, table: Table, pairs: IntArray) -> NDArray[np.bool_]:
        """Return whether each pair (row) shares a rare word of each named column."""
        shared = np.zeros((len(pairs), len(self.named())), dtype=bool)
        for k, name in enumerate(self.named()):
            values = table.column(name)
            rare = self._rare_words([[] if value is None else tokens(value, self.ngram) for value in values])
            shared[:, k] = rare[pairs[:, 0]].multiply(rare[pairs[:, 1]]).sum(axis=1) > 0
        return shared

    def _rare_words(self, token_lists: list[list[str]]) -> Any:
        """Return the sparse matrix of records and words that at least two and at most `max_records` records have."""
        words = token_matrix(token_lists)
        frequency = np.bincount(words.indices, minlength=words.shape[1])
        return words[:, np.flatnonzero((frequency > 1) & (frequency <= self.max_records))].tocsr()

    def _pairs_sharing_words(self, token_lists: list[list[str]]) -> Iterator[IntArray]:
        """Yield the pairs with at least `min_shared` rare words in common, some rows at a time."""
        rare = self._rare_words(token_lists)
        rare_transposed = rare.T.tocsr()
        for start in range(0, len(token_lists), _ROWS):
            shared = (rare[start : start + _ROWS] @ rare_transposed).tocoo()
            row, column = shared.coords[0] + start, shared.coords[1]
            selected = (row < column) & (shared.data >= self.min_shared)
            yield np.column_stack([row[selected], column[selected]]).astype(np.int64)


class SortedNeighbourhood(Blocking):
    """Pairs of records that are close to each other when the records are sorted by some columns.

    Parameters
    ----------
    columns : str or list of str
        Columns to sort by, most important first; records without a value in the first column are in no pair.
    window : int
        Largest distance of the two records in the sorted order.

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

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        check_number(self.window, "SortedNeighbourhood: window", low=1, integer=True)

    def pairs(self, table: Table) -> IntArray:
        """Return the candidate pairs, as documented in `Blocking.pairs`."""
        self.check_settings()
        columns = [table.column(name) for name in self.named() or table.columns]
        keys = [
            (tuple("" if value is None else plain_text(value) for value in values), row)
            for row, values in enumerate(zip(*columns, strict=True))
            if values[0] is not None
        ]
        rows = np.array([row for _, row in sorted(keys)], dtype=np.int64)
        return unique_pairs([_neighbour_pairs(rows, self.window)])


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


def _sort_rank(table: Table) -> IntArray:
    """Return the rank of each record when records are sorted by all their values as strings."""
    rows = zip(*table.columns.values(), strict=True)
    keys = [tuple("" if value is None else str(value) for value in values) for values in rows]
    rank = np.empty(table.n_rows, dtype=np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return rank


def _block_pairs(rows: list[int], rank: IntArray, max_block: int) -> IntArray:
    """Return all pairs of a block, or the pairs of neighbours if it has more than `max_block` records."""
    sorted_rows = np.array(sorted(rows, key=lambda row: rank[row]), dtype=np.int64)
    return _neighbour_pairs(sorted_rows, len(rows) - 1 if len(rows) <= max_block else max_block // 2)


def _neighbour_pairs(rows: IntArray, window: int) -> IntArray:
    """Return the pairs of rows at most `window` positions apart."""
    shifted_pairs = [np.column_stack([rows[:-step], rows[step:]]) for step in range(1, min(window, len(rows) - 1) + 1)]
    return np.concatenate(shifted_pairs) if shifted_pairs else np.empty((0, 2), np.int64)


def unique_pairs(groups: Iterable[IntArray]) -> IntArray:
    """Return the pairs that are in any of the groups, the smaller number first; each pair once, sorted.

    Examples
    --------
    >>> unique_pairs([np.array([[2, 1]]), np.array([[0, 1], [1, 2]])]).tolist()
    [[0, 1], [1, 2]]
    """
    arrays = [np.empty((0, 2), np.int64), *groups]
    pairs = np.sort(np.concatenate(arrays), axis=1)
    n = int(pairs.max(initial=0)) + 1
    key = np.unique(pairs[:, 0] * n + pairs[:, 1])
    return np.column_stack([key // n, key % n])
