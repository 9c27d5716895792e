"""Tree-reweighted message passing: convex variational inference with an upper bound on log Z."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph.spanning_trees import check_appearance, is_valid_appearance, stored_appearance
from intarsia.inference.messages.message_passing import Appearance, MessagePassing
from intarsia.inference.method import Problem


class TreeReweighted(MessagePassing):
    r"""Tree-reweighted message passing: marginals of a convex relaxation, and an upper bound on log Z.

    Choose it for loopy models if you need a unique solution that does not depend on the initial messages, an upper
    bound on log Z, or inference to differentiate through when fitting a model. Where couplings are strong, its
    marginals are smoother than the exact ones. It maximises

    .. math:: \langle\theta,\mu\rangle + \sum_i H(\mu_i) - \sum_c \rho_c I(\mu_c)

    over the local polytope (Domke2013 Eq. 13 - 17) by the updates of Eq. (18)

    .. math:: m_c(x_i) \propto \sum_{x_{c \setminus i}} e^{\theta_c(x_c) / \rho_c} \prod_{j \in c \setminus i}
              e^{\theta_j(x_j)} \frac{\prod_{d \ni j} m_d(x_j)^{\rho_d}}{m_c(x_j)}.

    `rho_c` is the probability that factor c is in a random spanning tree. The optimum is an upper bound on log Z if the
    run converged and rho is valid; otherwise `log_partition_is` is "estimate". A sweep costs as much as one of belief
    propagation, plus one power per state where rho differs between factors.

    Parameters
    ----------
    rho : None, float or (n_factors,) array
        Appearance probabilities in (0, 1], for all factors or for each; None computes them (uniform over spanning
        trees; 1/2 on 4-connected grids).
    max_iter : int
        Maximum number of sweeps; a sweep updates every message once.
    tol : float
        Stop when an undamped sweep would change no normalised message by more than `tol`, and the marginals of factors
        and variables differ by at most `tol`.
    damping : float in [0, 1)
        Fraction of the old message to keep in each update.
    schedule : {"forward_backward", "parallel", "residual"}
        Order of the updates, as in `BeliefPropagation`.
    rounding : {"sequential", "beliefs"}
        How labels are decoded for "map", as in `BeliefPropagation`.
    temperature : float, optional
        T in `<theta, mu> + T H(mu)`; by default 1 for marginals, 0 for MAP.

    Raises
    ------
    InvalidInputError
        If rho has the wrong length or a value outside (0, 1].

    References
    ----------
    Wainwright2005; Domke2013, section 3.3.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.grid_graph(3, 3, 2)
    >>> theta = graph.pack(tables=[[[1, 0], [0, 1]]] * 12)
    >>> exact = intarsia.infer(graph, theta, "brute_force").log_partition
    >>> result = intarsia.infer(graph, theta, "tree_reweighted")
    >>> result.log_partition_is, result.log_partition >= exact
    ('upper bound', True)
    """

    name: ClassVar[str] = "tree_reweighted"
    summary: ClassVar[str] = "loopy models: convex, upper bound on log Z, suited to learning"
    log_partition_is: ClassVar[str | None] = "upper bound"
    cost: ClassVar[str] = "every table once per axis and sweep"

    def __init__(
        self,
        *,
        rho: Any = None,
        max_iter: int = 1000,
        tol: float = 1e-8,
        damping: float = 0.0,
        schedule: str = "forward_backward",
        rounding: str = "sequential",
        temperature: float | None = None,
    ) -> None:
        self.rho = rho
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping
        self.schedule = schedule
        self.rounding = rounding
        self.temperature = temperature

    def appearance(self, problem: Problem) -> Appearance:
        """Return rho of the reduced graph, from the setting or computed, and whether it is proven valid."""
        graph = problem.graph
        if self.rho is None:
            return Appearance(stored_appearance(graph), is_valid=True, is_mixture=True)
        original_rho = as_float_array(self.rho, "TreeReweighted: rho")
        if original_rho.ndim == 0:
            rho = check_appearance(graph, np.full(graph.n_factors, float(original_rho)))
        else:
            rho = carry_over(original_rho, problem.factor_of, graph.n_factors)
            check_appearance(problem.original, original_rho)
        valid = is_valid_appearance(graph, rho) is True
        # For edges, rho is valid exactly if it is a mean of forests; for larger factors there is no such proof.
        return Appearance(rho, is_valid=valid, is_mixture=valid and graph.max_scope <= 2)


def carry_over(rho: FloatArray, factor_of: IntArray, n_factors: int) -> FloatArray:
    """Return rho of the factors of a reduced graph; factors merged into one get the largest of their values.

    Examples
    --------
    >>> carry_over(np.array([0.5, 0.8, 0.7]), np.array([0, -1, 0]), 1)
    array([0.7])
    """
    if rho.shape != factor_of.shape:
        raise InvalidInputError(
            f"TreeReweighted: rho has shape {rho.shape}, but the graph has {factor_of.size} factors. Pass one value "
            "per factor, a single number, or None."
        )
    reduced_rho = np.zeros(n_factors)
    remains = factor_of >= 0
    np.maximum.at(reduced_rho, factor_of[remains], rho[remains])
    return reduced_rho
