"""Base class of belief propagation and tree-reweighted message passing, which differ only in the weights rho."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number
from intarsia.graph import FactorGraph
from intarsia.inference.messages.general_messages import Beliefs, GeneralMessages
from intarsia.inference.messages.pairwise_messages import (
    PairwiseMaxMessages,
    PairwiseMessages,
    fits_pairwise,
    is_uniform_pairwise,
)
from intarsia.inference.method import Answer, InferenceMethod, Iteration, Problem, iterate
from intarsia.inference.relaxation.rounding import largest_score, reaches
from intarsia.inference.sampling.feasible import find_feasible, has_hard_zeros
from intarsia.inference.sampling.icm import climb

# If the upper bound exceeds the objective by a larger relative gap, the messages have not converged.
GAP = 1e-6
# Differences between marginals below this are rounding errors and never count against the tolerance.
ROUNDING = 1e-11
# Largest relative gap between the bounds on log Z of a forest at which the value counts as exact, and the gap below
# which further sweeps do not help.
EXACT, ROUNDED = 1e-10, 1e-13
# Relative change of a message that is only a rounding error.
LAST_DIGITS = 16.0 * float(np.finfo(np.float64).eps)
# Number of search nodes to spend on a feasible labelling before messages are passed.
MAX_NODES = 20_000
_SCHEDULES = ("forward_backward", "parallel", "residual")
Messages = GeneralMessages | PairwiseMessages | PairwiseMaxMessages


@dataclass(frozen=True)
class Appearance:
    """Appearance probabilities rho of the factors and the bounds that follow from them.

    Attributes
    ----------
    rho : (n_factors,) array
        Appearance probabilities: how often a factor occurs in a random forest of factors.
    is_valid : bool
        Whether the entropy with these weights bounds the true entropy, so that a converged log Z is an upper bound.
    is_mixture : bool
        Whether rho is proven to be a mean of forests, so that any messages, converged or not, bound log Z from above.
    """

    rho: FloatArray
    is_valid: bool = False
    is_mixture: bool = False


class MessagePassing(InferenceMethod):
    """Base class of the message-passing methods; subclasses define rho and the guarantee on log Z."""

    gives_marginals: ClassVar[bool] = True
    gives_map: ClassVar[bool] = True
    state_is: ClassVar[str | None] = "messages"
    differentiable: ClassVar[bool] = True

    max_iter: int
    tol: float
    damping: float
    schedule: str
    rounding: str

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        name = type(self).__name__
        check_number(self.max_iter, f"{name}: max_iter", low=0, integer=True)
        check_number(self.tol, f"{name}: tol", low=0.0)
        check_number(self.damping, f"{name}: damping", low=0.0, high=1.0, open_high=True)
        check_choice(self.schedule, _SCHEDULES, f"{name}: schedule")
        check_choice(self.rounding, ("sequential", "beliefs"), f"{name}: rounding")

    @abstractmethod
    def appearance(self, problem: Problem) -> Appearance:
        """Return rho of every factor and which bounds hold with it."""

    def run(self, problem: Problem) -> Answer:
        """Sweep until the messages converge, then compute marginals and log Z, or a labelling."""
        graph, theta = problem.graph, problem.theta
        appearance = self.appearance(problem)
        feasible = None
        if has_hard_zeros(graph, theta):  # messages can converge even if the model is infeasible
            search = find_feasible(graph, theta, problem.rng, problem.clock, max_nodes=MAX_NODES)
            if search.infeasible:
                return Answer(Status.INFEASIBLE)
            feasible = search.labelling
        maximise = problem.task == "map"
        start = None if problem.start_messages is None else problem.start_messages.copy()
        state = self._make_messages(graph, theta, appearance.rho, maximise, start)
        forest = graph.is_forest and bool((appearance.rho == 1.0).all())
        sweeps = _Sweeps(self, state, appearance, maximise, forest)
        loop = iterate(sweeps.sweep, self.max_iter, self.tol, problem.clock, problem.report)
        if graph.n_factors == 0:
            loop.status, loop.residual = Status.CONVERGED, 0.0
        if loop.status is Status.INFEASIBLE:
            return Answer(Status.INFEASIBLE)
        error = np.inf
        if forest and loop.status is Status.CONVERGED:
            error = self._sweep_to_rounding(problem, sweeps, loop)
        if maximise or isinstance(state, PairwiseMaxMessages):
            return self._map_answer(problem, state.general(), loop, feasible, error)
        beliefs = sweeps.beliefs or state.beliefs()
        if beliefs is None:
            return Answer(Status.INFEASIBLE)
        answer = self._marginal_answer(state.finish(), loop, beliefs, appearance)
        if forest:
            answer.lower_bound, answer.upper_bound = beliefs.lower_bound, beliefs.upper_bound
        if error <= EXACT and loop.status is Status.CONVERGED:
            value = 0.5 * (beliefs.lower_bound + beliefs.upper_bound)
            answer.log_partition = answer.lower_bound = answer.upper_bound = value
            answer.log_partition_is = "exact"
        return answer

    def _sweep_to_rounding(self, problem: Problem, sweeps: _Sweeps, loop: Iteration) -> float:
        """Sweep on a forest until its messages are correct up to rounding; return the remaining error.

        This needs few sweeps. Without them, the tolerance stops the messages early, and damping always keeps a fraction
        of the old messages.
        """
        changes = loop.residuals.tolist()
        measure = sweeps.labelling_error if sweeps.maximise else sweeps.bound_gap
        error, n_idle = measure(), 0  # n_idle: consecutive sweeps without progress
        while error > ROUNDED and n_idle < 2 and len(changes) < self.max_iter and not problem.clock.expired:
            changes.append(sweeps.sweep_undamped())
            error, previous = measure(), error
            n_idle = n_idle + 1 if error > 0.5 * previous and changes[-1] <= ROUNDED else 0
        if len(changes) > loop.n_iter:
            loop.n_iter, loop.residual, loop.residuals = len(changes), changes[-1], np.array(changes)
            if loop.residual > self.tol:
                loop.status = Status.MAX_ITER
        return error

    def _make_messages(
        self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, maximise: bool, start: FloatArray | None
    ) -> Messages:
        """Return the fastest representation of messages that applies to the graph."""
        if self.schedule != "residual":
            if maximise and is_uniform_pairwise(graph, rho):
                return PairwiseMaxMessages(graph, theta, float(rho[0]), start)
            if not maximise and fits_pairwise(graph, theta, rho):
                return PairwiseMessages(graph, theta, float(rho[0]), start)
        return GeneralMessages(graph, theta, rho, maximise, start)

    def _map_answer(
        self, problem: Problem, state: GeneralMessages, loop: Iteration, feasible: IntArray | None, error: float
    ) -> Answer:
        """Return a labelling decoded from the max-marginals, or a feasible one if that labelling is impossible."""
        graph, theta = problem.graph, problem.theta
        answer = _answer_of_loop(loop, state.log_messages())
        answer.assignment = state.decode(self.rounding)
        if self.rounding == "sequential":
            if feasible is not None and graph.score(theta, answer.assignment) == -np.inf:
                answer.assignment = feasible
                answer.note = (
                    "The labelling decoded from the messages is impossible; this is a feasible one from a search."
                )
            climb(graph, theta, answer.assignment)
        if self.rounding == "sequential" and loop.status is Status.CONVERGED:
            score, largest = float(graph.score(theta, answer.assignment)), largest_score(theta)
            answer.upper_bound = score + error
            if reaches(score, answer.upper_bound, largest):
                answer.status, answer.upper_bound = Status.EXACT, score
        return answer

    def _marginal_answer(
        self, messages: FloatArray, loop: Iteration, beliefs: Beliefs, appearance: Appearance
    ) -> Answer:
        """Return marginals, and log Z with the guarantee of this run."""
        answer = _answer_of_loop(loop, messages)
        value, bound = beliefs.objective, beliefs.upper_bound
        answer.mu, answer.log_partition, answer.log_partition_is = beliefs.mu, value, "estimate"
        if appearance.is_mixture:
            answer.upper_bound = bound
        if loop.status is not Status.CONVERGED:
            return answer
        if appearance.is_valid and bound - value <= max(GAP, 100 * self.tol) * (1.0 + abs(value)):
            # Bound and objective are equal at the optimum; near it, the larger of the two is the upper bound.
            answer.log_partition_is = "upper bound"
            answer.log_partition = answer.upper_bound = max(bound, value)
        return answer


class _Sweeps:
    """Sweeps of one run, with a residual that compares messages and marginals with the tolerance.

    The marginal of a factor differs from that of its variable by the *relative* change of a message, weighted with the
    belief of the variable: a message can be constant to eight digits in a state that it makes improbable, while the
    other neighbours of the variable make that state probable. So once no message changes by more than the tolerance,
    the marginals are computed as well, at the cost of about a sweep, and the residual is the larger of the two. If the
    marginals disagree, several sweeps pass before the next comparison. On a forest these sweeps are not damped:
    messages cannot oscillate there, and a damped message needs thousands of sweeps to decrease to exp(-1000).
    """

    def __init__(
        self, method: MessagePassing, state: Messages, appearance: Appearance, maximise: bool, forest: bool
    ) -> None:
        self.state, self.is_mixture, self.maximise, self.forest = state, appearance.is_mixture, maximise, forest
        self.tol, self.damping, self.schedule = float(method.tol), float(method.damping), method.schedule
        self.beliefs: Beliefs | None = None
        self._disagreement = np.inf
        self._pause, self._next_pause, self._change_to_check = 0, 1, np.inf

    def sweep(self) -> float:
        """Sweep once; return the residual to compare with the tolerance, NaN if the model is infeasible."""
        self.beliefs = None
        # Damping shortens every step; the residual is the change without damping.
        change = self.state.sweep(self.schedule, self.damping) / (1.0 - self.damping)
        if self.maximise or not change <= self.tol:
            return change
        if self.schedule == "residual":  # which skips messages that do not change in the last digit
            self.schedule = "forward_backward"
        if self._pause > 0 and change > self._change_to_check:
            self._pause -= 1
            return max(change, self._disagreement)
        self.beliefs = self.current_beliefs()
        if self.beliefs is None:
            return np.nan
        self._disagreement = self._disagreement_of(self.beliefs)
        self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, 32)
        if self._disagreement > self.tol:
            self._change_to_check = (
                0.5 * change * self.tol / self._disagreement
            )  # change at which the marginals should agree
            self.damping = 0.0 if self.forest else self.damping
        return max(change, self._disagreement)

    def sweep_undamped(self) -> float:
        """Sweep once without damping; return the largest change of a message."""
        self.beliefs = None
        return self.state.sweep("forward_backward", 0.0)

    def current_beliefs(self) -> Beliefs | None:
        """Return the beliefs that follow from the current messages; None if the model is infeasible."""
        return None if isinstance(self.state, PairwiseMaxMessages) else self.state.beliefs()

    def _disagreement_of(self, beliefs: Beliefs) -> float:
        """Return the largest difference between marginals, or the relative gap of the bound if that is too large."""
        difference = beliefs.inconsistency if beliefs.inconsistency > ROUNDING else 0.0
        if not self.is_mixture:
            return difference
        gap = (beliefs.upper_bound - beliefs.objective) / (1.0 + abs(beliefs.objective))
        return max(difference, gap) if gap > max(GAP, 100 * self.tol) else difference

    def bound_gap(self) -> float:
        """Return the relative gap between the bounds on log Z that follow from the messages of a forest."""
        self.beliefs = self.beliefs or self.current_beliefs()
        if self.beliefs is None:
            return np.inf
        return (self.beliefs.upper_bound - self.beliefs.lower_bound) / (1.0 + abs(self.beliefs.upper_bound))

    def labelling_error(self) -> float:
        """Return a bound on the gap between the best score of a forest and the labelling decoded from its messages.

        If no message differs by more than e from its update, no message differs by more than 2 e n_pairs from the exact
        one, because errors of incoming messages add up. So the label of each variable costs at most 4 e n_pairs.
        """
        if isinstance(self.state, PairwiseMessages):  # sum-product messages have no labelling
            return np.inf
        state, graph = self.state, self.state.graph
        change, finite = state.distance(), state.messages[state.messages > -np.inf]
        if change <= LAST_DIGITS * max(largest_score(state.theta), float(np.abs(finite).max(initial=0.0))):
            return 0.0
        return 4.0 * graph.n_variables * graph.scope_idx.size * change


def _answer_of_loop(loop: Iteration, messages: FloatArray) -> Answer:
    """Return an answer with the status, residuals and messages of a finished loop."""
    return Answer(
        loop.status,
        residual=loop.residual,
        n_iter=loop.n_iter,
        history={"residual": loop.residuals},
        messages=messages,
    )
