"""Loopy belief propagation: sum-product for marginals, max-product for MAP."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia.inference.messages.message_passing import Appearance, MessagePassing
from intarsia.inference.method import Problem


class BeliefPropagation(MessagePassing):
    r"""Marginals and Bethe log Z by passing messages; exact on forests, an estimate with loops.

    Choose it when loops are long or couplings weak: it is then close to exact and the cheapest of the good methods.
    With strong couplings it may not converge, or not to the right answer: `tree_reweighted` is convex. A fixed point
    is a stationary point of :math:`\langle\theta,\mu\rangle + H_{Bethe}(\mu)`; the update is

    .. math:: m_c(x_i) \propto \sum_{x_{c \setminus i}} e^{\theta_c(x_c)} \prod_{j \in c \setminus i}
              e^{\theta_j(x_j)} \prod_{d \ni j, d \ne c} m_d(x_j)

    which is Domke2013 Eq. (18) with :math:`\rho = 1`. Cost per sweep: one pass over all tables for each of their
    axes. With ``task="map"`` (temperature 0) sums become maxima.

    Parameters
    ----------
    max_iter : int
        Largest number of sweeps; one sweep updates every message once.
    tol : float
        Stop when no normalised message would change by more in a sweep without damping, and the marginals of factors
        and variables differ by no more.
    damping : float in [0, 1)
        Share of the old message that is kept; try 0.3 - 0.7 when it does not converge.
    schedule : {"forward_backward", "parallel", "residual"}
        Each update sees the ones before it, going up and down through the variables; or all at once from the
        old messages; or always the message that changes most.
    rounding : {"sequential", "beliefs"}
        For "map": label variables one after the other given the earlier ones (right on forests also with ties) and
        improve the labelling by single changes until none helps; or each variable by its own belief, as it stands.
    temperature : float, optional
        T in `<theta, mu> + T H(mu)`; by default 1 for marginals, 0 for MAP.

    References
    ----------
    Pearl1988; Yedidia2005; Domke2013, section 3.3.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.chain_graph(2, 2)
    >>> theta = graph.pack(variables=[[0, 1], [0, 0]], tables=[[[1, 0], [0, 1]]])
    >>> result = intarsia.infer(graph, theta, "belief_propagation")
    >>> result.log_partition_is, round(result.log_partition, 6)
    ('exact', 2.626523)
    """

    name: ClassVar[str] = "belief_propagation"
    summary: ClassVar[str] = "long loops or weak couplings; exact on forests"
    log_partition_is: ClassVar[str | None] = "estimate"
    map_is: ClassVar[str] = "loopy fixed point"
    cost: ClassVar[str] = "every table once per axis and sweep"

    def __init__(
        self,
        *,
        max_iter: int = 1000,
        tol: float = 1e-8,
        damping: float = 0.0,
        schedule: str = "forward_backward",
        rounding: str = "sequential",
        temperature: float | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping
        self.schedule = schedule
        self.rounding = rounding
        self.temperature = temperature

    def appearance(self, problem: Problem) -> Appearance:
        """All ones; the Bethe value bounds nothing."""
        return Appearance(np.ones(problem.graph.n_factors))
