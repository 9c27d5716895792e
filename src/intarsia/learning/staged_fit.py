"""One fit from start to end: its stages, early stopping, checkpoints and progress around the optimiser's iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from intarsia._validation import FloatArray, IntArray
from intarsia.gradients.stack_memory import kept_stacks
from intarsia.inference.result import Status
from intarsia.learning.checkpoint import Checkpoint
from intarsia.learning.early_stopping import EarlyStopping
from intarsia.learning.minimum import COLUMNS, Minimum, SummedObjective
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.search import Search, largest


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
        with kept_stacks(), threadpool_limits(1, user_api="blas"):
            return self._run(start)

    def _run(self, start: FloatArray) -> Minimum:
        self._start = start
        resume = self._read()
        point = self._start
        found: Minimum | None = None
        while True:
            n_examples, max_iter = self.stages[self.stage]
            part = self.risk if n_examples == len(self.risk) else self.risk.subset(self.order[:n_examples])
            optimizer = clone(self.optimizer).set_params(**{self.optimizer.limit_name: max_iter})
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
