"""Reversible sweeps of mean field (coordinate ascent), with a stack of marginals; see `_kernels/back_mean_field.py`."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray, read_only
from intarsia._kernels.back_mean_field import back_sweep_mean_field, fold_factor_gradient, gather_tables
from intarsia._kernels.graph_arguments import GraphArrays
from intarsia._kernels.mean_field import complete_mean_field, sweep_mean_field, sweep_mean_field_pairwise
from intarsia.exceptions import NotSupportedError
from intarsia.gradients.message_stack import SegmentedStack, new_stack
from intarsia.graph import FactorGraph

# Number of sweeps whose adjoints are added to the tables together: one at a time reads each table too often, all at
# once uses more arrays than the processor can prefetch.
N_GATHERED = 8


class MeanFieldReversal:
    """Sweeps over all variables in ascending order that can be reversed, as in `GeneralReversal`.

    The start is uniform over the possible states of each variable. Every variable is updated in every sweep, while
    `MeanField` skips those that hardly change.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray) -> None:
        self.graph, self.theta = graph, read_only(theta)
        self.split = split = int(graph.variable_ptr[-1])
        possible = np.isfinite(theta[:split]).astype(float)
        totals = np.add.reduceat(possible, graph.variable_ptr[:-1])
        self.mu = possible / np.repeat(totals, graph.n_states)
        self.stack: SegmentedStack
        self._arrays = GraphArrays.of(graph)
        largest = int(np.diff(graph.table_ptr).max(initial=1)) if graph.max_scope > 2 else 1
        self._left, self._right = np.empty(largest), np.empty(largest)
        self._digits = np.empty(max(graph.max_scope, 1), np.int64)
        self._field = np.empty(int(graph.n_states.max(initial=1)))
        self._hard = not bool(np.isfinite(theta[split:]).all())
        self._pairwise = graph.max_scope == 2 and not self._hard
        self._active, self._drift = np.ones(graph.n_variables, np.bool_), np.zeros(graph.n_variables)
        self._fields, self._spare = np.empty(split), np.empty(2 * self._field.size)
        self._fields_hold = False  # whether the fields match the current marginals

    def forward(self, n_iter: int, max_bytes: int | None = None) -> bool:
        """Run `n_iter` sweeps; always True, since each variable has a possible state."""
        self.stack = SegmentedStack(n_iter, self.mu.shape, max_bytes)
        # Sweeps update the fields incrementally; fields computed again would differ in the last digit.
        self._stored_fields: list[FloatArray] = []  # at the start of each segment but the first
        for j, segment in enumerate(self.stack.segments()):
            if j > 0 and self._pairwise:
                self._stored_fields.append(self._fields.copy())
            self._sweep_onto(segment)
        return True

    def _sweep_onto(self, segment: FloatArray) -> None:
        """Run the sweeps of a segment and store the marginals before each and after the last."""
        for before in segment[:-1]:
            before[:] = self.mu
            self.sweep()
        segment[-1] = self.mu

    def _replay(self, j: int, segment: FloatArray) -> None:
        """Run the sweeps of a segment again from its first row."""
        self.mu[:] = segment[0]
        self._fields_hold = j > 0
        if self._fields_hold and self._pairwise:
            self._fields[:] = self._stored_fields[j - 1]
        self._sweep_onto(segment)

    def sweep(self) -> float:
        """Run one further sweep without storing it; return the largest change."""
        self._active[:] = True
        if self._pairwise:  # with a tolerance below 0 every variable is updated
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
        """Return the current marginals of the variables."""
        return self.mu.copy()

    def stand_at(self, position: FloatArray) -> None:
        """Set the marginals. At a fixed point, `back_one_sweep` then reverses one of infinitely many equal sweeps."""
        self.mu = position.copy()
        self._fields_hold = False

    def marginals(self, with_factors: bool = True) -> FloatArray:
        """Return the marginals of variables, and their products for factors."""
        mu = np.zeros(self.graph.n_theta)
        mu[: self.split] = self.mu
        if not with_factors and not self._hard:
            return mu
        value = float(complete_mean_field(self.theta, mu, True, self._left, self._right, self._arrays))
        if value == -np.inf:
            raise NotSupportedError(
                "Mean field assigns probability to an impossible joint state, so that it cannot be differentiated with "
                "these hard zeros in tables. Use TreeReweighted or BeliefPropagation, or finite scores instead of -inf."
            )
        return mu

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the backward pass from the gradient in mu."""
        graph = self.graph
        self.pulled = graph.zeros()
        self.fields = np.zeros((1, self.split))  # adjoints of the fields from `back_one_sweep`
        self.adjoint = np.where(self.mu > 0.0, gradient[: self.split], 0.0)
        if uses_factors:
            fold_factor_gradient(
                gradient, self.mu, self.adjoint, self._digits, graph.variable_ptr, graph.scope_ptr, graph.scope_idx,
                graph.table_ptr,
            )  # fmt: skip

    def back(self) -> None:
        """Reverse all sweeps of `forward`."""
        fields = new_stack((min(N_GATHERED, max(self.stack.lengths)), self.split))
        for segment in self.stack.segments_reversed(self._replay):
            for end in range(len(segment) - 1, 0, -N_GATHERED):
                start = max(end - N_GATHERED, 0)
                fields[:] = 0.0
                for n in range(end - 1, start - 1, -1):
                    self._undo(segment[n], fields[n - start])
                self._gather(segment[start : end + 1], fields[: end - start])
        del self.stack

    def back_one_sweep(self) -> float:
        """Reverse the last sweep, as one of many equal ones; return the largest adjoint."""
        return self._undo(self.mu, self.fields[0])

    def _undo(self, before: FloatArray, fields: FloatArray) -> float:
        """Reverse the sweep that started from the marginals `before`; return the largest adjoint."""
        return float(
            back_sweep_mean_field(
                self._hard, self.theta, self.mu, before, self.adjoint, self.pulled, fields, self._field, self._digits,
                self._arrays,
            )
        )  # fmt: skip

    def gradient(self) -> FloatArray:
        """Return the gradient in theta of the reversed sweeps."""
        if self.fields.any():
            self._gather(self.mu[None], self.fields)
            self.fields[:] = 0.0
        return self.pulled

    def _gather(self, stack: FloatArray, fields: FloatArray) -> None:
        """Add the adjoints of the fields to the gradient of variables and pairwise tables."""
        graph = self.graph
        for row in fields[::-1]:  # in this order for any division into segments, so that results are identical
            self.pulled[: self.split] += row
        if not self._hard:
            gather_tables(
                stack, fields, self.pulled, graph.variable_ptr, graph.scope_ptr, graph.scope_idx, graph.table_ptr
            )
