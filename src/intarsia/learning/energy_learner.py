"""Learners of the strengths (weights psi) of energies: doubly stochastic steps, and a double loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.registry import NamedParts, Parts, Registry
from intarsia._core.settings import Settings
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, as_generator, as_seed, check_number
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.learning.energy_risk import EnergyRisk
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.registry import OPTIMIZERS

Report = Callable[[int, float, float, float], None]
"""Called after each pass or round with its number, the risk, the gradient norm (or NaN) and the fraction done."""

# Later points have more weight in the mean: the weight grows with this power of the step number.
_POWER = 8.0
# The double loop ends after so many rounds without a lower risk, or with one lower by less than this fraction.
_PATIENCE, _LEAST_DECREASE = 2, 1e-4


def check_strengths_alone(freeze_weights: Any, development: Any, has_energies: bool, joint: bool = False) -> None:
    """Raise for `freeze_weights` and `development` without energies, or a `development` that would not be used.

    `joint`: whether learning weights and strengths together uses `development`.
    """
    if freeze_weights not in (None, True, False):
        raise InvalidInputError(f"freeze_weights must be None, True or False, got {freeze_weights!r}.")
    if not has_energies and (freeze_weights or development is not None):
        raise InvalidInputError(
            "freeze_weights and development are only used with energies. Pass energies=, or drop both."
        )
    if development is not None and freeze_weights is False and not joint:
        raise InvalidInputError(
            "development is used only when the weights are frozen. Drop freeze_weights=False, or drop development."
        )


class EnergyLearner(Settings, ABC):
    """Base class of the learners of energies, the values of `ChainCRF(energy_learner=...)`: settings objects."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """One line on when to choose it."""
    l1: float
    l2: float
    average: bool
    select: bool

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings; extended by subclasses."""
        check_number(self.l1, f"{type(self).__name__}: l1", low=0.0, high=np.inf, open_high=True)
        check_number(self.l2, f"{type(self).__name__}: l2", low=0.0, high=np.inf, open_high=True)

    @abstractmethod
    def learn(self, risk: EnergyRisk, start: FloatArray, report: Report | None) -> Minimum:
        """Minimize the risk from `start`; return the result with status and history."""


class BestPoint:
    """Point with the lowest risk among those evaluated, including the start of the search.

    Steps of a stochastic search may lead away from its start, and because inference runs under energies the risk
    differs from the function on which the steps descend. Therefore the risk of all examples (of the held-out examples,
    if there are any) is evaluated after each pass or round, and the lowest counts.

    Parameters
    ----------
    risk : EnergyRisk
        Risk of all examples; `risk.held_out` is used instead if it is set.
    start : float array
        Starting point of the search.
    """

    def __init__(self, risk: EnergyRisk, start: FloatArray) -> None:
        self.risk = risk if risk.held_out is None else risk.held_out
        self.start, self.point, self.n_offered, self.n_weights = start, start, 0, risk.n_weights
        self.value = self.first = self.last = np.nan
        self.values: list[float] = []
        self.n_improved, self._reference = 0, np.inf

    def begin(self, n_rounds: int) -> None:
        """Evaluate the start, and the start without energies, unless there are no rounds."""
        if n_rounds == 0:
            return
        self.offer(self.start)
        without = self.risk.without_energies(self.start)
        if without is not None:
            value = float(self.risk(without)[0])
            if value < self.value:
                self.point, self.value = without, value

    def minimum(self, status: Status, history: list[float]) -> Minimum:
        """Return the best point as the result of a search, with the risks of its passes or rounds.

        "best_risk" are the risks by which it was chosen, of the start and after each pass or round.
        """
        risks = {"risk": np.array(history), "best_risk": np.array(self.values)}
        return Minimum(self.point, self.value, np.nan, status, len(history), start=self.start, history=risks)

    def offer(self, point: FloatArray) -> float:
        """Evaluate a point, store it if it is the best so far, and return its risk."""
        value = float(self.risk(point)[0])
        if self.n_offered == 0:
            self.first = value
        if not self.value <= value and np.isfinite(value):
            self.point, self.value = point.copy(), value
        self.n_offered, self.last = self.n_offered + 1, value
        if value < self._reference - _LEAST_DECREASE * abs(value):
            self.n_improved, self._reference = self.n_offered, value
        self.values.append(value)
        return value

    def warn_if_worse(self) -> None:
        """Warn if weights were learned together with energies, and no point was better than the start."""
        if self.n_weights == 0 or self.n_offered < 2 or self.last <= self.first * (1.0 + 1e-9):
            return
        if self.values.index(min(self.values)) > 0:
            return
        warn_caller(
            f"learning weights and energies together ended with a risk of {self.last:.4g} per label, above "
            f"{self.first:.4g} at the start. The best point is the result, with a risk of {self.value:.4g}. Lower "
            f"optimizer__step_size, or drop freeze_weights to freeze the weights.",
            ConvergenceWarning,
        )


