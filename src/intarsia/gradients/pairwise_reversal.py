"""The fast path: pairwise graphs with equal state counts, one rho and no hard zeros in tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._kernels.arguments import PairwiseAdjoints
from intarsia._kernels.back_pairwise import (
    back_sweep_binary,
    back_sweep_equal,
    back_sweeps_binary,
    back_sweeps_equal,
    lay_out_gradient,
    start_adjoints,
    sum_tables,
)
from intarsia.gradients.message_stack import SegmentedStack, new_stack
from intarsia.graph import FactorGraph
from intarsia.inference.messages.pairwise_messages import PairwiseMessages


class PairwiseReversal:
    """Sweeps that can be undone, as in `GeneralReversal`, in the linear domain and by slot."""

    def __init__(self, graph: FactorGraph, theta: FloatArray, rho: FloatArray, damping: float) -> None:
        self.graph = graph
        self.damping = float(damping)
        self.state = PairwiseMessages(graph, theta, float(rho[0]))
        self.stack: SegmentedStack

    def forward(self, n_iter: int) -> bool:
        """Sweep `n_iter` times from uniform messages; False if no state is left somewhere."""
        self.stack = SegmentedStack(n_iter, self.state.messages.shape)
        return all(self.state.sweep_onto(part, self.damping) for part in self.stack.parts())

    def _replay(self, j: int, part: FloatArray) -> None:
        self.state.messages[...] = part[0]
        self.state.sweep_onto(part, self.damping)

    def sweep(self) -> float:
        """One sweep more, nothing kept; returns the largest change, NaN if no state is left somewhere."""
        return self.state.sweep("forward_backward", self.damping)

    def position(self) -> FloatArray:
        """Where the run stands: the log messages, by pair."""
        return self.state.log_messages()

    def stand_at(self, position: FloatArray) -> None:
        """Take a `position`. If sweeps change nothing there, `back_once` undoes one of infinitely many."""
        state = self.state
        state.messages[...] = np.exp(position.reshape(-1, state.k)[state.layout.pair_of_slot])
        state._logs = None

    def marginals(self, with_factors: bool = True) -> FloatArray | None:
        """The marginals that the messages give; None when the model is infeasible."""
        if not with_factors:  # tables have no hard zeros here, so no factor is without a state if each variable has one
            return self.state.variable_marginals()
        beliefs = self.state.beliefs()
        return None if beliefs is None else beliefs.mu

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the way back from the gradient in mu."""
        graph, state, layout = self.graph, self.state, self.state.layout
        k, split = state.k, int(graph.variable_ptr[-1])
        state._logs = None  # of use to marginals only
        self.adjoint, self.outer = new_stack(state.messages.shape), new_stack(state.model.tables.shape)
        self.adjoint[:], self.outer[:] = 0.0, 0.0
        self.row_sums = np.empty((0, 2, k))
        if k > 2:
            self.row_sums = new_stack((len(state.model.tables), 2, k))
            sum_tables(state.model.tables, self.row_sums)
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

    def back(self) -> None:
        """Undo all sweeps of `forward`."""
        undo = back_sweeps_binary if self.state.k == 2 else back_sweeps_equal
        for part in self.stack.parts_back(self._replay):
            undo(len(part) - 1, *self._model(), part, *self._adjoints())  # type: ignore[call-arg]
        del self.stack

    def back_once(self) -> float:
        """Undo the last sweep, as one of many alike; returns the size of the adjoints met."""
        undo = back_sweep_binary if self.state.k == 2 else back_sweep_equal
        here, squares = self.state.messages, 0.0
        for forward in (False, True):
            squares += undo(forward, *self._model(), here, here, *self._adjoints())  # type: ignore[call-arg]
        return float(np.sqrt(squares))

    def _model(self) -> tuple[Any, ...]:
        return self.state.model, self.damping

    def _adjoints(self) -> tuple[Any, ...]:
        adjoints = PairwiseAdjoints(self.adjoint, self.arrived, self.outer)
        return adjoints, self.state._work, self.row_sums, self.state.states

    def gradient(self) -> FloatArray:
        """Gradient in theta of what has come back; the last thing to be asked for."""
        self.row_sums = np.empty((0, 0, 0))  # memory would peak here
        graph, state, layout = self.graph, self.state, self.state.layout
        k, split = state.k, int(graph.variable_ptr[-1])
        pulled = np.empty(graph.n_theta)
        pulled[:split].reshape(-1, k)[layout.variable_of_rank] = self.arrived
        tables = pulled[split:].reshape(-1, k, k)
        lay_out_gradient(self.outer, state.model.tables, state.rho, layout.factor_of_edge, layout.flipped, tables)
        if self.direct is not None:
            tables += self.direct
        return pulled


def _backnorm(mu: FloatArray, gradient: FloatArray) -> FloatArray:
    """Adjoint of the logarithms of what was normalised to mu (Domke2013 section 7); what is impossible has none."""
    nu: FloatArray = np.where(mu > 0.0, gradient, 0.0)
    nu -= np.einsum("ij,ij->i", nu, mu)[:, None]
    nu *= mu
    return nu
