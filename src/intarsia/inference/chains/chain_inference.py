r"""Exact inference on batches of sequences (linear chains): forward-backward, Viterbi, n-best paths and sampling.

Every function takes a `ChainBatch` and processes each sequence independently, in time proportional to positions times
labels squared. The chains must have the same labels at all positions; `Tree` supports forests with any state counts.

Forward and backward messages are vectors of probabilities,

.. math:: \alpha_t(y) \propto \psi_t(y) \sum_x \alpha_{t-1}(x) T(x, y), \qquad
          \beta_t(x) \propto \sum_y T(x, y) \psi_{t+1}(y) \beta_{t+1}(y),

where :math:`\psi` is the exponential of the node scores (including start and end scores) and :math:`T` that of the
transitions, after subtracting the maximum of each row of nodes and of each table. Sequences whose scores exceed the
range of double precision are processed in the log domain, which is many times slower. This happens only for scores that
differ by about 600 or more in a step, or that accumulate such differences along transitions of -inf.

The functions release the global interpreter lock, so parts of a batch (`ChainBatch.part`) can be processed in threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import (
    FloatArray,
    IntArray,
    as_float_array,
    as_generator,
    as_int_array,
    check_choice,
    check_number,
    read_only,
)
from intarsia._kernels.chain_paths import draw_paths, find_best_paths
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.forward_backward import ChainPass, full_scores, full_tables


@dataclass(frozen=True, eq=False)
class ChainMarginals:
    """Log partition functions and marginals of a batch of sequences; returned by `chain_marginals`.

    Attributes
    ----------
    log_partition : (n_sequences,) float array
        Log Z of each sequence; -inf if no labelling is possible, and its expectations are then 0.
    nodes : (n_positions, n_labels) float array
        Probability of each label at each position.
    transitions : (n_labels, n_labels) or (n_steps, n_labels, n_labels) float array, or None
        Expected number of transitions in the whole batch, or the joint probabilities at each step.
    """

    log_partition: FloatArray
    nodes: FloatArray
    transitions: FloatArray | None


def chain_marginals(
    batch: ChainBatch, *, transitions: str | None = "sum", sequence_weight: ArrayLike | None = None
) -> ChainMarginals:
    """Compute log Z, marginals and expected transitions of each sequence by the forward-backward algorithm.

    The marginals are gradients of the sum of log Z: `nodes` with respect to the scores of positions (its rows
    `ptr[:-1]` and `ptr[1:] - 1` with respect to start and end scores), `transitions` with respect to the tables.
    Besides its result the function needs memory for the longest sequence and a copy of the tables.

    Parameters
    ----------
    batch : ChainBatch
        The sequences.
    transitions : {"sum", "steps"} or None
        "sum": one matrix of expected transitions for the batch. "steps": a matrix for each step. None: no transitions.
    sequence_weight : (n_sequences,) float array, optional
        Weight of each sequence in the summed transitions, by default 1. Other results are not weighted.

    Raises
    ------
    InvalidInputError
        If `transitions` is invalid or the weights have the wrong shape.

    Examples
    --------
    Labellings 00, 01, 10, 11 of two positions have weights 2, 1, 3, 6:

    >>> batch = ChainBatch(np.log([[1, 3], [1, 1]]), [0, 2], np.log([[2, 1], [1, 2]]))
    >>> marginals = chain_marginals(batch)
    >>> np.exp(marginals.log_partition).round(12)
    array([12.])
    >>> (12 * marginals.nodes).round(12)
    array([[3., 9.],
           [5., 7.]])
    >>> (12 * marginals.transitions).round(12)
    array([[2., 1.],
           [3., 6.]])
    """
    kind = None if transitions is None else check_choice(transitions, ("sum", "steps"), "transitions")
    weight = _checked_weight(batch, sequence_weight, kind)
    result = ChainPass(batch).marginals(transitions=kind, weight=weight)
    return ChainMarginals(result.log_partition, result.nodes, result.transitions)


def chain_log_partition(batch: ChainBatch) -> FloatArray:
    """Compute log Z of each sequence by one forward pass; -inf if no labelling is possible.

    The log-probability of partial labels is log Z of `batch.restricted(allowed)` minus log Z of the batch.

    Examples
    --------
    >>> batch = ChainBatch(np.log([[1, 3], [1, 1]]), [0, 2], np.log([[2, 1], [1, 2]]))
    >>> np.exp(chain_log_partition(batch)).round(12)    # 2 + 1 + 3 + 6
    array([12.])
    >>> first_is_1 = batch.restricted([[False, True], [True, True]])
    >>> np.exp(chain_log_partition(first_is_1) - chain_log_partition(batch)).round(12)
    array([0.75])
    """
    return ChainPass(batch).forward(keep=False).log_partition


def viterbi(batch: ChainBatch) -> tuple[IntArray, FloatArray]:
    """Return the best labelling (MAP) of each sequence, as one array over all positions, and its score.

    If no labelling is possible, the labels are -1 and the score is -inf. If several are best, one of them is returned.

    Examples
    --------
    >>> batch = ChainBatch([[0, 2], [1, 0], [5, 4]], [0, 2, 3], [[0, 0], [-4, 0]])
    >>> labels, scores = viterbi(batch)     # 11 scores 2, 00 scores 1
    >>> labels, scores
    (array([1, 1, 0]), array([2., 5.]))
    """
    paths, scores = best_paths(batch, 1)
    return paths[0], scores[0]


def best_paths(batch: ChainBatch, n_best: int) -> tuple[IntArray, FloatArray]:
    """Return the `n_best` distinct labellings of each sequence with the highest scores, in descending order.

    Besides the result, memory is needed for the longest sequence only. Each labelling after the first takes time
    proportional to positions times labels.

    Returns
    -------
    paths : (n_best, n_positions) int array
        Row r holds the labellings of rank r of all sequences; -1 if a sequence has fewer labellings.
    scores : (n_best, n_sequences) float array
        Their scores; -inf if a sequence has fewer labellings.

    Examples
    --------
    >>> batch = ChainBatch([[0, 2], [1, 0]], [0, 2], [[0, 0], [-4, 0]])
    >>> paths, scores = best_paths(batch, 5)
    >>> paths.tolist()
    [[1, 1], [0, 0], [0, 1], [1, 0], [-1, -1]]
    >>> scores[:, 0]
    array([  2.,   1.,   0.,  -1., -inf])
    """
    check_number(n_best, "best_paths: n_best", low=1, high=2**31, integer=True)
    n = int(n_best)
    paths = np.full((n, batch.n_positions), -1, dtype=np.int64)
    scores = np.full((n, batch.n_sequences), -np.inf)
    prefix = np.empty((int(np.diff(batch.ptr).max(initial=0)), batch.n_labels))
    find_best_paths(
        batch.ptr,
        full_scores(batch),
        full_tables(batch),
        paths,
        scores,
        prefix,
        np.empty(n),
        np.empty((n, 3), dtype=np.int64),
    )
    return paths, scores


def sample_paths(batch: ChainBatch, n_samples: int, random_state: int | np.random.Generator | None = None) -> IntArray:
    """Draw independent labellings from the exact distribution, as an array (n_samples, n_positions).

    The labels of sequences without a possible labelling are -1.

    Examples
    --------
    >>> batch = ChainBatch(np.log([[1, 4]]), [0, 1], np.zeros((2, 2)))
    >>> sample_paths(batch, 10_000, random_state=0).mean().round(1)    # 4 / 5
    np.float64(0.8)
    """
    check_number(n_samples, "sample_paths: n_samples", low=0, integer=True)
    rng = as_generator(random_state)
    paths = np.full((int(n_samples), batch.n_positions), -1, dtype=np.int64)
    log_alpha = log_forward_messages(batch)
    draw_paths(batch.ptr, log_alpha, full_tables(batch), rng, np.empty(batch.n_labels), paths)
    return paths


def log_forward_messages(batch: ChainBatch) -> FloatArray:
    """Return the logarithms (n_positions, n_labels) of forward messages; each row may be shifted by a constant.

    They are -inf for sequences without a possible labelling.

    Examples
    --------
    >>> batch = ChainBatch(np.log([[1, 3], [1, 1]]), [0, 2], np.log([[2, 1], [1, 2]]))
    >>> np.exp(log_forward_messages(batch)).round(12)   # 1 : 3, and 5 : 7
    array([[0.25      , 0.75      ],
           [0.41666667, 0.58333333]])
    """
    forward = ChainPass(batch).forward(keep=True)
    log_alpha, lengths = forward.messages, np.diff(batch.ptr)
    with np.errstate(divide="ignore"):
        np.log(log_alpha, out=log_alpha, where=~np.repeat(forward.in_logs, lengths)[:, None])
    log_alpha[np.repeat(forward.log_partition == -np.inf, lengths)] = -np.inf  # the forward pass stops early for these
    return log_alpha


def path_scores(batch: ChainBatch, labels: ArrayLike) -> FloatArray:
    """Return the score of a labelling for each sequence; -inf if it is forbidden.

    Parameters
    ----------
    batch : ChainBatch
        The sequences.
    labels : (..., n_positions) int array
        Labels of all positions; leading axes, such as the rank in `best_paths`, are preserved.

    Examples
    --------
    >>> batch = ChainBatch([[0, 2], [1, 0], [5, 4]], [0, 2, 3], [[0, 0], [-4, 0]])
    >>> path_scores(batch, [1, 0, 1])       # 2 + 1 - 4, and 4
    array([-1.,  4.])
    """
    y = as_int_array(labels, "path_scores: labels")
    n, k = batch.nodes.shape
    if y.ndim == 0 or y.shape[-1] != n:
        raise InvalidInputError(f"path_scores: labels has shape {y.shape}. Pass a label for each of the {n} positions.")
    bad = (y < 0) | (y >= k)
    if bad.any():
        index = np.unravel_index(int(np.argmax(bad)), y.shape)
        raise InvalidInputError(
            f"path_scores: label {y[index]} at position {int(index[-1])} is not in 0 .. {k - 1}. For hidden labels use "
            f"chain_log_partition(batch.restricted(...))."
        )
    values = batch.nodes[np.arange(n), y]
    has_previous = _has_previous(batch)
    previous, current = y[..., :-1][..., has_previous[1:]], y[..., has_previous]
    if batch.has_table_per_step:
        values[..., has_previous] += batch.transitions[np.arange(batch.n_steps), previous, current]
    else:
        values[..., has_previous] += batch.transitions[previous, current]
    if batch.start is not None:
        values[..., batch.ptr[:-1]] += batch.start[y[..., batch.ptr[:-1]]]
    if batch.end is not None:
        values[..., batch.ptr[1:] - 1] += batch.end[y[..., batch.ptr[1:] - 1]]
    return _sum_by_sequence(values, batch)


def path_log_probabilities(batch: ChainBatch, labels: ArrayLike) -> FloatArray:
    """Return the log-probability of a labelling for each sequence; -inf if it is forbidden.

    `labels` has the format of `path_scores`.

    Examples
    --------
    >>> batch = ChainBatch(np.log([[1, 3], [1, 1]]), [0, 2], np.log([[2, 1], [1, 2]]))
    >>> np.exp(path_log_probabilities(batch, [[0, 0], [1, 1]])).round(3).tolist()     # 2 / 12 and 6 / 12
    [[0.167], [0.5]]
    """
    scores, log_partition = path_scores(batch, labels), chain_log_partition(batch)
    possible = log_partition > -np.inf
    return np.where(possible, scores - np.where(possible, log_partition, 0.0), -np.inf)


def _has_previous(batch: ChainBatch) -> NDArray[np.bool_]:
    """Return a mask of the positions that are not the first of their sequence."""
    mask = np.ones(batch.n_positions, dtype=np.bool_)
    mask[batch.ptr[:-1]] = False
    return mask


def _sum_by_sequence(values: FloatArray, batch: ChainBatch) -> FloatArray:
    """Return the sum over the positions of each sequence, along the last axis."""
    if not batch.n_sequences:
        return np.zeros((*values.shape[:-1], 0))
    return np.asarray(np.add.reduceat(values, batch.ptr[:-1], axis=-1), dtype=np.float64)


def _checked_weight(batch: ChainBatch, sequence_weight: ArrayLike | None, transitions: str | None) -> FloatArray:
    """Return the weights of the sequences as a read-only array; raise if they are invalid or without effect."""
    if sequence_weight is None:
        return read_only(np.ones(batch.n_sequences))
    weight = as_float_array(sequence_weight, "chain_marginals: sequence_weight")
    if transitions != "sum":
        raise InvalidInputError(
            "chain_marginals: sequence_weight applies to the summed transitions, but transitions is "
            f"{transitions!r}. Use transitions='sum', or multiply the results by the weights."
        )
    if weight.shape != (batch.n_sequences,) or not np.isfinite(weight).all():
        raise InvalidInputError(
            f"chain_marginals: sequence_weight needs {batch.n_sequences} finite numbers, one per sequence, got shape "
            f"{weight.shape}. Check its length and remove NaN."
        )
    return read_only(weight)
