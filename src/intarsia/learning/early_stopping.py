"""The weights that do best on examples held out, and when to give up hoping for better ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia.learning.minimum import Objective
from intarsia.learning.search import Search, largest

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
