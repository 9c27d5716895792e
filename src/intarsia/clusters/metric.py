"""Performance F that ranking learns from: built-in ones, whose change is compiled, and functions of one's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from intarsia._kernels import partition as kernels
from intarsia._validation import FloatArray, IntArray
from intarsia.clusters.partition import Move, Partition

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
