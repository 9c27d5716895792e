"""Mutable partition of records into clusters with undo, and performance metrics of partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray, as_int_array, check_choice, check_number
from intarsia._kernels import partition as kernels
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Move:
    """Change of a partition: records of one cluster move to another cluster or to a new one.

    Merging two clusters, splitting a cluster and moving a record are all moves of this form.

    Attributes
    ----------
    records : int array
        Records that move; all from one cluster.
    target : int
        Cluster they move to, as numbered by `Partition.cluster_of`; -1 for a new cluster.
    log_ratio : float
        Log of the ratio of the probabilities of proposing the reverse move and of proposing this move.

    Examples
    --------
    >>> partition = Partition([0, 0, 1])
    >>> partition.apply(Move(np.array([1]), target=partition.cluster_of(2)))
    >>> partition.labels.tolist()
    [0, 1, 1]
    >>> partition.apply(Move(np.array([2])))                    # to a new cluster
    >>> partition.labels.tolist()
    [0, 1, 2]
    """

    records: IntArray
    target: int = -1
    log_ratio: float = 0.0


class Partition:
    """Partition of records into disjoint clusters, with merge, split, move, apply and undo.

    Each operation takes time proportional to the number of records that move. A cluster keeps its number as long as it
    exists; `labels` renumbers the clusters by first occurrence. This is the only mutable data object of the package.

    Parameters
    ----------
    labels : int array (n_records,)
        Cluster of each record, as any integers.

    Examples
    --------
    >>> partition = Partition([7, 7, 3, 3])
    >>> partition.merge(partition.cluster_of(0), partition.cluster_of(2))
    >>> partition.labels.tolist(), partition.n_clusters
    ([0, 0, 0, 0], 1)
    >>> partition.split(partition.cluster_of(0), [1, 3])
    >>> partition.labels.tolist()
    [0, 1, 0, 1]
    >>> partition.undo()
    >>> partition.undo()
    >>> partition.labels.tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, labels: ArrayLike) -> None:
        initial_labels = as_int_array(labels, "Partition: labels")
        if initial_labels.ndim != 1 or initial_labels.size == 0:
            raise InvalidInputError(
                f"Partition: labels has shape {initial_labels.shape}, expected (n_records,) with at least one record. "
                f"Pass a flat sequence."
            )
        self._rows = _linked_lists(canonical_labels(initial_labels))
        self._undo_stack: list[tuple[IntArray, int]] = []

    @classmethod
    def singletons(cls, n_records: int) -> Partition:
        """Create a partition in which every record is a singleton.

        Examples
        --------
        >>> Partition.singletons(3).labels.tolist()
        [0, 1, 2]
        """
        check_number(n_records, "Partition.singletons: n_records", low=1, integer=True)
        return cls(np.arange(int(n_records)))

    @property
    def rows(self) -> IntArray:
        """Arrays that the kernels work on: one row for each of LABEL .. COUNT."""
        return self._rows

    @property
    def sizes(self) -> IntArray:
        """Number of members of each cluster number; 0 for unused numbers."""
        return self._rows[kernels.SIZES]

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self._rows.shape[1])

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self._rows[kernels.COUNT, 0])

    @property
    def labels(self) -> IntArray:
        """Cluster of each record, numbered by first occurrence."""
        return canonical_labels(self._rows[kernels.LABEL])

    @property
    def clusters(self) -> list[int]:
        """Numbers of the clusters, ascending."""
        return sorted(int(slot) for slot in self._rows[kernels.SLOTS, : self.n_clusters])

    def cluster_of(self, record: int) -> int:
        """Return the number of a record's cluster."""
        check_number(record, "Partition: record", low=0, high=self.n_records - 1, integer=True)
        return int(self._rows[kernels.LABEL, record])

    def members(self, cluster: int) -> IntArray:
        """Return the records of a cluster, ascending."""
        self._check_cluster(cluster)
        buffer = np.empty((1, int(self.sizes[cluster])), dtype=np.int64)
        kernels.collect(cluster, buffer, 0, 0, self._rows)
        return np.sort(buffer[0])

    def merge(self, a: int, b: int) -> None:
        """Merge two clusters."""
        self._check_cluster(a)
        self._check_cluster(b)
        small, large = (a, b) if self.sizes[a] <= self.sizes[b] else (b, a)
        self.apply(Move(self.members(small), large))

    def split(self, cluster: int, members: Sequence[int] | IntArray) -> None:
        """Move some members, but not all, out of a cluster into a new one."""
        records = as_int_array(members, "Partition.split: members")
        if set(records.tolist()) >= set(self.members(cluster).tolist()):
            raise InvalidInputError(
                f"Partition.split: all {records.size} members of cluster {cluster} would leave it. Pass some of them."
            )
        with errors_in("Partition.split"):
            self._check_in(records, cluster)
        self.apply(Move(records))

    def move(self, record: int, cluster: int) -> None:
        """Move one record to another cluster; -1 is a new one."""
        self.cluster_of(record)
        self.apply(Move(np.array([record]), cluster))

    def apply(self, move: Move) -> None:
        """Apply a move; `undo` reverts it."""
        records = self.check_move(move)
        source = int(self._rows[kernels.LABEL, records[0]])
        source_remains = int(self.sizes[source]) > records.size
        kernels.relocate(records[None], records.size, move.target, self._rows)
        self._undo_stack.append((records, source if source_remains else -1))

    def undo(self) -> None:
        """Revert the last move that was not yet reverted."""
        if not self._undo_stack:
            raise InvalidInputError("Partition.undo: there is no move to revert. Call apply first.")
        records, source = self._undo_stack.pop()
        # An emptied slot is the next free one, so reverting moves in reverse order also restores the clusters' numbers.
        kernels.relocate(records[None], records.size, source, self._rows)

    def check_move(self, move: Move) -> IntArray:
        """Return the records of a move; raise if the move is invalid."""
        records = as_int_array(move.records, "Partition.apply: records")
        if records.ndim != 1 or records.size == 0 or np.unique(records).size != records.size:
            raise InvalidInputError(
                f"Partition.apply: records {records.tolist()} must be at least one record, each once. Correct the list."
            )
        for record in (int(records.min()), int(records.max())):
            self.cluster_of(record)
        source = int(self._rows[kernels.LABEL, records[0]])
        with errors_in("Partition.apply"):
            self._check_in(records, source)
        if move.target != -1:
            self._check_cluster(move.target)
        is_whole_cluster = records.size == self.sizes[source]
        if move.target == source or (move.target == -1 and is_whole_cluster):
            raise InvalidInputError(
                f"Partition.apply: moving records {records.tolist()[:5]} of cluster {source} changes nothing. Pass "
                f"another cluster, or -1 with some of the records of this cluster."
            )
        return records

    def _check_cluster(self, cluster: int) -> None:
        """Raise if a cluster does not exist."""
        check_number(cluster, "Partition: cluster", low=0, high=self.n_records - 1, integer=True)
        if self.sizes[cluster] == 0:
            raise InvalidInputError(
                f"Partition: cluster {cluster} is empty. Non-empty clusters: {str(self.clusters)[:60]}. Use cluster_of."
            )

    def _check_in(self, records: IntArray, cluster: int) -> None:
        """Raise if a record is not in the cluster."""
        out_of_range = records[(records < 0) | (records >= self.n_records)]
        outside = out_of_range if out_of_range.size else records[self._rows[kernels.LABEL, records] != cluster]
        if outside.size:
            raise InvalidInputError(
                f"record {int(outside[0])} is not in cluster {cluster}. Pass records of one cluster."
            )


