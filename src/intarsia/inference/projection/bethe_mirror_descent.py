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
    r"""Marginals under a global energy, by composite mirror descent (Vilnis2015 Algorithm 4) with backtracking.

    The one to begin with: it finds its own steps, descends at every one, and converges to a stationary point also for
    energies that are not convex; for smooth convex ones linearly to the optimum. It minimises

    .. math:: -\langle\theta,\mu\rangle - T H(\mu) + L(\mu)

    by :math:`\theta_t = (\eta (\theta - \nabla L(\mu_{t-1})) + \theta_{t-1}) / (1 + \eta)`,
    :math:`\mu_t = oracle(\theta_t)`. A step is accepted when L lies below its tangent plus 1/eta times the divergence,
    for which eta <= 1/c suffices with c the energy's `lipschitz`. Energies with kinks get the decreasing steps
    eta = 1/t. One call of the oracle per iteration and per rejected step.

    Parameters
    ----------
    energy : Energy, optional
        L; without one this is plain inference by the oracle. An energy bound to the graph is taken as well.
    names : sequence, optional
        Names of the states by which the energy speaks of labels.
    oracle : str or InferenceMethod
        "tree", "junction_tree", "brute_force", or "tree_reweighted", whose entropy stands for H on loopy graphs;
        "auto" takes the first that fits.
    step_size : float, optional
        A constant eta instead of backtracking; well beyond 1/c it may cycle for ever.
    max_iter : int
        Largest number of iterations.
    tol : float
        Stop when |mu - oracle(theta - grad L(mu))| is at most this; for convex energies with kinks, when the gap to a
        lower bound on the objective is.
    temperature : float, optional
        T; by default 1. For "map" the tilted model is found at T = 1, then its best labelling.

    Notes
    -----
    The printed algorithm has grad H = theta_t where it is minus that; here the natural parameters are used, so that no
    gradient of the entropy is needed. `result.tilted_theta` and `history` as in `BetheRDA`.

    References
    ----------
    Vilnis2015, appendix C.

    Examples
    --------
    Three fair coins with a wish, in squares, for three heads: by symmetry each is heads with probability p, where
    log(p / (1 - p)) = 3 - 3 p.

    >>> import intarsia, numpy as np
    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> graph = intarsia.from_edges(2, [], n_variables=3)
    >>> three = MeasuredEnergy(Count(1), Squared(3.0))
    >>> p = intarsia.infer(graph, graph.zeros(), "bethe_mirror_descent", energy=three).marginals(0)[1]
    >>> bool(abs(np.log(p / (1 - p)) - (3 - 3 * p)) < 1e-5)
    True
    """

    name: ClassVar[str] = "bethe_mirror_descent"
    summary: ClassVar[str] = "global preferences, convex or not: descends at every step and finds its own steps"
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
        """Raise for settings that cannot be meant."""
        super().check_settings()
        if self.step_size is not None:
            check_number(self.step_size, "BetheMirrorDescent: step_size", low=0.0, open_low=True)

    def shares(self, smooth: bool, known: bool) -> Callable[[int], float] | None:
        """Backtrack where tangents say enough; at kinks steps must shrink."""
        if self.step_size is not None:
            constant = float(self.step_size) / (1.0 + float(self.step_size))
            return lambda t: constant
        return None if smooth or known else lambda t: 1.0 / (t + 1.0)
