"""A partition of records into clusters that can be changed and changed back, and the performance measured on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray, as_int_array, check_number
from intarsia._kernels import partition as kernels
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Move:
    """Some records of one cluster go to another, or to a new one: merge, split and move are all of this kind.

    Attributes
    ----------
    records : int array
        What moves; all from one cluster.
    target : int
        Cluster they go to, as `Partition.cluster_of` numbers it; -1 for a new one.
    log_ratio : float
        Logarithm of the probability of proposing the way back over that of proposing this.

    Examples
    --------
    >>> partition = Partition([0, 0, 1])
    >>> partition.apply(Move(np.array([1]), target=partition.cluster_of(2)))
    >>> partition.labels.tolist()
    [0, 1, 1]
    >>> partition.apply(Move(np.array([2])))                    # to a cluster of its own
    >>> partition.labels.tolist()
    [0, 1, 2]
    """

    records: IntArray
    target: int = -1
    log_ratio: float = 0.0


class Partition:
    """Records in clusters, each record in one: merge, split, move, apply and undo, each in the time of what moves.

    The one mutable object of the package. Clusters have numbers that stay while they live; `labels` numbers them anew,
    in the order in which they first occur.

    Parameters
    ----------
    labels : int array (n_records,)
        Any cluster numbers; equal ones are together.

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
        given = as_int_array(labels, "Partition: labels")
        if given.ndim != 1 or given.size == 0:
            raise InvalidInputError(
                f"Partition: labels has shape {given.shape}, expected one label for each of at least one record. Give "
                f"a flat sequence."
            )
        self._rows = _linked(canonical_labels(given))
        self._past: list[tuple[IntArray, int]] = []

    @classmethod
    def singletons(cls, n_records: int) -> Partition:
        """Every record on its own.

        Examples
        --------
        >>> Partition.singletons(3).labels.tolist()
        [0, 1, 2]
        """
        check_number(n_records, "Partition.singletons: n_records", low=1, integer=True)
        return cls(np.arange(int(n_records)))

    @property
    def rows(self) -> IntArray:
        """What the kernels work on: a row for each of LABEL .. COUNT."""
        return self._rows

    @property
    def sizes(self) -> IntArray:
        """Number of members by cluster number; 0 for numbers not in use."""
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
        """Number of a record's cluster."""
        check_number(record, "Partition: record", low=0, high=self.n_records - 1, integer=True)
        return int(self._rows[kernels.LABEL, record])

    def members(self, cluster: int) -> IntArray:
        """Records of a cluster, ascending."""
        self._check_cluster(cluster)
        found = np.empty((1, int(self.sizes[cluster])), dtype=np.int64)
        kernels.collect(cluster, found, 0, 0, self._rows)
        return np.sort(found[0])

    def merge(self, a: int, b: int) -> None:
        """Make one cluster of two."""
        self._check_cluster(a)
        self._check_cluster(b)
        small, large = (a, b) if self.sizes[a] <= self.sizes[b] else (b, a)
        self.apply(Move(self.members(small), large))

    def split(self, cluster: int, members: Sequence[int] | IntArray) -> None:
        """Take some members, not all, out of a cluster into a new one."""
        chosen = as_int_array(members, "Partition.split: members")
        if set(chosen.tolist()) >= set(self.members(cluster).tolist()):
            raise InvalidInputError(
                f"Partition.split: all {chosen.size} members of cluster {cluster} would leave it. Give some, not all."
            )
        with errors_in("Partition.split"):
            self._check_in(chosen, cluster)
        self.apply(Move(chosen))

    def move(self, record: int, cluster: int) -> None:
        """Put one record into another cluster; -1 is a new one."""
        self.cluster_of(record)
        self.apply(Move(np.array([record]), cluster))

    def apply(self, move: Move) -> None:
        """Make a move; `undo` takes it back."""
        records = self.check_move(move)
        home = int(self._rows[kernels.LABEL, records[0]])
        left = int(self.sizes[home]) > records.size
        kernels.relocate(records[None], records.size, move.target, self._rows)
        self._past.append((records, home if left else -1))

    def undo(self) -> None:
        """Take back the last move that was not yet taken back."""
        if not self._past:
            raise InvalidInputError("Partition.undo: nothing to take back. Apply a move first.")
        records, home = self._past.pop()
        # An emptied slot is the next free one, so that moves taken back in turn restore the clusters' numbers too.
        kernels.relocate(records[None], records.size, home, self._rows)

    def check_move(self, move: Move) -> IntArray:
        """Records of a move; raises where it is none."""
        records = as_int_array(move.records, "Partition.apply: records")
        if records.ndim != 1 or records.size == 0 or np.unique(records).size != records.size:
            raise InvalidInputError(
                f"Partition.apply: records {records.tolist()} must be at least one record, each once. List them so."
            )
        for record in (int(records.min()), int(records.max())):
            self.cluster_of(record)
        home = int(self._rows[kernels.LABEL, records[0]])
        with errors_in("Partition.apply"):
            self._check_in(records, home)
        if move.target != -1:
            self._check_cluster(move.target)
        alone = records.size == self.sizes[home]
        if move.target == home or (move.target == -1 and alone):
            raise InvalidInputError(
                f"Partition.apply: records {records.tolist()[:5]} of cluster {home} would stay where they are. Give "
                f"another cluster, or -1 and part of this one."
            )
        return records

    def _check_cluster(self, cluster: int) -> None:
        check_number(cluster, "Partition: cluster", low=0, high=self.n_records - 1, integer=True)
        if self.sizes[cluster] == 0:
            raise InvalidInputError(
                f"Partition: cluster {cluster} is empty. Clusters now: {str(self.clusters)[:60]}; ask cluster_of."
            )

    def _check_in(self, records: IntArray, cluster: int) -> None:
        out = records[(records < 0) | (records >= self.n_records)]
        odd = out if out.size else records[self._rows[kernels.LABEL, records] != cluster]
        if odd.size:
            raise InvalidInputError(f"record {int(odd[0])} is not in cluster {cluster}. Take records of one cluster.")


