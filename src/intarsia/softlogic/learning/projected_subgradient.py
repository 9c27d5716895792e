"""Steps of the weights along a subgradient, which all learners of hinge-loss models share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from intarsia._core.registry import Registry
from intarsia._core.validation import FloatArray, check_number


class ProjectedSubgradient(BaseEstimator):  # type: ignore[misc]
    r"""Steps :math:`w_q \leftarrow \max(0, w_q - \eta\, g_q / n_q)` for weights that :math:`n_q` terms share.

    What all methods of Bach2015 use, so that they differ in their subgradients only. The division by n makes one step
    size fit rules of many and of few groundings (Lowd2007). AdaGrad helps where there are thousands of weights; where
    there are few, plain steps, the paper's, were seen to leave the latent variables more freedom.

    Parameters
    ----------
    step_size : float
        :math:`\eta > 0`.
    adagrad : bool
        Whether :math:`g_q / n_q` is divided by the root of the sum of its squares so far (Duchi2011).
    average : bool
        Whether the result is the mean of the weights after each update, or the last.
    max_iter : int
        Most updates of the weights.
    max_admm_iter : int, optional
        No update begins after that many ADMM iterations, of both problems together.
    tol : float
        The search ends (CONVERGED) after ten updates in a row that change no weight by more than this, relative to the
        largest weight where that exceeds 1.
    record_every : int
        Updates between rows of the history.

    Examples
    --------
    >>> both = np.array([True, True])
    >>> steps = ProjectedSubgradient(step_size=0.5, adagrad=False).begin(np.ones(2), np.array([1.0, 4.0]), both)
    >>> steps.move(np.array([4.0, 4.0]))
    array([0. , 0.5])
    """

    def __init__(
        self,
        *,
        step_size: float = 0.5,
        adagrad: bool = False,
        average: bool = True,
        max_iter: int = 300,
        max_admm_iter: int | None = None,
        tol: float = 1e-5,
        record_every: int = 1,
    ) -> None:
        self.step_size = step_size
        self.adagrad = adagrad
        self.average = average
        self.max_iter = max_iter
        self.max_admm_iter = max_admm_iter
        self.tol = tol
        self.record_every = record_every

    def begin(self, start: FloatArray, counts: FloatArray, learned: NDArray[np.bool_]) -> WeightSteps:
        """The steps of one search, from these weights."""
        self.check_settings()
        return WeightSteps(start, counts, np.where(learned, float(self.step_size), 0.0), bool(self.adagrad))

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        here = type(self).__name__
        check_number(self.step_size, f"{here}: step_size", low=0.0, open_low=True, high=np.inf, open_high=True)
        check_number(self.max_iter, f"{here}: max_iter", low=1, integer=True)
        check_number(self.tol, f"{here}: tol", low=0.0)
        check_number(self.record_every, f"{here}: record_every", low=1, integer=True)
        if self.max_admm_iter is not None:
            check_number(self.max_admm_iter, f"{here}: max_admm_iter", low=1, integer=True)


class WeightSteps:
    """Where a search is, and the mean of where it was.

    Attributes
    ----------
    weights : float array (n_weights,)
        At present.
    n_steps : int
        Steps made.
    last_change : float
        Largest change of a weight by the last step, relative to the largest weight where that exceeds 1.
    """

    def __init__(self, start: FloatArray, counts: FloatArray, rate: FloatArray, adagrad: bool) -> None:
        self.weights = start.copy()
        self.n_steps = 0
        self.last_change = np.inf
        self._rate = rate
        self._counts = counts
        self._squares = np.zeros_like(start) if adagrad else None
        self._total = np.zeros_like(start)

    def move(self, gradient: FloatArray) -> FloatArray:
        """One step against the gradient; weights never fall below 0."""
        scaled = gradient / self._counts
        if self._squares is not None:
            self._squares += scaled * scaled
            scaled = scaled / np.sqrt(np.maximum(self._squares, np.finfo(float).tiny))
        moved = np.maximum(self.weights - self._rate * scaled, 0.0)
        scale = max(1.0, float(moved.max(initial=0.0)))
        self.last_change = float(np.abs(moved - self.weights).max(initial=0.0)) / scale
        self.weights = moved
        self._total += moved
        self.n_steps += 1
        return moved

    @property
    def mean(self) -> FloatArray:
        """Mean of the weights after each step; the start, if there was none."""
        return self._total / self.n_steps if self.n_steps else self.weights.copy()


WEIGHT_OPTIMIZERS: Registry[ProjectedSubgradient] = Registry(
    "optimizer", "intarsia.softlogic.learning", {"projected_subgradient": "ProjectedSubgradient"}, ProjectedSubgradient
)
