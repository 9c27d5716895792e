r"""Exact inference on batches of sequences with few labels: what chain models are trained and used with.

Every function takes a `ChainBatch` and treats its sequences apart, in time proportional to positions times labels
squared. For the best and the most probable paths of single graphs of any shape see `Tree`; this is its fast
path for chains whose positions all have the same labels.

Forward and backward messages are vectors of probabilities,

.. math:: \alpha_t(y) \propto \psi_t(y) \sum_x \alpha_{t-1}(x) T(x, y), \qquad
          \beta_t(x) \propto \sum_y T(x, y) \psi_{t+1}(y) \beta_{t+1}(y),

with :math:`\psi = \exp` of nodes (start and end scores included) and :math:`T = \exp` of transitions, each row of nodes
and each table less its maximum. Sequences whose scores span more than double precision are worked in logarithms
instead, which takes many times longer: only scores that differ by some 600 or more in a step, or transitions with
-inf along which such differences add up, ask for that.

Calls release the interpreter lock, so parts of a batch (`ChainBatch.part`) may be worked in threads.
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
    """Log partition functions and expected statistics of a batch; made by `chain_marginals`.

    Attributes
    ----------
    log_partition : (n_sequences,) float array
        log Z; -inf for a sequence without any possible labelling, whose expectations are all 0.
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
    """Log partition function of each sequence, marginals, and expected transitions, by forward-backward.

    These are the gradients of the sum of log Z: `nodes` in the scores of positions (its rows `ptr[:-1]` and
    `ptr[1:] - 1` in those of start and end), `transitions` in the tables. Beyond its answer the call needs memory for
    the longest sequence and a copy of the tables.

    Parameters
    ----------
    batch : ChainBatch
        The sequences.
    transitions : {"sum", "steps"} or None
        One matrix of expected transitions for the batch, a matrix for each step, or none.
    sequence_weight : (n_sequences,) float array, optional
        How often each sequence counts in that sum; once by default. Other results are not weighted.

    Raises
    ------
    InvalidInputError
        If `transitions` is not known or weights do not fit.

    Examples
    --------
    Labellings 00, 01, 10, 11 of two positions have weights 2, 1, 3, 6:

    >>> batch = ChainBatch(np.log([[1, 3], [1, 1]]), [0, 2], np.log([[2, 1], [1, 2]]))
    >>> found = chain_marginals(batch)
    >>> np.exp(found.log_partition).round(12)
    array([12.])
    >>> (12 * found.nodes).round(12)
    array([[3., 9.],
           [5., 7.]])
    >>> (12 * found.transitions).round(12)
    array([[2., 1.],
           [3., 6.]])
    """
    wanted = None if transitions is None else check_choice(transitions, ("sum", "steps"), "transitions")
    weight = _checked_weight(batch, sequence_weight, wanted)
    found = ChainPass(batch).marginals(transitions=wanted, weight=weight)
    return ChainMarginals(found.log_partition, found.nodes, found.transitions)