def canonical_labels(labels: IntArray) -> IntArray:
    """Renumber labels by first occurrence.

    Examples
    --------
    >>> canonical_labels(np.array([5, 2, 5, 0])).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return np.asarray(rank[inverse.reshape(-1)])


def dense_codes(codes: IntArray) -> IntArray:
    """Renumber codes of at least 0 as 0, 1, ... by first occurrence; other codes become -1.

    Examples
    --------
    >>> dense_codes(np.array([7, -1, 3, 7])).tolist()
    [0, -1, 1, 0]
    """
    dense = np.full(codes.size, -1, dtype=np.int64)
    non_negative = codes >= 0
    dense[non_negative] = canonical_labels(codes[non_negative]) if non_negative.any() else 0
    return dense


def index_dtype(n: int) -> type[np.signedinteger[Any]]:
    """Return the integer type of numbers up to n in the arrays of the kernels: 32 bits halve what a cache must hold.

    Examples
    --------
    >>> index_dtype(100).__name__, index_dtype(2**31).__name__
    ('int32', 'int64')
    """
    return np.int32 if n < 2**31 else np.int64


def _linked_lists(labels: IntArray) -> IntArray:
    """Return the linked lists of the members, from canonical labels."""
    n = labels.size
    rows = np.full((kernels.N_PARTITION, n), -1, dtype=index_dtype(n))
    order = np.argsort(labels, kind="stable")
    same_cluster = labels[order][1:] == labels[order][:-1]
    rows[kernels.AFTER, order[:-1][same_cluster]] = order[1:][same_cluster]
    rows[kernels.BEFORE, order[1:][same_cluster]] = order[:-1][same_cluster]
    first = np.flatnonzero(rows[kernels.BEFORE] == -1)
    rows[kernels.HEAD, labels[first]] = first
    rows[kernels.LABEL] = labels
    rows[kernels.SIZES] = np.bincount(labels, minlength=n)
    rows[kernels.SLOTS] = rows[kernels.PLACE] = np.arange(n)
    rows[kernels.COUNT] = int(labels.max()) + 1
    return rows


METRICS = {
    "pairwise_f1": kernels.PAIRWISE_F1,
    "b_cubed_f1": kernels.B_CUBED_F1,
    "pair_accuracy": kernels.PAIR_ACCURACY,
}

MetricFunction = Callable[[IntArray, IntArray], float]


class PartitionMetric(ABC):
    """Abstract base of user-defined performance metrics that compute the change of a move efficiently.

    A plain function (truth, labels) -> float can be used instead; it is then recomputed for every proposal.

    Examples
    --------
    The negative number of clusters rises if a move empties a cluster and falls if it opens one.

    >>> class Fewest(PartitionMetric):
    ...     def value(self, truth, partition):
    ...         return -float(partition.n_clusters)
    ...     def change(self, truth, partition, move):
    ...         home = partition.cluster_of(int(move.records[0]))
    ...         return float(len(partition.members(home)) == len(move.records)) - float(move.target == -1)
    >>> partition = Partition([0, 0, 1])
    >>> Fewest().change(None, partition, Move(np.array([2]), 0))
    1.0
    """

    @abstractmethod
    def value(self, truth: IntArray, partition: Partition) -> float:
        """Return the performance of a partition; 1 is perfect."""

    @abstractmethod
    def change(self, truth: IntArray, partition: Partition, move: Move) -> float:
        """Return the performance after the move minus that before; the partition must be left unchanged."""


class FunctionMetric(PartitionMetric):
    """Metric from a plain function of truth and labels, recomputed for every move."""

    def __init__(self, function: MetricFunction) -> None:
        self.function = function

    def value(self, truth: IntArray, partition: Partition) -> float:
        """Return the value of the function."""
        return float(self.function(truth, partition.labels))

    def change(self, truth: IntArray, partition: Partition, move: Move) -> float:
        """Return the value after the move minus that before."""
        old_value = self.value(truth, partition)
        partition.apply(move)
        try:
            return self.value(truth, partition) - old_value
        finally:
            partition.undo()


def resolve_metric(metric: str | PartitionMetric | MetricFunction) -> int | PartitionMetric:
    """Return the kernel's number of a built-in metric, or a PartitionMetric.

    Examples
    --------
    >>> resolve_metric("pairwise_f1") == METRICS["pairwise_f1"]
    True
    """
    if isinstance(metric, PartitionMetric):
        return metric
    if isinstance(metric, str):
        return METRICS[check_choice(metric, METRICS, "ClusterWorld: metric")]
    if not callable(metric):
        raise InvalidInputError(
            f"ClusterWorld: metric must be a name, a PartitionMetric or a function of truth and labels, got "
            f"{type(metric).__name__}."
        )
    return FunctionMetric(metric)


def truth_constants(truth: IntArray) -> FloatArray:
    """Return the numbers of true pairs, of labelled records, and of pairs of labelled records."""
    labelled = truth[truth >= 0]
    sizes = np.bincount(labelled).astype(np.float64) if labelled.size else np.zeros(1)
    n = float(labelled.size)
    return np.array([(sizes * (sizes - 1.0)).sum() / 2.0, n, n * (n - 1.0) / 2.0])
