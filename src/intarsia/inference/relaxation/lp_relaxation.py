"""Linear programming relaxation of MAP inference, solved to a vertex by HiGHS."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.highs import Program, Solution, prove_infeasible, solve_program
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.inference.relaxation.rounding import block_bound, is_labelling, largest_score, reaches, round_beliefs

_MAX_LISTED = 8


class LPRelaxation(InferenceMethod):
    r"""Linear programming relaxation: upper bound on the best score, a vertex of the local polytope, a labelling.

    Choose it for MAP inference if you need the relaxation itself: its bound, its fractional statistics for learning
    with a guarantee, or the proof of optimality of an integral solution (always on trees, often with attractive
    couplings). `dual_decomposition` is faster for large models, and `integer_program` always returns the best
    labelling. It solves

    .. math:: \max_{\mu \in L} \; \theta \cdot \mu

    over the local polytope :math:`L`, in which the marginals of every factor agree with those of its variables.

    Parameters
    ----------
    temperature : float, optional
        Must be 0, the default, since the relaxation has no entropy.

    Notes
    -----
    `result.mu` is the optimal vertex in the layout of theta, and `result.integral` reports whether it is integral.
    `upper_bound` is the value of the dual at the multipliers of the solver, which is a bound despite rounding errors.
    `assignment` is the vertex itself if it is integral; otherwise the vertex is rounded, repaired and improved by
    changes of single variables. `score` is the score of `assignment` and a lower bound. If the bounds are equal, the
    status is EXACT. `warm_start=` starts the simplex method from an earlier vertex, which is faster if only the scores
    have changed. If the relaxation is infeasible, the status is INFEASIBLE and `note` lists contradicting factors.

    References
    ----------
    Kulesza2007, Section 3.1; Wainwright2008, Section 8.4.

    Examples
    --------
    Three binary variables cannot all differ from each other, but marginals of 1/2 satisfy the relaxation:

    >>> import intarsia
    >>> graph = intarsia.graph.complete_graph(3, 2)
    >>> theta = graph.pack(tables=[[[0, 1], [1, 0]]] * 3)
    >>> result = intarsia.infer(graph, theta, "lp_relaxation", task="map")
    >>> result.upper_bound, result.score, result.integral
    (3.0, 2.0, False)
    >>> result.marginals(0)
    array([0.5, 0.5])
    """

    name: ClassVar[str] = "lp_relaxation"
    summary: ClassVar[str] = "an upper bound on the best score, fractional statistics, a proof if they are integral"
    gives_map: ClassVar[bool] = True
    map_is: ClassVar[str] = "relaxed optimum"
    state_is: ClassVar[str | None] = "simplex basis"
    supports_constraints: ClassVar[bool] = True
    cost: ClassVar[str] = "a linear program with a column per table entry of every factor"

    def __init__(self, *, temperature: float | None = None) -> None:
        self.temperature = temperature

    def run(self, problem: Problem) -> Answer:
        """Solve the relaxation, then round its optimum to a labelling."""
        upper_bound = block_bound(problem.graph, problem.theta)
        polytope = LocalPolytope(problem.graph, problem.theta)
        program = Program(polytope.cost, polytope.matrix, polytope.lower, polytope.upper)
        basis = None if problem.start_messages is None else problem.start_messages.astype(np.int64)
        solution = solve_program(program, problem.clock, basis=basis)
        if solution.status is Status.INFEASIBLE:
            ray = prove_infeasible(program, problem.clock)
            return Answer(Status.INFEASIBLE, note=describe_contradiction(problem, polytope, ray))
        return self._make_answer(problem, polytope, solution, upper_bound)

    def _make_answer(self, problem: Problem, polytope: LocalPolytope, solution: Solution, upper_bound: float) -> Answer:
        """Convert the solution of the linear program to an answer with bounds and a labelling."""
        graph, theta = problem.graph, problem.theta
        split = int(graph.variable_ptr[-1])
        answer = Answer(solution.status, upper_bound=upper_bound, integral=True)
        if solution.dual is not None:
            answer.upper_bound = min(answer.upper_bound, polytope.bound(solution.dual))
        if solution.basis is not None:
            answer.messages = solution.basis.astype(np.float64)
        full = polytope.full(solution.x) if solution.x is not None else None
        search = round_beliefs(problem, theta[:split] if full is None else full[:split])
        if search.infeasible:
            return Answer(
                Status.INFEASIBLE, note="The relaxation has a solution, but no labelling satisfies all constraints."
            )
        answer.assignment = search.labelling
        score = float(graph.score(theta, search.labelling))  # type: ignore[arg-type]
        if reaches(score, answer.upper_bound, largest_score(theta)):
            answer.status = Status.EXACT
        elif solution.status is Status.CONVERGED and full is not None:
            answer.integral = is_labelling(full[:split])
            answer.mu = polytope.statistics(full)
            answer.factor_mu = full
        if score == -np.inf:
            answer.note = "The search reached its limit before it found a labelling of finite score."
        return answer


def describe_contradiction(problem: Problem, polytope: LocalPolytope, ray: FloatArray | None) -> str:
    """Return a message that lists contradicting factors of the user's graph, from a dual ray if there is one."""
    if ray is None:
        return "The constraints contradict each other."
    return name_factors(problem, polytope.conflict(ray))


def name_factors(problem: Problem, factors: IntArray) -> str:
    """Return a message that lists contradicting factors of the user's graph, from factors of the reduced graph."""
    original = problem.original
    numbers = np.flatnonzero(np.isin(problem.factor_of, factors))
    if numbers.size == 0:
        return "The constraints contradict each other."
    descriptions = []
    for c in numbers[:_MAX_LISTED].tolist():
        scope = original.scope(c).tolist()
        descriptions.append(f"{c} over {[original.names[v] for v in scope] if original.names else scope}")
    suffix = f" and {numbers.size - _MAX_LISTED} more" if numbers.size > _MAX_LISTED else ""
    return f"These factors contradict each other (with the evidence, if any): {'; '.join(descriptions)}{suffix}."
