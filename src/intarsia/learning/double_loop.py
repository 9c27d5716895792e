"""Learning of energies by turns: infer all examples, then improve weights and strengths with the marginals fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from intarsia._validation import FloatArray, check_number
from intarsia.inference.result import Status
from intarsia.learning.energy_learner import BestPoint, EnergyLearner, Report, RunningMean
from intarsia.learning.energy_risk import EnergyRisk
from intarsia.learning.minimum import Minimum
from intarsia.learning.named_parts import NamedParts
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.registry import resolve_optimizer


class DoubleLoop(NamedParts, EnergyLearner):
    """Strengths (and weights) by rounds of inference and of optimisation (Vilnis2015 Algorithm 2).

    Choose it for small data, or where steps are hard to choose. In each round all examples are inferred under the
    energies; then, with the slopes found held fixed, the surrogate log-likelihood is raised by some iterations of an
    optimiser (it is concave in the weights and in strengths that do not depend on the input), and strengths are brought
    back to 0 or above. The result is the point with the lowest risk of all examples, as in `DoublyStochastic`.

    Parameters
    ----------
    max_rounds : int
        Most rounds.
    steps : int
        Iterations of the optimiser in each; few, since the marginals move with the point.
    optimizer : str or Optimizer
        "lbfgs", or an object; its own limit on iterations is not read.
    tol : float
        Converged when no weight changes by more in a round.
    average : bool
        Whether means of the rounds' points are compared, the late ones weighing more, or the points themselves.
    l2 : float
        Penalty on the weights of the features of psi(x), but not on the constant one.

    References
    ----------
    Vilnis2015, section 7.

    Examples
    --------
    >>> DoubleLoop(steps=2).get_params()["max_rounds"]
    20
    """

    name: ClassVar[str] = "double_loop"
    summary: ClassVar[str] = "small data: all examples in every round, no step size"

    def __init__(
        self,
        *,
        max_rounds: int = 20,
        steps: int = 5,
        optimizer: str | Optimizer = "lbfgs",
        tol: float = 1e-3,
        average: bool = False,
        l2: float = 0.0,
    ) -> None:
        self.max_rounds = max_rounds
        self.steps = steps
        self.optimizer = optimizer
        self.tol = tol
        self.average = average
        self.l2 = l2

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.max_rounds, "DoubleLoop: max_rounds", low=0, integer=True)
        check_number(self.steps, "DoubleLoop: steps", low=1, integer=True)
        check_number(self.tol, "DoubleLoop: tol", low=0.0)
        resolve_optimizer(self.optimizer).check_settings()

    def learn(self, risk: EnergyRisk, start: FloatArray, report: Report | None) -> Minimum:
        """Rounds until nothing moves."""
        self.check_settings()
        given = resolve_optimizer(self.optimizer)
        optimizer = resolve_optimizer(given, {given.limit_name: int(self.steps)})
        point, mean, best = start, RunningMean(start), BestPoint(risk, start)
        values: list[float] = []
        status = Status.MAX_ITER
        try:
            best.begin(int(self.max_rounds))
            for round_ in range(int(self.max_rounds)):
                found = optimizer.minimize(risk.with_slopes(point), point)
                if found.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt
                moved = risk.project(found.point)
                change = float(np.abs(moved - point).max(initial=0.0))
                point = moved
                mean.add(point)
                values.append(found.value)
                best.offer(mean.point if self.average else point)
                if report is not None:
                    report(round_ + 1, found.value, found.gradient_norm, (round_ + 1) / int(self.max_rounds))
                if change <= self.tol:
                    status = Status.CONVERGED
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        best.warn_if_worse("DoubleLoop")
        return best.minimum(status, values)

    def _resolvers(self) -> dict[str, Callable[[Any], Any]]:
        return {"optimizer": resolve_optimizer}
