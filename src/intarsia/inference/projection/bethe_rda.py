"""Bethe projections by regularised dual averaging (RDA)."""

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
    r"""Marginals with a global energy, by regularised dual averaging of its gradients (Vilnis2015 Algorithm 1).

    Choose it if you can afford only a few calls of the oracle, or for energies with kinks: it has no step size, and
    most of the progress comes within 5 to 10 iterations. If you need many correct digits, use `bethe_mirror_descent`
    (smooth energies) or `bethe_dual`. It minimises

    .. math:: -\langle\theta,\mu\rangle - T H(\mu) + L(\mu)

    by :math:`\theta_t = \theta - \frac{t}{t + \beta} \bar g_t`, :math:`\mu_t = oracle(\theta_t)`, where
    :math:`\bar g_t` is the mean of the gradients of L at the previous iterates. For convex L, the error of the
    objective at the mean iterate is O(log t / t). Every iterate is a distribution, so the run may be stopped at any
    time; the best iterate is returned. Each iteration needs one call of the oracle.

    Parameters
    ----------
    energy : Energy, optional
        L, optionally already bound to the graph; None runs the oracle without an energy.
    names : sequence, optional
        Names of the states, if the energy refers to labels by name.
    oracle : str or InferenceMethod
        Inference method for the tilted models: "tree", "junction_tree", "brute_force", or "tree_reweighted" with its
        approximate entropy on loopy graphs; "auto" selects the first that applies.
    beta : float
        At least 0; a larger value shortens the first steps. With energies of unbounded gradient, such as Poisson
        counts, the first step with 0 can put all mass on one state and stay there; about a tenth of the largest entry
        of the initial gradient is safe.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Stop when |mu - oracle(theta - grad L(mu))| is at most `tol`; for convex energies with kinks, when the gap
        between the objective and its lower bound is at most `tol`.
    temperature : float, optional
        T, by default 1. For "map", the tilted model is computed at T = 1, and its best labelling is returned.

    Notes
    -----
    `result.tilted_theta` holds the scores of the model that has the marginals `result.mu`. `history` holds
    `log_partition` (minus the objective), `gap`, `oracle_calls`, and for convex energies `average_log_partition`, a
    bound on the value of the mean iterate. The paper's Algorithm 1 evaluates the gradient at mu_t before mu_t is
    computed; this implementation evaluates it at the previous iterate.

    References
    ----------
    Vilnis2015, section 6; Xiao2010.

    Examples
    --------
    Three coins, each heads (state 1) with probability 0.9, and a strong global preference for one head in total:

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
    summary: ClassVar[str] = "global preferences: accurate after a few oracle calls, no step size, kinks allowed"
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
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.beta, "BetheRDA: beta", low=0.0, high=1e12)

    def step_weights(self, smooth: bool, has_lipschitz: bool) -> Callable[[int], float] | None:
        """Return t -> 1 / (t + beta), which makes the tilt t / (t + beta) times the mean of the gradients."""
        return lambda t: 1.0 / (t + self.beta)
