"""Runs of inference that can be reversed sweep by sweep, and the choice of the one that fits."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from intarsia._core.error_context import warn_caller
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia._kernels.arguments import FactorAdjoints
from intarsia._kernels.back_messages import back_sweep_messages, pull_factor_beliefs, pull_variable_beliefs
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.free_energy import factor_weights
from intarsia.gradients.mean_field_reversal import MeanFieldReversal
from intarsia.gradients.message_stack import SegmentedStack
from intarsia.gradients.pairwise_reversal import PairwiseReversal
from intarsia.graph import FactorGraph
from intarsia.inference.messages.general_messages import GeneralMessages, sweep_order
from intarsia.inference.messages.mean_field import MeanField
from intarsia.inference.messages.message_passing import MessagePassing
from intarsia.inference.messages.pairwise_messages import fits_pairwise
from intarsia.inference.method import Clock, InferenceMethod, Iteration, iterate


class GeneralReversal:
    """Sweeps that can be undone.

    `forward` runs them and keeps the messages before each; `pull_beliefs` takes in the gradient in the marginals;
    `back` undoes them; `gradient` gives what has come back to theta.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, damping: float) -> None:
        self.graph = graph
        self.rho = rho
        self.damping = damping
        self.state = GeneralMessages(graph, theta, rho, False)
        self.stack: SegmentedStack

    def forward(self, n_iter: int) -> bool:
        """Sweep `n_iter` times from uniform messages; False if no state is left somewhere."""
        self.stack = SegmentedStack(n_iter, self.state.messages.shape)
        return all(self._sweep_onto(part) for part in self.stack.parts())

    def _sweep_onto(self, part: FloatArray) -> bool:
        for before in part[:-1]:
            before[:] = self.state.messages
            if np.isnan(self.sweep()):
                return False
        return True

    def _replay(self, j: int, part: FloatArray) -> None:
        self.state.messages[:] = part[0]
        self._sweep_onto(part)

    def sweep(self) -> float:
        """One sweep more, nothing kept; returns the largest change, NaN if no state is left somewhere."""
        return self.state.sweep("forward_backward", self.damping)

    def position(self) -> FloatArray:
        """Where the run stands: the log messages."""
        return self.state.log_messages().copy()

    def stand_at(self, position: FloatArray) -> None:
        """Take a `position`. If sweeps change nothing there, `back_once` undoes one of infinitely many."""
        self.state.messages[:] = position

    def marginals(self, with_factors: bool = True) -> FloatArray | None:
        """All marginals that the messages give; None when the model is infeasible, which factors may be first to show.

        So those of factors are computed even if nobody asks for them.
        """
        beliefs = self.state.beliefs()
        return None if beliefs is None else beliefs.mu

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the way back from the gradient in mu."""
        graph, state = self.graph, self.state
        self.pulled = graph.zeros()
        self.total = self.pulled[: graph.variable_ptr[-1]]
        self.adjoint = np.zeros(state.messages.size)
        pull_variable_beliefs(mu, gradient, graph.variable_ptr, self.total)
        if uses_factors:
            pull_factor_beliefs(mu, gradient, state.model, state.state, self._adjoints())

    def back(self) -> None:
        """Undo all sweeps of `forward`."""
        for part in self.stack.parts_back(self._replay):
            for before in part[-2::-1]:
                self._undo(before)
        del self.stack

    def back_once(self) -> float:
        """Undo the last sweep, as one of many alike; returns the largest adjoint met."""
        return self._undo(self.state.messages)

    def _undo(self, before: FloatArray) -> float:
        run = self.state
        run._gather()
        state = run.state
        marginal = np.empty_like(state.logs)
        order, damping = sweep_order(self.graph), float(self.damping)
        return float(back_sweep_messages(order, damping, run.model, state, before, marginal, self._adjoints()))

    def _adjoints(self) -> FactorAdjoints:
        return FactorAdjoints(self.total, self.adjoint, self.pulled)

    def gradient(self) -> FloatArray:
        """Gradient in theta of what has come back so far."""
        return self.pulled


class Reversal(Protocol):
    """Sweeps of some inference that can be undone."""

    def forward(self, n_iter: int) -> bool:
        """Sweep from the start, keeping what the way back needs; False if the model is infeasible."""

    def sweep(self) -> float:
        """One sweep more, nothing kept; returns the largest change."""

    def position(self) -> FloatArray:
        """Where the run stands: its messages or marginals."""

    def stand_at(self, position: FloatArray) -> None:
        """Take a position of another run."""

    def marginals(self, with_factors: bool = True) -> FloatArray | None:
        """Marginals now, None when the model is infeasible; those of factors may be 0 where nobody asks for them."""

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the way back."""

    def back(self) -> None:
        """Undo all sweeps of `forward`."""

    def back_once(self) -> float:
        """Undo one of the many sweeps at a fixed point; returns the size of the adjoints met."""

    def gradient(self) -> FloatArray:
        """What has come back to theta."""


def reversal_of(graph: FactorGraph, theta: FloatArray, inference: InferenceMethod) -> Reversal:
    """The fastest way to run this inference forward and back."""
    if isinstance(inference, MeanField):
        return MeanFieldReversal(graph, theta)
    rho = factor_weights(graph, inference)
    damping = float(inference.damping) if isinstance(inference, MessagePassing) else 0.0
    if fits_pairwise(graph, theta, rho):
        return PairwiseReversal(graph, theta, rho, damping)
    return GeneralReversal(graph, theta, rho, damping)


def converge(run: Reversal, inference: InferenceMethod, tol: float) -> Iteration:
    """Sweep until nothing changes by more than `tol`, at most `inference.max_iter` times; warn if that was too few."""
    loop = iterate(run.sweep, int(inference.max_iter), tol, Clock())
    if loop.status is Status.INTERRUPTED:  # half a gradient must not look like one; the learner keeps its weights
        raise KeyboardInterrupt
    if loop.n_iter == 0 and loop.status is Status.MAX_ITER:
        loop.residual = np.inf
    if loop.status is Status.MAX_ITER:
        warn_caller(
            f"{type(inference).__name__} did not converge within {loop.n_iter} sweeps: residual {loop.residual:.2e} "
            f"against tol={tol:g}. The gradient is that of no fixed point; raise max_iter, or use TruncatedGradient.",
            ConvergenceWarning,
        )
    return loop
