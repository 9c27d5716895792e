"""What belief propagation and tree-reweighted message passing have in common: everything but rho."""

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

# An upper bound that exceeds the objective by a larger share shows that the messages have not arrived.
GAP = 1e-6
# Differences between marginals below this are rounding, whatever the tolerance.
ROUNDING = 1e-11
# Share within which the bounds on log Z of a forest must meet before its value is called exact, and that at which
# sweeping on gains no more.
EXACT, RIGHT = 1e-10, 1e-13
# Change of a message, relative to its size, that is rounding.
LAST_DIGITS = 16.0 * float(np.finfo(np.float64).eps)
# Search nodes spent on a feasible labelling before messages are passed.
MAX_NODES = 20_000
_SCHEDULES = ("forward_backward", "parallel", "residual")
Messages = GeneralMessages | PairwiseMessages | PairwiseMaxMessages


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
    rounding: str

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        here = type(self).__name__
        check_number(self.max_iter, f"{here}: max_iter", low=0, integer=True)
        check_number(self.tol, f"{here}: tol", low=0.0)
        check_number(self.damping, f"{here}: damping", low=0.0, high=1.0, open_high=True)
        check_choice(self.schedule, _SCHEDULES, f"{here}: schedule")
        check_choice(self.rounding, ("sequential", "beliefs"), f"{here}: rounding")

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
        forest = graph.is_forest and bool((appearance.rho == 1.0).all())
        sweeps = _Sweeps(self, state, appearance, maximise, forest)
        loop = iterate(sweeps.sweep, self.max_iter, self.tol, problem.clock, problem.report)
        if graph.n_factors == 0:
            loop.status, loop.residual = Status.CONVERGED, 0.0
        if loop.status is Status.INFEASIBLE:
            return Answer(Status.INFEASIBLE)
        error = np.inf
        if forest and loop.status is Status.CONVERGED:
            error = self._arrive(problem, sweeps, loop)
        if maximise or isinstance(state, PairwiseMaxMessages):
            return self._label(problem, state.general(), loop, feasible, error)
        beliefs = sweeps.beliefs or state.beliefs()
        if beliefs is None:
            return Answer(Status.INFEASIBLE)
        answer = self._conclude(state.finish(), loop, beliefs, appearance)
        if forest:
            answer.lower_bound, answer.upper_bound = beliefs.lower_bound, beliefs.upper_bound
        if error <= EXACT and loop.status is Status.CONVERGED:
            value = 0.5 * (beliefs.lower_bound + beliefs.upper_bound)
            answer.log_partition = answer.lower_bound = answer.upper_bound = value
            answer.log_partition_is = "exact"
        return answer

    def _arrive(self, problem: Problem, sweeps: _Sweeps, loop: Iteration) -> float:
        """Sweep on a forest until its messages are right to the last digits, mostly at once; return the error left.

        A tolerance stops messages early, and damping keeps a share of the old ones for ever.
        """
        changes = loop.residuals.tolist()
        measure = sweeps.labelling_error if sweeps.maximise else sweeps.bound_gap
        error, n_idle = measure(), 0  # sweeps in a row that gained nothing
        while error > RIGHT and n_idle < 2 and len(changes) < self.max_iter and not problem.clock.expired:
            changes.append(sweeps.sweep_undamped())
            error, before = measure(), error
            n_idle = n_idle + 1 if error > 0.5 * before and changes[-1] <= RIGHT else 0
        if len(changes) > loop.n_iter:
            loop.n_iter, loop.residual, loop.residuals = len(changes), changes[-1], np.array(changes)
            if loop.residual > self.tol:
                loop.status = Status.MAX_ITER
        return error

    def _state(
        self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, maximise: bool, start: FloatArray | None
    ) -> Messages:
        """The fastest state of messages that fits."""
        if self.schedule != "residual":
            if maximise and is_uniform_pairwise(graph, rho):
                return PairwiseMaxMessages(graph, theta, float(rho[0]), start)
            if not maximise and fits_pairwise(graph, theta, rho):
                return PairwiseMessages(graph, theta, float(rho[0]), start)
        return GeneralMessages(graph, theta, rho, maximise, start)

    def _label(
        self, problem: Problem, state: GeneralMessages, loop: Iteration, feasible: IntArray | None, error: float
    ) -> Answer:
        """Labelling from the max-marginals, polished; the feasible one instead where they suggest the impossible."""
        graph, theta = problem.graph, problem.theta
        answer = _outcome(loop, state.log_messages())
        answer.assignment = state.decode(self.rounding)
        if self.rounding == "sequential":
            if feasible is not None and graph.score(theta, answer.assignment) == -np.inf:
                answer.assignment = feasible
                answer.note = "the labelling that the messages suggest is impossible; this is another, possible one"
            climb(graph, theta, answer.assignment)
        if self.rounding == "sequential" and loop.status is Status.CONVERGED:
            score, largest = float(graph.score(theta, answer.assignment)), largest_score(theta)
            answer.upper_bound = score + error
            if reaches(score, answer.upper_bound, largest):
                answer.status, answer.upper_bound = Status.EXACT, score
        return answer

    def _conclude(self, messages: FloatArray, loop: Iteration, beliefs: Beliefs, appearance: Appearance) -> Answer:
        """Marginals, and log Z with what this run guarantees of it."""
        answer = _outcome(loop, messages)
        value, bound = beliefs.objective, beliefs.upper_bound
        answer.mu, answer.log_partition, answer.log_partition_is = beliefs.mu, value, "estimate"
        if appearance.is_mixture:
            answer.upper_bound = bound
        if loop.status is not Status.CONVERGED:
            return answer
        if appearance.is_valid and bound - value <= max(GAP, 100 * self.tol) * (1.0 + abs(value)):
            # The two are one number at the optimum; this side of it is the bound.
            answer.log_partition_is = "upper bound"
            answer.log_partition = answer.upper_bound = max(bound, value)
        return answer


