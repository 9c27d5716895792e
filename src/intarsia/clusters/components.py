"""Connected components of pairs above a threshold, and batches of components that are clustered separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csgraph

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, check_choice
from intarsia._kernels.linkage import order_by_linkage
from intarsia.clusters.constraints import Constraints, link_constraints
from intarsia.clusters.partition import canonical_labels
from intarsia.clusters.record_pairs import RecordPairs
from intarsia.exceptions import InvalidInputError


@errors_from("connected_components")
def connected_components(
    n_records: int, pairs: ArrayLike, scores: ArrayLike | None = None, threshold: float = 0.0
) -> IntArray:
    """Return the connected component of each record, numbered by first occurrence, when pairs are links.

    Parameters
    ----------
    n_records : int
        Number of records.
    pairs : (n_pairs, 2) int array
        Pairs of linked records.
    scores : (n_pairs,) array, optional
        Scores of the pairs; only pairs with a score of at least `threshold` are links.
    threshold : float
        Smallest score of a link.

    Examples
    --------
    >>> connected_components(4, [[0, 2], [1, 3]], [0.9, 0.2], threshold=0.5)
    array([0, 1, 0, 2])
    """
    ends = as_int_array(pairs, "pairs").reshape(-1, 2)
    if ends.size and (ends.min() < 0 or ends.max() >= n_records):
        raise InvalidInputError(
            f"a pair has record {ends.max() if ends.min() >= 0 else ends.min()}, but there are "
            f"{n_records} records. Pass numbers from 0 to {n_records - 1}."
        )
    if scores is not None:
        ends = ends[as_float_array(scores, "scores") >= threshold]
    graph = coo_array((np.ones(len(ends), bool), (ends[:, 0], ends[:, 1])), shape=(n_records, n_records))
    labels = (
        csgraph.connected_components(graph, directed=False)[1].astype(np.int64) if n_records else np.empty(0, np.int64)
    )
    return canonical_labels(labels)


@errors_from("best_threshold")
def best_threshold(
    n_records: int, pairs: ArrayLike, scores: ArrayLike, clusters: ArrayLike, metric: str = "b_cubed"
) -> tuple[float, float]:
    """Find the threshold whose connected components have the highest F1 against known clusters.

    Pairs are added from the highest score down, components are merged, and the sums behind the metric are updated:
    all thresholds together cost one sort and one pass. The highest of equally good thresholds is returned.

    Parameters
    ----------
    n_records : int
        Number of records.
    pairs : (n_pairs, 2) int array
        Candidate pairs.
    scores : (n_pairs,) array
        Their scores, larger for records that belong together.
    clusters : (n_records,) int array
        True cluster of each record; -1 where it is unknown, and the record is ignored.
    metric : {"b_cubed", "pairwise"}
        Metric whose F1 is maximised.

    Returns
    -------
    threshold, f1 : float
        Best threshold and its F1; the threshold is `inf` if no pair should be a link.

    Examples
    --------
    The third pair would join two true clusters.

    >>> best_threshold(4, [[0, 1], [2, 3], [1, 2]], [0.9, 0.7, 0.4], [5, 5, 6, 6])
    (0.7, 1.0)
    """
    f1 = _F1_FUNCTIONS[check_choice(metric, _F1_FUNCTIONS, "metric")]
    ends = as_int_array(pairs, "pairs").reshape(-1, 2)
    values = as_float_array(scores, "scores")
    truth = as_int_array(clusters, "clusters")
    if np.isnan(values).any() or len(values) != len(ends) or len(truth) != n_records:
        raise InvalidInputError(
            f"expected a score other than NaN for each of {len(ends)} pairs and a cluster for each of "
            f"{n_records} records, got {len(values)} scores ({int(np.isnan(values).sum())} NaN), {len(truth)} clusters."
        )
    components = _MergedComponents(truth)
    best = (np.inf, f1(components))
    order = np.argsort(-values, kind="stable")
    for position, k in enumerate(order):
        components.join(int(ends[k, 0]), int(ends[k, 1]))
        is_last_of_score = position + 1 == len(order) or values[order[position + 1]] < values[k]
        if is_last_of_score and f1(components) > best[1] + 1e-12:
            best = (float(values[k]), f1(components))
    return best


class _MergedComponents:
    """Components during merging, with the sums that pairwise and B-cubed F1 are computed from."""

    def __init__(self, truth: IntArray) -> None:
        self.parent = list(range(len(truth)))
        self.counts: list[Counter[int]] = [Counter([int(t)] if t >= 0 else []) for t in truth]
        self.true_size = Counter(int(t) for t in truth if t >= 0)
        self.n = self.true_size.total()
        self.n_true_pairs = sum(size * (size - 1) // 2 for size in self.true_size.values())
        self.n_correct_pairs = self.n_predicted_pairs = 0
        self.precision_sum = float(self.n)
        self.recall_sum = sum(1 / self.true_size[int(t)] for t in truth if t >= 0)

    def find(self, record: int) -> int:
        """Return the representative of a record's component, with path compression."""
        while self.parent[record] != record:
            self.parent[record] = self.parent[self.parent[record]]
            record = self.parent[record]
        return record

    def join(self, first: int, second: int) -> None:
        """Merge the components of two records and update the sums."""
        larger_root, smaller_root = self.find(first), self.find(second)
        if larger_root == smaller_root:
            return
        if len(self.counts[larger_root]) < len(self.counts[smaller_root]):
            larger_root, smaller_root = smaller_root, larger_root
        large, small = self.counts[larger_root], self.counts[smaller_root]
        n_large, n_small = large.total(), small.total()
        if n_large and n_small:
            squares = [sum(count * count for count in counter.values()) for counter in (large, small)]
            common = [(entity, large[entity], count) for entity, count in small.items() if entity in large]
            n_common_pairs = sum(n_in_large * n_in_small for _, n_in_large, n_in_small in common)
            self.n_correct_pairs += n_common_pairs
            self.n_predicted_pairs += n_large * n_small
            self.precision_sum += (sum(squares) + 2 * n_common_pairs) / (n_large + n_small)
            self.precision_sum -= squares[0] / n_large + squares[1] / n_small
            self.recall_sum += sum(
                2 * n_in_large * n_in_small / self.true_size[entity] for entity, n_in_large, n_in_small in common
            )
        large.update(small)
        self.counts[smaller_root] = Counter()
        self.parent[smaller_root] = larger_root


