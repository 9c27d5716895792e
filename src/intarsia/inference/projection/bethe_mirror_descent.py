"""Bethe projections by composite mirror descent with backtracking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from intarsia._core.registry import Parts
from intarsia._core.validation import check_number
from intarsia.energies import Energy
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.inference.method import InferenceMethod
from intarsia.inference.projection.bethe_descent import DescentProjection
from intarsia.inference.registry import METHODS


class BetheMirrorDescent(DescentProjection):
    r"""Marginals with a global energy, by composite mirror descent (Vilnis2015 Algorithm 4) with backtracking.

    Try this method first: it selects its step sizes, decreases the objective in every step, and converges to a
    stationary point also for energies that are not convex. For smooth convex energies, it converges linearly to the
    optimum. It minimises

    .. math:: -\langle\theta,\mu\rangle - T H(\mu) + L(\mu)

    by :math:`\theta_t = (\eta (\theta - \nabla L(\mu_{t-1})) + \theta_{t-1}) / (1 + \eta)`,
    :math:`\mu_t = oracle(\theta_t)`. A step is accepted if L is at most its tangent plus 1/eta times the divergence,
    for which eta <= 1/c is sufficient, where c is the `lipschitz` constant of the energy. Energies with kinks use the
    decreasing step sizes eta = 1/t. Each iteration and each rejected step needs one call of the oracle.

    Parameters
    ----------
    energy : Energy, optional
        L, optionally already bound to the graph; None runs the oracle without an energy.
    names : sequence, optional
        Names of the states, if the energy refers to labels by name.
    oracle : str or InferenceMethod
        Inference method for the tilted models: "tree", "junction_tree", "brute_force", or "tree_reweighted" with its
        approximate entropy on loopy graphs; "auto" selects the first that applies.
    step_size : float, optional
        Constant step size eta instead of backtracking; far above 1/c the iterates may cycle forever.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Stop when |mu - oracle(theta - grad L(mu))| is at most `tol`; for convex energies with kinks, when the gap
        between the objective and its lower bound is at most `tol`.
    temperature : float, optional
        T, by default 1. For "map", the tilted model is computed at T = 1, and its best labelling is returned.

    Notes
    -----
    The algorithm in the paper states grad H = theta_t, where the sign is wrong; this implementation uses the natural
    parameters, so that no gradient of the entropy is needed. `result.tilted_theta` and `history` are as in `BetheRDA`.

    References
    ----------
    Vilnis2015, appendix C.

    Examples
    --------
    Three fair coins with a squared penalty for the distance from three heads: by symmetry, each is heads with
    probability p, where log(p / (1 - p)) = 3 - 3 p.

    >>> import intarsia, numpy as np
    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> graph = intarsia.from_edges(2, [], n_variables=3)
    >>> three = MeasuredEnergy(Count(1), Squared(3.0))
    >>> p = intarsia.infer(graph, graph.zeros(), "bethe_mirror_descent", energy=three).marginals(0)[1]
    >>> bool(abs(np.log(p / (1 - p)) - (3 - 3 * p)) < 1e-5)
    True
    """

    name: ClassVar[str] = "bethe_mirror_descent"
    summary: ClassVar[str] = (
        "global preferences, convex or not: every step decreases the objective, automatic step sizes"
    )
    uses_lipschitz: ClassVar[bool] = True

    _parts: ClassVar[Parts] = {"energy": ENERGY_PARTS, "oracle": METHODS}

    def __init__(
        self,
        *,
        energy: Energy | BoundEnergy | None = None,
        names: Any = None,
        oracle: str | InferenceMethod = "auto",
        step_size: float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        temperature: float | None = None,
    ) -> None:
        self.energy = energy
        self.names = names
        self.oracle = oracle
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        if self.step_size is not None:
            check_number(self.step_size, "BetheMirrorDescent: step_size", low=0.0, open_low=True)

    def step_weights(self, smooth: bool, has_lipschitz: bool) -> Callable[[int], float] | None:
        """Return the weight of a constant step size, None (backtracking) for smooth energies, 1 / (t + 1) for kinks."""
        if self.step_size is not None:
            constant = float(self.step_size) / (1.0 + float(self.step_size))
            return lambda t: constant
        return None if smooth or has_lipschitz else lambda t: 1.0 / (t + 1.0)