def canonical_labels(labels: IntArray) -> IntArray:
    """Labels numbered by first occurrence.

    Examples
    --------
    >>> canonical_labels(np.array([5, 2, 5, 0])).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return np.asarray(rank[inverse.reshape(-1)])


def _linked(labels: IntArray) -> IntArray:
    """Linked lists of the members, from canonical labels."""
    n = labels.size
    rows = np.full((kernels.N_PARTITION, n), -1, dtype=np.int64)
    order = np.argsort(labels, kind="stable")
    same = labels[order][1:] == labels[order][:-1]
    rows[kernels.AFTER, order[:-1][same]] = order[1:][same]
    rows[kernels.BEFORE, order[1:][same]] = order[:-1][same]
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
    """A measure of performance of one's own that knows how a move changes it.

    A plain function (truth, labels) -> float may be given instead: it is then computed anew for every proposal.

    Examples
    --------
    Minus the number of clusters changes by what a move empties and opens.

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
        """Performance of a partition; 1 is perfect."""

    @abstractmethod
    def change(self, truth: IntArray, partition: Partition, move: Move) -> float:
        """Performance after the move less that before; the partition must be left as it was."""


class FunctionMetric(PartitionMetric):
    """A plain function of the truth and the labels, computed anew for every move."""

    def __init__(self, function: MetricFunction) -> None:
        self.function = function

    def value(self, truth: IntArray, partition: Partition) -> float:
        """Value of the function."""
        return float(self.function(truth, partition.labels))

    def change(self, truth: IntArray, partition: Partition, move: Move) -> float:
        """Value after the move less that before."""
        before = self.value(truth, partition)
        partition.apply(move)
        try:
            return self.value(truth, partition) - before
        finally:
            partition.undo()


def truth_constants(truth: IntArray) -> FloatArray:
    """Pairs together in the truth, known records, and pairs of known records."""
    known = truth[truth >= 0]
    sizes = np.bincount(known).astype(np.float64) if known.size else np.zeros(1)
    n = float(known.size)
    return np.array([(sizes * (sizes - 1.0)).sum() / 2.0, n, n * (n - 1.0) / 2.0])
