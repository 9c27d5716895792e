"""One fit from start to end: stages, early stopping, checkpoints and progress around an optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from intarsia._core.settings import Settings, clone
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._files.checkpoint import Checkpoint
from intarsia.learning.minimum import COLUMNS, Minimum, Objective, Search, SummedObjective, largest
from intarsia.learning.optimizer import Optimizer

_STORED_FIELDS = ("best_point", "best_value", "best_risk", "best_norm", "n_idle", "given_up")


class EarlyStopping:
    """Early stopping: stores the point with the lowest validation risk, and ends a search that gains nothing more.

    Parameters
    ----------
    objective : function
        Risk of the held-out examples, without regularization.
    patience : int
        Number of iterations without a lower validation risk after which the search ends.

    Attributes
    ----------
    best_point, best_value : array, float
        Weights with the lowest validation risk, and that risk.
    best_risk, best_norm : float
        Training risk and gradient norm at these weights.
    given_up : bool
        Whether the last search was ended for lack of progress.
    rows : list of float
        Validation risk of every point evaluated.
    """

    def __init__(self, objective: Objective, patience: int) -> None:
        self.objective = objective
        self.patience = patience
        self.best_point = np.empty(0)
        self.best_value, self.best_risk, self.best_norm = np.inf, np.inf, np.inf
        self.n_idle, self.given_up = 0, False
        self.rows: list[float] = []

    def begin_stage(self) -> None:
        """Reset the patience for a new stage with more data."""
        self.n_idle, self.given_up = 0, False

    def evaluate(self, search: Search) -> None:
        """Evaluate the current point on the held-out examples; stop the search when patience is exhausted."""
        value = float(self.objective(search.point)[0])
        self.rows.append(value)
        self.n_idle += 1
        if not self.best_point.size or value < self.best_value:  # False for NaN
            self.best_point, self.best_value = search.point, value if np.isfinite(value) else np.inf
            self.best_risk, self.best_norm = search.value, largest(search.gradient)
            self.n_idle = 0
        if self.n_idle >= self.patience:
            self.given_up = search.stalled = True

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays that `restore` needs."""
        return {name: np.asarray(getattr(self, name)) for name in _STORED_FIELDS} | {"rows": np.array(self.rows)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from which `arrays` were saved."""
        for name in _STORED_FIELDS:
            setattr(self, name, arrays[name].copy() if arrays[name].ndim else arrays[name].item())
        self.rows = arrays["rows"].tolist()

    def resumes_with_more_patience(self) -> bool:
        """Return whether a search that was ended continues after `restore`, because `patience` is larger now."""
        if not self.given_up or self.n_idle >= self.patience:
            return False
        self.given_up = False
        return True


class Incremental(Settings):
    """Incremental training schedule: few examples and many iterations first, then twice and half as many.

    Every stage starts where the last one ended, and its examples include those of the last. All stages cost about the
    same, so that many iterations cost as much as few on all data; the last stage uses all examples.

    Parameters
    ----------
    n_start : int
        Number of examples in the first stage.
    max_iter : int
        Maximum number of iterations in the first stage; the limit of the optimizer is ignored.

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
        """Raise InvalidInputError for invalid settings."""
        check_number(self.n_start, "Incremental: n_start", low=1, integer=True)
        check_number(self.max_iter, "Incremental: max_iter", low=1, integer=True)

    def stages(self, n_examples: int) -> list[tuple[int, int]]:
        """Return the number of examples and maximum number of iterations of each stage."""
        self.check_settings()
        stages = [(min(int(self.n_start), n_examples), int(self.max_iter))]
        while stages[-1][0] < n_examples:
            stages.append((min(2 * stages[-1][0], n_examples), max(1, stages[-1][1] // 2)))
        return stages


@dataclass(eq=False)
class StagedFit:
    """A fit in stages; `run` performs it, resuming from the checkpoint if there is one.

    Attributes
    ----------
    optimizer : Optimizer
        Optimizer of each stage.
    risk : SummedObjective
        Risk of all training examples.
    stages : list of (int, int)
        Number of examples and maximum number of iterations of each stage; the last has all examples.
    order : int array
        Order of the examples; a stage uses the first ones.
    random_state : int
        Seed of the optimizer.
    stopping : EarlyStopping, optional
        Evaluates every iteration on held-out examples.
    checkpoint : Checkpoint, optional
        File that is written after every iteration.
    report : function, optional
        Called with iteration, risk, gradient norm and the fraction of the work done.
    by_value : bool
        Whether the gradient is that of the risk, so that the lowest point is the best; if False, the last point is.
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
        """Run all stages; return the result of the last one, with the history of all."""
        # Weight vectors are too short for multi-threaded linear algebra; its threads would only compete with those of
        # `n_jobs`.
        with threadpool_limits(1, user_api="blas"):
            return self._run(start)

    def _run(self, start: FloatArray) -> Minimum:
        """Run the stages that remain."""
        self._start = start
        resume = self._read()
        point = self._start
        result: Minimum | None = None
        while True:
            n_examples, max_iter = self.stages[self.stage]
            stage_risk = self.risk if n_examples == len(self.risk) else self.risk.subset(self.order[:n_examples])
            optimizer = clone(self.optimizer).set_params(max_iter=max_iter)
            if self.stopping is not None and resume is None:
                self.stopping.begin_stage()
            try:
                result = optimizer.minimize(
                    stage_risk,
                    point,
                    random_state=self.random_state,
                    by_value=self.by_value,
                    resume=resume,
                    watch=self._after_iteration,
                )
            except KeyboardInterrupt:  # before the first evaluation of the stage
                if result is None:
                    raise
                return self._finish(replace(result, status=Status.INTERRUPTED))
            resume, point = None, result.point
            rows = np.column_stack([*result.history.values(), np.full(len(result.history["risk"]), n_examples)])
            if len(self._past):
                rows[:, 2:4] += self._past[-1, 2:4]  # seconds and evaluations are cumulative
            self._past = np.concatenate([self._past, rows])
            self._n_past_iter += result.n_iter
            self._n_past_restarts += result.n_restarts
            if self.stage == len(self.stages) - 1 or result.status is Status.INTERRUPTED:
                return self._finish(result)
            self.stage += 1

    def _finish(self, result: Minimum) -> Minimum:
        """Return the result with the history of all stages; with early stopping, of the best validation point."""
        history = dict(zip((*COLUMNS, "n_examples"), self._past.T.copy(), strict=True))
        result = replace(
            result, start=self._start, n_iter=self._n_past_iter, n_restarts=self._n_past_restarts, history=history
        )
        stopping = self.stopping
        if stopping is None or not stopping.rows:
            return result
        history["validation_risk"] = np.array(stopping.rows)
        result = replace(
            result, point=stopping.best_point, value=float(stopping.best_risk), gradient_norm=stopping.best_norm
        )
        if len(self.stages) == 1 or result.status is Status.INTERRUPTED:
            return result
        try:
            value, gradient = self.risk(stopping.best_point)  # the stage of the best point may have had fewer examples
        except KeyboardInterrupt:
            return replace(result, status=Status.INTERRUPTED)
        return replace(result, value=float(value), gradient_norm=largest(gradient))

    def _after_iteration(self, search: Search) -> None:
        """Evaluate early stopping, write the checkpoint and report progress."""
        if self.stopping is not None:
            self.stopping.evaluate(search)
        if self.checkpoint is not None:
            self.checkpoint.write(self._arrays(search))
        if self.report is not None:
            work = [n * max_iter for n, max_iter in self.stages]
            work_done = sum(work[: self.stage]) + self.stages[self.stage][0] * search.n_iter
            risk, norm = search.rows[-1][:2]
            self.report(self._n_past_iter + search.n_iter, risk, norm, work_done / max(1, sum(work)))

    def _arrays(self, search: Search) -> dict[str, NDArray[Any]]:
        """Return all arrays of the checkpoint."""
        counts = np.array([self.stage, self._n_past_iter, self._n_past_restarts])
        arrays = {"counts": counts, "past": self._past, "start": self._start}
        arrays |= {f"search_{name}": array for name, array in search.arrays().items()}
        if self.stopping is not None:
            arrays |= {f"stopping_{name}": array for name, array in self.stopping.arrays().items()}
        return arrays

    def _read(self) -> dict[str, NDArray[Any]] | None:
        """Restore the state from the checkpoint, and return the arrays of its search; None without a checkpoint."""
        arrays = None if self.checkpoint is None else self.checkpoint.read()
        if arrays is None:
            return None
        self.stage, self._n_past_iter, self._n_past_restarts = arrays["counts"].tolist()
        self._past, self._start = arrays["past"], arrays["start"]
        search = {name[7:]: array for name, array in arrays.items() if name.startswith("search_")}
        if self.stopping is not None:
            self.stopping.restore({name[9:]: array for name, array in arrays.items() if name.startswith("stopping_")})
            if self.stopping.resumes_with_more_patience():
                search["stalled"] = np.array(False)
        return search
