"""The fast path: pairwise graphs with equal state counts, one rho and no hard zeros in tables."""

from __future__ import annotations

import numpy as np

from intarsia._kernels.back_pairwise import (
    back_sweep_binary,
    back_sweep_equal,
    lay_out_gradient,
    start_adjoints,
    sum_tables,
)
from intarsia._validation import FloatArray
from intarsia.gradients.stack_memory import new_stack
from intarsia.graph import FactorGraph
from intarsia.inference.pairwise_messages import PairwiseMessages

# Up to this many states the loops over them are unrolled, at the price of compiling once for each number.
UNROLLED = 16


class PairwiseReversal:
    """Sweeps that can be undone, as in `GeneralReversal`, in the linear domain and by slot."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, damping: float) -> None:
        self.graph = graph
        self.damping = float(damping)
        self.state = PairwiseMessages(graph, theta, float(rho[0]))
        self.stack: FloatArray = np.empty((0, *self.state.messages.shape))
        self.log_partition = np.nan

    def forward(self, n_iter: int) -> bool:
        """Sweep `n_iter` times from uniform messages; False if no state is left somewhere."""
        state = self.state
        self.stack = new_stack((n_iter + 1, *state.messages.shape))
        for n in range(n_iter):
            self.stack[n] = state.messages
            if np.isnan(state.sweep("forward_backward", self.damping)):
                return False
        self.stack[n_iter] = state.messages
        return True

    def sweep(self) -> float:
        """One sweep more, nothing kept; returns the largest change, NaN if no state is left somewhere."""
        return self.state.sweep("forward_backward", self.damping)

    def position(self) -> FloatArray:
        """Where the run stands: the log messages, by pair."""
        return self.state.log_messages()

    def stand_at(self, position: FloatArray) -> None:
        """Take a `position`. If sweeps change nothing there, `back(-1)` undoes one of infinitely many."""
        state = self.state
        state.messages[...] = np.exp(position.reshape(-1, state.k)[state.layout.pair_of_slot])
        state._logs = None
        self.stack = state.messages[None]

    def marginals(self) -> FloatArray | None:
        """The marginals that the messages give; None when the model is infeasible."""
        beliefs = self.state.beliefs()
        if beliefs is None:
            return None
        self.log_partition = beliefs.objective
        return beliefs.mu

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the way back from the gradient in mu."""
        graph, state, layout = self.graph, self.state, self.state.layout
        k, split = state.k, int(graph.variable_ptr[-1])
        self.adjoint = np.zeros_like(state.messages)
        self.outer = np.zeros_like(state.tables)
        self.row_sums = np.empty((len(state.tables), 2, k))
        if k > 2:
            sum_tables(state.tables, self.row_sums)
        self.direct: FloatArray | None = None  # what reaches the tables straight from the factors' marginals
        arrived = _backnorm(mu[:split].reshape(-1, k), gradient[:split].reshape(-1, k))
        if uses_factors:
            nu = _backnorm(mu[split:].reshape(-1, k * k), gradient[split:].reshape(-1, k * k)).reshape(-1, k, k)
            at = np.stack([nu.sum(axis=2), nu.sum(axis=1)], axis=1).reshape(-1, k)  # one row for each pair
            for x in range(k):
                arrived[:, x] += np.bincount(graph.scope_idx, at[:, x], minlength=graph.n_variables)
            self.adjoint -= at[layout.pair_of_slot]
            nu /= state.rho
            self.direct = nu
        self.arrived = arrived[layout.variable_of_rank]
        start_adjoints(layout.slot_ptr, state.rho, self.arrived, self.adjoint)
        if k == 2:  # one number is enough: nothing depends on a message's scale, so the two are opposite
            self.adjoint = self.adjoint[:, 1].copy()

    def back(self, n: int) -> float:
        """Undo sweep n, or -1 for the last; returns the size of the adjoints met."""
        state, layout = self.state, self.state.layout
        undo = back_sweep_binary if state.k == 2 else back_sweep_equal
        after = self.stack[min(n + 1, len(self.stack) - 1)] if n >= 0 else self.stack[-1]
        states = (0,) * state.k if 2 < state.k <= UNROLLED else state._work[0]
        root = -1 if state.rho == 1.0 else state.root
        squares = 0.0
        for forward in (False, True):
            squares += undo(
                forward, layout.slot_ptr, layout.middle, layout.backward, layout.opposite, state.table_of_slot,
                state.tables, state.unary, state.rho, root, self.damping, after, self.stack[n], self.adjoint,
                self.arrived, self.outer, state._work, self.row_sums, states,
            )  # fmt: skip
        return float(np.sqrt(squares))

    def gradient(self) -> FloatArray:
        """Gradient in theta of what has come back so far."""
        graph, state, layout = self.graph, self.state, self.state.layout
        k, split = state.k, int(graph.variable_ptr[-1])
        pulled = np.empty(graph.n_theta)
        pulled[:split].reshape(-1, k)[layout.variable_of_rank] = self.arrived
        tables = pulled[split:].reshape(-1, k, k)
        lay_out_gradient(self.outer, state.tables, state.rho, layout.factor_of_edge, layout.flipped, tables)
        if self.direct is not None:
            tables += self.direct
        return pulled


def _backnorm(mu: FloatArray, gradient: FloatArray) -> FloatArray:
    """Adjoint of the logarithms of what was normalised to mu (Domke2013 section 7); what is impossible has none."""
    safe = np.where(mu > 0.0, gradient, 0.0)
    return mu * (safe - (safe * mu).sum(axis=1, keepdims=True))
