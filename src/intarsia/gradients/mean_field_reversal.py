"""Coordinate ascent of mean field, forward with a stack of marginals and back; see `_kernels/back_mean_field.py`."""

from __future__ import annotations

import numpy as np

from intarsia._kernels.back_mean_field import back_sweep_mean_field, fold_factor_gradient, gather_tables
from intarsia._kernels.mean_field import complete_mean_field, sweep_mean_field, sweep_mean_field_pairwise
from intarsia._validation import FloatArray, read_only
from intarsia.exceptions import NotSupportedError
from intarsia.gradients.stack_memory import new_stack
from intarsia.graph import FactorGraph
from intarsia.inference.icm import update_arrays


class MeanFieldReversal:
    """Sweeps over all variables in ascending order that can be undone, as in `GeneralReversal`.

    The start is uniform over the possible states of each variable. Every variable is updated in every sweep: none is
    passed over, as `MeanField` does with those that hardly move.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray) -> None:
        self.graph, self.theta = graph, read_only(theta)
        self.split = split = int(graph.variable_ptr[-1])
        possible = np.isfinite(theta[:split]).astype(float)
        totals = np.add.reduceat(possible, graph.variable_ptr[:-1])
        self.mu = possible / np.repeat(totals, graph.n_states)
        self.stack: FloatArray = np.empty((0, split))
        self._arrays = update_arrays(graph)
        largest = int(np.diff(graph.table_ptr).max(initial=1)) if graph.max_scope > 2 else 1
        self._left, self._right = np.empty(largest), np.empty(largest)
        self._digits = np.empty(max(graph.max_scope, 1), np.int64)
        self._field = np.empty(int(graph.n_states.max(initial=1)))
        self._hard = not bool(np.isfinite(theta[split:]).all())
        self._pairwise = graph.max_scope == 2 and not self._hard
        self._active, self._drift = np.ones(graph.n_variables, np.bool_), np.zeros(graph.n_variables)
        self._fields, self._spare = np.empty(split), np.empty(2 * self._field.size)
        self._fields_hold = False  # whether the fields belong to the marginals

    def forward(self, n_iter: int) -> bool:
        """Sweep `n_iter` times; always True, since each variable has a possible state."""
        self.stack = new_stack((n_iter + 1, self.split))
        for n in range(n_iter):
            self.stack[n] = self.mu
            self.sweep()
        self.stack[n_iter] = self.mu
        return True

    def sweep(self) -> float:
        """One sweep more, nothing kept; returns the largest change."""
        self._active[:] = True
        if self._pairwise:  # a slack below 0: every variable moves
            renew, self._fields_hold = not self._fields_hold, True
            return float(
                sweep_mean_field_pairwise(
                    self.theta, self.mu, self._active, self._drift, -1.0, self._fields, self._spare, renew, self._arrays
                )
            )
        return float(
            sweep_mean_field(
                self.theta, self.mu, self._active, self._drift, np.inf, self._field, self._left, self._right,
                self._arrays,
            )
        )  # fmt: skip

    def position(self) -> FloatArray:
        """Where the run stands: the variables' marginals."""
        return self.mu.copy()

    def stand_at(self, position: FloatArray) -> None:
        """Take a `position`. If sweeps change nothing there, `back_once` undoes one of infinitely many."""
        self.mu = position.copy()
        self._fields_hold = False
        self.stack = self.mu[None].copy()

    def marginals(self, with_factors: bool = True) -> FloatArray:
        """Marginals of variables, and their products for factors."""
        mu = np.zeros(self.graph.n_theta)
        mu[: self.split] = self.mu
        if not with_factors and not self._hard:
            return mu
        value = float(complete_mean_field(self.theta, mu, True, self._left, self._right, self._arrays))
        if value == -np.inf:
            raise NotSupportedError(
                "Mean field gives weight to an impossible joint state here: it cannot be differentiated with such hard "
                "zeros in tables. Use TreeReweighted or BeliefPropagation, or large finite scores instead of -inf."
            )
        return mu

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the way back from the gradient in mu."""
        graph = self.graph
        self.pulled = graph.zeros()
        self.fields = np.zeros((max(len(self.stack) - 1, 1), self.split))  # adjoints of the fields, by sweep
        self.adjoint = np.where(self.mu > 0.0, gradient[: self.split], 0.0)
        if uses_factors:
            fold_factor_gradient(
                gradient, self.mu, self.adjoint, self._digits, graph.variable_ptr, graph.scope_ptr, graph.scope_idx,
                graph.table_ptr,
            )  # fmt: skip

    def back(self) -> None:
        """Undo all sweeps of `forward`."""
        for n in range(len(self.stack) - 2, -1, -1):
            self._undo(n)

    def back_once(self) -> float:
        """Undo the last sweep, as one of many alike; returns the largest adjoint met."""
        return self._undo(-1)

    def _undo(self, n: int) -> float:
        graph = self.graph
        return float(
            back_sweep_mean_field(
                self._hard, self.theta, self.mu, self.stack[n], self.adjoint, self.pulled, self.fields[n],
                self._field, self._digits, graph.variable_ptr, *graph.pairs_by_variable, graph.factor_of_pair,
                graph.scope_ptr, graph.scope_idx, graph.table_ptr,
            )
        )  # fmt: skip

    def gradient(self) -> FloatArray:
        """Gradient in theta of what has come back so far."""
        graph = self.graph
        if not self._hard:
            gather_tables(
                self.stack, self.fields, self.pulled, graph.variable_ptr, graph.scope_ptr, graph.scope_idx,
                graph.table_ptr,
            )  # fmt: skip
            self.fields[:] = 0.0
        return self.pulled
