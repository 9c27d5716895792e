"""What belief propagation and tree-reweighted message passing have in common: everything but rho."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from intarsia._validation import FloatArray, check_choice, check_number
from intarsia.inference.general_messages import GeneralMessages
from intarsia.inference.iteration import iterate
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.pairwise_messages import PairwiseMessages, fits_pairwise
from intarsia.inference.result import Status

_SCHEDULES = ("forward_backward", "parallel", "residual")


class MessagePassing(InferenceMethod):
    """Base of the methods that pass messages; subclasses say what rho is and what log Z then means."""

    gives_marginals: ClassVar[bool] = True
    gives_map: ClassVar[bool] = True
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
    def appearance(self, problem: Problem) -> tuple[FloatArray, bool]:
        """rho of every factor, and whether log Z is an upper bound with it once converged."""

    def run(self, problem: Problem) -> Answer:
        """Sweep until converged, then read off marginals and log Z, or a labelling."""
        graph, theta = problem.graph, problem.theta
        rho, bounds_above = self.appearance(problem)
        maximise = problem.task == "map"
        state: GeneralMessages | PairwiseMessages
        if not maximise and self.schedule != "residual" and fits_pairwise(graph, theta, rho):
            state = PairwiseMessages(graph, theta, float(rho[0]), problem.start_messages)
        else:
            state = GeneralMessages(graph, theta, rho, maximise, problem.start_messages)
        loop = iterate(
            lambda: state.sweep(self.schedule, self.damping), self.max_iter, self.tol, problem.clock, problem.report
        )
        if graph.n_factors == 0:
            loop.status, loop.residual = Status.CONVERGED, 0.0
        if loop.status is Status.INFEASIBLE:
            return Answer(Status.INFEASIBLE)
        general = state if isinstance(state, GeneralMessages) else state.as_general()
        answer = Answer(
            loop.status,
            residual=loop.residual,
            n_iter=loop.n_iter,
            history={"residual": loop.residuals},
            messages=general.messages,
        )
        converged = loop.status is Status.CONVERGED
        if maximise:
            answer.assignment = general.decode(self.decode)
            if converged and graph.is_forest:
                answer.upper_bound = float(graph.score(theta, answer.assignment))
            return answer
        answer.mu, answer.log_partition = general.marginals()
        if np.isnan(answer.log_partition):
            return Answer(Status.INFEASIBLE)
        answer.log_partition_is = "estimate"
        if converged and graph.is_forest and (rho == 1.0).all():
            answer.log_partition_is = "exact"
            answer.lower_bound = answer.upper_bound = answer.log_partition
        elif converged and bounds_above:
            answer.log_partition_is = "upper bound"
            answer.upper_bound = answer.log_partition
        return answer
