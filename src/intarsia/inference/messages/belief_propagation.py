"""Loopy belief propagation: sum-product for marginals, max-product for MAP inference."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia.inference.messages.message_passing import Appearance, MessagePassing
from intarsia.inference.method import Problem


class BeliefPropagation(MessagePassing):
    r"""Loopy belief propagation: marginals and Bethe log Z by message passing; exact on forests.

    Choose it when loops are long or couplings are weak: it is then close to exact, and the cheapest of the accurate
    methods. With strong couplings it may not converge, or may converge to a wrong answer; use `tree_reweighted`, which
    is convex. With loops, log Z is an estimate. A fixed point is a stationary point of
    :math:`\langle\theta,\mu\rangle + H_{Bethe}(\mu)`; the update is

    .. math:: m_c(x_i) \propto \sum_{x_{c \setminus i}} e^{\theta_c(x_c)} \prod_{j \in c \setminus i}
              e^{\theta_j(x_j)} \prod_{d \ni j, d \ne c} m_d(x_j)

    which is Domke2013 Eq. (18) with :math:`\rho = 1`. Cost per sweep: one pass over all tables for each of their
    axes. With ``task="map"`` (temperature 0) sums become maxima.

    Parameters
    ----------
    max_iter : int
        Maximum number of sweeps; a sweep updates every message once.
    tol : float
        Stop when an undamped sweep would change no normalised message by more than `tol`, and the marginals of factors
        and variables differ by at most `tol`.
    damping : float in [0, 1)
        Fraction of the old message to keep in each update. Try 0.3 to 0.7 if the messages do not converge.
    schedule : {"forward_backward", "parallel", "residual"}
        Order of the updates. "forward_backward": through the variables in ascending and then descending order, each
        update using the newest messages. "parallel": all messages at once, from the old messages. "residual": always
        the message that changes most.
    rounding : {"sequential", "beliefs"}
        How labels are decoded for "map". "sequential": label the variables one after the other, conditioned on the
        labels so far (exact on forests, also with ties), then improve the labelling by changes of single variables.
        "beliefs": label each variable by its max-marginal alone, without improvement.
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
        """Return rho = 1 for every factor, which makes log Z an estimate and not a bound."""
        return Appearance(np.ones(problem.graph.n_factors))
