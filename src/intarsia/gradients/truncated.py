"""Truncated back-propagation: exact gradient of a loss, or of log Z, after a fixed number of sweeps."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.gradients.free_energy import differentiate_free_energy
from intarsia.gradients.reversal import reversal_of
from intarsia.gradients.rule import (
    GradientResult,
    GradientRule,
    LossFunction,
    has_impossible_variable,
    infeasible_result,
)
from intarsia.graph import FactorGraph, learning_form
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.losses import TrainingLabels
from intarsia.losses.clamping import clamp, score_labels
from intarsia.losses.likelihood import LogPartitionLoss
from intarsia.losses.loss import check_pair, impossible_labels


class TruncatedGradient(GradientRule):
    r"""Truncated back-propagation: exact gradient of a loss of the marginals after `n_iter` sweeps.

    Choose it for training: it needs no convergence, costs a small multiple of the sweeps themselves and is always the
    exact gradient of the computed loss. The model is then fitted for exactly that many sweeps, so predict with the same
    number. Starting from uniform messages (or marginals), each update is differentiated in reverse order:

    .. math:: \overleftarrow\nu = \overleftarrow{\log m_c} - m_c \textstyle\sum \overleftarrow{\log m_c}, \quad
              \overleftarrow\theta(x_c) \mathrel{+}= \tfrac1{\rho_c}\, p(x_c \mid x_i)\, \overleftarrow\nu(x_i),

    and the part that the table passes on to :math:`x_j` is added to :math:`\theta_j` and, times :math:`\rho_d - [c =
    d]`, to the messages there. States of probability 0 have gradient 0.

    Memory: `n_iter` copies of the messages (of the marginals for mean field, twice), never of the tables. If these
    would take more than 400 MB (`KEPT_BYTES` of `gradients/message_stack.py`), fewer are stored, down to about `sqrt(2
    n_iter)`, and sweeps between them are repeated in the backward pass: none is run more than twice in total, so that
    the extra cost is less than one further forward pass. The gradient is the same to the last bit. Set `checkpoint` to
    choose between memory and time.

    Parameters
    ----------
    n_iter : int
        Number of sweeps; `max_iter` and `tol` of the inference are ignored. Damping is used.
    checkpoint : {"auto", True, False}
        Gradient checkpointing. True stores about `sqrt(2 n_iter)` copies of the messages and repeats the other sweeps
        in the backward pass, False stores all, and "auto" stores all if they take at most 400 MB.

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
    >>> result = rule.value_and_gradient(graph, graph.zeros(), None, FirstState(), "belief_propagation")
    >>> result.value, result.gradient[:2].tolist()   # p (1 - p) and its negative
    (0.5, [0.25, -0.25])
    """

    name: ClassVar[str] = "truncated"
    summary: ClassVar[str] = "the default: exact for a fixed number of sweeps, converged or not"
    differentiates: ClassVar[tuple[str, ...]] = ("mean_field", "belief_propagation", "tree_reweighted")

    def __init__(self, *, n_iter: int = 20, checkpoint: bool | str = "auto") -> None:
        self.n_iter = n_iter
        self.checkpoint = checkpoint

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        check_number(self.n_iter, "TruncatedGradient: n_iter", low=0, integer=True)
        if self.checkpoint != "auto" and not isinstance(self.checkpoint, bool | np.bool_):
            raise InvalidInputError(
                f"TruncatedGradient: checkpoint must be True, False or 'auto', got {self.checkpoint!r}. Use True to "
                f"save memory, or 'auto'."
            )

    def marginals(self, graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod) -> FloatArray:
        """Compute the marginals after exactly `n_iter` sweeps, for predictions with weights fitted by this rule.

        `infer` with that many sweeps may differ: mean field skips variables that hardly change.

        Parameters
        ----------
        graph : FactorGraph
            Any graph; it is converted to learning form, and the marginals are in its original layout.
        theta : (graph.n_theta,) array
            Scores (log-potentials); -inf marks impossible states.
        inference : str or InferenceMethod
            One of the methods in `differentiates`.

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
        run = None if has_impossible_variable(form.graph, scores) else reversal_of(form.graph, scores, method)
        is_feasible = run is not None and not any(np.isnan(run.sweep()) for _ in range(int(self.n_iter)))
        mu = run.marginals() if run is not None and is_feasible else None
        if mu is None:
            raise InvalidInputError("TruncatedGradient: theta allows no labelling. Set some scores above -inf.")
        return form.raise_mu(mu)

    def _max_bytes(self) -> int | None:
        """Return the number of bytes up to which all messages are stored; None for the default."""
        if self.checkpoint == "auto":
            return None
        return 0 if self.checkpoint else sys.maxsize

    def fits_loss(self, loss: Any) -> bool:
        """Return whether it is a loss of marginals, or of log Z (through the free energy after the sweeps)."""
        return super().fits_loss(loss) or isinstance(loss, LogPartitionLoss)

    def value_and_gradient(
        self, graph: FactorGraph, theta: FloatArray, labels: Any, loss: Any, inference: str | InferenceMethod
    ) -> GradientResult:
        """See `GradientRule`; a likelihood becomes the truncated likelihood (Domke2013, section 7.3).

        After too few sweeps the likelihood may exceed 1. Its negative logarithm is then below 0 and is returned
        unchanged.
        """
        if not isinstance(loss, LogPartitionLoss):
            return super().value_and_gradient(graph, theta, labels, loss, inference)
        free, clamped = loss.methods(inference)
        check_pair(loss, graph, labels)
        free_result = differentiate_free_energy(self, graph, theta, free)
        clamped_result = self._clamped(graph, graph.check_theta(theta), labels, clamped)
        if clamped_result is None or free_result.mu is None:
            raise impossible_labels(loss)
        return replace(
            free_result, value=free_result.value - clamped_result[0], gradient=free_result.gradient - clamped_result[1]
        )

    def _clamped(
        self, graph: FactorGraph, theta: FloatArray, labels: TrainingLabels, method: InferenceMethod
    ) -> tuple[float, FloatArray] | None:
        """Return the free energy with the labels fixed, and its gradient; the score if the labelling is complete."""
        if labels.complete:
            return score_labels(graph, theta, labels)
        clamped_model = clamp(graph, theta, labels)
        if clamped_model is None:
            return None
        result = differentiate_free_energy(self, clamped_model.graph, clamped_model.theta, clamped_model.method(method))
        return (
            None
            if result.mu is None
            else (result.value + clamped_model.constant, clamped_model.raise_mu(result.gradient))
        )

    def _differentiate(
        self, graph: FactorGraph, theta: FloatArray, loss_function: LossFunction, inference: InferenceMethod
    ) -> GradientResult:
        run = reversal_of(graph, theta, inference)
        mu = run.marginals(loss_function.uses_factors) if run.forward(int(self.n_iter), self._max_bytes()) else None
        if mu is None:
            return infeasible_result(graph)
        value, slope = loss_function.evaluate(mu)
        run.pull_beliefs(mu, np.ascontiguousarray(slope, dtype=np.float64), loss_function.uses_factors)
        del slope  # as large as theta
        run.back()
        return GradientResult(float(value), run.gradient(), mu, Status.CONVERGED, int(self.n_iter))


def truncated_log_partition(
    graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod, n_iter: int
) -> tuple[float, FloatArray]:
    r"""Estimate log Z by :math:`\langle\theta, \mu_N\rangle + \tilde H(\mu_N)` after N sweeps, with its gradient.

    This is the estimate of the log-partition function by a truncated run. The truncated log-likelihood of labels y is
    `theta @ statistics(y)` minus it, and truncated EM the difference of two, clamped and free. After too few sweeps it
    may be below the score of y, so that the likelihood exceeds 1. At convergence the gradient is mu; before, there is
    also a term through mu_N.

    Parameters
    ----------
    graph : FactorGraph
        Factor graph in learning form.
    theta : (graph.n_theta,) array
        Scores (log-potentials).
    inference : str or InferenceMethod
        Mean field, belief propagation or tree-reweighted, at temperature 1.
    n_iter : int
        Number of sweeps.

    Returns
    -------
    value : float
        -inf if the model is infeasible.
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
    result = differentiate_free_energy(rule, graph, theta, method)
    return result.value, result.gradient
