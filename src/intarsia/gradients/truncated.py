"""The exact gradient of a loss, or of the log-partition function, after a fixed number of sweeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.gradients.free_energy import free_energy_found
from intarsia.gradients.reversal import reversal_of
from intarsia.gradients.rule import GradientResult, GradientRule, Judge, infeasible, nothing_left
from intarsia.graph import FactorGraph, learning_form
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.losses import TrainingLabels
from intarsia.losses.clamping import clamp, score_labels
from intarsia.losses.likelihood import LogPartitionLoss
from intarsia.losses.loss import check_pair, impossible_labels


class TruncatedGradient(GradientRule):
    r"""Exact gradient of a loss of the marginals after `n_iter` sweeps, by undoing the sweeps one by one.

    Choose it to learn: it needs no convergence, costs a small multiple of the sweeps themselves and never gives a
    wrong direction. The model is then fitted for exactly that many sweeps, so predict with the same number. From
    uniform messages (or marginals), each update is differentiated in reverse:

    .. math:: \overleftarrow\nu = \overleftarrow{\log m_c} - m_c \textstyle\sum \overleftarrow{\log m_c}, \quad
              \overleftarrow\theta(x_c) \mathrel{+}= \tfrac1{\rho_c}\, p(x_c \mid x_i)\, \overleftarrow\nu(x_i),

    and what the table passes on to :math:`x_j` goes to :math:`\theta_j` and, times :math:`\rho_d - [c = d]`, to the
    messages there. What has probability 0 has gradient 0.

    Memory: `n_iter` copies of the messages (of the marginals for mean field, twice), never of the tables. Where these
    would take more than 400 MB (`KEPT_BYTES` of `gradients/message_stack.py`), fewer are kept, down to about `sqrt(2
    n_iter)`, and sweeps between them are run again on the way back: none more than twice in all, so that the price is
    less than the sweeps forward once more. The gradient is the same to the last bit.

    Parameters
    ----------
    n_iter : int
        Sweeps; `max_iter` and `tol` of the inference are not used. Damping is.

    References
    ----------
    Domke2013, section 7, Algorithms 2 and 3 (with 6d, 7c and 8 corrected).

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> class FirstState:                      # the loss is the probability that variable 0 is in state 0
    ...     needs, uses_factors = "marginals", False
    ...     def value_and_gradient(self, graph, mu, labels):
    ...         return mu[0], np.eye(mu.size)[0]
    >>> graph = chain_graph(2, 2)
    >>> rule = TruncatedGradient(n_iter=3)
    >>> found = rule.value_and_gradient(graph, graph.zeros(), None, FirstState(), "belief_propagation")
    >>> found.value, found.gradient[:2].tolist()     # p (1 - p) and its opposite
    (0.5, [0.25, -0.25])
    """

    name: ClassVar[str] = "truncated"
    summary: ClassVar[str] = "the default: exact for a fixed number of sweeps, converged or not"
    differentiates: ClassVar[tuple[str, ...]] = ("mean_field", "belief_propagation", "tree_reweighted")

    def __init__(self, *, n_iter: int = 20) -> None:
        self.n_iter = n_iter

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        check_number(self.n_iter, "TruncatedGradient: n_iter", low=0, integer=True)

    def marginals(self, graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod) -> FloatArray:
        """Marginals after exactly `n_iter` sweeps: what a model fitted by this rule predicts with.

        `infer` with that many sweeps is not always the same: mean field passes over variables that hardly move.

        Parameters
        ----------
        graph : FactorGraph
            Any; it is brought into learning form, and the marginals are in its own layout.
        theta : (graph.n_theta,) array
            Scores; -inf marks the impossible.
        inference : str or InferenceMethod
            One of those in `differentiates`.

        Raises
        ------
        NotSupportedError
            If the rule cannot differentiate the inference.
        InvalidInputError
            If theta allows no labelling.

        Examples
        --------
        >>> from intarsia.graph import chain_graph
        >>> graph = chain_graph(2, 2)
        >>> TruncatedGradient(n_iter=1).marginals(graph, graph.zeros(), "tree_reweighted")[:2].tolist()
        [0.5, 0.5]
        """
        method = METHODS.resolve(inference, {})
        form = learning_form(graph)
        scores = self.check(form.graph, form.lower(graph.check_theta(theta)), method)
        if form.graph.n_variables == 0:
            return form.raise_mu(form.graph.zeros())
        run = None if nothing_left(form.graph, scores) else reversal_of(form.graph, scores, method)
        swept = run is not None and not any(np.isnan(run.sweep()) for _ in range(int(self.n_iter)))
        mu = run.marginals() if run is not None and swept else None
        if mu is None:
            raise InvalidInputError("TruncatedGradient: theta allows no labelling. Allow some, with scores above -inf.")
        return form.raise_mu(mu)

    def fits_loss(self, loss: Any) -> bool:
        """Losses of marginals, and those of log-partitions through the free energy after the sweeps."""
        return super().fits_loss(loss) or isinstance(loss, LogPartitionLoss)

    def value_and_gradient(
        self, graph: FactorGraph, theta: FloatArray, labels: Any, loss: Any, inference: str | InferenceMethod
    ) -> GradientResult:
        """See `GradientRule`; a likelihood is the truncated one (Domke2013, section 7.3).

        With too few sweeps it may exceed 1. Its negative logarithm is then below 0, and is given as it is.
        """
        if not isinstance(loss, LogPartitionLoss):
            return super().value_and_gradient(graph, theta, labels, loss, inference)
        free, clamped = loss.methods(inference)
        check_pair(loss, graph, labels)
        above = free_energy_found(self, graph, theta, free)
        below = self._clamped(graph, graph.check_theta(theta), labels, clamped)
        if below is None or above.mu is None:
            raise impossible_labels(loss)
        return replace(above, value=above.value - below[0], gradient=above.gradient - below[1])

    def _clamped(
        self, graph: FactorGraph, theta: FloatArray, labels: TrainingLabels, method: InferenceMethod
    ) -> tuple[float, FloatArray] | None:
        """Free energy of what the labels leave open, with its gradient; the score of a complete labelling."""
        if labels.complete:
            return score_labels(graph, theta, labels)
        rest = clamp(graph, theta, labels)
        if rest is None:
            return None
        found = free_energy_found(self, rest.graph, rest.theta, rest.method(method))
        return None if found.mu is None else (found.value + rest.constant, rest.raise_mu(found.gradient))

    def _differentiate(
        self, graph: FactorGraph, theta: FloatArray, judge: Judge, inference: InferenceMethod
    ) -> GradientResult:
        run = reversal_of(graph, theta, inference)
        mu = run.marginals(judge.uses_factors) if run.forward(int(self.n_iter)) else None
        if mu is None:
            return infeasible(graph)
        value, slope = judge.evaluate(mu)
        run.pull_beliefs(mu, np.ascontiguousarray(slope, dtype=np.float64), judge.uses_factors)
        del slope  # as large as theta
        run.back()
        return GradientResult(float(value), run.gradient(), mu, Status.CONVERGED, int(self.n_iter))


def truncated_log_partition(
    graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod, n_iter: int
) -> tuple[float, FloatArray]:
    r"""Value :math:`\langle\theta, \mu_N\rangle + \tilde H(\mu_N)` of the marginals after N sweeps, with its gradient.

    This is what a truncated run says of log Z; the truncated likelihood of labels y is `theta @ statistics(y)` minus
    it, and truncated EM the difference of two, clamped and free. With too few sweeps it may lie below the score of y,
    so that the likelihood exceeds 1. At convergence the gradient is mu itself; before, there is a part through mu_N.

    Parameters
    ----------
    graph : FactorGraph
        In learning form.
    theta : (graph.n_theta,) array
        Scores.
    inference : str or InferenceMethod
        Mean field, belief propagation or tree-reweighted, at temperature 1.
    n_iter : int
        Sweeps.

    Returns
    -------
    value : float
        -inf when the model is infeasible.
    gradient : (graph.n_theta,) array

    References
    ----------
    Domke2013, section 7.3 (with plus, not minus, before the entropy).

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> value, gradient = truncated_log_partition(graph, graph.zeros(), "belief_propagation", 2)
    >>> round(value, 6), gradient[:2].tolist()                # 3 log 2
    (2.079442, [0.5, 0.5])
    """
    method = METHODS.resolve(inference, {}) if isinstance(inference, str) else inference
    rule = TruncatedGradient(n_iter=n_iter)
    rule.check_fits(method)
    found = free_energy_found(rule, graph, theta, method)
    return found.value, found.gradient
