"""Arguments of kernels for sequences: scores, features and weights; `graph_arguments` explains the groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.graph_arguments import Indices


class SequenceScores(NamedTuple):
    """Scores of the positions of a batch of sequences.

    Attributes
    ----------
    ptr : int array (n_sequences + 1,)
        Sequence s has the positions `ptr[s]` to `ptr[s + 1]`.
    nodes : float array (n_positions, n_labels)
        Scores of labels.
    start, end : float array (n_labels,)
        Added to the first and the last position of every sequence.
    offsets : float array (n_sequences, n_labels) or (1, n_labels)
        Subtracted from every position of a sequence, or of all sequences: the gradient of a global energy.
    """

    ptr: IntArray
    nodes: FloatArray
    start: FloatArray
    end: FloatArray
    offsets: FloatArray


class ChainTables(NamedTuple):
    """Exponentiated transition scores: a table for all steps, or one for each.

    Attributes
    ----------
    tables : float array (1 or n_steps, n_labels, n_labels)
        exp(score - maximum of the table).
    tops, floors : float array (1 or n_steps,)
        Maximum of each table's scores, and its smallest positive entry.
    dense : bool
        Whether no table has a zero.
    transposed : float array (n_labels, n_labels)
        First table with its axes exchanged.
    """

    tables: FloatArray
    tops: FloatArray
    floors: FloatArray
    dense: bool
    transposed: FloatArray


class ChainScratch(NamedTuple):
    """Work space for the longest sequence.

    Attributes
    ----------
    tops, floors, totals : float array (longest,)
        Maximum of the scores, smallest positive weight, and sum of the forward message of each position.
    message : float array (n_labels,)
        A message before it is multiplied by the weights of its position.
    alpha, onward : float array (longest, n_labels)
        Forward messages, and backward messages times weights.
    """

    tops: FloatArray
    floors: FloatArray
    totals: FloatArray
    message: FloatArray
    alpha: FloatArray
    onward: FloatArray


class CountColumns(NamedTuple):
    """Readings of energies as linear functions of expected numbers of labels and transitions.

    Attributes
    ----------
    labels : int array (n_used_labels,)
        Labels that are counted.
    first, second : int array (n_used_transitions,)
        Transitions that are counted.
    coefficients : float array (n_readings, n_used_labels + n_used_transitions)
        Coefficients of the counts in each reading.
    """

    labels: IntArray
    first: IntArray
    second: IntArray
    coefficients: FloatArray


class PenaltyFunctions(NamedTuple):
    """Parameters of the penalty of each reading, as in `scalar_terms.Penalties`."""

    shift: FloatArray
    low: FloatArray
    high: FloatArray
    steepness: FloatArray
    half_width: FloatArray


class SparseSequences(NamedTuple):
    """Labelled sequences with sparse features.

    Attributes
    ----------
    ptr : int array (n_sequences + 1,)
        Sequence s has the positions `ptr[s]` to `ptr[s + 1]`.
    row_ptr, columns, values : array
        Features of positions as a CSR matrix.
    states : int array (n_positions,)
        Labels; -1 for a hidden label.
    allowed : bool array (n_positions, n_labels)
        Labels that each position may have; read only where a label is hidden.
    importance : float array (n_sequences,)
        Weights of sequences.
    """

    ptr: IntArray
    row_ptr: Indices
    columns: Indices
    values: FloatArray
    states: IntArray
    allowed: NDArray[np.bool_]
    importance: FloatArray


class LabelFeatures(NamedTuple):
    """Layout of the weights of a chain model: a weight per pair (feature, label), then transitions, then ends.

    Attributes
    ----------
    pair_ptr, pair_label : int array
        Pairs of feature f are `pair_ptr[f]` to `pair_ptr[f + 1]`, each with its label.
    ends : bool
        Whether the first and the last label have weights.
    transitions, start, end : float array
        Constants that are added to the scores of transitions, first and last labels: -inf where forbidden.
    """

    pair_ptr: IntArray
    pair_label: IntArray
    ends: bool
    transitions: FloatArray
    start: FloatArray
    end: FloatArray


class UpdateRule(NamedTuple):
    """Length of the update after a mistake; see `online_updates.learn_sequences`."""

    fixed: bool
    max_step: float
    slack: float
    loss: int
    gamma: float


class LearnedWeights(NamedTuple):
    """Weights, changes times the number of sequences before them, variances of the weights, number of sequences."""

    weights: FloatArray
    total: FloatArray
    variance: FloatArray
    count: FloatArray


class FlowErrors(NamedTuple):
    """Squared errors of expected counts: precision / 2 times the sum of (rate * count - y)^2, plus a constant."""

    y: FloatArray
    rate: float
    precision: float
    constant: float
    n_walkers: float


class FlowScratch(NamedTuple):
    """Work space of a forward-backward pass over cells and moves.

    Attributes
    ----------
    shift : float array (n_steps - 1,)
        Subtracted from the scores of each table before exponentiating.
    tables : float array (n_steps - 1, s, s)
        Exponentiated tables.
    weights, forward, backward : float array (n_steps, s)
        Exponentiated scores of cells, and scaled messages.
    """

    shift: FloatArray
    tables: FloatArray
    weights: FloatArray
    forward: FloatArray
    backward: FloatArray