def chain_log_partition(batch: ChainBatch) -> FloatArray:
    """Log partition function of each sequence by one forward pass; -inf where no labelling is possible.

    The probability of partial labels is that of `batch.restricted(allowed)` less that of the batch.

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
    """Best labelling of each sequence, as one array over all positions, and its score.

    Where no labelling is possible the labels are -1 and the score is -inf. Of equally good ones, one is given.

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
    """The `n_best` labellings of each sequence with the highest scores, all different, in falling order.

    Beyond the answer, memory is needed for the longest sequence only; after the first, each labelling costs positions
    times labels.

    Returns
    -------
    paths : (n_best, n_positions) int array
        Row r holds the labellings of rank r of all sequences; -1 where a sequence has fewer.
    scores : (n_best, n_sequences) float array
        Their scores; -inf where there are fewer.

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
    """Independent draws of labellings with their exact probabilities, (n_samples, n_positions).

    Sequences without any possible labelling get -1.

    Examples
    --------
    >>> batch = ChainBatch(np.log([[1, 4]]), [0, 1], np.zeros((2, 2)))
    >>> sample_paths(batch, 10_000, random_state=0).mean().round(1)    # 4 / 5
    np.float64(0.8)
    """
    check_number(n_samples, "sample_paths: n_samples", low=0, integer=True)
    rng = as_generator(random_state)
    paths = np.full((int(n_samples), batch.n_positions), -1, dtype=np.int64)
    found = ChainPass(batch).forward(keep=True)
    log_alpha, lengths = found.messages, np.diff(batch.ptr)
    with np.errstate(divide="ignore"):
        np.log(log_alpha, out=log_alpha, where=~np.repeat(found.in_logs, lengths)[:, None])
    log_alpha[np.repeat(found.log_partition == -np.inf, lengths)] = -np.inf  # the pass ended before their last rows
    draw_paths(batch.ptr, log_alpha, full_tables(batch), rng, np.empty(batch.n_labels), paths)
    return paths


def path_scores(batch: ChainBatch, labels: ArrayLike) -> FloatArray:
    """Score of given labels for each sequence; -inf where they are forbidden.

    Parameters
    ----------
    batch : ChainBatch
        The sequences.
    labels : (..., n_positions) int array
        Labels of all positions; further axes, such as that of `best_paths`, are kept.

    Examples
    --------
    >>> batch = ChainBatch([[0, 2], [1, 0], [5, 4]], [0, 2, 3], [[0, 0], [-4, 0]])
    >>> path_scores(batch, [1, 0, 1])       # 2 + 1 - 4, and 4
    array([-1.,  4.])
    """
    y = as_int_array(labels, "path_scores: labels")
    n, k = batch.nodes.shape
    if y.ndim == 0 or y.shape[-1] != n:
        raise InvalidInputError(f"path_scores: labels has shape {y.shape}. Give a label for each of the {n} positions.")
    bad = (y < 0) | (y >= k)
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), y.shape)
        raise InvalidInputError(
            f"path_scores: label {y[at]} at position {int(at[-1])} is none of 0 .. {k - 1}. For hidden labels take "
            f"chain_log_partition of batch.restricted(...)."
        )
    values = batch.nodes[np.arange(n), y]
    before = _has_before(batch)
    previous, own = y[..., :-1][..., before[1:]], y[..., before]
    if batch.has_table_per_step:
        values[..., before] += batch.transitions[np.arange(batch.n_steps), previous, own]
    else:
        values[..., before] += batch.transitions[previous, own]
    if batch.start is not None:
        values[..., batch.ptr[:-1]] += batch.start[y[..., batch.ptr[:-1]]]
    if batch.end is not None:
        values[..., batch.ptr[1:] - 1] += batch.end[y[..., batch.ptr[1:] - 1]]
    return _sum_by_sequence(values, batch)


def path_log_probabilities(batch: ChainBatch, labels: ArrayLike) -> FloatArray:
    """Logarithm of the probability of given labels for each sequence; -inf where they are forbidden.

    `labels` as in `path_scores`.

    Examples
    --------
    >>> batch = ChainBatch(np.log([[1, 3], [1, 1]]), [0, 2], np.log([[2, 1], [1, 2]]))
    >>> np.exp(path_log_probabilities(batch, [[0, 0], [1, 1]])).round(3).tolist()     # 2 / 12 and 6 / 12
    [[0.167], [0.5]]
    """
    scores, log_partition = path_scores(batch, labels), chain_log_partition(batch)
    possible = log_partition > -np.inf
    return np.where(possible, scores - np.where(possible, log_partition, 0.0), -np.inf)


def _has_before(batch: ChainBatch) -> NDArray[np.bool_]:
    """Which positions have one before them in their sequence."""
    later = np.ones(batch.n_positions, dtype=np.bool_)
    later[batch.ptr[:-1]] = False
    return later


def _sum_by_sequence(values: FloatArray, batch: ChainBatch) -> FloatArray:
    """Sum over the positions of each sequence, along the last axis."""
    if not batch.n_sequences:
        return np.zeros((*values.shape[:-1], 0))
    return np.asarray(np.add.reduceat(values, batch.ptr[:-1], axis=-1), dtype=np.float64)


def _checked_weight(batch: ChainBatch, given: ArrayLike | None, wanted: str | None) -> FloatArray:
    """A weight per sequence, read-only."""
    if given is None:
        return read_only(np.ones(batch.n_sequences))
    weight = as_float_array(given, "chain_marginals: sequence_weight")
    if wanted != "sum":
        raise InvalidInputError(
            "chain_marginals: sequence_weight weighs the summed transitions, but transitions is "
            f"{wanted!r}. Use transitions='sum', or weigh the results."
        )
    if weight.shape != (batch.n_sequences,) or not np.isfinite(weight).all():
        raise InvalidInputError(
            f"chain_marginals: sequence_weight needs {batch.n_sequences} finite numbers, one per sequence, got shape "
            f"{weight.shape}."
        )
    return read_only(weight)
