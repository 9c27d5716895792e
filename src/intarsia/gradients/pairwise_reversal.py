"""Reversible sweeps, fast path: pairwise graphs with equal state counts, one rho and no hard zeros in tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._kernels.back_pairwise import (
    back_sweep_binary,
    back_sweep_equal,
    back_sweeps_binary,
    back_sweeps_equal,
    lay_out_gradient,
    start_adjoints,
    sum_tables,
)
from intarsia._kernels.message_arguments import PairwiseAdjoints
from intarsia.gradients.message_stack import SegmentedStack, new_stack
from intarsia.graph import FactorGraph
from intarsia.inference.messages.pairwise_messages import PairwiseMessages


class PairwiseReversal:
    """Sweeps that can be reversed, as in `GeneralReversal`, in the linear domain and ordered by slot."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, damping: float) -> None:
        self.graph = graph
        self.damping = float(damping)
        self.state = PairwiseMessages(graph, theta, float(rho[0]))
        self.stack: SegmentedStack

    def forward(self, n_iter: int, max_bytes: int | None = None) -> bool:
        """Run `n_iter` sweeps from uniform messages; return False if some variable has no possible state."""
        self.stack = SegmentedStack(n_iter, self.state.messages.shape, max_bytes)
        return all(self.state.sweep_onto(segment, self.damping) for segment in self.stack.segments())

    def _replay(self, j: int, segment: FloatArray) -> None:
        """Run the sweeps of a segment again from its first row."""
        self.state.messages[...] = segment[0]
        self.state.sweep_onto(segment, self.damping)

    def sweep(self) -> float:
        """Run one further sweep without storing it; return the largest change, NaN if infeasible."""
        return self.state.sweep("forward_backward", self.damping)

    def position(self) -> FloatArray:
        """Return the current log messages, by pair."""
        return self.state.log_messages()

    def stand_at(self, position: FloatArray) -> None:
        """Set the log messages. At a fixed point, `back_one_sweep` reverses one of infinitely many equal sweeps."""
        state = self.state
        state.messages[...] = np.exp(position.reshape(-1, state.k)[state.layout.pair_of_slot])
        state._logs = None

    def marginals(self, with_factors: bool = True) -> FloatArray | None:
        """Return the marginals under the current messages; None if the model is infeasible."""
        if not with_factors:  # without hard zeros in tables, every factor has a possible state if each variable has one
            return self.state.variable_marginals()
        beliefs = self.state.beliefs()
        return None if beliefs is None else beliefs.mu

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the backward pass from the gradient in mu."""
        graph, state, layout = self.graph, self.state, self.state.layout
        k, split = state.k, int(graph.variable_ptr[-1])
        state._logs = None  # only used for marginals
        self.adjoint, self.outer = new_stack(state.messages.shape), new_stack(state.model.tables.shape)
        self.adjoint[:], self.outer[:] = 0.0, 0.0
        self.row_sums = np.empty((0, 2, k))
        if k > 2:
            self.row_sums = new_stack((len(state.model.tables), 2, k))
            sum_tables(state.model.tables, self.row_sums)
        self.direct: FloatArray | None = None  # gradient in the tables directly from the marginals of factors
        by_variable = _backnorm(mu[:split].reshape(-1, k), gradient[:split].reshape(-1, k))
        if uses_factors:
            nu = _backnorm(mu[split:].reshape(-1, k * k), gradient[split:].reshape(-1, k * k)).reshape(-1, k, k)
            by_pair = np.stack([nu.sum(axis=2), nu.sum(axis=1)], axis=1).reshape(-1, k)  # one row per pair
            for x in range(k):
                by_variable[:, x] += np.bincount(graph.scope_idx, by_pair[:, x], minlength=graph.n_variables)
            self.adjoint -= by_pair[layout.pair_of_slot]
            nu /= state.rho
            self.direct = nu
        self.arrived = by_variable[layout.variable_of_rank]
        start_adjoints(layout.slot_ptr, state.rho, self.arrived, self.adjoint)
        if k == 2:  # one number suffices: the scale of a message has no effect, so the two are opposite
            self.adjoint = self.adjoint[:, 1].copy()

    def back(self) -> None:
        """Reverse all sweeps of `forward`."""
        undo = back_sweeps_binary if self.state.k == 2 else back_sweeps_equal
        for segment in self.stack.segments_reversed(self._replay):
            undo(len(segment) - 1, *self._model(), segment, *self._adjoints())  # type: ignore[call-arg]
        del self.stack

    def back_one_sweep(self) -> float:
        """Reverse the last sweep, as one of many equal ones; return the size of the adjoints."""
        undo = back_sweep_binary if self.state.k == 2 else back_sweep_equal
        messages, squares = self.state.messages, 0.0
        for forward in (False, True):
            squares += undo(forward, *self._model(), messages, messages, *self._adjoints())  # type: ignore[call-arg]
        return float(np.sqrt(squares))

    def _model(self) -> tuple[Any, ...]:
        """Return the arguments of the kernels that describe the model."""
        return self.state.model, self.damping

    def _adjoints(self) -> tuple[Any, ...]:
        """Return the arguments of the kernels that hold adjoints and scratch memory."""
        adjoints = PairwiseAdjoints(self.adjoint, self.arrived, self.outer)
        return adjoints, self.state._work, self.row_sums, self.state.states

    def gradient(self) -> FloatArray:
        """Return the gradient in theta; releases memory, so that it must be the last call."""
        self.row_sums = np.empty((0, 0, 0))  # released first, since memory use peaks here
        graph, state, layout = self.graph, self.state, self.state.layout
        k, split = state.k, int(graph.variable_ptr[-1])
        gradient = np.empty(graph.n_theta)
        gradient[:split].reshape(-1, k)[layout.variable_of_rank] = self.arrived
        tables = gradient[split:].reshape(-1, k, k)
        lay_out_gradient(self.outer, state.model.tables, state.rho, layout.factor_of_edge, layout.flipped, tables)
        if self.direct is not None:
            tables += self.direct
        return gradient


def _backnorm(mu: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the adjoint of the logarithms that were normalized to mu (Domke2013 section 7); 0 at impossible states."""
    nu: FloatArray = np.where(mu > 0.0, gradient, 0.0)
    nu -= np.einsum("ij,ij->i", nu, mu)[:, None]
    nu *= mu
    return nu
