"""Runs of inference that can be reversed sweep by sweep, and the choice of the right implementation."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.error_context import warn_caller
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia._kernels.back_messages import back_sweep_messages, pull_factor_beliefs, pull_variable_beliefs
from intarsia._kernels.message_arguments import FactorAdjoints
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
from intarsia.inference.method import InferenceMethod, Iteration, iterate


class GeneralReversal:
    """Sweeps of belief propagation on any graph that can be reversed.

    `forward` runs the sweeps and stores the messages before each; `pull_beliefs` starts the backward pass from the
    gradient in the marginals; `back` reverses the sweeps; `gradient` returns the gradient in theta.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, damping: float) -> None:
        self.graph = graph
        self.rho = rho
        self.damping = damping
        self.state = GeneralMessages(graph, theta, rho, False)
        self.stack: SegmentedStack

    def forward(self, n_iter: int, max_bytes: int | None = None) -> bool:
        """Run `n_iter` sweeps from uniform messages; return False if some variable has no possible state."""
        self.stack = SegmentedStack(n_iter, self.state.messages.shape, max_bytes)
        return all(self._sweep_onto(segment) for segment in self.stack.segments())

    def _sweep_onto(self, segment: FloatArray) -> bool:
        """Run the sweeps of a segment and store the messages before each; return False if infeasible."""
        for before in segment[:-1]:
            before[:] = self.state.messages
            if np.isnan(self.sweep()):
                return False
        return True

    def _replay(self, j: int, segment: FloatArray) -> None:
        """Run the sweeps of a segment again from its first row."""
        self.state.messages[:] = segment[0]
        self._sweep_onto(segment)

    def sweep(self) -> float:
        """Run one further sweep without storing it; return the largest change, NaN if infeasible."""
        return self.state.sweep("forward_backward", self.damping)

    def position(self) -> FloatArray:
        """Return the current log messages."""
        return self.state.log_messages().copy()

    def stand_at(self, position: FloatArray) -> None:
        """Set the log messages. At a fixed point, `back_one_sweep` reverses one of infinitely many equal sweeps."""
        self.state.messages[:] = position

    def marginals(self, with_factors: bool = True) -> FloatArray | None:
        """Return all marginals under the current messages; None if the model is infeasible.

        The marginals of factors are always computed, since infeasibility may show only there.
        """
        beliefs = self.state.beliefs()
        return None if beliefs is None else beliefs.mu

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the backward pass from the gradient in mu."""
        graph, state = self.graph, self.state
        self.pulled = graph.zeros()
        self.total = self.pulled[: graph.variable_ptr[-1]]
        self.adjoint = np.zeros(state.messages.size)
        pull_variable_beliefs(mu, gradient, graph.variable_ptr, self.total)
        if uses_factors:
            pull_factor_beliefs(mu, gradient, state.model, state.state, self._adjoints())

    def back(self) -> None:
        """Reverse all sweeps of `forward`."""
        for segment in self.stack.segments_reversed(self._replay):
            for before in segment[-2::-1]:
                self._undo(before)
        del self.stack

    def back_one_sweep(self) -> float:
        """Reverse the last sweep, as one of many equal ones; return the largest adjoint."""
        return self._undo(self.state.messages)

    def _undo(self, before: FloatArray) -> float:
        """Reverse the sweep that started from the messages `before`; return the largest adjoint."""
        messages = self.state
        messages._gather()
        state = messages.state
        marginal = np.empty_like(state.logs)
        order, damping = sweep_order(self.graph), float(self.damping)
        return float(back_sweep_messages(order, damping, messages.model, state, before, marginal, self._adjoints()))

    def _adjoints(self) -> FactorAdjoints:
        """Return the arrays in which the kernels accumulate gradients."""
        return FactorAdjoints(self.total, self.adjoint, self.pulled)

    def gradient(self) -> FloatArray:
        """Return the gradient in theta of the reversed sweeps."""
        return self.pulled


class Reversal(Protocol):
    """Interface of runs of inference whose sweeps can be reversed."""

    def forward(self, n_iter: int, max_bytes: int | None = None) -> bool:
        """Run sweeps from the start and store what the backward pass needs; return False if infeasible."""

    def sweep(self) -> float:
        """Run one further sweep without storing it; return the largest change."""

    def position(self) -> FloatArray:
        """Return the current messages or marginals."""

    def stand_at(self, position: FloatArray) -> None:
        """Set the messages or marginals to a position of another run."""

    def marginals(self, with_factors: bool = True) -> FloatArray | None:
        """Return the current marginals, None if infeasible; those of factors may be 0 if `with_factors` is False."""

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the backward pass from the gradient in mu."""

    def back(self) -> None:
        """Reverse all sweeps of `forward`."""

    def back_one_sweep(self) -> float:
        """Reverse one of the many equal sweeps at a fixed point; return the size of the adjoints."""

    def gradient(self) -> FloatArray:
        """Return the gradient in theta."""


def reversal_of(graph: FactorGraph, theta: FloatArray, inference: InferenceMethod) -> Reversal:
    """Return the fastest implementation of this inference that can be reversed."""
    if isinstance(inference, MeanField):
        return MeanFieldReversal(graph, theta)
    rho = factor_weights(graph, inference)
    damping = float(inference.damping) if isinstance(inference, MessagePassing) else 0.0
    if fits_pairwise(graph, theta, rho):
        return PairwiseReversal(graph, theta, rho, damping)
    return GeneralReversal(graph, theta, rho, damping)


def converge(run: Reversal, inference: InferenceMethod, tol: float) -> Iteration:
    """Sweep until nothing changes by more than `tol`, at most `inference.max_iter` times; warn if that is too few."""
    loop = iterate(run.sweep, int(inference.max_iter), tol, Clock())
    if loop.status is Status.INTERRUPTED:  # an incomplete gradient must not be used
        raise KeyboardInterrupt
    if loop.n_iter == 0 and loop.status is Status.MAX_ITER:
        loop.residual = np.inf
    if loop.status is Status.MAX_ITER:
        warn_caller(
            f"{type(inference).__name__} did not converge within {loop.n_iter} sweeps: residual {loop.residual:.2e} "
            f"against tol={tol:g}. The gradient is not that of a fixed point; raise max_iter or use TruncatedGradient.",
            ConvergenceWarning,
        )
    return loop
