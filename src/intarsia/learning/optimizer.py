"""Base class of the optimizers: settings, one iteration, and the loop over iterations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.settings import Settings
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.exceptions import ConvergenceWarning, NotSupportedError
from intarsia.learning.minimum import Minimum, Objective, Search
from intarsia.losses import Loss


class Optimizer(Settings, ABC):
    """Base class of the optimizers: settings and one iteration each; the loop over iterations is implemented here."""

    name: ClassVar[str]
    """Name in the registry."""
    takes_batches: ClassVar[bool] = False
    """Whether it can learn from mini-batches, see `epoch`."""
    compares_values: ClassVar[bool] = True
    """Whether it compares values, as a line search does, so that they must belong to the gradient."""
    max_iter: int
    tol: float

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""

    @abstractmethod
    def advance(self, search: Search) -> None:
        """Make one iteration; set `search.stalled` if no further progress is possible."""

    def check_fits(self, loss: Loss) -> None:
        """Raise NotSupportedError if it cannot minimize this loss; the message lists the optimizers that can."""
        if self.compares_values and not loss.gradient_is_of_value:
            raise NotSupportedError(
                f"{type(self).__name__} compares values along a line, but the gradient of {type(loss).__name__} is not "
                f"that of its value. Use one of: {_class_names(lambda optimizer: not optimizer.compares_values)}."
            )

    def epoch(
        self,
        objective: Objective,
        point: FloatArray,
        memory: Mapping[str, NDArray[Any]],
        random_state: int,
        after: Callable[[FloatArray], FloatArray] | None = None,
    ) -> tuple[FloatArray, dict[str, NDArray[Any]], float]:
        """Make one pass over the data in mini-batches; return the new point, new memory and mean value of the batches.

        Only optimizers with `takes_batches` implement it. `after` is called with the point after every step and returns
        the point to continue from.
        """
        raise NotSupportedError(
            f"{type(self).__name__} needs all data at once. To learn incrementally, use one of: "
            f"{_class_names(lambda optimizer: optimizer.takes_batches)}."
        )

    def minimize(
        self,
        objective: Objective,
        start: FloatArray,
        *,
        random_state: int = 0,
        by_value: bool = True,
        resume: Mapping[str, NDArray[Any]] | None = None,
        watch: Callable[[Search], None] | None = None,
    ) -> Minimum:
        """Minimize the objective, starting from `start`.

        Parameters
        ----------
        objective : function
            Function from a point to value and gradient.
        start : float array
            Starting point; not modified.
        random_state : int
            Seed of optimizers that draw batches.
        by_value : bool
            Whether the point with the lowest value is the result. Pass False for a gradient that is not that of the
            value; then the last point is the result.
        resume : dict of arrays, optional
            `Search.arrays()` of an earlier search, which continues as if it had not been interrupted.
        watch : function, optional
            Called with the `Search` at the start and after every iteration; it can stop the search by setting
            `stalled`.

        Raises
        ------
        InvalidInputError
            If value or gradient at the start are not finite.
        """
        self.check_settings()
        search = Search(objective, start, random_state, by_value)
        try:
            if resume is None:
                with errors_in(type(self).__name__):
                    search.begin()
                if watch is not None:
                    watch(search)
            else:
                search.restore(resume)
            while (status := self._status(search)) is None:
                self.advance(search)
                search.n_iter += 1
                search.add_row()
                if watch is not None:
                    watch(search)
        except KeyboardInterrupt:
            if not search.rows:  # there is no result to return yet
                raise
            status = Status.INTERRUPTED
        return search.minimum(status)

    def confirms_convergence(self, search: Search) -> bool:
        """Return whether criteria other than the gradient agree that the search has converged; True by default."""
        return True

    def _status(self, search: Search) -> Status | None:
        if search.best_norm <= self.tol and (search.stalled or self.confirms_convergence(search)):
            return Status.CONVERGED
        if search.stalled:
            return Status.STALLED
        return Status.MAX_ITER if search.n_iter >= self.max_iter else None


def warn_unless_converged(result: Minimum, optimizer: Optimizer, limit: str, stacklevel: int = 3) -> None:
    """Warn if a search ended before its tolerance; `limit` names the setting that limits its iterations."""
    if result.status not in (Status.MAX_ITER, Status.STALLED):
        return
    remedy = f"Raise {limit}"
    if result.status is Status.STALLED:
        remedy = "No step lowers the risk any further. Scale the features to a standard deviation of about 1"
    curvature = ""
    if np.isfinite(result.predicted_decrease):
        curvature = f" and a predicted relative decrease of {result.predicted_decrease:.2e}"
    warn_caller(
        f"{result.status.name} after {result.n_iter} iterations with a gradient of {result.gradient_norm:.2e}"
        f"{curvature} against tol={optimizer.tol:g}. {remedy}, or raise tol of the optimizer.",
        ConvergenceWarning,
    )


def _class_names(condition: Callable[[type[Optimizer]], bool]) -> str:
    """Return the class names of the registered optimizers that satisfy a condition, for messages."""
    from intarsia.learning.registry import OPTIMIZERS

    return ", ".join(optimizer.__name__ for optimizer in map(OPTIMIZERS.get, OPTIMIZERS.names) if condition(optimizer))