class RunningMean:
    """Weighted mean of points, with more weight on later ones.

    Examples
    --------
    >>> mean = RunningMean(np.array([8.0]))
    >>> mean.add(np.array([4.0]))
    >>> float(mean.point[0])                       # the mean of a single point
    4.0
    >>> mean.add(np.array([0.0]))                  # weighs (1 + 8) / (2 + 8)
    >>> round(float(mean.point[0]), 12)
    0.4
    """

    def __init__(self, start: FloatArray) -> None:
        self.point, self.count = start.copy(), 0

    def add(self, point: FloatArray) -> None:
        """Include one further point."""
        self.count += 1
        self.point += (1.0 + _POWER) / (self.count + _POWER) * (point - self.point)


ENERGY_LEARNERS: Registry[EnergyLearner] = Registry(
    "energy_learner",
    "intarsia.learning",
    {
        "doubly_stochastic": "energy_learner:DoublyStochastic",
        "double_loop": "energy_learner:DoubleLoop",
    },
    EnergyLearner,  # type: ignore[type-abstract]
)


class DoubleLoop(NamedParts, EnergyLearner):
    """Learn strengths (and weights) by alternating inference and optimization (Vilnis2015 Algorithm 2).

    Choose it for small data, or if a learning rate is hard to tune. The strengths are the weights psi of the energies.
    In each round inference runs on all examples under the energies; then, with the resulting slopes fixed, the
    surrogate log-likelihood is maximized by a few iterations of an optimizer (it is concave in the weights and in
    strengths that do not depend on the input), and strengths are projected to 0 or above. The result is the point with
    the lowest risk of all examples, as in `DoublyStochastic`.

    Parameters
    ----------
    max_iter : int
        Maximum number of rounds.
    n_inner_iter : int
        Iterations of the optimizer in each round; few, since the marginals change with the point.
    optimizer : str or Optimizer
        "lbfgs", or an object; its `max_iter` is ignored.
    tol : float
        Converged when no weight changes by more than this in a round; also after two rounds in which the risk of all
        examples decreases by less than 0.01 per cent.
    average : bool
        Whether to compare means of the points of all rounds, with more weight on later ones, instead of the points
        themselves.
    l1 : float
        Rate of an exponential prior of the strengths: penalty `l1 * psi`, added to the summed loss, for each energy. It
        bounds the strength of an energy that the data never contradict.
    select : bool
        Whether `ChainCRF` sets strengths to 0 that do not help on held-out sequences. `GraphCRF` ignores it.
    l2 : float
        L2 regularization: penalty `l2 / 2 |w|^2`, added to the summed loss, on the parameters of all features of psi(x)
        except the constant.

    References
    ----------
    Vilnis2015, section 7.

    Examples
    --------
    >>> DoubleLoop(n_inner_iter=2).get_params()["max_iter"]
    20
    """

    name: ClassVar[str] = "double_loop"
    summary: ClassVar[str] = "small data: all examples in every round, no step size"

    _parts: ClassVar[Parts] = {"optimizer": OPTIMIZERS}

    def __init__(
        self,
        *,
        max_iter: int = 20,
        n_inner_iter: int = 5,
        optimizer: str | Optimizer = "lbfgs",
        tol: float = 1e-3,
        average: bool = False,
        l1: float = 0.1,
        select: bool = True,
        l2: float = 0.0,
    ) -> None:
        self.max_iter = max_iter
        self.n_inner_iter = n_inner_iter
        self.optimizer = optimizer
        self.tol = tol
        self.average = average
        self.l1 = l1
        self.select = select
        self.l2 = l2

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.max_iter, "DoubleLoop: max_iter", low=0, integer=True)
        check_number(self.n_inner_iter, "DoubleLoop: n_inner_iter", low=1, integer=True)
        check_number(self.tol, "DoubleLoop: tol", low=0.0)
        OPTIMIZERS.resolve(self.optimizer).check_settings()

    def learn(self, risk: EnergyRisk, start: FloatArray, report: Report | None) -> Minimum:
        """Alternate inference and optimization until no weight changes by more than `tol`."""
        self.check_settings()
        template = OPTIMIZERS.resolve(self.optimizer)
        optimizer = OPTIMIZERS.resolve(template, {"max_iter": int(self.n_inner_iter)})
        point, mean, best = start, RunningMean(start), BestPoint(risk, start)
        values: list[float] = []
        status = Status.MAX_ITER
        try:
            best.begin(int(self.max_iter))
            for round_ in range(int(self.max_iter)):
                result = optimizer.minimize(risk.with_slopes(point), point)
                if result.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt
                projected = risk.project(result.point)
                change = float(np.abs(projected - point).max(initial=0.0))
                point = projected
                mean.add(point)
                values.append(result.value)
                best.offer(mean.point if self.average else point)
                if report is not None:
                    report(round_ + 1, result.value, result.gradient_norm, (round_ + 1) / int(self.max_iter))
                if change <= self.tol or best.n_offered - best.n_improved > _PATIENCE:
                    status = Status.CONVERGED
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        with errors_in("DoubleLoop"):
            best.warn_if_worse()
        return best.minimum(status, values)


