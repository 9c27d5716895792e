"""Learning of energies by steps on batches of examples, with inference anew for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import FloatArray, check_number
from intarsia.exceptions import NotSupportedError
from intarsia.inference.result import Status
from intarsia.learning.energy_learner import BestPoint, EnergyLearner, Report, RunningMean
from intarsia.learning.energy_risk import EnergyRisk
from intarsia.learning.minimum import Minimum
from intarsia.learning.named_parts import NamedParts
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.registry import resolve_optimizer


class DoublyStochastic(NamedParts, EnergyLearner):
    """Strengths (and weights) by one gradient step for each batch of examples (Vilnis2015 Algorithm 3).

    The one to begin with. Every batch is inferred at the current point, then a step is made along the gradient of its
    surrogate log-likelihood, strengths are brought back to 0 or above, and the mean of the points is kept. Nothing is
    sure to converge, since inference and steps alternate. So the risk of all examples is evaluated after each pass, and
    the result is the point with the lowest risk; the start, and all strengths 0, are among those compared.

    Parameters
    ----------
    max_epochs : int
        Passes over the examples.
    optimizer : str or Optimizer
        "adam" or "sgd", or an object with `step`, `batch_size` and `decay`; its own `max_epochs` is not read.
    average : bool
        Whether means of the points met are compared, the late ones weighing more, or the points themselves.
    l2 : float
        Penalty on the weights of the features of psi(x), but not on the constant one.
    random_state : int
        Seed of the batches.

    References
    ----------
    Vilnis2015, section 7.

    Examples
    --------
    >>> DoublyStochastic().set_params(optimizer__step=0.2).optimizer.step
    0.2
    """

    name: ClassVar[str] = "doubly_stochastic"
    summary: ClassVar[str] = "the default: a step for each batch of examples"

    def __init__(
        self,
        *,
        max_epochs: int = 10,
        optimizer: str | Optimizer = "adam",
        average: bool = True,
        l2: float = 0.0,
        random_state: int = 0,
    ) -> None:
        self.max_epochs = max_epochs
        self.optimizer = optimizer
        self.average = average
        self.l2 = l2
        self.random_state = random_state

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.max_epochs, "DoublyStochastic: max_epochs", low=0, integer=True)
        check_number(self.random_state, "DoublyStochastic: random_state", low=0, integer=True)
        optimizer = resolve_optimizer(self.optimizer)
        optimizer.check_settings()
        if not optimizer.takes_batches:
            raise NotSupportedError(
                f"DoublyStochastic: {type(optimizer).__name__} needs all examples at once. Use 'adam' or 'sgd', or "
                f"energy_learner='double_loop'."
            )

    def learn(self, risk: EnergyRisk, start: FloatArray, report: Report | None) -> Minimum:
        """Pass over the examples."""
        self.check_settings()
        optimizer = resolve_optimizer(self.optimizer)
        mean, best = RunningMean(start), BestPoint(risk, start)
        point, memory = start, dict[str, NDArray[Any]]()
        values: list[float] = []
        status = Status.MAX_ITER

        def after(moved: FloatArray) -> FloatArray:
            projected = risk.project(moved)
            mean.add(projected)
            return projected

        try:
            best.begin(int(self.max_epochs))
            for epoch in range(int(self.max_epochs)):
                point, memory, value = optimizer.epoch(risk, point, memory, int(self.random_state), after)
                values.append(value)
                best.offer(mean.point if self.average else point)
                if report is not None:
                    report(epoch + 1, value, np.nan, (epoch + 1) / int(self.max_epochs))
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        best.warn_if_worse("DoublyStochastic")
        return best.minimum(status, values)

    def _resolvers(self) -> dict[str, Callable[[Any], Any]]:
        return {"optimizer": resolve_optimizer}
