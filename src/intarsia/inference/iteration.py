"""The loop that every iterative method shares: tolerance, time limit, Ctrl-C, history, progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from intarsia._validation import FloatArray
from intarsia.inference.method import Clock
from intarsia.inference.result import Status


@dataclass
class Iteration:
    """How a loop went."""

    status: Status
    n_iter: int
    residual: float
    residuals: FloatArray


def iterate(
    sweep: Callable[[], float],
    max_iter: int,
    tol: float,
    clock: Clock,
    report: Callable[[int, float], None] | None = None,
) -> Iteration:
    """Call `sweep` until the residual it returns is at most `tol`.

    A residual of NaN is the sweep's way to say that no assignment is left: the status is then INFEASIBLE. Ctrl-C
    ends the loop after the current sweep, with status INTERRUPTED and everything reached so far.
    """
    residuals: list[float] = []
    status = Status.MAX_ITER
    try:
        for k in range(int(max_iter)):
            residual = sweep()
            if np.isnan(residual):
                status = Status.INFEASIBLE
                break
            residuals.append(residual)
            if report is not None:
                report(k + 1, residual)
            if residual <= tol:
                status = Status.CONVERGED
                break
            if clock.expired:
                status = Status.TIME_LIMIT
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    last = residuals[-1] if residuals else np.inf
    return Iteration(status, len(residuals), last, np.array(residuals))