class _Sweeps:
    """Sweeps of one run. Messages that stand still have arrived only when the marginals agree as well.

    The marginal of a factor differs from that of its variable by the *relative* change of a message, weighted with the
    variable's belief: a message can stand still to eight digits in a state that it makes improbable, while the
    variable's other neighbours make that state the probable one. So whenever no message changes by more than the
    tolerance the marginals are computed, at the cost of about a sweep, and the residual is the larger of the two. After
    marginals that do not agree, some sweeps pass before the next look; those on a forest are not damped, as nothing can
    oscillate there, and a damped message takes thousands of sweeps to fall to exp(-1000).
    """

    def __init__(
        self, method: MessagePassing, state: Messages, appearance: Appearance, maximise: bool, forest: bool
    ) -> None:
        self.state, self.is_mixture, self.maximise, self.forest = state, appearance.is_mixture, maximise, forest
        self.tol, self.damping, self.schedule = float(method.tol), float(method.damping), method.schedule
        self.beliefs: Beliefs | None = None
        self._disagreement = np.inf
        self._pause, self._next_pause, self._still = 0, 1, np.inf

    def sweep(self) -> float:
        """Sweep once; return what is compared with the tolerance, NaN when the model is infeasible."""
        self.beliefs = None
        # Damping shortens every step; what counts is how far the messages still have to go.
        change = self.state.sweep(self.schedule, self.damping) / (1.0 - self.damping)
        if self.maximise or not change <= self.tol:
            return change
        if self.schedule == "residual":  # which updates nothing that stands still to the last digit
            self.schedule = "forward_backward"
        if self._pause > 0 and change > self._still:
            self._pause -= 1
            return max(change, self._disagreement)
        self.beliefs = self.beliefs_now()
        if self.beliefs is None:
            return np.nan
        self._disagreement = self._measure(self.beliefs)
        self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, 32)
        if self._disagreement > self.tol:
            self._still = 0.5 * change * self.tol / self._disagreement  # messages this much stiller should do
            self.damping = 0.0 if self.forest else self.damping
        return max(change, self._disagreement)

    def sweep_undamped(self) -> float:
        """Sweep once without damping; return the largest change of a message."""
        self.beliefs = None
        return self.state.sweep("forward_backward", 0.0)

    def beliefs_now(self) -> Beliefs | None:
        """Marginals of the messages as they are; None when the model is infeasible."""
        return None if isinstance(self.state, PairwiseMaxMessages) else self.state.beliefs()

    def _measure(self, beliefs: Beliefs) -> float:
        """Largest difference between marginals, or the distance of the bound from the value where that is too large."""
        difference = beliefs.inconsistency if beliefs.inconsistency > ROUNDING else 0.0
        if not self.is_mixture:
            return difference
        gap = (beliefs.upper_bound - beliefs.objective) / (1.0 + abs(beliefs.objective))
        return max(difference, gap) if gap > max(GAP, 100 * self.tol) else difference

    def bound_gap(self) -> float:
        """Distance between the bounds on log Z that the messages of a forest give, relative to the value."""
        self.beliefs = self.beliefs or self.beliefs_now()
        if self.beliefs is None:
            return np.inf
        return (self.beliefs.upper_bound - self.beliefs.lower_bound) / (1.0 + abs(self.beliefs.upper_bound))

    def labelling_error(self) -> float:
        """Bound on how far below the best score the labelling is that is read off the messages of a forest.

        If no message is more than e from its update, none is more than 2 e n_pairs from the right one, as errors of
        those that come in add up; so each variable loses at most 4 e n_pairs where it is labelled.
        """
        if isinstance(self.state, PairwiseMessages):  # of sums
            return np.inf
        state, graph = self.state, self.state.graph
        change, finite = state.distance(), state.messages[state.messages > -np.inf]
        if change <= LAST_DIGITS * max(largest_score(state.theta), float(np.abs(finite).max(initial=0.0))):
            return 0.0
        return 4.0 * graph.n_variables * graph.scope_idx.size * change


def _outcome(loop: Iteration, messages: FloatArray) -> Answer:
    return Answer(
        loop.status,
        residual=loop.residual,
        n_iter=loop.n_iter,
        history={"residual": loop.residuals},
        messages=messages,
    )
