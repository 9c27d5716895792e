"""Connected components of pairs above a threshold: what users do after a pairwise matcher, and the bar to pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csgraph

from intarsia._validation import IntArray, as_float_array, as_int_array, check_choice
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
