"""Arguments of kernels for sequences under automata; `graph_arguments` explains the groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray


class AutomatonTables(NamedTuple):
    """Tables of several automata, one after the other.

    Attributes
    ----------
    state_ptr : int array (n_automata + 1,)
        Automaton r has the states `state_ptr[r]` to `state_ptr[r + 1]`, counted through all automata.
    step_ptr, n_symbols : int arrays (n_automata,)
        The step of state s of automaton r with symbol a is at `step_ptr[r] + s * n_symbols[r] + a`.
    step : int array
        Next state in the same automaton, -1 if there is none.
    step_scores : float array
        Score of each step.
    final : float array
        Score of each state at the end of a sequence.
    symbol_ptr : int array (n_automata,)
        The symbol of label y at a position of kind c is at `symbol_ptr[r] + c * n_labels + y`.
    symbols : int array
        Symbols of labels.
    kinds : int array (n_automata, length)
        Kind of each position.
    """

    state_ptr: IntArray
    step_ptr: IntArray
    n_symbols: IntArray
    step: IntArray
    step_scores: FloatArray
    final: FloatArray
    symbol_ptr: IntArray
    symbols: IntArray
    kinds: IntArray


class PrefixScores(NamedTuple):
    """Scores of a sequence, for the probability of joint states.

    Attributes
    ----------
    nodes : float array (length, n_labels)
        Scores of positions.
    tables : float array (1 or length - 1, n_labels, n_labels)
        Scores of transitions.
    suffix : float array (length, n_labels)
        Logarithm of the summed exponential scores of the positions after each label, minus log Z, without automata.
    """

    nodes: FloatArray
    tables: FloatArray
    suffix: FloatArray


class Layers(NamedTuple):
    """Joint states of all automata, in layers: layer t holds the states after t labels.

    Attributes
    ----------
    ptr : int array (length + 2,)
        Layer t has the rows `ptr[t]` to `ptr[t + 1]`.
    step : int32 array (n_rows, n_labels)
        Row in the next layer after a label, -1 if the label is rejected.
    gain : float array (n_rows, n_labels) or (1, n_labels)
        Score of each step; a single row of zeros if there are none.
    final : float array (n_rows of the last layer,)
        Score at the end of the sequence.
    """

    ptr: IntArray
    step: NDArray[np.int32]
    gain: FloatArray
    final: FloatArray
