"""Search for an assignment of finite score, from which ascent and sampling start if there are hard zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.feasible import find_hard_factors, search_feasible
from intarsia._kernels.graph_arguments import GraphArrays
from intarsia.graph import FactorGraph

_FIRST_FAILS = 100
_GROWTH = 1.5
_WINDOW = 1000


@dataclass(frozen=True, eq=False)
class FeasibleSearch:
    """Result of a search: a labelling of finite score, a proof that none exists (`infeasible`), or neither."""

    labelling: IntArray | None
    infeasible: bool
    n_nodes: int


def has_hard_zeros(graph: FactorGraph, theta: FloatArray) -> bool:
    """Return whether a table forbids a joint state; -inf at single variables needs no search."""
    return bool(theta[int(graph.variable_ptr[-1]) :].min(initial=0.0) == -np.inf)


def find_feasible(
    graph: FactorGraph,
    theta: FloatArray,
    rng: np.random.Generator,
    clock: Clock | None = None,
    *,
    max_nodes: int = 200_000,
    random: bool = False,
) -> FeasibleSearch:
    """Find a labelling of finite score by backtracking with arc consistency, or prove that none exists.

    After each decision, states without an allowed tuple in a factor are removed until nothing changes. The next
    variable is the one with the smallest ratio of its number of states to the dead ends of its factors; its state with
    the highest unary score is tried first. The search restarts with growing limits, counts the dead ends of each
    factor, and shuffles the order of states; a run that ends below its limit is a proof.

    Parameters
    ----------
    graph : FactorGraph
        Graph in normal form.
    theta : float array
        Scores; -inf forbids states, and the unary scores set the order in which states are tried.
    rng : numpy Generator
        Generator for the order of states, from the first restart on or from the start with `random`.
    clock : Clock, optional
        Timer; its limit ends the search between restarts.
    max_nodes : int
        Maximum number of decisions in all restarts.
    random : bool
        Use a random order of states, so that several calls return labellings that differ much.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> differ = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)
    >>> theta = graph.pack(variables=[[0, 1], [0, 0], [0, 0]], tables=[differ, differ])
    >>> find_feasible(graph, theta, np.random.default_rng(0)).labelling
    array([1, 0, 1])
    """
    split = int(graph.variable_ptr[-1])
    unary = theta[:split]
    allowed = unary > -np.inf
    if not np.logical_or.reduceat(allowed, graph.variable_ptr[:-1]).all():
        return FeasibleSearch(None, True, 0)
    model = GraphArrays.of(graph)
    hard = find_hard_factors(theta, graph.table_of_factor, graph.table_ptr, graph.table_kind)
    lists = _hard_factors_by_variable(graph, hard)
    order = np.flatnonzero(np.diff(lists[0]))
    fails = np.zeros(graph.n_factors)
    priorities = rng.random(split) if random else unary.copy()
    limit, n_nodes = float(_FIRST_FAILS), 0
    while True:
        outcome, n_used, labelling = search_feasible(
            theta, allowed.copy(), priorities, order, fails, max_nodes - n_nodes, int(limit), _WINDOW, lists, model
        )
        n_nodes += int(n_used)
        if outcome != 0:
            return FeasibleSearch(labelling if outcome > 0 else None, outcome < 0, n_nodes)
        if n_nodes >= max_nodes or (clock is not None and clock.expired):
            return FeasibleSearch(None, False, n_nodes)
        limit *= _GROWTH
        priorities = rng.random(split) if random else unary + rng.gumbel(size=split)


def _hard_factors_by_variable(graph: FactorGraph, hard: np.ndarray[Any, Any]) -> tuple[IntArray, IntArray]:
    """Return CSR lists of the factors with hard zeros at each variable."""
    pairs = np.flatnonzero(hard[graph.factor_of_pair])
    variables = graph.scope_idx[pairs]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(variables, minlength=graph.n_variables))]).astype(np.int64)
    return ptr, graph.factor_of_pair[pairs[np.argsort(variables, kind="stable")]]