def _pairwise_f1(components: _MergedComponents) -> float:
    """Return the pairwise F1 of the components."""
    total = components.n_true_pairs + components.n_predicted_pairs
    return 2 * components.n_correct_pairs / total if total else 0.0


def _b_cubed_f1(components: _MergedComponents) -> float:
    """Return the B-cubed F1 of the components."""
    precision, recall = components.precision_sum / max(components.n, 1), components.recall_sum / max(components.n, 1)
    return 2 * precision * recall / (precision + recall) if components.n else 0.0


_F1_FUNCTIONS: dict[str, Callable[[_MergedComponents], float]] = {"b_cubed": _b_cubed_f1, "pairwise": _pairwise_f1}


# Small components share a world, because building a world costs more than clustering a few records.
RECORDS_IN_A_BATCH = 500


@dataclass(frozen=True, eq=False)
class Links:
    """Must-link and cannot-link pairs of records, and the source of each record.

    Attributes
    ----------
    must, cannot : (n_links, 2) int arrays
        Pairs of records, by number.
    source : (n_records,) int array, optional
        Source of each record, -1 where it is unknown; records of the same source are never together.
    """

    must: IntArray
    cannot: IntArray
    source: IntArray | None = None


def read_links(
    records: RecordPairs, must: Sequence[Any], cannot: Sequence[Any], sources: Sequence[Any] | None
) -> Links:
    """Build links from pairs of ids; contradictions are reported by ids.

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
    ends = [_record_pairs(records, id_pairs, name) for id_pairs, name in ((must, "must_link"), (cannot, "cannot_link"))]
    if sources is None:
        return checked_links(records.n_records, ends[0], ends[1], None, records.name, str)
    code_of_source: dict[Any, int] = {}
    first_sources = [sources[int(row)] for row in records.first_row]
    codes = np.array(
        [-1 if name is None else code_of_source.setdefault(name, len(code_of_source)) for name in first_sources],
        dtype=np.int64,
    )
    return checked_links(records.n_records, ends[0], ends[1], codes, records.name, first_sources.__getitem__)


def checked_links(
    n_records: int,
    must: IntArray,
    cannot: IntArray,
    source: IntArray | None,
    name_of: Callable[[int], Any],
    source_of: Callable[[int], Any],
) -> Links:
    """Return the links; raise for a contradiction, with the names of the records and of their source.

    Examples
    --------
    >>> pair = np.array([[0, 1]])
    >>> checked_links(2, pair, pair[:0], None, str, str).must.tolist()
    [[0, 1]]
    >>> checked_links(2, pair, pair, None, "ab".__getitem__, str)
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: 'a' and 'b' must not be together, but must-links join them. Drop one of \
the links.
    """
    component = connected_components(n_records, must)
    for first, second in cannot:
        if component[first] == component[second]:
            raise InvalidInputError(
                f"{name_of(int(first))!r} and {name_of(int(second))!r} must not be together, but must-links join "
                f"them. Drop one of the links."
            )
    if source is None or not len(must):
        return Links(must, cannot, source)
    record_of_key: dict[tuple[int, int], int] = {}
    for record in np.flatnonzero(source >= 0).tolist():
        key = (int(component[record]), int(source[record]))
        if key in record_of_key:
            raise InvalidInputError(
                f"{name_of(record_of_key[key])!r} and {name_of(record)!r} come from the same source "
                f"{source_of(record)!r}, but must-links join them. Drop a link, or pass no sources."
            )
        record_of_key[key] = record
    return Links(must, cannot, source)


def _record_pairs(records: RecordPairs, id_pairs: Sequence[Any], name: str) -> IntArray:
    """Return the records of pairs of ids, without pairs of rows of the same record."""
    pairs = [tuple(pair) for pair in id_pairs]
    for k, pair in enumerate(pairs):
        if len(pair) != 2 or pair[0] == pair[1]:
            raise InvalidInputError(
                f"{name}, row {k}: {pair!r:.60}; expected the ids of two different records. Correct it."
            )
    record_pairs = np.column_stack([records.find([pair[end] for pair in pairs], name) for end in (0, 1)]).reshape(-1, 2)
    return record_pairs[record_pairs[:, 0] != record_pairs[:, 1]]  # rows of the same record are always together


@dataclass(frozen=True, eq=False)
class Batch:
    """Batch of components that is clustered in one world.

    Attributes
    ----------
    records : (n_members,) int array
        Records of the components.
    rows : (n_pairs,) int array
        Rows of their candidate pairs in the array of all pairs.
    pairs : (n_pairs, 2) int array
        Their candidate pairs as positions in `records`, the smaller first.
    constraints : Constraints
        Constraints on positions in `records`.
    """

    records: IntArray
    rows: IntArray
    pairs: IntArray
    constraints: Constraints


def split_into_batches(
    records: RecordPairs, links: Links, similarity: FloatArray | None = None, *, max_records: int = RECORDS_IN_A_BATCH
) -> list[Batch]:
    """Split the records into batches of connected components of candidate pairs and must-links.

    Small components share a batch. The split depends on the data only, not on the number of workers. If similarities
    of the pairs are passed, the records of likely entities get neighbouring positions in a batch: the search then
    reads a cluster from neighbouring memory, which determines the time of a proposal in a large batch.

    Examples
    --------
    >>> from intarsia.clusters.record_pairs import RecordPairs
    >>> some = RecordPairs(list("abcd"), np.arange(4), np.array([[0, 2]]), np.ones((1, 1)), ("f",))
    >>> none = np.empty((0, 2), np.int64)
    >>> [batch.records.tolist() for batch in split_into_batches(some, Links(none, none), max_records=2)]
    [[0, 2], [1, 3]]
    >>> [batch.records.tolist() for batch in split_into_batches(some, Links(none, none), np.ones(1))]
    [[0, 2, 1, 3]]
    """
    n = records.n_records
    component = connected_components(n, np.concatenate([records.pairs, links.must]))
    sizes = np.bincount(component)
    batch_of = np.empty(len(sizes), dtype=np.int64)
    last_batch, n_in_batch = -1, max_records
    for k, size in enumerate(sizes):
        if n_in_batch + size > max_records:
            last_batch, n_in_batch = last_batch + 1, 0
        batch_of[k] = last_batch
        n_in_batch += size
    batch_of_record = batch_of[component]
    rank = np.arange(n)
    if similarity is not None:
        rank[order_by_linkage(np.argsort(-similarity, kind="stable"), records.pairs, n)] = np.arange(n)
    order = np.lexsort((rank, batch_of_record))
    position = np.empty(n, dtype=np.int64)
    batches = []
    pair_rows = _rows_of_group(batch_of_record[records.pairs[:, 0]], last_batch + 1)
    must_rows, cannot_rows = (
        _rows_of_group(batch_of_record[ends[:, 0]], last_batch + 1) for ends in (links.must, links.cannot)
    )
    bounds = np.searchsorted(batch_of_record[order], np.arange(last_batch + 2))
    for k in range(last_batch + 1):
        members = order[bounds[k] : bounds[k + 1]]
        position[members] = np.arange(len(members))
        cannot = links.cannot[cannot_rows[k]]
        cannot = cannot[(batch_of_record[cannot] == k).all(axis=1)]
        constraints = link_constraints(
            len(members),
            position[links.must[must_rows[k]]],
            position[cannot],
            None if links.source is None else links.source[members],
        )
        pairs = np.sort(position[records.pairs[pair_rows[k]]], axis=1)
        batches.append(Batch(members, pair_rows[k], pairs, constraints))
    return batches


def _rows_of_group(group_of_row: IntArray, n_groups: int) -> list[IntArray]:
    """Return the rows of each group, in ascending order."""
    order = np.argsort(group_of_row, kind="stable")
    return np.split(order, np.searchsorted(group_of_row[order], np.arange(1, n_groups))) if n_groups else []
