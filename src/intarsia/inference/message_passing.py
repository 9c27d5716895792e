"""What belief propagation and tree-reweighted message passing have in common: everything but rho."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from intarsia._validation import FloatArray, IntArray, check_choice, check_number
from intarsia.graph import FactorGraph
from intarsia.inference.feasible import find_feasible, has_hard_zeros
from intarsia.inference.general_messages import Beliefs, GeneralMessages
from intarsia.inference.icm import climb
from intarsia.inference.iteration import Iteration, iterate
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.pairwise_max import PairwiseMaxMessages
from intarsia.inference.pairwise_messages import PairwiseMessages, fits_pairwise, is_uniform_pairwise
from intarsia.inference.result import Status

# Marginals of factors and variables that differ by more are no fixed point, however still the messages stand.
CONSISTENT = 1e-6
# Relative slack within which a converged run on a forest is called exact.
EXACT = 1e-10
# Search nodes spent on a feasible labelling before messages are passed.
MAX_NODES = 20_000
_SCHEDULES = ("forward_backward", "parallel", "residual")


@dataclass(frozen=True)
class Appearance:
    """Weights of the factors and what is known of them.

    Attributes
    ----------
    rho : (n_factors,) array
        Appearance probabilities.
    is_valid : bool
        Whether the entropy with these weights bounds the true one, so that a converged log Z is an upper bound.
    is_mixture : bool
        Whether they are known to be the mean of forests, so that any messages give an upper bound on log Z.
    """

    rho: FloatArray
    is_valid: bool = False
    is_mixture: bool = False


class MessagePassing(InferenceMethod):
    """Base of the methods that pass messages; subclasses say what rho is and what log Z then means."""

    gives_marginals: ClassVar[bool] = True
    gives_map: ClassVar[bool] = True
    state_is: ClassVar[str | None] = "messages"
    differentiable: ClassVar[bool] = True

    max_iter: int
    tol: float
    damping: float
    schedule: str
    decode: str

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        here = type(self).__name__
        check_number(self.max_iter, f"{here}: max_iter", low=0, integer=True)
        check_number(self.tol, f"{here}: tol", low=0.0)
        check_number(self.damping, f"{here}: damping", low=0.0, high=1.0, open_high=True)
        check_choice(self.schedule, _SCHEDULES, f"{here}: schedule")
        check_choice(self.decode, ("sequential", "beliefs"), f"{here}: decode")

    @abstractmethod
    def appearance(self, problem: Problem) -> Appearance:
        """Give rho of every factor and what is known of it."""

    def run(self, problem: Problem) -> Answer:
        """Sweep until converged, then read off marginals and log Z, or a labelling."""
        graph, theta = problem.graph, problem.theta
        appearance = self.appearance(problem)
        feasible = None
        if has_hard_zeros(graph, theta):  # messages alone may find peace on a model that nothing satisfies
            search = find_feasible(graph, theta, problem.rng, problem.clock, max_nodes=MAX_NODES)
            if search.infeasible:
                return Answer(Status.INFEASIBLE)
            feasible = search.labelling
        maximise = problem.task == "map"
        start = None if problem.start_messages is None else problem.start_messages.copy()
        state = self._state(graph, theta, appearance.rho, maximise, start)
        # Damping shortens every step; what counts is how far the messages still have to go.
        reach = 1.0 - self.damping
        loop = iterate(
            lambda: state.sweep(self.schedule, self.damping) / reach,
            self.max_iter,
            self.tol,
            problem.clock,
            problem.report,
        )
        if graph.n_factors == 0:
            loop.status, loop.residual = Status.CONVERGED, 0.0
        if loop.status is Status.INFEASIBLE:
            return Answer(Status.INFEASIBLE)
        if maximise or isinstance(state, PairwiseMaxMessages):
            return self._label(problem, state.general(), loop, feasible)
        beliefs = state.beliefs()
        if loop.status is Status.CONVERGED and self._disagree(beliefs, appearance):
            state = state.general()
            loop = self._sweep_on(state, loop, problem)
            beliefs = state.beliefs()
        if beliefs is None or loop.status is Status.INFEASIBLE:
            return Answer(Status.INFEASIBLE)
        return self._conclude(problem, state.finish(), loop, beliefs, appearance)

    def _disagree(self, beliefs: Beliefs | None, appearance: Appearance) -> bool:
        """Whether beliefs belie that the messages have arrived: marginals differ, or the bound is above the value."""
        if beliefs is None:
            return False
        gap = beliefs.upper_bound - beliefs.objective if appearance.is_mixture else 0.0
        slack = max(CONSISTENT, 100 * self.tol)
        return beliefs.inconsistency > slack or gap > slack * (1.0 + abs(beliefs.objective))

    def _state(
        self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, maximise: bool, start: FloatArray | None
    ) -> GeneralMessages | PairwiseMessages | PairwiseMaxMessages:
        """The fastest state of messages that fits."""
        if self.schedule != "residual":
            if maximise and is_uniform_pairwise(graph, rho):
                return PairwiseMaxMessages(graph, theta, float(rho[0]), start)
            if not maximise and fits_pairwise(graph, theta, rho):
                return PairwiseMessages(graph, theta, float(rho[0]), start)
        return GeneralMessages(graph, theta, rho, maximise, start)

    def _label(self, problem: Problem, state: GeneralMessages, loop: Iteration, feasible: IntArray | None) -> Answer:
        """Labelling from the max-marginals, polished; the feasible one instead where they suggest the impossible."""
        graph, theta = problem.graph, problem.theta
        answer = _outcome(loop, state.log_messages())
        answer.assignment = state.decode(self.decode)
        if self.decode == "sequential":
            if feasible is not None and graph.score(theta, answer.assignment) == -np.inf:
                answer.assignment = feasible
                answer.note = "the labelling that the messages suggest is impossible; this is another, possible one"
            climb(graph, theta, answer.assignment)
        exact = graph.is_forest and self.decode == "sequential" and bool((state.rho == 1.0).all())
        if exact and loop.status is Status.CONVERGED:
            answer.upper_bound = float(graph.score(theta, answer.assignment))
        return answer

    def _conclude(
        self, problem: Problem, messages: FloatArray, loop: Iteration, beliefs: Beliefs, appearance: Appearance
    ) -> Answer:
        """Marginals, and log Z with what this run guarantees of it."""
        answer = _outcome(loop, messages)
        value, bound = beliefs.objective, beliefs.upper_bound
        answer.mu, answer.log_partition, answer.log_partition_is = beliefs.mu, value, "estimate"
        if appearance.is_mixture:
            answer.upper_bound = bound
        if loop.status is not Status.CONVERGED:
            return answer
        exact = problem.graph.is_forest and bool((appearance.rho == 1.0).all())
        if exact and abs(bound - value) <= EXACT * (1.0 + abs(value)):
            answer.log_partition_is = "exact"
            answer.lower_bound = answer.upper_bound = value
        elif appearance.is_valid and bound - value <= max(CONSISTENT, 100 * self.tol) * (1.0 + abs(value)):
            # The two are one number at the optimum; this side of it is the bound.
            answer.log_partition_is = "upper bound"
            answer.log_partition = answer.upper_bound = max(bound, value)
        return answer

    def _sweep_on(self, state: GeneralMessages, loop: Iteration, problem: Problem) -> Iteration:
        """Messages stand still but the marginals disagree: states of tiny probability still move, so watch those."""
        schedule = "forward_backward" if self.schedule == "residual" else self.schedule
        more = iterate(
            lambda: state.sweep(schedule, self.damping, strict=True) / (1.0 - self.damping),
            self.max_iter - loop.n_iter,
            self.tol,
            problem.clock,
            problem.report,
        )
        return Iteration(
            more.status,
            loop.n_iter + more.n_iter,
            more.residual if more.n_iter else loop.residual,
            np.concatenate([loop.residuals, more.residuals]),
        )


def _outcome(loop: Iteration, messages: FloatArray) -> Answer:
    return Answer(
        loop.status,
        residual=loop.residual,
        n_iter=loop.n_iter,
        history={"residual": loop.residuals},
        messages=messages,
    )
