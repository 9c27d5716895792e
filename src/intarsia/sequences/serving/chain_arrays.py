"""Exact inference on one sequence with NumPy alone, for processes that only predict and must start fast.

`intarsia.inference.chains.chain_inference` has compiled functions for batches. Here `nodes` (T, k) are the scores of
the labels at each position, including those of the first and last label, and `transitions` (k, k) the scores of a label
(row) followed by another (column); -inf forbids a label or a transition.
"""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np

from intarsia._core.validation import FloatArray


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
        for t in range(len(path) - len(suffix) - 1, -1, -1):
            scores = prefix[t] + by_target[path[t + 1]]
            highest = scores[path[t]]
            for x in np.flatnonzero(scores > -np.inf).tolist():
                if x != path[t]:
                    score = -negative_score + float(scores[x] - highest)
                    heapq.heappush(waiting, (-score, next(order), [x, *path[t + 1 :]]))
        if len(waiting) > 4 * (n_best - len(results)):  # the others can never be chosen
            waiting = heapq.nsmallest(n_best - len(results), waiting)
    return results


# Stands for -inf in sums of exponentials, so that differences of scores are never NaN.
_IMPOSSIBLE = -1e250


def log_messages(nodes: FloatArray, transitions: FloatArray) -> tuple[FloatArray, float]:
    """Return the logarithms (T, k) of the forward messages, each row without its maximum, and log Z.

    Log Z is -inf if no labelling is possible; the messages are then invalid.

    Examples
    --------
    Labellings 00, 01, 10, 11 of two positions have weights 2, 1, 3, 6:

    >>> messages, log_partition = log_messages(np.log([[1, 3], [1, 1]]), np.log([[2, 1], [1, 2]]))
    >>> round(np.exp(log_partition), 12)
    np.float64(12.0)
    """
    rows, by_target = np.maximum(nodes, _IMPOSSIBLE), np.maximum(transitions.T, _IMPOSSIBLE, order="C")
    messages, total = np.empty_like(rows), 0.0
    for t, row in enumerate(rows):
        scores = row + _log_sums(by_target + messages[t - 1]) if t > 0 else row
        highest = float(scores.max())
        if highest <= 0.5 * _IMPOSSIBLE:
            return messages, -np.inf
        total += highest
        np.subtract(scores, highest, messages[t])
    return messages, total + float(np.log(np.exp(messages[-1]).sum()))


def _log_sums(table: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of the exponentials of each row."""
    highest = table.max(axis=1, keepdims=True)
    sums: FloatArray = np.log(np.add.reduce(np.exp(table - highest), 1))
    return sums + highest[:, 0]


def marginals(nodes: FloatArray, transitions: FloatArray) -> FloatArray:
    """Return the posterior marginals (T, k) by the forward-backward algorithm; 0 if no labelling is possible.

    Examples
    --------
    >>> (12 * marginals(np.log([[1, 3], [1, 1]]), np.log([[2, 1], [1, 2]]))).round(12)
    array([[3., 9.],
           [5., 7.]])
    """
    log_weights, log_partition = log_messages(nodes, transitions)
    if log_partition == -np.inf:
        return np.zeros_like(nodes)
    rows, table = np.maximum(nodes, _IMPOSSIBLE), np.maximum(transitions, _IMPOSSIBLE)
    backward = np.zeros(nodes.shape[1])
    for t in range(nodes.shape[0] - 1, 0, -1):
        backward = _log_sums(table + (rows[t] + backward))
        backward -= backward.max()
        log_weights[t - 1] += backward
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
