"""Connected components of pairs above a threshold, and large sets of records split into independent batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csgraph

from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, check_choice
from intarsia._kernels.linkage import order_by_linkage
from intarsia.clusters.constraints import Constraints, link_constraints
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.exceptions import InvalidInputError


def connected_components(
    n_records: int, pairs: ArrayLike, scores: ArrayLike | None = None, threshold: float = 0.0
) -> IntArray:
    """Component of each record, numbered in the order of their first records, when pairs are links.

    Parameters
    ----------
    n_records : int
        Number of records.
    pairs : (n_pairs, 2) int array
        Records that are linked.
    scores : (n_pairs,) array, optional
        Only pairs with a score of at least `threshold` are links.
    threshold : float
        See `scores`.

    Examples
    --------
    >>> connected_components(4, [[0, 2], [1, 3]], [0.9, 0.2], threshold=0.5)
    array([0, 1, 0, 2])
    """
    ends = as_int_array(pairs, "connected_components: pairs").reshape(-1, 2)
    if ends.size and (ends.min() < 0 or ends.max() >= n_records):
        raise InvalidInputError(
            f"connected_components: a pair names record {ends.max() if ends.min() >= 0 else ends.min()}, but there are "
            f"{n_records} records (0..{n_records - 1})."
        )
    if scores is not None:
        ends = ends[as_float_array(scores, "connected_components: scores") >= threshold]
    graph = coo_array((np.ones(len(ends), bool), (ends[:, 0], ends[:, 1])), shape=(n_records, n_records))
    labels = (
        csgraph.connected_components(graph, directed=False)[1].astype(np.int64) if n_records else np.empty(0, np.int64)
    )
    _, first, code = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[code].astype(np.int64)


def best_threshold(
    n_records: int, pairs: ArrayLike, scores: ArrayLike, clusters: ArrayLike, metric: str = "b_cubed"
) -> tuple[float, float]:
    """Threshold whose connected components agree best with known clusters, and the F1 they have.

    Pairs are added from the highest score down and components merged, with the sums behind the metric brought up to
    date: all thresholds cost one sort and one pass. Of equally good thresholds the highest is taken.

    Parameters
    ----------
    n_records : int
        Number of records.
    pairs : (n_pairs, 2) int array
        Candidate pairs.
    scores : (n_pairs,) array
        Their scores, larger for records that belong together.
    clusters : (n_records,) int array
        Known cluster of each record; -1 where it is not known, and the record is not counted.
    metric : {"b_cubed", "pairwise"}
        Whose F1.

    Returns
    -------
    threshold, f1 : float
        `inf` where no pair should be a link.

    Examples
    --------
    The third pair would join two clusters.

    >>> best_threshold(4, [[0, 1], [2, 3], [1, 2]], [0.9, 0.7, 0.4], [5, 5, 6, 6])
    (0.7, 1.0)
    """
    f1 = _METRICS[check_choice(metric, _METRICS, "metric")]
    ends = as_int_array(pairs, "best_threshold: pairs").reshape(-1, 2)
    values = as_float_array(scores, "best_threshold: scores")
    truth = as_int_array(clusters, "best_threshold: clusters")
    if np.isnan(values).any() or len(values) != len(ends) or len(truth) != n_records:
        raise InvalidInputError(
            f"best_threshold: expected a score that is no NaN for each of {len(ends)} pairs and a cluster for each of "
            f"{n_records} records, got {len(values)} scores ({int(np.isnan(values).sum())} NaN), {len(truth)} clusters."
        )
    components = _Components(truth)
    best = (np.inf, f1(components))
    order = np.argsort(-values, kind="stable")
    for at, k in enumerate(order):
        components.join(int(ends[k, 0]), int(ends[k, 1]))
        last_of_its_score = at + 1 == len(order) or values[order[at + 1]] < values[k]
        if last_of_its_score and f1(components) > best[1] + 1e-12:
            best = (float(values[k]), f1(components))
    return best


class _Components:
    """Components under merging, with what pairwise and B-cubed F1 are made of."""

    def __init__(self, truth: IntArray) -> None:
        self.parent = list(range(len(truth)))
        self.counts: list[Counter[int]] = [Counter([int(t)] if t >= 0 else []) for t in truth]
        self.true_size = Counter(int(t) for t in truth if t >= 0)
        self.n = self.true_size.total()
        self.true_pairs = sum(size * (size - 1) // 2 for size in self.true_size.values())
        self.right_pairs = self.predicted_pairs = 0
        self.precisions = float(self.n)
        self.recalls = sum(1 / self.true_size[int(t)] for t in truth if t >= 0)

    def find(self, record: int) -> int:
        while self.parent[record] != record:
            self.parent[record] = self.parent[self.parent[record]]
            record = self.parent[record]
        return record

    def join(self, one: int, other: int) -> None:
        one, other = self.find(one), self.find(other)
        if one == other:
            return
        if len(self.counts[one]) < len(self.counts[other]):
            one, other = other, one
        large, small = self.counts[one], self.counts[other]
        n_large, n_small = large.total(), small.total()
        if n_large and n_small:
            squares = [sum(count * count for count in part.values()) for part in (large, small)]
            common = [(entity, large[entity], count) for entity, count in small.items() if entity in large]
            both = sum(left * right for _, left, right in common)
            self.right_pairs += both
            self.predicted_pairs += n_large * n_small
            self.precisions += (sum(squares) + 2 * both) / (n_large + n_small)
            self.precisions -= squares[0] / n_large + squares[1] / n_small
            self.recalls += sum(2 * left * right / self.true_size[entity] for entity, left, right in common)
        large.update(small)
        self.counts[other] = Counter()
        self.parent[other] = one


def _pairwise_f1(found: _Components) -> float:
    total = found.true_pairs + found.predicted_pairs
    return 2 * found.right_pairs / total if total else 0.0


def _b_cubed_f1(found: _Components) -> float:
    precision, recall = found.precisions / max(found.n, 1), found.recalls / max(found.n, 1)
    return 2 * precision * recall / (precision + recall) if found.n else 0.0


_METRICS: dict[str, Callable[[_Components], float]] = {"b_cubed": _b_cubed_f1, "pairwise": _pairwise_f1}


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
    records: RecordPairs, must: Sequence[Any], cannot: Sequence[Any], sources: Sequence[Any] | None
) -> Links:
    """Links from pairs of ids; contradictions are named by them.

    Examples
    --------
    >>> abc = RecordPairs(["a", "b", "c"], np.arange(3), np.empty((0, 2), int), np.empty((0, 0)), ())
    >>> read_links(abc, [("a", "c")], [], None).must.tolist()
    [[0, 2]]
    >>> read_links(abc, [("a", "b"), ("b", "c")], [("a", "c")], None)
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: 'a' and 'c' must not be together, but must-links join them. Drop \
one of the links.
    """
    ends = [_rows(records, given, name) for given, name in ((must, "must_link"), (cannot, "cannot_link"))]
    joined = connected_components(records.n_records, ends[0])
    for one, other in ends[1]:
        if joined[one] == joined[other]:
            raise InvalidInputError(
                f"{records.name(one)!r} and {records.name(other)!r} must not be together, but must-links join "
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
                f"{records.name(seen[key])!r} and {records.name(int(record))!r} come from the same source "
                f"{firsts[int(record)]!r}, but must-links join them. Drop a link, or give no sources."
            )
        seen[key] = int(record)
    return Links(ends[0], ends[1], codes)


def _rows(records: RecordPairs, given: Sequence[Any], name: str) -> IntArray:
    pairs = [tuple(pair) for pair in given]
    for k, pair in enumerate(pairs):
        if len(pair) != 2 or pair[0] == pair[1]:
            raise InvalidInputError(f"{name}, row {k}: {pair!r:.60}; expected the ids of two different records.")
    found = np.column_stack([records.find([pair[end] for pair in pairs], name) for end in (0, 1)]).reshape(-1, 2)
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
