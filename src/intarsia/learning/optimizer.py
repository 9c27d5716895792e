"""What every optimiser is: settings, how one iteration goes, and the loop over iterations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.exceptions import ConvergenceWarning, NotSupportedError
from intarsia.learning.minimum import Minimum, Objective, Search
from intarsia.losses import Loss


class Optimizer(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the optimisers: settings, and how one iteration goes; the loop over them is here."""

    name: ClassVar[str]
    """Name in the registry."""
    takes_batches: ClassVar[bool] = False
    """Whether it can learn from data that come bit by bit, see `epoch`."""
    compares_values: ClassVar[bool] = True
    """Whether it cannot do without values that belong to the gradient, as a line search cannot."""
    max_iter: int
    tol: float

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for settings that cannot be meant."""

    @abstractmethod
    def advance(self, search: Search) -> None:
        """Make one iteration; set `search.stalled` if nothing helps any more."""

    def check_fits(self, loss: Loss) -> None:
        """Raise NotSupportedError, naming the optimisers that fit, for a loss that cannot be minimised this way."""
        if self.compares_values and not loss.gradient_is_of_value:
            raise NotSupportedError(
                f"{type(self).__name__} compares values along a line, but the gradient of {type(loss).__name__} is not "
                f"that of its value. These optimisers fit: {_named(lambda one: not one.compares_values)}."
            )

    def epoch(
        self,
        objective: Objective,
        point: FloatArray,
        memory: Mapping[str, NDArray[Any]],
        random_state: int,
        after: Callable[[FloatArray], FloatArray] | None = None,
    ) -> tuple[FloatArray, dict[str, NDArray[Any]], float]:
        """One pass over the data, for optimisers with `takes_batches`: new point, new memory, mean value on the way.

        `after` is called with the point after every step, and gives the one to go on from.
        """
        raise NotSupportedError(
            f"{type(self).__name__} needs all data at once. These learn step by step: "
            f"{_named(lambda one: one.takes_batches)}."
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
        """Lowest point found from `start`.

        Parameters
        ----------
        objective : function
            From a point to value and gradient.
        start : float array
            Where to begin; not changed.
        random_state : int
            Seed of optimisers that draw batches.
        by_value : bool
            Whether the lowest point is the best; False, for a gradient that is not that of the value: the last is.
        resume : dict of arrays, optional
            `Search.arrays()` of an earlier search, which goes on as if it had not been broken off.
        watch : function, optional
            Called with the `Search` at the start and after every iteration; ends it by setting `stalled`.

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
            if not search.rows:  # nothing was reached that could be kept
                raise
            status = Status.INTERRUPTED
        return search.minimum(status)

    def settled(self, search: Search) -> bool:
        """Whether more than the gradient says that the search is done; optimisers that know the curvature ask it."""
        return True

    def _status(self, search: Search) -> Status | None:
        if search.best_norm <= self.tol and (search.stalled or self.settled(search)):
            return Status.CONVERGED
        if search.stalled:
            return Status.STALLED
        return Status.MAX_ITER if search.n_iter >= self.max_iter else None


def warn_unless_converged(found: Minimum, optimizer: Optimizer, limit: str, stacklevel: int = 3) -> None:
    """Warn of a search that ended before its tolerance; `limit` names the setting that bounds its iterations."""
    if found.status not in (Status.MAX_ITER, Status.STALLED):
        return
    remedy = f"Raise {limit}"
    if found.status is Status.STALLED:
        remedy = "No step lowers the risk any more. Scale the features to about 1"
    curvature = ""
    if np.isfinite(found.predicted_decrease):
        curvature = f" and a predicted relative decrease of {found.predicted_decrease:.2e}"
    warn_caller(
        f"{found.status.name} after {found.n_iter} iterations with a gradient of {found.gradient_norm:.2e}"
        f"{curvature} against tol={optimizer.tol:g}. {remedy}, or raise tol of the optimizer.",
        ConvergenceWarning,
    )


def _named(able: Callable[[type[Optimizer]], bool]) -> str:
    """Classes of the optimisers that are able, for messages."""
    from intarsia.learning.registry import OPTIMIZERS

    return ", ".join(one.__name__ for one in map(OPTIMIZERS.get, OPTIMIZERS.names) if able(one))
