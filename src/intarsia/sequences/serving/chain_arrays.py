"""Exact inference on one sequence with NumPy alone, for processes that only predict and must start fast.

`intarsia.inference.chains.chain_inference` has compiled functions for batches. Here `nodes` (T, k) are the scores of
the labels at each position, including those of the first and last label, and `transitions` (k, k) the scores of a label
(row) followed by another (column); -inf forbids a label or a transition.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray


def allowed_labels(states: NDArray[Any], n_labels: int) -> NDArray[np.bool_]:
    """Return a mask (T, n_labels) of the possible labels from states, where -1 is hidden, or from such a mask.

    Examples
    --------
    >>> allowed_labels(np.array([1, -1]), 2).tolist()
    [[False, True], [True, True]]
    """
    if states.ndim == 2:
        return states
    return np.asarray((states[:, None] == np.arange(n_labels)) | (states < 0)[:, None])


def prefix_scores(nodes: FloatArray, transitions: FloatArray) -> FloatArray:
    """Return the highest score (T, k) of the positions up to t, for each label at t (Viterbi).

    Examples
    --------
    >>> prefix_scores(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [-4.0, 0.0]]))
    array([[0., 2.],
           [1., 2.]])
    """
    prefix, sums = np.empty_like(nodes), np.empty_like(transitions)
    prefix[0] = nodes[0]
    add, maximum = np.add, np.maximum.reduce
    for previous, row, node_row in zip(prefix[:-1, :, None], prefix[1:], nodes[1:], strict=True):
        add(transitions, previous, sums)
        maximum(sums, 0, None, row)
        add(row, node_row, row)
    return prefix


def best_path(nodes: FloatArray, transitions: FloatArray) -> tuple[list[int], float]:
    """Return the labels with the highest score, and the score; it is -inf if no labelling is possible.

    Of labels with equal scores, the first is chosen, as the compiled functions do.

    Examples
    --------
    >>> best_path(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [-4.0, 0.0]]))
    ([1, 1], 2.0)
    """
    prefix = prefix_scores(nodes, transitions)
    label = int(prefix[-1].argmax())
    return _completed(prefix, np.ascontiguousarray(transitions.T), [label]), float(prefix[-1, label])


def _completed(prefix: FloatArray, by_target: FloatArray, suffix: list[int]) -> list[int]:
    """Return the best labels of all positions that end with `suffix`; `by_target` is transitions.T."""
    path = suffix[::-1]
    label = path[-1]
    for row in prefix[prefix.shape[0] - len(path) - 1 :: -1] if len(path) < prefix.shape[0] else ():
        label = int((row + by_target[label]).argmax())
        path.append(label)
    path.reverse()
    return path


def best_paths(nodes: FloatArray, transitions: FloatArray, n_best: int) -> list[tuple[list[int], float]]:
    """Return up to `n_best` labellings with the highest scores, and their scores, in descending order.

    The next labelling branches off an earlier one: it has the same labels after some position, another label there,
    and is completed towards the front by the highest prefix.

    Examples
    --------
    >>> best_paths(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [-4.0, 0.0]]), 3)
    [([1, 1], 2.0), ([0, 0], 1.0), ([0, 1], 0.0)]
    """
    prefix, by_target = prefix_scores(nodes, transitions), np.ascontiguousarray(transitions.T)
    order = count()  # of equal candidates, the earlier one comes first
    waiting = [(-float(score), next(order), [x]) for x, score in enumerate(prefix[-1]) if score > -np.inf]
    heapq.heapify(waiting)
    results: list[tuple[list[int], float]] = []
    while waiting and len(results) < n_best:
        negative_score, _, suffix = heapq.heappop(waiting)
        path = _completed(prefix, by_target, suffix)
        results.append((path, -negative_score))
        n_free = len(path) - len(suffix)  # positions at which the next labellings may branch off, the last one first
        scores = (prefix[:n_free] + by_target[path[1 : n_free + 1]])[::-1]
        chosen_labels = path[:n_free][::-1]
        branches = -negative_score + (scores - scores[np.arange(n_free), chosen_labels][:, None])
        branches[np.arange(n_free), chosen_labels] = -np.inf
        for i in _highest(branches.ravel(), n_best - len(results)).tolist():
            t, x = n_free - 1 - i // prefix.shape[1], i % prefix.shape[1]
            heapq.heappush(waiting, (-float(branches.flat[i]), next(order), [x, *path[t + 1 :]]))
        if len(waiting) > 4 * (n_best - len(results)):  # the others can never be chosen
            waiting = heapq.nsmallest(n_best - len(results), waiting)
    return results


def _highest(values: FloatArray, n: int) -> NDArray[np.intp]:
    """Return the indices of the n highest values, and of those equal to the last of them, in order; never of -inf."""
    if n < 1:
        return np.empty(0, dtype=np.intp)
    lowest = np.partition(values, values.size - n)[values.size - n] if n < values.size else -np.inf
    return np.flatnonzero((values >= lowest) & (values > -np.inf))


# Stands for -inf in sums of exponentials, so that differences of scores are never NaN.
_IMPOSSIBLE = -1e250
# Scores within this range of each other have exponentials whose products neither overflow nor underflow.
_LINEAR_RANGE = 250.0


def log_partition(nodes: FloatArray, transitions: FloatArray) -> float:
    """Return log Z, which is -inf if no labelling is possible.

    Examples
    --------
    Labellings 00, 01, 10, 11 of two positions have weights 2, 1, 3, 6:

    >>> round(np.exp(log_partition(np.log([[1, 3], [1, 1]]), np.log([[2, 1], [1, 2]]))), 12)
    np.float64(12.0)
    """
    return ChainSums(nodes, transitions).log_partition


def marginals(nodes: FloatArray, transitions: FloatArray) -> FloatArray:
    """Return the posterior marginals (T, k) by the forward-backward algorithm; 0 if no labelling is possible.

    Examples
    --------
    >>> (12 * marginals(np.log([[1, 3], [1, 1]]), np.log([[2, 1], [1, 2]]))).round(12)
    array([[3., 9.],
           [5., 7.]])
    """
    sums = ChainSums(nodes, transitions)
    if sums.log_partition == -np.inf:
        return np.zeros_like(nodes)
    log_weights = sums.forward[0] + sums.backward[0]
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class Segment(NamedTuple):
    """Labels of successive positions, with a label that must not come just before and one that must not come after.

    `not_before` and `not_after` are None if all labels may be there.
    """

    first: int
    labels: Sequence[int]
    not_before: int | None
    not_after: int | None


class ChainSums:
    """Sums over all labellings of a sequence.

    Messages are logarithms (T, k), each row without a number that is chosen so that none overflows; with them are the
    sums (T,) of these numbers.

    Examples
    --------
    Labellings 00, 01, 10, 11 have weights 2, 1, 3, 6. The label 1 at the last position alone is that of 01:

    >>> sums = ChainSums(np.log([[1, 3], [1, 1]]), np.log([[2, 1], [1, 2]]))
    >>> round(12 * np.exp(sums.segment_log_probability(Segment(1, [1], 1, None))), 12)
    np.float64(1.0)
    """

    def __init__(self, nodes: FloatArray, transitions: FloatArray) -> None:
        self._nodes, self._transitions = nodes, transitions

    @cached_property
    def log_partition(self) -> float:
        """Log Z, which is -inf if no labelling is possible."""
        messages, offsets = self.forward
        return float(offsets[-1]) + _log_sum(messages[-1])

    @cached_property
    def forward(self) -> tuple[FloatArray, FloatArray]:
        """Messages from the positions up to each one; after a position without possible labels they are invalid."""
        log_sums = _log_sums_of(self._transitions.T)
        messages, offsets = np.maximum(self._nodes, _IMPOSSIBLE), np.full(self._nodes.shape[0], -np.inf)
        total = 0.0
        for t, row in enumerate(messages):
            if t > 0:
                row += log_sums(messages[t - 1])
            highest = float(row.max())
            if highest <= 0.5 * _IMPOSSIBLE:
                break
            row -= highest
            total += highest
            offsets[t] = total
        return messages, offsets

    @cached_property
    def backward(self) -> tuple[FloatArray, FloatArray]:
        """Messages from the positions after each one; some labelling must be possible."""
        log_sums = _log_sums_of(self._transitions)
        rows, offsets = np.maximum(self._nodes, _IMPOSSIBLE), np.zeros(self._nodes.shape[0])
        messages = np.zeros_like(rows)
        for t in range(rows.shape[0] - 1, 0, -1):
            scores = rows[t] + messages[t]
            highest = float(scores.max())
            messages[t - 1] = log_sums(scores - highest)
            offsets[t - 1] = offsets[t] + highest
        return messages, offsets

    def segment_log_probability(self, segment: Segment) -> float:
        """Return the log-probability of a segment: that its positions have its labels, and its neighbours do not."""
        first, labels, not_before, not_after = segment
        after = first + len(labels)
        value = float(self._nodes[first, labels[0]])
        for t in range(1, len(labels)):
            value += float(self._transitions[labels[t - 1], labels[t]] + self._nodes[first + t, labels[t]])
        if first > 0:
            messages, offsets = self.forward
            value += float(offsets[first - 1])
            value += _log_sum(messages[first - 1] + self._transitions[:, labels[0]], not_before)
        if after < self._nodes.shape[0]:
            messages, offsets = self.backward
            value += float(offsets[after])
            value += _log_sum(self._transitions[labels[-1]] + self._nodes[after] + messages[after], not_after)
        return min(value - self.log_partition, 0.0)  # the difference of two sums may exceed 0 by rounding


def _log_sums_of(table: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the function from scores (k,), whose maximum is 0, to log(exp(table) @ exp(scores)).

    If possible scores are not far apart, it is a product with the exponentials of the table.
    """
    possible = np.maximum(table, _IMPOSSIBLE, order="C")
    finite = possible[possible > _IMPOSSIBLE]
    highest = float(finite.max(initial=_IMPOSSIBLE))
    is_narrow = highest - float(finite.min(initial=highest)) < _LINEAR_RANGE
    weights = np.exp(possible - highest)

    def log_sums(scores: FloatArray) -> FloatArray:
        if is_narrow and np.minimum.reduce(scores, initial=0.0, where=scores > 0.5 * _IMPOSSIBLE) > -_LINEAR_RANGE:
            sums = weights @ np.exp(scores)
            return np.log(sums, where=sums > 0.0, out=np.full(sums.size, _IMPOSSIBLE)) + highest
        table_sums = possible + scores
        maxima = table_sums.max(axis=1, keepdims=True)
        return np.asarray(np.log(np.add.reduce(np.exp(table_sums - maxima), 1)) + maxima[:, 0])

    return log_sums


def _log_sum(values: FloatArray, excluded: int | None = None) -> float:
    """Return the logarithm of the sum of exponentials, without the entry `excluded`; -inf if nothing is possible."""
    if excluded is not None:
        values[excluded] = -np.inf
    highest = float(values.max())
    return highest + float(np.log(np.exp(values - highest).sum())) if highest > 0.5 * _IMPOSSIBLE else -np.inf
