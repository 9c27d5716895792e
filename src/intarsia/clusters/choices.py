"""Possible splits and merges of a clustering with their features, from which an adaptive proposer samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels import partition as kernels
from intarsia.worlds.log_linear_choice import log_probabilities

if TYPE_CHECKING:
    from intarsia.clusters.world import ClusterWorld


@dataclass(frozen=True, eq=False)
class ProposalWeights:
    """Parameters lambda of the adaptive split-merge proposer (Rohanimanesh2009, Eq. 10-11).

    Attributes
    ----------
    split, merge : float arrays (n_proposal_features,)
        Weights of the features of a split (a cluster), and of a merge (a pair of clusters).
    beta : float
        Probability of a split.

    Examples
    --------
    One cluster can be split, and two pairs of clusters can be merged. A split has probability 0.2; the second merge,
    whose feature is 1, is three times as probable as the first.

    >>> choices = Choices(np.array([0]), np.array([[0, 1], [0, 2]]), np.array([[2.0]]), np.array([[0.0], [1.0]]))
    >>> weights = ProposalWeights(split=np.zeros(1), merge=np.log([3.0]), beta=0.2)
    >>> [np.exp(log_p).round(6).tolist() for log_p in choices.log_probabilities(weights)]
    [[0.2], [0.2, 0.6]]
    """

    split: FloatArray
    merge: FloatArray
    beta: float


@dataclass(frozen=True, eq=False)
class Choices:
    """Clusters that can be split and pairs of clusters that can be merged, as `choices_of` returns them.

    A row of features describes the set of pairs of records inside a cluster or between two clusters: mean, minimum and
    maximum of each pair feature, the fraction of absent pairs, and the logarithm of the number of pairs.

    Attributes
    ----------
    splits : int array (n_splits,)
        Clusters with at least two records that are not joined by must-links.
    merges : int array (n_merges, 2)
        Pairs of clusters with a candidate pair of records between them, the smaller number first.
    split_features, merge_features : float arrays
        Features of the splits and of the merges.

    Examples
    --------
    Singletons cannot be split, and the last record is in no candidate pair:

    >>> from intarsia.clusters.world import ClusterWorld
    >>> from intarsia.clusters.cluster_model import pair_features
    >>> choices = choices_of(ClusterWorld(pair_features(3, [[0, 1]], [2.0])))
    >>> choices.splits.tolist(), choices.merges.tolist(), choices.split_probability(0.5)
    ([], [[0, 1]], 0.0)
    """

    splits: IntArray
    merges: IntArray
    split_features: FloatArray
    merge_features: FloatArray

    def split_probability(self, beta: float) -> float:
        """Return the probability of a split: beta, or 0 or 1 if only one kind of move is possible."""
        if self.splits.size == 0:
            return 0.0
        return 1.0 if self.merges.size == 0 else beta

    def log_probabilities(self, weights: ProposalWeights) -> tuple[FloatArray, FloatArray]:
        """Return the log-probability of each split and of each merge, including the kind of move (Eq. 10-11)."""
        beta = self.split_probability(weights.beta)
        with np.errstate(divide="ignore"):
            return (
                np.log(beta) + log_probabilities(self.split_features, weights.split),
                np.log1p(-beta) + log_probabilities(self.merge_features, weights.merge),
            )


@errors_from("choices_of")
def choices_of(world: ClusterWorld) -> Choices:
    """Return the possible splits and merges of the current clustering of a world.

    Examples
    --------
    >>> from intarsia.clusters.world import ClusterWorld
    >>> from intarsia.clusters.cluster_model import pair_features
    >>> world = ClusterWorld(pair_features(3, [[0, 1], [0, 2]], [1.0, 3.0]), start=[0, 0, 1])
    >>> choices = choices_of(world)
    >>> choices.splits.tolist(), choices.merges.tolist()
    ([0], [[0, 1]])
    >>> choices.merge_features.round(2).tolist()     # pairs 0-2 and 1-2: mean, minimum, maximum, absent, log number
    [[1.5, 0.0, 3.0, 0.5, 0.69]]
    """
    from intarsia.clusters.decoding import check_cluster_world  # here, because decoding.py imports this module

    check_cluster_world(world)
    pairs, links = world.pairs, world.constraints
    label, sizes = world.partition.rows[kernels.LABEL], world.partition.sizes
    ends = np.sort(label[pairs.pairs], axis=1)
    n = np.int64(world.n_sites)
    cluster_pair = ends[:, 0] * n + ends[:, 1]
    order = np.argsort(cluster_pair, kind="stable")
    starts = (
        np.flatnonzero(np.r_[True, np.diff(cluster_pair[order]) != 0])
        if cluster_pair.size
        else np.zeros(0, dtype=np.int64)
    )
    first, second = ends[order[starts]].T if cluster_pair.size else (starts, starts)
    features = _describe(pairs.values[order], starts, first, second, sizes)
    inside = first == second
    n_atoms = np.bincount(label[links.atom_idx[links.atom_ptr[:-1]]], minlength=world.n_sites)
    splits = np.flatnonzero(n_atoms > 1)
    split_features = np.zeros((splits.size, features.shape[1]))
    split_features[:, -2] = 1.0  # a cluster without candidate pairs: all its pairs are absent
    split_features[:, -1] = np.log(0.5 * sizes[splits] * (sizes[splits] - 1.0))
    splittable = inside & (n_atoms[first] > 1)
    split_features[np.searchsorted(splits, first[splittable])] = features[splittable]
    merges = np.stack([first[~inside], second[~inside]], axis=1)
    return Choices(splits, merges, split_features, features[~inside])


def _describe(values: FloatArray, starts: IntArray, first: IntArray, second: IntArray, sizes: IntArray) -> FloatArray:
    """Return the features of sets of pairs; a set is the rows of `values` from one start to the next."""
    d = values.shape[1]
    if starts.size == 0:
        return np.zeros((0, 3 * d + 2))
    n_present = np.diff(np.r_[starts, values.shape[0]])
    n_pairs = np.where(first == second, 0.5 * sizes[first] * (sizes[first] - 1.0), sizes[first] * sizes[second])
    n_absent = (n_pairs - n_present)[:, None]
    minima, maxima = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    columns = (
        np.add.reduceat(values, starts) / n_pairs[:, None],
        np.where(n_absent > 0.5, np.minimum(minima, 0.0), minima),
        np.where(n_absent > 0.5, np.maximum(maxima, 0.0), maxima),
        n_absent / n_pairs[:, None],
        np.log(n_pairs)[:, None],
    )
    return np.hstack(columns)
