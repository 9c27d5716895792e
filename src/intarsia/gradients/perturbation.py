"""The gradient at convergence by running inference again on perturbed scores."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError
from intarsia.gradients.back_propagation import ConvergedRule, FixedPoint
from intarsia.gradients.reversal import converge, reversal_of
from intarsia.gradients.rule import GradientResult

# Shifts in units of r and their weights, over r: first, second and fourth order in r.
_SCHEMES = {
    1: ((1.0, 1.0), (0.0, -1.0)),
    2: ((1.0, 0.5), (-1.0, -0.5)),
    4: ((2.0, -1.0 / 12.0), (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (-2.0, 1.0 / 12.0)),
}


class PerturbationGradient(ConvergedRule):
    r"""Gradient of a loss of converged marginals, by inference on scores moved along the loss's own gradient.

    Choose it where nothing but inference is at hand, or to check another rule. At a fixed point the Jacobian of the
    marginals is symmetric, so a difference of marginals is the gradient:

    .. math:: \frac{dL}{d\theta} \approx \frac1{2r}\Big(\mu\big(\theta + r \tfrac{dQ}{d\mu}\big)
              - \mu\big(\theta - r \tfrac{dQ}{d\mu}\big)\Big), \quad
              r = m\, \epsilon^{1/3} (1 + \|\theta\|_\infty) / \|\tfrac{dQ}{d\mu}\|_\infty .

    It needs tight convergence: an error of the marginals counts 1 / r times. Perturbed runs start from the
    unperturbed one.

    Parameters
    ----------
    sides : {1, 2, 4}
        Runs on perturbed scores; the error falls with this power of r.
    multiplier : float
        m in the step rule.
    tol : float
        Inference runs until no message (or marginal) changes by more, for at most its own `max_iter` sweeps.

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
    >>> found = PerturbationGradient().value_and_gradient(graph, graph.zeros(), None, FirstState(), "mean_field")
    >>> found.gradient[:2].round(6).tolist()
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
        """Raise for settings that cannot be meant."""
        super().check_settings()
        if self.sides not in _SCHEMES:
            raise InvalidInputError(f"PerturbationGradient: sides is {self.sides!r}. Known: 1, 2, 4.")
        check_number(self.multiplier, "PerturbationGradient: multiplier", low=0.0, open_low=True)

    def _pull_back(self, point: FixedPoint) -> GradientResult:
        graph, theta, inference, mu = point.graph, point.theta, point.inference, point.mu
        # What has no probability stays so: it needs no push, and a clipped logarithm there would dwarf all others.
        slope = np.where((mu > 0.0) & np.isfinite(theta), point.slope, 0.0)
        largest = float(np.abs(slope).max(initial=0.0))
        gradient, n_iter, status = graph.zeros(), point.loop.n_iter, point.loop.status
        if largest > 0.0:
            size = float(np.abs(theta[np.isfinite(theta)]).max(initial=0.0))
            step = float(self.multiplier) * np.finfo(float).eps ** (1 / 3) * (1.0 + size) / largest
            start = point.run.position()
            for shift, weight in _SCHEMES[int(self.sides)]:
                moved = mu
                if shift != 0.0:
                    again = reversal_of(graph, theta + shift * step * slope, inference)
                    again.stand_at(start)
                    more = converge(again, inference, float(self.tol))
                    n_iter += more.n_iter
                    status = status if more.status is Status.CONVERGED else more.status
                    found = again.marginals()
                    moved = mu if found is None else found
                gradient += weight / step * moved
        return GradientResult(point.value, gradient, mu, status, n_iter)
