"""ADMM on a large block, whose rows are divided among threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels.hinge_admm import advance_rows, advance_variables, look_ahead
from intarsia._kernels.hinge_checks import measure_rows, polish_block
from intarsia.softlogic.admm.plan import AdmmPlan
from intarsia.softlogic.admm.state import AdmmState

R = TypeVar("R")


class LargeBlock:
    """A block whose rows and variables are divided among threads; each thread sums the forces of its rows.

    The kernels release the interpreter lock, so plain threads suffice; they synchronize three times per iteration. Use
    it in a `with` block.

    Attributes
    ----------
    number : int
        Number of the block in the plan.
    force : float array
        Sum of the forces of the multipliers on each variable, from `measure`.
    """

    def __init__(self, plan: AdmmPlan, number: int, n_threads: int) -> None:
        self.number = number
        self._plan, self._n = plan, n_threads
        starts = plan.ptr[plan.row_start[number] : plan.row_start[number + 1] + 1].astype(np.int64)
        bounds = np.linspace(starts[0], starts[-1], n_threads + 1)
        self._rows: IntArray = plan.row_start[number] + np.searchsorted(starts, bounds)
        first, last = plan.variable_start[number : number + 2]
        self._variables: IntArray = np.linspace(first, last, n_threads + 1).astype(np.int64)
        self._forces = np.empty((n_threads, plan.variables.size))
        self._pool = ThreadPoolExecutor(n_threads)

    def __enter__(self) -> LargeBlock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    @property
    def force(self) -> FloatArray:
        """Sum of the forces over the threads, from the last `measure`."""
        return self._forces[0]

    def advance(
        self,
        state: AdmmState,
        rows: tuple[Any, ...],
        anchor: tuple[Any, ...],
        alpha: float,
        n_since_restart: int,
        n_iter: int,
    ) -> float:
        """Run iterations like `advance_block` of `intarsia._kernels.hinge_admm`, with another order of summation."""
        z, base, y, ahead, change = state.arrays
        v0, v1 = self._variables[0], self._variables[-1]
        inverse = 1.0 / float(state.step[self.number])
        barrier = Barrier(self._n)

        def advance_thread(p: int) -> float:
            """Run the iterations of thread p; return its last change."""
            force, change_of_z = self._forces[p], 0.0
            try:
                for k in range(n_iter):
                    pull = 0.0 if n_since_restart < 0 else 1.0 / (n_since_restart + k + 2.0)
                    look_ahead(self._variables[p], self._variables[p + 1], z, base, ahead)
                    force[v0:v1] = 0.0
                    barrier.wait()
                    advance_rows(
                        self._rows[p], self._rows[p + 1], rows, y, anchor[1], ahead, change, force, inverse, alpha,
                        pull, k == n_iter - 1,
                    )  # fmt: skip
                    barrier.wait()
                    change_of_z = advance_variables(
                        self._variables[p], self._variables[p + 1], self._forces, self._plan.degree, z, base, anchor[0],
                        inverse, alpha, pull,
                    )  # fmt: skip
                    barrier.wait()
            except BaseException:
                barrier.abort()
                raise
            return change_of_z

        return sum(self._in_threads(advance_thread))

    def measure(self, state: AdmmState, rows: tuple[Any, ...], x: FloatArray, n_sweeps: int) -> tuple[float, ...]:
        """Project z onto the constraints into x, then measure it like `measure_rows` of the kernel `hinge_checks`."""
        plan = self._plan
        z, _, y, ahead, change = state.arrays
        v0, v1 = self._variables[0], self._variables[-1]
        c0, c1 = plan.constraint_start[self.number : self.number + 2]
        inverse = 1.0 / float(state.step[self.number])
        x[v0:v1] = z[v0:v1]
        polish_block(c0, c1, plan.constraints, rows, x, n_sweeps)

        def measure_thread(p: int) -> tuple[float, ...]:
            """Measure the rows of thread p."""
            force = self._forces[p]
            force[v0:v1] = 0.0
            return measure_rows(self._rows[p], self._rows[p + 1], rows, z, x, ahead, change, y, inverse, force)

        columns = np.array(self._in_threads(measure_thread)).T
        for force in self._forces[1:]:
            self._forces[0, v0:v1] += force[v0:v1]
        distance, objective, _, penalty, dual, size, gap, _ = (float(column.sum()) for column in columns)
        return distance, objective, float(columns[2].max()), penalty, dual, size, gap, float(columns[7].max())

    def _in_threads(self, function: Callable[[int], R]) -> list[R]:
        """Call a function with the number of each thread, in all threads."""
        return list(self._pool.map(function, range(self._n)))