class DoublyStochastic(NamedParts, EnergyLearner):
    """Learn strengths (and weights) by a gradient step for each batch of examples (Vilnis2015 Algorithm 3).

    This is the default. The strengths are the weights psi of the energies. For every batch, inference runs at the
    current point, then a step is made along the gradient of the surrogate log-likelihood of the batch, strengths are
    projected to 0 or above, and the mean of the points is updated. Convergence is not guaranteed, since inference and
    steps alternate. Therefore the risk of all examples is evaluated after each pass, and the result is the point with
    the lowest risk; the start, and all strengths 0, are among the candidates.

    Parameters
    ----------
    max_iter : int
        Number of passes over the examples.
    optimizer : str or Optimizer
        "adam" or "sgd", or an object with `step_size`, `batch_size` and `decay`; its `max_iter` is ignored.
    average : bool
        Whether to compare means of the points, with more weight on later ones, instead of the points themselves.
    l1 : float
        Rate of an exponential prior of the strengths: penalty `l1 * psi`, added to the summed loss, for each energy. It
        bounds the strength of an energy that the data never contradict.
    select : bool
        Whether `ChainCRF` sets strengths to 0 that do not help on held-out sequences. `GraphCRF` ignores it.
    l2 : float
        L2 regularization: penalty `l2 / 2 |w|^2`, added to the summed loss, on the parameters of all features of psi(x)
        except the constant.
    random_state : int, Generator or None
        Seed of the batches.

    References
    ----------
    Vilnis2015, section 7.

    Examples
    --------
    >>> DoublyStochastic().set_params(optimizer__step_size=0.2).optimizer.step_size
    0.2
    """

    name: ClassVar[str] = "doubly_stochastic"
    summary: ClassVar[str] = "the default: a step for each batch of examples"

    _parts: ClassVar[Parts] = {"optimizer": OPTIMIZERS}

    def __init__(
        self,
        *,
        max_iter: int = 10,
        optimizer: str | Optimizer = "adam",
        average: bool = True,
        l1: float = 0.1,
        select: bool = True,
        l2: float = 0.0,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.max_iter = max_iter
        self.optimizer = optimizer
        self.average = average
        self.l1 = l1
        self.select = select
        self.l2 = l2
        self.random_state = random_state

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.max_iter, "DoublyStochastic: max_iter", low=0, integer=True)
        with errors_in("DoublyStochastic"):
            as_generator(self.random_state)
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        optimizer.check_settings()
        if not optimizer.takes_batches:
            raise NotSupportedError(
                f"DoublyStochastic: {type(optimizer).__name__} needs all examples at once. Use 'adam' or 'sgd', or "
                f"energy_learner='double_loop'."
            )

    def learn(self, risk: EnergyRisk, start: FloatArray, report: Report | None) -> Minimum:
        """Make the passes over the examples and return the best point."""
        self.check_settings()
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        n_passes = int(self.max_iter)
        mean, best, seed = RunningMean(start), BestPoint(risk, start), as_seed(self.random_state)
        point, memory = start, dict[str, NDArray[Any]]()
        values: list[float] = []
        status = Status.MAX_ITER

        def after(weights: FloatArray) -> FloatArray:
            projected = risk.project(weights)
            mean.add(projected)
            return projected

        try:
            best.begin(n_passes)
            for epoch in range(n_passes):
                point, memory, value = optimizer.epoch(risk, point, memory, seed, after)
                values.append(value)
                best.offer(mean.point if self.average else point)
                if report is not None:
                    report(epoch + 1, value, np.nan, (epoch + 1) / n_passes)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        with errors_in(type(self).__name__):
            best.warn_if_worse()
        return best.minimum(status, values)
