"""Groups of arrays that travel together through the kernels: a graph, its scores, messages, gradients, scratch space.

A kernel takes a few such named tuples instead of twenty arrays. They are built once per graph or once per run. Numba
passes the members of a named tuple on as single arguments, so a group costs nothing inside a kernel; calling a kernel
from Python takes about half a microsecond longer for each group.

Numba stores the names of these classes in its disk cache: after renaming a class, delete the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray

Indices = NDArray[Any]  # int32, or int64 for more than 2^31 messages


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
