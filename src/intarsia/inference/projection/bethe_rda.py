"""Bethe projections by regularised dual averaging."""

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


class BetheRDA(DescentProjection):
    r"""Marginals under a global energy, by averaging its slopes (regularised dual averaging, Vilnis2015 Algorithm 1).

    Choose it when a handful of calls of the oracle must do, or for energies with kinks: it has no step size, and most
    of the effect comes within 5 to 10 iterations. For an answer to many digits use `bethe_mirror_descent` (smooth
    energies) or `bethe_dual`. It minimises

    .. math:: -\langle\theta,\mu\rangle - T H(\mu) + L(\mu)

    by :math:`\theta_t = \theta - \frac{t}{t + \beta} \bar g_t`, :math:`\mu_t = oracle(\theta_t)`, where
    :math:`\bar g_t` is the mean of the slopes of L at the iterates before. For convex L the objective
    of the mean iterate is off by O(log t / t); every iterate is a distribution, so the run may be stopped at any time,
    and the best one is returned. One call of the oracle per iteration.

    Parameters
    ----------
    energy : Energy, optional
        L; without one this is plain inference by the oracle. An energy bound to the graph is taken as well.
    names : sequence, optional
        Names of the states by which the energy speaks of labels.
    oracle : str or InferenceMethod
        "tree", "junction_tree", "brute_force", or "tree_reweighted", whose entropy stands for H on loopy graphs;
        "auto" takes the first that fits.
    beta : float
        At least 0; more is more cautious at first. With energies of unbounded slope, such as Poisson counts, 0 can put
        all mass where the first slope points and stick there; about a tenth of the largest slope at the start is safe.
    max_iter : int
        Largest number of iterations.
    tol : float
        Stop when |mu - oracle(theta - grad L(mu))| is at most this; for convex energies with kinks, when the gap to a
        lower bound on the objective is.
    temperature : float, optional
        T; by default 1. For "map" the tilted model is found at T = 1, then its best labelling.

    Notes
    -----
    `result.tilted_theta` holds the scores of the model whose marginals `result.mu` are; `history` holds the value
    `log_partition` (minus the objective), the `gap`, `oracle_calls`, and a bound on the value of the mean iterate,
    `average_log_partition`. The text of Algorithm 1 takes the slope at mu_t before mu_t is known; here it is taken at
    the iterate before.

    References
    ----------
    Vilnis2015, section 6; Xiao2010.

    Examples
    --------
    Three coins, each heads (state 1) with probability 0.9, and a strong wish for one head in all:

    >>> import intarsia, numpy as np
    >>> from intarsia.energies import Count, MeasuredEnergy, Squared
    >>> graph = intarsia.from_edges(2, [], n_variables=3)
    >>> theta = graph.pack(variables=np.log([[0.1, 0.9]] * 3))
    >>> one = MeasuredEnergy(Count(1), Squared(1.0), psi=100.0)
    >>> result = intarsia.infer(graph, theta, intarsia.BetheRDA(energy=one))
    >>> bool(abs(3 * result.marginals(0)[1] - 1.0) < 0.05)
    True
    """

    name: ClassVar[str] = "bethe_rda"
    summary: ClassVar[str] = "global preferences: good after a few oracle calls, no step size, kinks allowed"
    uses_lipschitz: ClassVar[bool] = False

    _parts: ClassVar[Parts] = {"energy": ENERGY_PARTS, "oracle": METHODS}

    def __init__(
        self,
        *,
        energy: Energy | BoundEnergy | None = None,
        names: Any = None,
        oracle: str | InferenceMethod = "auto",
        beta: float = 0.0,
        max_iter: int = 1000,
        tol: float = 1e-3,
        temperature: float | None = None,
    ) -> None:
        self.energy = energy
        self.names = names
        self.oracle = oracle
        self.beta = beta
        self.max_iter = max_iter
        self.tol = tol
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.beta, "BetheRDA: beta", low=0.0, high=1e12)

    def shares(self, smooth: bool, known: bool) -> Callable[[int], float] | None:
        """A share of 1 / (t + beta) for each new slope makes the tilt t / (t + beta) times their mean."""
        return lambda t: 1.0 / (t + self.beta)
