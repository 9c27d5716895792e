"""A large set of records in parts that no pair joins, and the constraints of each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._kernels.linkage import order_by_linkage
from intarsia._validation import FloatArray, IntArray
from intarsia.clusters.components import connected_components
from intarsia.clusters.constraints import Constraints, link_constraints
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.exceptions import InvalidInputError

# Small components share a world, since making one costs more than deciding on three records.
RECORDS_IN_A_BATCH = 500


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of records, by number, that must and that must not be together, and the source of each record.

    Attributes
    ----------
    must, cannot : (n_links, 2) int arrays
        Numbers of records.
    source : (n_records,) int array, optional
        -1 where it is not known; no two records of one source are together.
    """

    must: IntArray
    cannot: IntArray
    source: IntArray | None = None


def read_links(
    records: RecordPairs, must: Sequence[Any], cannot: Sequence[Any], sources: Sequence[Any] | None, where: str
) -> Links:
    """Links from pairs of ids; contradictions are named by them.

    Examples
    --------
    >>> abc = RecordPairs(["a", "b", "c"], np.arange(3), np.empty((0, 2), int), np.empty((0, 0)), ())
    >>> read_links(abc, [("a", "c")], [], None, "predict").must.tolist()
    [[0, 2]]
    >>> read_links(abc, [("a", "b"), ("b", "c")], [("a", "c")], None, "predict")
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: predict: 'a' and 'c' must not be together, but must-links join them. Drop \
one of the links.
    """
    ends = [_rows(records, given, f"{where}: {name}") for given, name in ((must, "must_link"), (cannot, "cannot_link"))]
    joined = connected_components(records.n_records, ends[0])
    for one, other in ends[1]:
        if joined[one] == joined[other]:
            raise InvalidInputError(
                f"{where}: {records.name(one)!r} and {records.name(other)!r} must not be together, but must-links join "
                f"them. Drop one of the links."
            )
    if sources is None:
        return Links(ends[0], ends[1])
    number: dict[Any, int] = {}
    firsts = [sources[int(row)] for row in records.first_row]
    codes = np.array([-1 if name is None else number.setdefault(name, len(number)) for name in firsts], dtype=np.int64)
    seen: dict[tuple[int, int], int] = {}
    for record in np.flatnonzero(codes >= 0):
        key = (int(joined[record]), int(codes[record]))
        if key in seen:
            raise InvalidInputError(
                f"{where}: {records.name(seen[key])!r} and {records.name(int(record))!r} come from the same source "
                f"{firsts[int(record)]!r}, but must-links join them. Drop a link, or give no sources."
            )
        seen[key] = int(record)
    return Links(ends[0], ends[1], codes)


def _rows(records: RecordPairs, given: Sequence[Any], where: str) -> IntArray:
    pairs = [tuple(pair) for pair in given]
    for k, pair in enumerate(pairs):
        if len(pair) != 2 or pair[0] == pair[1]:
            raise InvalidInputError(f"{where}, row {k}: {pair!r:.60}; expected the ids of two different records.")
    found = np.column_stack([records.find([pair[end] for pair in pairs], where) for end in (0, 1)]).reshape(-1, 2)
    return found[found[:, 0] != found[:, 1]]  # rows of one record are together anyway


@dataclass(frozen=True, eq=False)
class Batch:
    """Some components: their records, the rows of their pairs, the pairs in their own numbers, their constraints.

    Of each pair the smaller number comes first.
    """

    records: IntArray
    rows: IntArray
    pairs: IntArray
    constraints: Constraints


def split_into_batches(
    records: RecordPairs, links: Links, likeness: FloatArray | None = None, *, most: int = RECORDS_IN_A_BATCH
) -> list[Batch]:
    """Components of candidate pairs and must-links, small ones together; only the data decide what is together.

    Given how alike the records of each pair are, likely entities stand together in a batch: a search in it then finds
    all of a cluster in neighbouring memory, which is what the time of a proposal depends on in a large batch.

    Examples
    --------
    >>> from intarsia.clusters.record_pairs import RecordPairs
    >>> some = RecordPairs(list("abcd"), np.arange(4), np.array([[0, 2]]), np.ones((1, 1)), ("f",))
    >>> none = np.empty((0, 2), np.int64)
    >>> [batch.records.tolist() for batch in split_into_batches(some, Links(none, none), most=2)]
    [[0, 2], [1, 3]]
    >>> [batch.records.tolist() for batch in split_into_batches(some, Links(none, none), np.ones(1))]
    [[0, 2, 1, 3]]
    """
    n = records.n_records
    component = connected_components(n, np.concatenate([records.pairs, links.must]))
    sizes = np.bincount(component)
    batch_of = np.empty(len(sizes), dtype=np.int64)
    batch, filled = -1, most
    for k, size in enumerate(sizes):
        if filled + size > most:
            batch, filled = batch + 1, 0
        batch_of[k] = batch
        filled += size
    owner = batch_of[component]
    place = np.arange(n)
    if likeness is not None:
        place[order_by_linkage(np.argsort(-likeness, kind="stable"), records.pairs, n)] = np.arange(n)
    order = np.lexsort((place, owner))
    own_number = np.empty(n, dtype=np.int64)
    found = []
    pair_rows = _grouped(owner[records.pairs[:, 0]], batch + 1)
    must_rows, cannot_rows = (_grouped(owner[ends[:, 0]], batch + 1) for ends in (links.must, links.cannot))
    bounds = np.searchsorted(owner[order], np.arange(batch + 2))
    for k in range(batch + 1):
        members = order[bounds[k] : bounds[k + 1]]
        own_number[members] = np.arange(len(members))
        cannot = links.cannot[cannot_rows[k]]
        cannot = cannot[(owner[cannot] == k).all(axis=1)]
        constraints = link_constraints(
            len(members),
            own_number[links.must[must_rows[k]]],
            own_number[cannot],
            None if links.source is None else links.source[members],
        )
        pairs = np.sort(own_number[records.pairs[pair_rows[k]]], axis=1)
        found.append(Batch(members, pair_rows[k], pairs, constraints))
    return found


def _grouped(owner: IntArray, n_groups: int) -> list[IntArray]:
    """Rows of each group, in order."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(1, n_groups))) if n_groups else []
