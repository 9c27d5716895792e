"""L-BFGS that begins anew where a search direction is bad, and always gives back the best point it met."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from intarsia._validation import FloatArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.inference.result import Status
from intarsia.learning.optimizer import Minimum, Objective, Optimizer

# A run that gains a smaller share than this has nothing more to give, and is not begun anew.
LEAST_GAIN = 1e-9


class LBFGS(Optimizer):
    """Minimum of a smooth function by L-BFGS (SciPy), begun anew from the best point on a bad search direction.

    Choose it when all data fit in one evaluation, which is the rule here. The function need not be convex. Ctrl-C ends
    the search and keeps the best point.

    Parameters
    ----------
    max_iter : int
        Most iterations, over all restarts; each costs little more than one evaluation.
    tol : float
        Converged when no entry of the gradient is larger.
    memory : int
        Pairs of steps and changes of gradient that shape the direction.

    References
    ----------
    Domke2013, section 8.4, for the restarts.

    Examples
    --------
    >>> import numpy as np
    >>> found = LBFGS().minimize(lambda x: (float(x @ x), 2.0 * x), np.array([3.0, 4.0]))
    >>> found.status.name, float(found.history["risk"][0])
    ('CONVERGED', 25.0)
    """

    name: ClassVar[str] = "lbfgs"

    def __init__(self, *, max_iter: int = 1000, tol: float = 1e-5, memory: int = 10) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        check_number(self.max_iter, "LBFGS: max_iter", low=0, integer=True)
        check_number(self.tol, "LBFGS: tol", low=0.0)
        check_number(self.memory, "LBFGS: memory", low=1, integer=True)

    def minimize(self, objective: Objective, start: FloatArray) -> Minimum:
        """Lowest point found from `start`.

        Raises
        ------
        InvalidInputError
            If the value at the start is not finite.
        """
        self.check_settings()
        search = _Search(objective, np.array(start, dtype=np.float64))
        n_restarts = 0
        try:
            search.begin()
            status = self._state_of(search)
            while status is None:
                before, steps = search.best_value, search.n_iter
                self._run(search)
                status = self._state_of(search)
                gained = before - search.best_value > LEAST_GAIN * max(1.0, abs(before))
                if status is None and (not gained or search.n_iter == steps):
                    status = Status.STALLED
                n_restarts += status is None
        except KeyboardInterrupt:
            if search.best_gradient is None:  # nothing was reached that could be kept
                raise
            status = Status.INTERRUPTED
        return search.minimum(status, n_restarts)

    def _state_of(self, search: _Search) -> Status | None:
        if search.best_norm <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if search.n_iter >= self.max_iter else None

    def _run(self, search: _Search) -> None:
        options = {"maxiter": int(self.max_iter) - search.n_iter, "maxfun": 10**9, "maxcor": int(self.memory)}
        minimize(  # type: ignore[call-overload]  # the stubs know no jac=True
            search.evaluate,
            search.best_point.copy(),
            jac=True,
            method="L-BFGS-B",
            callback=search.record,
            options=options | {"gtol": float(self.tol), "ftol": 1e-13},
        )


class _Search:
    """The objective with a memory: the best point, the last one, and the history."""

    def __init__(self, objective: Objective, start: FloatArray) -> None:
        self.objective = objective
        self.best_point = start
        self.best_value = np.inf
        self.best_gradient: FloatArray | None = None
        self.last: tuple[float, float] = (np.inf, np.inf)
        self.n_iter = 0
        self.n_evaluations = 0
        self.clock = time.perf_counter()
        self.rows: list[tuple[float, float, float, int]] = []

    def begin(self) -> None:
        value, _ = self.evaluate(self.best_point)
        if not np.isfinite(value):
            raise InvalidInputError(
                f"LBFGS: the value at the start is {value}. Start where it is finite, such as at weights of 0."
            )
        self._add_row()

    def evaluate(self, point: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.objective(point)
        self.n_evaluations += 1
        self.last = value, _largest(gradient)
        if value < self.best_value and np.isfinite(gradient).all():
            self.best_value, self.best_gradient = float(value), gradient.copy()
            self.best_point = np.array(point)
        return value, gradient

    def record(self, _: FloatArray) -> None:
        self.n_iter += 1
        self._add_row()

    def _add_row(self) -> None:  # SciPy accepts the point that it evaluated last
        self.rows.append((*self.last, time.perf_counter() - self.clock, self.n_evaluations))

    @property
    def best_norm(self) -> float:
        return np.inf if self.best_gradient is None else _largest(self.best_gradient)

    def minimum(self, status: Status, n_restarts: int) -> Minimum:
        columns = np.array(self.rows, dtype=np.float64).reshape(-1, 4).T
        names = ("risk", "gradient_norm", "seconds", "evaluations")
        history = dict(zip(names, columns, strict=True))
        return Minimum(self.best_point, self.best_value, self.best_norm, status, self.n_iter, int(n_restarts), history)


def _largest(gradient: FloatArray) -> float:
    return float(np.abs(gradient).max(initial=0.0))
