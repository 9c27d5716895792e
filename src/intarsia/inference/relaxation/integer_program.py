"""MAP inference as an integer program: the best labelling with a proof, by branch and cut with HiGHS."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.highs import Program, prove_infeasible, solve_program
from intarsia._core.status import Status
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.inference.relaxation.lp_relaxation import describe_contradiction
from intarsia.inference.relaxation.rounding import block_bound, largest_score, reaches, round_beliefs
from intarsia.inference.sampling.icm import best_states, climb


class IntegerProgram(InferenceMethod):
    r"""Integer program: the labelling with the highest score and a proof, by branch and cut over the local polytope.

    Choose it if you need the best labelling (exact MAP inference) and the graph is too wide for `junction_tree`. With a
    time limit it returns the best labelling so far and an upper bound on the best score. It solves

    .. math:: \max_{\mu \in L} \theta \cdot \mu \quad\text{with } \mu_v(x_v) \in \{0, 1\} \text{ for all variables}

    by branch and cut. Time grows with the gap between the relaxation and the best labelling: models whose relaxation is
    nearly tight take seconds at any width; random frustrated models beyond a few hundred variables do not finish.

    Parameters
    ----------
    temperature : float, optional
        Must be 0, the default, since a labelling has no entropy.

    Notes
    -----
    Status EXACT means that the labelling is proven best. At `time_limit`, the best score is between `score` and
    `upper_bound`. `warm_start=` starts the search from the earlier labelling.

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
    summary: ClassVar[str] = "the best labelling with a proof, or with a bound at the time limit"
    gives_map: ClassVar[bool] = True
    proves_map: ClassVar[bool] = True
    supports_constraints: ClassVar[bool] = True
    cost: ClassVar[str] = "branch and cut: exponential at worst, one linear program when the relaxation is tight"

    def __init__(self, *, temperature: float | None = None) -> None:
        self.temperature = temperature

    def run(self, problem: Problem) -> Answer:
        """Run branch and cut, starting from a labelling obtained by rounding and local search."""
        graph, theta = problem.graph, problem.theta
        split = int(graph.variable_ptr[-1])
        first = round_beliefs(problem, theta[:split] if problem.start_mu is None else problem.start_mu)
        if first.infeasible:
            return Answer(Status.INFEASIBLE, note=_no_labelling(problem))
        best, upper_bound = first.labelling, block_bound(graph, theta)
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
            labelling = best_states(graph, polytope.full(solution.x)[:split])
            climb(graph, theta, labelling)
            if best is None or graph.score(theta, labelling) >= score:
                best, score = labelling, float(graph.score(theta, labelling))
        answer = Answer(solution.status, assignment=best, integral=True)
        answer.upper_bound = max(score, min(upper_bound, solution.bound))
        if solution.status is Status.CONVERGED and score > -np.inf:
            answer.status, answer.upper_bound = Status.EXACT, score
        elif reaches(score, answer.upper_bound, largest_score(theta)):
            answer.status = Status.EXACT
        if score == -np.inf:
            answer.note = "The time limit was reached before a labelling of finite score was found."
        return answer


def _no_labelling(problem: Problem) -> str:
    """Return a message that lists contradicting factors if the relaxation is infeasible."""
    polytope = LocalPolytope(problem.graph, problem.theta)
    ray = prove_infeasible(Program(polytope.cost, polytope.matrix, polytope.lower, polytope.upper), problem.clock)
    return describe_contradiction(problem, polytope, ray)
