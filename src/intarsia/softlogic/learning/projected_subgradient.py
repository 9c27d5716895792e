"""Projected subgradient method for the weights, used by all learners with inference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, check_number


class ProjectedSubgradient(Settings):
    r"""Projected subgradient method: :math:`w_q \leftarrow \max(0, w_q - \eta\, g_q / n_q)`.

    All methods of Bach2015 use it and differ only in their subgradients. The number :math:`n_q` of terms that share a
    weight makes the same learning rate suitable for rules with many and with few groundings (Lowd2007). AdaGrad helps
    with thousands of weights; with few weights, the plain steps of the paper restrict the latent variables less.

    Parameters
    ----------
    step_size : float
        Learning rate :math:`\eta > 0`.
    adagrad : bool
        Whether to divide :math:`g_q / n_q` by the root of the sum of its squares so far (Duchi2011).
    average : bool
        Whether the result is the mean of the weights over all updates, or the last weights.
    max_iter : int
        Maximum number of updates of the weights.
    max_admm_iter : int, optional
        Limit on the number of ADMM iterations on both problems together; no update begins after it.
    tol : float
        Learning has converged after ten consecutive updates that change no weight by more than this, relative to the
        largest weight if it exceeds 1.
    record_every : int
        Number of updates between rows of the history.

    Examples
    --------
    >>> trainable = np.array([True, True])
    >>> steps = ProjectedSubgradient(step_size=0.5).begin(np.ones(2), np.array([1.0, 4.0]), trainable)
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

    def begin(self, start: FloatArray, counts: FloatArray, trainable: NDArray[np.bool_]) -> WeightSteps:
        """Start the steps from these weights; only the weights in the mask `trainable` change."""
        self.check_settings()
        return WeightSteps(start, counts, np.where(trainable, float(self.step_size), 0.0), bool(self.adagrad))

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        class_name = type(self).__name__
        check_number(self.step_size, f"{class_name}: step_size", low=0.0, open_low=True, high=np.inf, open_high=True)
        check_number(self.max_iter, f"{class_name}: max_iter", low=1, integer=True)
        check_number(self.tol, f"{class_name}: tol", low=0.0)
        check_number(self.record_every, f"{class_name}: record_every", low=1, integer=True)
        if self.max_admm_iter is not None:
            check_number(self.max_admm_iter, f"{class_name}: max_admm_iter", low=1, integer=True)


class WeightSteps:
    """State of the projected subgradient method: current weights and their mean.

    Attributes
    ----------
    weights : float array (n_weights,)
        Current weights.
    n_steps : int
        Number of steps.
    last_change : float
        Largest change of a weight in the last step, relative to the largest weight if it exceeds 1.
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
        """Make a step against the gradient and return the new weights, which are at least 0."""
        scaled = gradient / self._counts
        if self._squares is not None:
            self._squares += scaled * scaled
            scaled = scaled / np.sqrt(np.maximum(self._squares, np.finfo(float).tiny))
        new_weights = np.maximum(self.weights - self._rate * scaled, 0.0)
        scale = max(1.0, float(new_weights.max(initial=0.0)))
        self.last_change = float(np.abs(new_weights - self.weights).max(initial=0.0)) / scale
        self.weights = new_weights
        self._total += new_weights
        self.n_steps += 1
        return new_weights

    @property
    def mean(self) -> FloatArray:
        """Mean of the weights over all steps; the initial weights if there was no step."""
        return self._total / self.n_steps if self.n_steps else self.weights.copy()


WEIGHT_OPTIMIZERS: Registry[ProjectedSubgradient] = Registry(
    "optimizer", "intarsia.softlogic.learning", {"projected_subgradient": "ProjectedSubgradient"}, ProjectedSubgradient
)
