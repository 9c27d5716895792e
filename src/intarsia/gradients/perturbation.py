"""Perturbation: the gradient at convergence from further runs of inference on perturbed scores."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError
from intarsia.gradients.back_propagation import ConvergedRule, FixedPoint
from intarsia.gradients.reversal import converge, reversal_of
from intarsia.gradients.rule import GradientResult

# Shifts in units of r, and weights in units of 1 / r: schemes of first, second and fourth order.
_SCHEMES = {
    1: ((1.0, 1.0), (0.0, -1.0)),
    2: ((1.0, 0.5), (-1.0, -0.5)),
    4: ((2.0, -1.0 / 12.0), (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (-2.0, 1.0 / 12.0)),
}


class PerturbationGradient(ConvergedRule):
    r"""Gradient of a loss of converged marginals, by inference on scores shifted along the gradient of the loss.

    Choose it if only inference is available, or to check another rule. At a fixed point the Jacobian of the marginals
    is symmetric, so that a difference of marginals is the gradient:

    .. math:: \frac{dL}{d\theta} \approx \frac1{2r}\Big(\mu\big(\theta + r \tfrac{dQ}{d\mu}\big)
              - \mu\big(\theta - r \tfrac{dQ}{d\mu}\big)\Big), \quad
              r = m\, \epsilon^{1/3} (1 + \|\theta\|_\infty) / \|\tfrac{dQ}{d\mu}\|_\infty .

    It needs a tight tolerance: an error of the marginals is multiplied by 1 / r. Perturbed runs start from the
    unperturbed one.

    Parameters
    ----------
    sides : {1, 2, 4}
        Number of runs on perturbed scores; the error falls with this power of r.
    multiplier : float
        Factor m in the formula for the step r.
    tol : float
        Inference runs until no message (or marginal) changes by more, for at most its `max_iter` sweeps.

    References
    ----------
    Domke2013, section 6, Eq. (24) and Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> class FirstState:
    ...     needs, uses_factors = "marginals", False
    ...     def value_and_gradient(self, graph, mu, labels):
    ...         return mu[0], np.eye(mu.size)[0]
    >>> graph = chain_graph(2, 2)
    >>> result = PerturbationGradient().value_and_gradient(graph, graph.zeros(), None, FirstState(), "mean_field")
    >>> result.gradient[:2].round(6).tolist()
    [0.25, -0.25]
    """

    name: ClassVar[str] = "perturbation"
    summary: ClassVar[str] = "converged inference as a black box; a check of other rules"
    differentiates: ClassVar[tuple[str, ...]] = ("mean_field", "belief_propagation", "tree_reweighted")

    def __init__(self, *, sides: int = 2, multiplier: float = 1.0, tol: float = 1e-13) -> None:
        self.sides = sides
        self.multiplier = multiplier
        self.tol = tol

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        if self.sides not in _SCHEMES:
            raise InvalidInputError(f"PerturbationGradient: sides must be 1, 2 or 4, got {self.sides!r}.")
        check_number(self.multiplier, "PerturbationGradient: multiplier", low=0.0, open_low=True)

    def _pull_back(self, point: FixedPoint) -> GradientResult:
        graph, theta, inference, mu = point.graph, point.theta, point.inference, point.mu
        # States without probability stay so and need no shift; a clipped logarithm there would dominate all others.
        slope = np.where((mu > 0.0) & np.isfinite(theta), point.slope, 0.0)
        largest = float(np.abs(slope).max(initial=0.0))
        gradient, n_iter, status = graph.zeros(), point.loop.n_iter, point.loop.status
        if largest > 0.0:
            size = float(np.abs(theta[np.isfinite(theta)]).max(initial=0.0))
            step = float(self.multiplier) * np.finfo(float).eps ** (1 / 3) * (1.0 + size) / largest
            start = point.run.position()
            for shift, weight in _SCHEMES[int(self.sides)]:
                shifted_mu = mu
                if shift != 0.0:
                    run = reversal_of(graph, theta + shift * step * slope, inference)
                    run.stand_at(start)
                    loop = converge(run, inference, float(self.tol))
                    n_iter += loop.n_iter
                    status = status if loop.status is Status.CONVERGED else loop.status
                    marginals = run.marginals()
                    shifted_mu = mu if marginals is None else marginals
                gradient += weight / step * shifted_mu
        return GradientResult(point.value, gradient, mu, status, n_iter)
