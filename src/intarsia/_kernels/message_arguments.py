"""Arguments of kernels that pass messages: models, messages and gradients; `graph_arguments` explains the groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.graph_arguments import Indices


class MessageModel(NamedTuple):
    """A factor graph with full tables and its scores, as message passing reads them.

    Attributes
    ----------
    theta : float array
        Log-potentials.
    table_start : int array (n_factors,)
        Position in `theta` of each factor's table.
    exp_tables, exp_ptr : float array, int array (n_factors,)
        exp((theta - maximum) / rho) of all tables, and the position of each factor's; empty for max-product.
    rho : float array (n_factors,)
        Appearance probabilities.
    message_ptr : int array (n_pairs + 1,)
        Position of each pair's message.
    variable_ptr, pair_ptr, pair_idx, factor_of_pair, scope_ptr, scope_idx : int array
        Arrays of the graph, see `GraphArrays`.
    """

    theta: FloatArray
    table_start: IntArray
    exp_tables: FloatArray
    exp_ptr: IntArray
    rho: FloatArray
    message_ptr: IntArray
    variable_ptr: IntArray
    pair_ptr: IntArray
    pair_idx: IntArray
    factor_of_pair: IntArray
    scope_ptr: IntArray
    scope_idx: IntArray


class MessageState(NamedTuple):
    """Log messages, the beliefs of variables that follow from them, and work space for one factor; see `messages`.

    Attributes
    ----------
    messages : float array
        Log message of each pair, from its factor to its variable.
    finite, n_impossible : float array, int array
        Sum of the finite terms of each belief, and the number of its terms that are -inf.
    sizes, digits : int array (max_scope,)
        Scratch: number of states, and present state, of each axis of a factor.
    logs, weights : float array (max_scope, max_states)
        Scratch: a row for each axis of a factor.
    row, shift : float array (max_states,)
        Scratch: a value for each state of a variable.
    """

    messages: FloatArray
    finite: FloatArray
    n_impossible: IntArray
    sizes: IntArray
    digits: IntArray
    logs: FloatArray
    weights: FloatArray
    row: FloatArray
    shift: FloatArray


class ResidualQueue(NamedTuple):
    """Pairs by the pending change of their messages: changes, max-heap, position of each pair in it, pairs to renew."""

    priority: FloatArray
    heap: IntArray
    position: IntArray
    queue: IntArray


class FactorAdjoints(NamedTuple):
    """Gradients that the backward pass over a factor graph accumulates; see `back_messages`.

    Attributes
    ----------
    beliefs : float array
        Gradients with respect to the beliefs, which are those of the variables' scores.
    messages : float array
        Gradients with respect to log messages, without the terms that follow from `beliefs`.
    theta : float array
        Gradients in the layout of theta; `beliefs` is its first block.
    """

    beliefs: FloatArray
    messages: FloatArray
    theta: FloatArray


class PairwiseModel(NamedTuple):
    """Scores of a pairwise graph whose variables all have k states, laid out by slot and rank.

    `pairwise_messages` explains slots and ranks. Sum-product kernels take exponentials of scores, max-product kernels
    take the scores.

    Attributes
    ----------
    slot_ptr : int array (n_variables + 1,)
        Slots of the variable of rank i: `slot_ptr[i]` to `slot_ptr[i + 1]`.
    middle : int array (n_variables,)
        First slot of each variable that faces a later neighbour.
    backward : int array (n_variables,)
        Ranks in the order of a backward half-sweep.
    opposite : int array (n_slots,)
        Slot at the other end of the factor.
    table_of_slot : int array (n_slots,)
        Row of `tables` that each slot uses.
    tables : float array (n_tables, k * k) or (n_tables, k)
        Full tables with the earlier variable as first axis, or scores by distance.
    unary : float array (n_variables, k)
        Scores of variables by rank.
    rho : float
        Appearance probability of every factor.
    root : int
        Number of square roots that compute a power `rho`: 1 for 1/2, 2 for 1/4, -1 for 1, 0 for a general power.
    """

    slot_ptr: Indices
    middle: Indices
    backward: Indices
    opposite: Indices
    table_of_slot: Indices
    tables: FloatArray
    unary: FloatArray
    rho: float
    root: int


class EdgeLayout(NamedTuple):
    """Positions of the edges of a pairwise graph among its slots, factors and tables.

    Attributes
    ----------
    rank : int array (n_variables,)
        Rank of each variable.
    pair_of_slot, edge_of_slot : int array (n_slots,)
        Position of `scope_idx`, and edge, of each slot.
    factor_of_edge, flipped : array (n_edges,)
        Factor of each edge, and whether the first axis of that factor is its later variable.
    scope_idx, table_of_factor, table_ptr : int array
        Arrays of the graph.
    table_top : float array (n_tables,)
        Maximum that was subtracted from each table before exponentiating.
    """

    rank: Indices
    pair_of_slot: Indices
    edge_of_slot: Indices
    factor_of_edge: Indices
    flipped: NDArray[np.bool_]
    scope_idx: Indices
    table_of_factor: Indices
    table_ptr: Indices
    table_top: FloatArray


class PairwiseAdjoints(NamedTuple):
    """Gradients that the backward pass over a pairwise graph accumulates.

    Attributes
    ----------
    messages : float array (n_slots,) for two states, else (n_slots, k)
        Gradients with respect to log messages; for two states, to the log odds.
    unary : float array (n_variables, k)
        Gradients with respect to the variables' scores, by rank.
    outer : float array (n_tables, k * k)
        Sums of outer products; times the table and divided by rho, the gradients with respect to tables.
    """

    messages: FloatArray
    unary: FloatArray
    outer: FloatArray
