"""What can be split and what can be merged, with features: the choices of a proposer that learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels import partition as kernels

if TYPE_CHECKING:
    from intarsia.clusters.world import ClusterWorld


@dataclass(frozen=True, eq=False)
class ProposalWeights:
    """Parameters lambda of the adaptive mixture (Rohanimanesh2009, Eq. 10-11).

    Attributes
    ----------
    split, merge : float arrays (n_proposal_features,)
        Weights of a cluster's disparity, and of the affinity of two clusters.
    beta : float
        Share of splits.

    Examples
    --------
    One cluster can be split, two pairs of clusters merged. A fifth of the moves are splits; of the merges the second,
    whose feature is 1, is three times as likely as the first.

    >>> choices = Choices(np.array([0]), np.array([[0, 1], [0, 2]]), np.array([[2.0]]), np.array([[0.0], [1.0]]))
    >>> weights = ProposalWeights(split=np.zeros(1), merge=np.log([3.0]), beta=0.2)
    >>> [np.exp(part).round(6).tolist() for part in choices.log_probabilities(weights)]
    [[0.2], [0.2, 0.6]]
    """

    split: FloatArray
    merge: FloatArray
    beta: float


@dataclass(frozen=True, eq=False)
class Choices:
    """Clusters that can be split and pairs of clusters that can be merged; make it with `choices_of`.

    A row of features tells of a set of pairs of records, those inside a cluster or those between two: mean, minimum and
    maximum of each pair feature, the share of absent pairs, and the logarithm of their number.

    Attributes
    ----------
    splits : int array (n_splits,)
        Clusters of at least two records that need not stay together.
    merges : int array (n_merges, 2)
        Pairs of clusters with a listed pair of records between them, the smaller number first.
    split_features, merge_features : float arrays
        Their features.

    Examples
    --------
    Single records cannot be split, and the last one is listed with nobody:

    >>> from intarsia.clusters.world import ClusterWorld
    >>> from intarsia.clusters.cluster_model import pair_features
    >>> found = choices_of(ClusterWorld(pair_features(3, [[0, 1]], [2.0])))
    >>> found.splits.tolist(), found.merges.tolist(), found.share_of_splits(0.5)
    ([], [[0, 1]], 0.0)
    """

    splits: IntArray
    merges: IntArray
    split_features: FloatArray
    merge_features: FloatArray

    def share_of_splits(self, beta: float) -> float:
        """Share of splits: beta, unless only one kind of move is left."""
        if self.splits.size == 0:
            return 0.0
        return 1.0 if self.merges.size == 0 else beta

    def log_probabilities(self, weights: ProposalWeights) -> tuple[FloatArray, FloatArray]:
        """Log-probability of each split and of each merge, the kind of move included (Eq. 10-11)."""
        beta = self.share_of_splits(weights.beta)
        with np.errstate(divide="ignore"):
            return (
                np.log(beta) + log_softmax(self.split_features @ weights.split),
                np.log1p(-beta) + log_softmax(self.merge_features @ weights.merge),
            )


@errors_from("choices_of")
def choices_of(world: ClusterWorld) -> Choices:
    """What can be split and merged in the present clustering.

    Examples
    --------
    >>> from intarsia.clusters.world import ClusterWorld
    >>> from intarsia.clusters.cluster_model import pair_features
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [0, 2]], [1.0, 3.0]), start=[0, 0, 1])
    >>> found = choices_of(world)
    >>> found.splits.tolist(), found.merges.tolist()
    ([0], [[0, 1]])
    >>> found.merge_features.round(2).tolist()           # of 0-2 and 1-2: mean, least, most, absent, log number
    [[1.5, 0.0, 3.0, 0.5, 0.69]]
    """
    from intarsia.clusters.world import check_cluster_world  # which imports this module

    check_cluster_world(world)
    pairs, links = world.pairs, world.constraints
    label, sizes = world.partition.rows[kernels.LABEL], world.partition.sizes
    ends = np.sort(label[pairs.pairs], axis=1)
    n = np.int64(world.n_sites)
    key = ends[:, 0] * n + ends[:, 1]
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0]) if key.size else np.zeros(0, dtype=np.int64)
    first, second = ends[order[starts]].T if key.size else (starts, starts)
    rows = _describe(pairs.values[order], starts, first, second, sizes)
    inside = first == second
    atoms = np.bincount(label[links.atom_idx[links.atom_ptr[:-1]]], minlength=world.n_sites)
    offered = np.flatnonzero(atoms > 1)
    found = np.zeros((offered.size, rows.shape[1]))
    found[:, -2] = 1.0  # a cluster without any listed pair: all its pairs are absent
    found[:, -1] = np.log(0.5 * sizes[offered] * (sizes[offered] - 1.0))
    known = inside & (atoms[first] > 1)
    found[np.searchsorted(offered, first[known])] = rows[known]
    merges = np.stack([first[~inside], second[~inside]], axis=1)
    return Choices(offered, merges, found, rows[~inside])


def _describe(values: FloatArray, starts: IntArray, first: IntArray, second: IntArray, sizes: IntArray) -> FloatArray:
    """Features of sets of pairs: rows of `values` from each start to the next."""
    d = values.shape[1]
    if starts.size == 0:
        return np.zeros((0, 3 * d + 2))
    present = np.diff(np.r_[starts, values.shape[0]])
    number = np.where(first == second, 0.5 * sizes[first] * (sizes[first] - 1.0), sizes[first] * sizes[second])
    absent = (number - present)[:, None]
    least, most = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    parts = (
        np.add.reduceat(values, starts) / number[:, None],
        np.where(absent > 0.5, np.minimum(least, 0.0), least),
        np.where(absent > 0.5, np.maximum(most, 0.0), most),
        absent / number[:, None],
        np.log(number)[:, None],
    )
    return np.hstack(parts)


def log_softmax(scores: FloatArray) -> FloatArray:
    """Logarithms of the normalised exponentials; empty stays empty.

    Examples
    --------
    >>> log_softmax(np.log(np.array([1.0, 3.0]))).round(6).tolist() == np.log([0.25, 0.75]).round(6).tolist()
    True
    """
    if scores.size == 0:
        return scores
    shifted = scores - scores.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))
