"""Message passing on any graph, forward with a stack of messages and back; see `_kernels/back_messages.py`."""

from __future__ import annotations

import numpy as np

from intarsia._kernels.back_messages import back_sweep_messages, pull_factor_beliefs, pull_variable_beliefs
from intarsia._validation import FloatArray
from intarsia.gradients.segmented_stack import SegmentedStack
from intarsia.graph import FactorGraph
from intarsia.inference.general_messages import GeneralMessages, sweep_order


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
            pull_factor_beliefs(
                mu, gradient, state.table_start, self.rho, graph.variable_ptr, graph.scope_ptr, graph.scope_idx,
                state.message_ptr, *state._counters, self.total, self.adjoint, self.pulled,
            )  # fmt: skip

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
        graph, state = self.graph, self.state
        state._gather()
        return float(
            back_sweep_messages(
                sweep_order(graph), float(self.damping), state.theta, state.exp_tables, state.exp_ptr,
                state.table_start, self.rho, graph.variable_ptr, graph.scope_ptr, graph.scope_idx,
                graph.factor_of_pair, state.message_ptr, state.messages, before, state.finite,
                state.n_impossible, *state._counters, state._logs, state._weights, *state._rows,
                np.empty_like(state._logs), self.total, self.adjoint, self.pulled,
            )
        )  # fmt: skip

    def gradient(self) -> FloatArray:
        """Gradient in theta of what has come back so far."""
        return self.pulled
