"""The linear programming relaxation of the best labelling, solved to a vertex by HiGHS."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.highs import Program, Solution, prove_infeasible, solve_program
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.inference.relaxation.rounding import block_bound, is_labelling, largest_score, reaches, round_beliefs

_MOST_NAMED = 8


class LPRelaxation(InferenceMethod):
    r"""Upper bound on the best score, a vertex of the local polytope, and a labelling near it.

    Choose it where the relaxation itself is wanted: its bound, its fractional statistics for learning with a guarantee,
    or the proof that comes with an integral optimum (always on trees, usual with attractive couplings). For large
    models `dual_decomposition` is faster, for the best labelling itself there is `integer_program`. It solves

    .. math:: \max_{\mu \in L} \; \theta \cdot \mu

    over the local polytope :math:`L`, in which every factor's marginals agree with those of its variables.

    Parameters
    ----------
    temperature : float, optional
        Only 0, the default, makes sense: the relaxation has no entropy.

    Notes
    -----
    `result.mu` is the optimal vertex, fractional or not, in the layout of theta, and `result.integral` says which.
    `upper_bound` is the value of the dual at the solver's multipliers, a bound whatever their rounding. `assignment` is
    the vertex itself when it is integral, and otherwise rounded, repaired and improved by single changes; `score` is
    its score and with it a lower bound. If the two bounds meet, the status is EXACT. `warm_start=` starts the
    simplex method from an earlier vertex, which pays when only the scores have changed. An infeasible relaxation is
    INFEASIBLE, and `note` names factors that contradict each other.

    References
    ----------
    Kulesza2007, Section 3.1; Wainwright2008, Section 8.4.

    Examples
    --------
    Three variables that all want to differ have no such labelling with two states; one half everywhere pretends to:

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
    summary: ClassVar[str] = "an upper bound on the best score, fractional statistics, a proof where they are integral"
    gives_map: ClassVar[bool] = True
    map_is: ClassVar[str] = "relaxed optimum"
    state_is: ClassVar[str | None] = "simplex basis"
    takes_constraints: ClassVar[bool] = True
    cost: ClassVar[str] = "a linear program with a column per table entry of every factor"

    def __init__(self, *, temperature: float | None = None) -> None:
        self.temperature = temperature

    def run(self, problem: Problem) -> Answer:
        """Solve, then round."""
        graph = problem.graph
        polytope = LocalPolytope(graph, problem.theta)
        program = Program(polytope.cost, polytope.matrix, polytope.lower, polytope.upper)
        basis = None if problem.start_messages is None else problem.start_messages.astype(np.int64)
        solution = solve_program(program, problem.clock, basis=basis)
        if solution.status is Status.INFEASIBLE:
            ray = prove_infeasible(program, problem.clock)
            return Answer(Status.INFEASIBLE, note=contradiction(problem, polytope, ray))
        return self._read(problem, polytope, solution)

    def _read(self, problem: Problem, polytope: LocalPolytope, solution: Solution) -> Answer:
        graph, theta = problem.graph, problem.theta
        split = int(graph.variable_ptr[-1])
        answer = Answer(solution.status, upper_bound=block_bound(graph, theta), integral=True)
        if solution.dual is not None:
            answer.upper_bound = min(answer.upper_bound, polytope.bound(solution.dual))
        if solution.basis is not None:
            answer.messages = solution.basis.astype(np.float64)
        full = polytope.full(solution.x) if solution.x is not None else None
        found = round_beliefs(problem, theta[:split] if full is None else full[:split])
        if found.infeasible:
            return Answer(Status.INFEASIBLE, note="The relaxation has a solution, but no labelling satisfies all.")
        answer.assignment = found.labelling
        score = float(graph.score(theta, found.labelling))  # type: ignore[arg-type]
        if reaches(score, answer.upper_bound, largest_score(theta)):
            answer.status = Status.EXACT
        elif solution.status is Status.CONVERGED and full is not None:
            answer.integral = is_labelling(full[:split])
            answer.mu = polytope.statistics(full)
            answer.factor_mu = full
        if score == -np.inf:
            answer.note = "No labelling of finite score was found within the limits of the search."
        return answer


def contradiction(problem: Problem, polytope: LocalPolytope, ray: FloatArray | None) -> str:
    """Name factors of the user's graph that cannot all be satisfied."""
    if ray is None:
        return "The constraints contradict each other."
    return name_factors(problem, polytope.conflict(ray))


def name_factors(problem: Problem, factors: IntArray) -> str:
    """Say which of the user's factors contradict each other, given those of the problem's graph."""
    original = problem.original
    numbers = np.flatnonzero(np.isin(problem.factor_of, factors))
    if numbers.size == 0:
        return "The constraints contradict each other."
    named = []
    for c in numbers[:_MOST_NAMED].tolist():
        scope = original.scope(c).tolist()
        named.append(f"{c} over {[original.names[v] for v in scope] if original.names else scope}")
    more = f" and {numbers.size - _MOST_NAMED} more" if numbers.size > _MOST_NAMED else ""
    return f"These factors contradict each other (with the evidence, if any): {'; '.join(named)}{more}."
