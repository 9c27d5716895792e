"""One fit from start to end: stages, early stopping, checkpoints and progress around an optimiser's iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from threadpoolctl import threadpool_limits

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._files.checkpoint import Checkpoint
from intarsia.learning.minimum import COLUMNS, Minimum, Objective, Search, SummedObjective, largest
from intarsia.learning.optimizer import Optimizer

_KEPT = ("best_point", "best_value", "best_risk", "best_norm", "n_idle", "given_up")


class EarlyStopping:
    """Looks at a search after every iteration: keeps the best point by validation, and ends what gains no more.

    Parameters
    ----------
    objective : function
        The risk of the examples held out, without a ridge.
    patience : int
        Iterations without gain after which the search is ended.

    Attributes
    ----------
    best_point, best_value : array, float
        Weights with the lowest validation risk, and that risk.
    best_risk, best_norm : float
        Risk and gradient there in the search that was looked at.
    given_up : bool
        Whether the last search was ended.
    rows : list of float
        Validation risk of every point that was looked at.
    """

    def __init__(self, objective: Objective, patience: int) -> None:
        self.objective = objective
        self.patience = patience
        self.best_point = np.empty(0)
        self.best_value, self.best_risk, self.best_norm = np.inf, np.inf, np.inf
        self.n_idle, self.given_up = 0, False
        self.rows: list[float] = []

    def begin_stage(self) -> None:
        """Be patient anew, with more data."""
        self.n_idle, self.given_up = 0, False

    def look(self, search: Search) -> None:
        """Judge the present point; the search is told to end when patience is at its end."""
        value = float(self.objective(search.point)[0])
        self.rows.append(value)
        self.n_idle += 1
        if not self.best_point.size or value < self.best_value:  # never true of NaN
            self.best_point, self.best_value = search.point, value if np.isfinite(value) else np.inf
            self.best_risk, self.best_norm = search.value, largest(search.gradient)
            self.n_idle = 0
        if self.n_idle >= self.patience:
            self.given_up = search.stalled = True

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that `restore` needs."""
        return {name: np.asarray(getattr(self, name)) for name in _KEPT} | {"rows": np.array(self.rows)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from where `arrays` were taken."""
        for name in _KEPT:
            setattr(self, name, arrays[name].copy() if arrays[name].ndim else arrays[name].item())
        self.rows = arrays["rows"].tolist()

    def takes_heart(self) -> bool:
        """After `restore`: whether a search that was ended goes on, since there is more patience now."""
        if not self.given_up or self.n_idle >= self.patience:
            return False
        self.given_up = False
        return True


class Incremental(BaseEstimator):  # type: ignore[misc]
    """Stages of a fit: at first few examples and many iterations, then twice the examples and half the iterations.

    Every stage begins where the last one ended, and its examples contain those of the last. All stages cost about the
    same, so many iterations are had for the price of few on all data; the last stage sees all examples.

    Parameters
    ----------
    n_start : int
        Examples in the first stage.
    max_iter : int
        Most iterations in the first stage, whatever the optimiser's own limit.

    References
    ----------
    Domke2013, section 8.4.

    Examples
    --------
    >>> Incremental(n_start=32, max_iter=1000).stages(100)
    [(32, 1000), (64, 500), (100, 250)]
    """

    name: ClassVar[str] = "incremental"

    def __init__(self, *, n_start: int = 32, max_iter: int = 1000) -> None:
        self.n_start = n_start
        self.max_iter = max_iter

    def check_settings(self) -> None:
        """Raise InvalidInputError for settings that cannot be meant."""
        check_number(self.n_start, "Incremental: n_start", low=1, integer=True)
        check_number(self.max_iter, "Incremental: max_iter", low=1, integer=True)

    def stages(self, n_examples: int) -> list[tuple[int, int]]:
        """Number of examples and most iterations of each stage."""
        self.check_settings()
        found = [(min(int(self.n_start), n_examples), int(self.max_iter))]
        while found[-1][0] < n_examples:
            found.append((min(2 * found[-1][0], n_examples), max(1, found[-1][1] // 2)))
        return found


@dataclass(eq=False)
class StagedFit:
    """What a fit consists of; `run` does it, and goes on where the checkpoint's fit was broken off.

    Attributes
    ----------
    optimizer : Optimizer
        How each stage is searched.
    risk : SummedObjective
        Of all training examples.
    stages : list of (int, int)
        Number of examples and most iterations of each stage; the last has all examples.
    order : int array
        A stage takes the first examples in this order.
    random_state : int
        Seed of the optimiser.
    stopping : EarlyStopping, optional
        Judges every iteration on other examples.
    checkpoint : Checkpoint, optional
        Written after every iteration.
    report : function, optional
        Told iteration, risk, gradient norm and share of the work done.
    by_value : bool
        Whether the gradient is that of the risk, so that the lowest point is the best; otherwise the last is.
    """

    optimizer: Optimizer
    risk: SummedObjective
    stages: list[tuple[int, int]]
    order: IntArray
    random_state: int = 0
    stopping: EarlyStopping | None = None
    checkpoint: Checkpoint | None = None
    report: Callable[[int, float, float, float], None] | None = None
    by_value: bool = True
    stage: int = 0
    _past: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, len(COLUMNS) + 1)))
    _start: FloatArray = field(default_factory=lambda: np.empty(0))
    _n_past_iter: int = 0
    _n_past_restarts: int = 0

    def run(self, start: FloatArray) -> Minimum:
        """The result of the last stage, with the history of all of them."""
        # Vectors of weights are too short for the threads of linear algebra, which only get in the way of `n_jobs`, and
        # of each other on a busy machine.
        with threadpool_limits(1, user_api="blas"):
            return self._run(start)

    def _run(self, start: FloatArray) -> Minimum:
        self._start = start
        resume = self._read()
        point = self._start
        found: Minimum | None = None
        while True:
            n_examples, max_iter = self.stages[self.stage]
            part = self.risk if n_examples == len(self.risk) else self.risk.subset(self.order[:n_examples])
            optimizer = clone(self.optimizer).set_params(max_iter=max_iter)
            if self.stopping is not None and resume is None:
                self.stopping.begin_stage()
            try:
                found = optimizer.minimize(
                    part,
                    point,
                    random_state=self.random_state,
                    by_value=self.by_value,
                    resume=resume,
                    watch=self._after_iteration,
                )
            except KeyboardInterrupt:  # before the stage had computed anything
                if found is None:
                    raise
                return self._finish(replace(found, status=Status.INTERRUPTED))
            resume, point = None, found.point
            rows = np.column_stack([*found.history.values(), np.full(len(found.history["risk"]), n_examples)])
            if len(self._past):
                rows[:, 2:4] += self._past[-1, 2:4]  # seconds and evaluations go on
            self._past = np.concatenate([self._past, rows])
            self._n_past_iter += found.n_iter
            self._n_past_restarts += found.n_restarts
            if self.stage == len(self.stages) - 1 or found.status is Status.INTERRUPTED:
                return self._finish(found)
            self.stage += 1

    def _finish(self, found: Minimum) -> Minimum:
        history = dict(zip((*COLUMNS, "n_examples"), self._past.T.copy(), strict=True))
        found = replace(
            found, start=self._start, n_iter=self._n_past_iter, n_restarts=self._n_past_restarts, history=history
        )
        best = self.stopping
        if best is None or not best.rows:
            return found
        history["validation_risk"] = np.array(best.rows)
        found = replace(found, point=best.best_point, value=float(best.best_risk), gradient_norm=best.best_norm)
        if len(self.stages) == 1 or found.status is Status.INTERRUPTED:
            return found
        try:
            value, gradient = self.risk(best.best_point)  # the stage of the best point may have had fewer examples
        except KeyboardInterrupt:
            return replace(found, status=Status.INTERRUPTED)
        return replace(found, value=float(value), gradient_norm=largest(gradient))

    def _after_iteration(self, search: Search) -> None:
        if self.stopping is not None:
            self.stopping.look(search)
        if self.checkpoint is not None:
            self.checkpoint.write(self._arrays(search))
        if self.report is not None:
            work = [n * max_iter for n, max_iter in self.stages]
            done = sum(work[: self.stage]) + self.stages[self.stage][0] * search.n_iter
            risk, norm = search.rows[-1][:2]
            self.report(self._n_past_iter + search.n_iter, risk, norm, done / max(1, sum(work)))

    def _arrays(self, search: Search) -> dict[str, NDArray[Any]]:
        counts = np.array([self.stage, self._n_past_iter, self._n_past_restarts])
        arrays = {"counts": counts, "past": self._past, "start": self._start}
        arrays |= {f"search_{name}": array for name, array in search.arrays().items()}
        if self.stopping is not None:
            arrays |= {f"stopping_{name}": array for name, array in self.stopping.arrays().items()}
        return arrays

    def _read(self) -> dict[str, NDArray[Any]] | None:
        kept = None if self.checkpoint is None else self.checkpoint.read()
        if kept is None:
            return None
        self.stage, self._n_past_iter, self._n_past_restarts = kept["counts"].tolist()
        self._past, self._start = kept["past"], kept["start"]
        search = {name[7:]: array for name, array in kept.items() if name.startswith("search_")}
        if self.stopping is not None:
            self.stopping.restore({name[9:]: array for name, array in kept.items() if name.startswith("stopping_")})
            if self.stopping.takes_heart():
                search["stalled"] = np.array(False)
        return search
