"""Learner of weights and energies by gradients through the Bethe projection that predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, as_generator, check_choice, check_number
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.parameters import check_groups
from intarsia.exceptions import NotSupportedError
from intarsia.gradients.projection.pullback import MODES, projection_pullback
from intarsia.graph import FactorGraph
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.learning.energy_learner import BestPoint, EnergyLearner, Report, make_passes
from intarsia.learning.energy_risk import EnergyRisk
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.registry import OPTIMIZERS
from intarsia.losses import TrainingLabels
from intarsia.losses.loss import Loss, MarginalLoss
from intarsia.losses.registry import LOSSES


class ThroughProjection(NamedParts, EnergyLearner):
    """Learn weights and energies by minimizing a loss of the marginals under the energies, with its true gradient.

    Choose it if the surrogate likelihood of `DoubleLoop` and `DoublyStochastic` is not what you measure, or to learn
    more than psi: limits of penalties, coefficients of measurements, and parameters of your own functions (structured
    prediction energy networks). The gradient passes through the Bethe projection that predicts, so that it is that of
    the loss; the surrogate treats the slopes of the energies as constants. It costs a few more passes of inference per
    sequence, and one inference per sequence and step for energies with kinks and for functions.

    Parameters
    ----------
    loss : str or MarginalLoss
        Loss of the marginals: "univariate_logistic", "clique_logistic", "univariate_quadratic",
        "smoothed_classification_error" and others.
    mode : {"implicit", "truncated"}
        "implicit" differentiates the optimum of the projection. "truncated" differentiates the iterations that were
        run, one sequence at a time; it is exact also if the projection stops early.
    learn_also : sequence of {"limits", "measurements", "parameters"}
        Settings of the energies that are learned besides psi: limits and targets of penalties, coefficients of
        `Combination` and `SparseVector`, and parameters of `FunctionEnergy`.
    max_iter : int
        Number of passes over the examples; of iterations, if the optimizer needs all examples at once.
    optimizer : str or Optimizer
        "adam", "sgd" or "lbfgs", or an object; its `max_iter` is ignored.
    average : bool
        Whether to compare means of the points of "adam" and "sgd", with more weight on later ones.
    l1 : float
        Rate of an exponential prior of psi: penalty `l1 * psi`, added to the summed loss, for each energy.
    select : bool
        Whether `ChainCRF` sets psi to 0 that does not help on held-out sequences. `GraphCRF` ignores it.
    l2 : float
        L2 regularization: penalty `l2 / 2 |w|^2`, added to the summed loss, on the parameters of all features of psi(x)
        except the constant.
    random_state : int, Generator or None
        Seed of the batches.

    References
    ----------
    Domke2013; Vilnis2015, section 7.

    Examples
    --------
    >>> ThroughProjection(loss="clique_logistic", learn_also=["limits"]).get_params()["mode"]
    'implicit'
    """

    name: ClassVar[str] = "through_projection"
    summary: ClassVar[str] = "the loss of the marginals that are predicted, with its true gradient; learns limits too"
    through_projection: ClassVar[bool] = True

    _parts: ClassVar[Parts] = {"optimizer": OPTIMIZERS, "loss": LOSSES}

    def __init__(
        self,
        *,
        loss: str | Loss = "univariate_logistic",
        mode: str = "implicit",
        learn_also: Sequence[str] = (),
        max_iter: int = 10,
        optimizer: str | Optimizer = "adam",
        average: bool = True,
        l1: float = 0.1,
        select: bool = True,
        l2: float = 0.0,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.loss = loss
        self.mode = mode
        self.learn_also = learn_also
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
        check_choice(self.mode, MODES, "ThroughProjection: mode")
        check_groups(self.learn_also, "ThroughProjection: learn_also")
        check_number(self.max_iter, "ThroughProjection: max_iter", low=0, integer=True)
        with errors_in("ThroughProjection"):
            as_generator(self.random_state)
        OPTIMIZERS.resolve(self.optimizer).check_settings()
        self.marginal_loss()

    def marginal_loss(self) -> MarginalLoss:
        """Return the loss, or raise if it is not a loss of marginals."""
        loss = LOSSES.resolve(self.loss)
        if not isinstance(loss, MarginalLoss):
            usable = [name for name in LOSSES.names if isinstance(LOSSES.resolve(name), MarginalLoss)]
            raise NotSupportedError(
                f"ThroughProjection: loss={type(loss).__name__} is not a loss of marginals. Use one of: "
                f"{', '.join(usable)}."
            )
        loss.check_settings()
        return loss

    def learn(self, risk: EnergyRisk, start: FloatArray, report: Report | None) -> Minimum:
        """Minimize the risk; return the point with the lowest risk."""
        self.check_settings()
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        if optimizer.takes_batches:
            return make_passes(self, optimizer, risk, start, report)
        best = BestPoint(risk, start)
        best.begin(int(self.max_iter))
        if not int(self.max_iter):
            return best.minimum(Status.MAX_ITER, [])
        result = OPTIMIZERS.resolve(optimizer, {"max_iter": int(self.max_iter)}).minimize(risk, start)
        best.offer(risk.project(result.point))
        if report is not None:
            report(int(self.max_iter), result.value, result.gradient_norm, 1.0)
        return best.minimum(result.status, [result.value])


def loss_through_projection(
    learner: Any,
    method: BetheProjection,
    graph: FactorGraph,
    theta: FloatArray,
    energy: BoundEnergy,
    labels: TrainingLabels,
) -> tuple[float, FloatArray, dict[str, FloatArray]]:
    """Return the loss of one graph under its energy, with gradients in theta and in the parameters of the energy.

    The graph must be in learning form. An infeasible model has a loss of 0 without gradient.
    """
    pullback = projection_pullback(method, graph, theta, energy, mode=learner.mode)
    if pullback.mu is None:
        return 0.0, np.zeros(theta.size), {"psi": np.zeros(energy.psi.size)}
    value, slope = learner.marginal_loss().value_and_gradient(graph, pullback.mu, labels)
    return value, *pullback.pull(slope)
