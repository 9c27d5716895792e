"""From beliefs of variables to a labelling: the best state of each, repaired where impossible, then improved."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.graph import FactorGraph
from intarsia.graph.factor_kinds import is_constraint
from intarsia.inference.method import Problem
from intarsia.inference.sampling.feasible import FeasibleSearch, find_feasible, has_hard_zeros
from intarsia.inference.sampling.icm import best_states, climb


def round_beliefs(problem: Problem, beliefs: FloatArray) -> FeasibleSearch:
    """Labelling near the best states of `beliefs`, of finite score unless none was found; or a proof that none exists.

    Where hard zeros forbid the states of highest belief, a backtracking search takes the beliefs as the order in which
    it tries states. No change of a single variable improves what comes back.

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
    wishes = np.where(theta[:split] > -np.inf, beliefs, -np.inf)
    labelling = best_states(graph, wishes)
    climb(graph, theta, labelling)
    if has_hard_zeros(graph, theta) and graph.score(theta, labelling) == -np.inf:
        preference = np.concatenate([wishes, theta[split:]])
        found = find_feasible(graph, preference, problem.rng, problem.clock)
        if found.labelling is None:
            return FeasibleSearch(labelling, found.infeasible, found.n_nodes)
        labelling = found.labelling
        climb(graph, theta, labelling)
    return FeasibleSearch(labelling, False, 0)


def block_bound(graph: FactorGraph, theta: FloatArray) -> float:
    """Upper bound on the best score that needs no work: the best of each variable and each factor on its own."""
    total = float(np.maximum.reduceat(theta[: graph.variable_ptr[-1]], graph.variable_ptr[:-1]).sum())
    if graph.n_factors == 0:
        return total
    counted = is_constraint(graph.table_kind)  # their scores are at most 0
    first = graph.first_factor_of_table
    top = np.array([0.0 if counted[t] else graph.factor_table(theta, int(c)).max() for t, c in enumerate(first)])
    return total + float(top[graph.table_of_factor].sum())


def is_labelling(beliefs: FloatArray, tol: float = 1e-6) -> bool:
    """Whether every belief is 0 or 1."""
    return bool((np.minimum(np.abs(beliefs), np.abs(beliefs - 1.0)) <= tol).all())


def largest_score(theta: FloatArray) -> float:
    """Largest finite entry in size.

    Examples
    --------
    >>> largest_score(np.array([1.0, -np.inf, -3.0]))
    3.0
    """
    return float(np.abs(theta[theta > -np.inf]).max(initial=0.0))


def reaches(score: float, bound: float, largest: float) -> bool:
    """Whether a score is as high as its upper bound, up to what sums of scores up to `largest` can tell.

    Examples
    --------
    >>> reaches(2.0, 2.0 + 1e-12, 1.0), reaches(2.0, 2.1, 1.0)
    (True, False)
    """
    return bool(score > -np.inf and bound - score <= 1e-9 * max(abs(score), largest))
