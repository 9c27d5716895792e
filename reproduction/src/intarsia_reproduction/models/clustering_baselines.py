"""Other ways to make clusters of scored pairs: linkage trees, best links and greedy one-to-one matching."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters import ClusterModel, ClusterWorld, connected_components, decode, pair_features
from intarsia.clusters.partition import canonical_labels

Linkage = Literal["complete", "average"]
LARGEST = 5000  # records of a component for which a matrix of all distances is made
_ABSENT_WEIGHT = -1.0  # log odds of a pair that was not scored, in greedy merging


class LinkageTree:
    """Hierarchical clustering of scored pairs by complete or average linkage, to be cut at any threshold.

    A pair without a score has the probability 0. A cluster at a threshold lies within a connected component of the
    pairs above it, so each component has a tree of its own. If the components at the lowest threshold are too large for
    a matrix of distances, those of the lowest feasible threshold are used; merges then stay within them.

    Parameters
    ----------
    n_records : int
        Number of records.
    pairs : int array (n_pairs, 2)
        Scored pairs.
    probability : float array (n_pairs,)
        Match probability of each pair.
    method : {"complete", "average"}
        Linkage.
    thresholds : float array
        Probabilities at which the tree will be cut.

    Examples
    --------
    >>> tree = LinkageTree(3, np.array([[0, 1], [1, 2]]), np.array([0.9, 0.6]), "average", np.array([0.2, 0.5]))
    >>> tree.cut(0.5).tolist(), tree.cut(0.2).tolist()          # 0.3 is the mean of 0.6 and 0
    ([0, 0, 1], [0, 0, 0])
    """

    def __init__(
        self, n_records: int, pairs: IntArray, probability: FloatArray, method: Linkage, thresholds: FloatArray
    ) -> None:
        for threshold in np.sort(thresholds):
            component = connected_components(n_records, pairs, probability, float(threshold))
            self.lowest = float(threshold)
            if np.bincount(component, minlength=1).max() <= LARGEST:
                break
        order = np.argsort(component, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(component))])
        ends = np.concatenate([pairs, pairs[:, ::-1]])
        similarity = csr_array((np.tile(probability, 2), (ends[:, 0], ends[:, 1])), shape=(n_records, n_records))
        self._n_records, self._trees = n_records, list[tuple[IntArray, FloatArray]]()
        for first, last in pairwise(bounds):
            if last - first > 1:
                records = order[first:last]
                dense = similarity[records][:, records].toarray()
                distances = 1.0 - dense[np.triu_indices(len(records), 1)]
                self._trees.append((records, linkage(distances, method)))

    def cut(self, threshold: float) -> IntArray:
        """Return the cluster of each record at a threshold."""
        labels = np.arange(self._n_records)
        for records, tree in self._trees:
            if tree[0, 2] <= 1.0 - threshold:
                groups = fcluster(tree, 1.0 - threshold, "distance")
                labels[records] = records[np.unique(groups, return_index=True)[1]][groups - 1]
        return canonical_labels(labels)


def best_links(n_records: int, pairs: IntArray, scores: FloatArray, threshold: float) -> IntArray:
    """Return the components of the links that are the best one of at least one of their records.

    Examples
    --------
    >>> best_links(4, np.array([[0, 1], [1, 2], [2, 3]]), np.array([3.0, 1.0, 2.0]), 0.0).tolist()
    [0, 0, 1, 1]
    """
    above = scores >= threshold
    pairs, scores = pairs[above], scores[above]
    best = np.full(n_records, -np.inf)
    for side in (0, 1):
        np.maximum.at(best, pairs[:, side], scores)
    is_best = (scores >= best[pairs[:, 0]]) | (scores >= best[pairs[:, 1]])
    return connected_components(n_records, pairs[is_best])


def greedy_one_to_one(n_records: int, pairs: IntArray, scores: FloatArray, threshold: float) -> IntArray:
    """Match the pairs of two tables from the highest score down; each record is matched at most once.

    Examples
    --------
    >>> greedy_one_to_one(3, np.array([[0, 1], [0, 2]]), np.array([1.0, 2.0]), 0.0).tolist()
    [0, 1, 0]
    """
    labels, is_free = np.arange(n_records), np.ones(n_records, dtype=bool)
    for k in np.argsort(-scores, kind="stable"):
        if scores[k] < threshold:
            break
        first, second = pairs[k]
        if is_free[first] and is_free[second]:
            is_free[first] = is_free[second] = False
            labels[second] = labels[first]
    return canonical_labels(labels)


def greedy_merging(n_records: int, pairs: IntArray, log_odds: FloatArray) -> IntArray:
    """Merge the two clusters whose union has the largest total log odds, until no merge has a gain.

    Examples
    --------
    >>> greedy_merging(3, np.array([[0, 1], [1, 2]]), np.array([3.0, 0.5])).tolist()
    [0, 0, 1]
    """
    world = ClusterWorld(pair_features(n_records, pairs, log_odds), ClusterModel())
    return decode(world, [1.0, _ABSENT_WEIGHT], "agglomeration").state


def pairwise_f1(truth: IntArray, labels: IntArray) -> float:
    """Return the pairwise F1, without the other measures of `clustering_scores`.

    Examples
    --------
    >>> pairwise_f1(np.array([0, 0, 1]), np.array([0, 0, 0]))
    0.5
    """
    n_true, n_predicted, n_common = (
        int((count * (count - 1) // 2).sum())
        for count in (
            np.bincount(truth),
            np.bincount(labels),
            np.unique(truth * (int(labels.max(initial=0)) + 1) + labels, return_counts=True)[1],
        )
    )
    return 2 * n_common / max(n_true + n_predicted, 1)


def best_cut(truth: IntArray, thresholds: FloatArray, cluster: Callable[[float], IntArray]) -> tuple[float, IntArray]:
    """Return the threshold with the highest pairwise F1, chosen on the truth, and its clusters.

    Examples
    --------
    >>> truth = np.array([0, 0, 1])
    >>> best_cut(truth, np.array([0.1, 0.5]), lambda t: np.array([0, 0, 0 if t < 0.2 else 1]))[0]
    0.5
    """
    clusters = {float(threshold): cluster(float(threshold)) for threshold in thresholds}
    best = max(clusters, key=lambda threshold: pairwise_f1(truth, clusters[threshold]))
    return best, clusters[best]
