"""The best labelling, proven, by branch and cut with HiGHS."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.highs import Program, prove_infeasible, solve_program
from intarsia._core.status import Status
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.inference.relaxation.lp_relaxation import contradiction
from intarsia.inference.relaxation.rounding import block_bound, largest_score, reaches, round_beliefs
from intarsia.inference.sampling.icm import best_states, climb


class IntegerProgram(InferenceMethod):
    r"""The labelling of highest score with a proof, by an integer program over the local polytope.

    Choose it where the best labelling is wanted and the graph is too wide for `junction_tree`; with a time limit it
    gives the best labelling found and a bound on what could be better. It solves

    .. math:: \max_{\mu \in L} \theta \cdot \mu \quad\text{with } \mu_v(x_v) \in \{0, 1\} \text{ for all variables}

    by branch and cut. Time grows with the gap between the relaxation and the best labelling: models whose relaxation
    is nearly tight take seconds at any width, random frustrated ones are hopeless beyond some hundred variables.

    Parameters
    ----------
    temperature : float, optional
        Only 0, the default, makes sense: a labelling has no entropy.

    Notes
    -----
    Status EXACT is a proof. At `time_limit`, `score` and `upper_bound` enclose the best score. `warm_start=`
    hands over the earlier labelling as the first one.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.graph.complete_graph(3, 2)
    >>> theta = graph.pack(variables=[[0, 0], [0, 0], [0, 0.5]], tables=[[[0, 1], [1, 0]]] * 3)
    >>> result = intarsia.infer(graph, theta, "integer_program", task="map")
    >>> result.score, result.upper_bound, result.status.name
    (2.5, 2.5, 'EXACT')
    """

    name: ClassVar[str] = "integer_program"
    summary: ClassVar[str] = "the best labelling with a proof, or with a bound when time runs out"
    gives_map: ClassVar[bool] = True
    proves_map: ClassVar[bool] = True
    takes_constraints: ClassVar[bool] = True
    cost: ClassVar[str] = "branch and cut: exponential at worst, one linear program when the relaxation is tight"

    def __init__(self, *, temperature: float | None = None) -> None:
        self.temperature = temperature

    def run(self, problem: Problem) -> Answer:
        """Branch and cut from the best labelling that is quick to find."""
        graph, theta = problem.graph, problem.theta
        split = int(graph.variable_ptr[-1])
        first = round_beliefs(problem, theta[:split] if problem.start_mu is None else problem.start_mu)
        if first.infeasible:
            return Answer(Status.INFEASIBLE, note=_no_labelling(problem))
        best = first.labelling
        score = -np.inf if best is None else float(graph.score(theta, best))
        polytope = LocalPolytope(graph, theta)
        program = Program(
            polytope.cost, polytope.matrix, polytope.lower, polytope.upper, integer=polytope.variable_columns
        )
        start = polytope.point(best) if best is not None and score > -np.inf else None
        solution = solve_program(program, problem.clock, start=start)
        if solution.status is Status.INFEASIBLE:
            return Answer(Status.INFEASIBLE, note=_no_labelling(problem))
        if solution.x is not None:
            found = best_states(graph, polytope.full(solution.x)[:split])
            climb(graph, theta, found)
            if best is None or graph.score(theta, found) >= score:
                best, score = found, float(graph.score(theta, found))
        answer = Answer(solution.status, assignment=best, integral=True)
        answer.upper_bound = max(score, min(block_bound(graph, theta), solution.bound))
        if solution.status is Status.CONVERGED and score > -np.inf:
            answer.status, answer.upper_bound = Status.EXACT, score
        elif reaches(score, answer.upper_bound, largest_score(theta)):
            answer.status = Status.EXACT
        if score == -np.inf:
            answer.note = "No labelling of finite score was found in time."
        return answer


def _no_labelling(problem: Problem) -> str:
    """Name a contradiction if the relaxation shows one."""
    polytope = LocalPolytope(problem.graph, problem.theta)
    ray = prove_infeasible(Program(polytope.cost, polytope.matrix, polytope.lower, polytope.upper), problem.clock)
    return contradiction(problem, polytope, ray)
