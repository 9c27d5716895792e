"""Rounding of beliefs to a labelling: the best state of each variable, repaired if infeasible, then improved."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.graph import FactorGraph
from intarsia.graph.factor_kinds import FactorKind, is_constraint, pair_statistic
from intarsia.inference.method import Problem
from intarsia.inference.sampling.feasible import FeasibleSearch, find_feasible, has_hard_zeros
from intarsia.inference.sampling.icm import best_states, climb


def round_beliefs(problem: Problem, beliefs: FloatArray) -> FeasibleSearch:
    """Round beliefs to a labelling, of finite score if the search finds one, or prove that none exists.

    If hard zeros forbid the states with the highest beliefs, a backtracking search tries states in order of their
    beliefs. No change of a single variable improves the returned labelling.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> theta = graph.pack(tables=[[[0.0, 1.0], [1.0, 0.0]]])
    >>> problem = Problem(graph, graph, np.arange(1), theta, "map", np.random.default_rng(0))
    >>> round_beliefs(problem, np.array([0.9, 0.1, 0.6, 0.4])).labelling       # (0, 0) is improved
    array([1, 0])
    """
    graph, theta = problem.graph, problem.theta
    split = int(graph.variable_ptr[-1])
    possible_beliefs = np.where(theta[:split] > -np.inf, beliefs, -np.inf)
    labelling = best_states(graph, possible_beliefs)
    climb(graph, theta, labelling)
    if has_hard_zeros(graph, theta) and graph.score(theta, labelling) == -np.inf:
        priorities = np.concatenate([possible_beliefs, theta[split:]])
        search = find_feasible(graph, priorities, problem.rng, problem.clock)
        if search.labelling is None:
            return FeasibleSearch(labelling, search.infeasible, search.n_nodes)
        labelling = search.labelling
        climb(graph, theta, labelling)
    return FeasibleSearch(labelling, False, 0)


def block_bound(graph: FactorGraph, theta: FloatArray) -> float:
    """Return a cheap upper bound on the best score: the sum of the largest score of each variable and factor."""
    total = float(np.maximum.reduceat(theta[: graph.variable_ptr[-1]], graph.variable_ptr[:-1]).sum())
    if graph.n_factors == 0:
        return total
    kind, truncation = graph.table_kind, graph.table_truncation
    entries = np.maximum.reduceat(theta[graph.table_ptr[0] :], graph.table_ptr[:-1] - graph.table_ptr[0])
    last = graph.n_states[graph.scope_idx[graph.scope_ptr[graph.first_factor_of_table]]] - 1
    # Scores of pairwise kinds are highest for equal states or for the most distant ones; those of constraints are <= 0.
    statistics = np.stack([pair_statistic(kind, truncation, 0 * last, state) for state in (0 * last, last)])
    of_pair = np.multiply(entries, statistics, where=statistics != 0.0, out=np.zeros(statistics.shape)).max(axis=0)
    maxima = np.where(kind == FactorKind.TABLE, entries, np.where(is_constraint(kind), 0.0, of_pair))
    return total + float(maxima[graph.table_of_factor].sum())


def is_labelling(beliefs: FloatArray, tol: float = 1e-6) -> bool:
    """Return whether every belief is 0 or 1, up to `tol`."""
    return bool((np.minimum(np.abs(beliefs), np.abs(beliefs - 1.0)) <= tol).all())


def largest_score(theta: FloatArray) -> float:
    """Return the largest absolute value of the finite scores.

    Examples
    --------
    >>> largest_score(np.array([1.0, -np.inf, -3.0]))
    3.0
    """
    return float(np.abs(theta[theta > -np.inf]).max(initial=0.0))


def reaches(score: float, bound: float, largest: float) -> bool:
    """Return whether a score equals its upper bound up to rounding, for sums of scores up to `largest` in size.

    Examples
    --------
    >>> reaches(2.0, 2.0 + 1e-12, 1.0), reaches(2.0, 2.1, 1.0)
    (True, False)
    """
    return bool(score > -np.inf and bound - score <= 1e-9 * max(abs(score), largest))
