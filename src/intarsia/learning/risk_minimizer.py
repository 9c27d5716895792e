"""Weights that minimise a loss of what the inference gives: the learner."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from intarsia._validation import FloatArray, check_number
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.gradients import GradientRule, resolve_gradient
from intarsia.gradients.reversal import reversal_of
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import FactorGraph
from intarsia.graph.learning_form import learning_form
from intarsia.inference import InferenceMethod, Status
from intarsia.inference.registry import resolve_method
from intarsia.learning.example import Example
from intarsia.learning.learner import Learner
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.registry import resolve_optimizer
from intarsia.learning.risk import Risk
from intarsia.losses import Loss, MarginalLoss, resolve_loss


class RiskMinimizer(Learner):
    r"""Weights that minimise the average loss of the inference's answers, plus a ridge.

    .. math:: R(w) = \frac1N \sum_e a_e L(\mu(\theta_e(w)), y_e) + \frac\lambda2 \lVert w \rVert^2,

    with :math:`a_e` the examples' weights (1 by default) and N the weighted number of labelled variables in all of
    them, so that the ridge is relative to the risk per variable and need not be chosen anew for more data.

    Parameters
    ----------
    loss : str or Loss
        How far the answer is from the truth.
    gradient : str or GradientRule
        How a loss of marginals flows back through the inference; losses with a gradient of their own do not use it.
    optimizer : str or Optimizer
        How the minimum is searched.
    ridge : float
        :math:`\lambda`.
    n_jobs : int, optional
        Threads over the examples, as in joblib; the result does not depend on it.
    random_state : int
        Seed of losses that draw samples. Draws are the same at every evaluation, so that the search sees one function.

    References
    ----------
    Domke2013, sections 4 and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> scores = LinearScores(chain_graph(4, 2), [[-1.0], [2.0], [-2.0], [1.0]])
    >>> found = RiskMinimizer(ridge=0.1).minimize([example(scores, [0, 1, 0, 1])], "tree_reweighted")
    >>> found.status.name, bool(found.value < found.history["risk"][0])
    ('CONVERGED', True)
    """

    name: ClassVar[str] = "risk_minimizer"
    summary: ClassVar[str] = "the default: any loss, fitted through the inference that predicts"

    def __init__(
        self,
        *,
        loss: str | Loss = "clique_logistic",
        gradient: str | GradientRule = "truncated",
        optimizer: str | Optimizer = "lbfgs",
        ridge: float = 1e-3,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.loss = loss
        self.gradient = gradient
        self.optimizer = optimizer
        self.ridge = ridge
        self.n_jobs = n_jobs
        self.random_state = random_state

    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise where settings, inference and examples do not fit."""
        self.risk(examples, inference)

    def minimize(
        self,
        examples: Sequence[Example],
        inference: str | InferenceMethod,
        start: FloatArray | None = None,
        *,
        validation: Sequence[Example] | None = None,
        title: str = "",
    ) -> Minimum:
        """Weights of the lowest risk found from `start` (0 by default), with status and history.

        Warns
        -----
        ConvergenceWarning
            When the search ended before its tolerance; not after Ctrl-C, which the status tells.
        """
        risk = self.risk(examples, inference)
        optimizer = resolve_optimizer(self.optimizer)
        found = optimizer.minimize(risk, np.zeros(risk.n_weights) if start is None else start)
        if found.status in (Status.MAX_ITER, Status.STALLED):
            warnings.warn(
                f"RiskMinimizer: {found.status.name} after {found.n_iter} iterations with a gradient of "
                f"{found.gradient_norm:.2e} against tol={getattr(optimizer, 'tol', 0.0):g}. Raise max_iter or tol of "
                f"the optimizer.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return found

    def marginals(self, graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod) -> FloatArray:
        """Marginals as the weights were fitted for: with the truncated gradient, after exactly its number of sweeps.

        `infer` with that many sweeps is not always the same: mean field passes over variables that hardly move.

        Examples
        --------
        >>> from intarsia.graph import chain_graph
        >>> graph = chain_graph(2, 2)
        >>> RiskMinimizer().marginals(graph, graph.zeros(), "tree_reweighted")[:2].tolist()
        [0.5, 0.5]
        """
        method = resolve_method(inference, {})
        rule = resolve_gradient(self.gradient) if isinstance(resolve_loss(self.loss), MarginalLoss) else None
        if not isinstance(rule, TruncatedGradient):
            return super().marginals(graph, theta, method)
        form = learning_form(graph)
        temperature = 1.0 if method.temperature is None else float(method.temperature)
        run = reversal_of(form.graph, form.lower(graph.check_theta(theta)) / temperature, method)
        for _ in range(int(rule.n_iter)):
            run.sweep()
        mu = run.marginals()
        if mu is None:
            raise InvalidInputError("RiskMinimizer: theta allows no labelling. Allow some, with scores above -inf.")
        return form.raise_mu(mu)

    def risk(self, examples: Sequence[Example], inference: str | InferenceMethod) -> Risk:
        """Regularised risk as a function of the weights.

        Raises
        ------
        InvalidInputError
            Without examples, without any label, or if the examples differ in their number of weights.
        NotSupportedError
            If loss, inference and gradient rule do not fit.
        """
        check_number(self.ridge, "RiskMinimizer: ridge", low=0.0)
        check_number(self.random_state, "RiskMinimizer: random_state", low=0, integer=True)
        if len(examples) == 0:
            raise InvalidInputError("RiskMinimizer: no examples. Give at least one labelled graph.")
        counts = [e.scores.n_weights for e in examples]
        if not any(e.n_labelled for e in examples):
            raise InvalidInputError(
                f"RiskMinimizer: all labels of the {len(examples)} examples are hidden. Label some variables."
            )
        if not any(e.mass > 0.0 for e in examples):
            raise InvalidInputError("RiskMinimizer: every labelled example has a weight of 0. Give some more than 0.")
        if len(set(counts)) > 1:
            odd = next(i for i, count in enumerate(counts) if count != counts[0])
            raise InvalidInputError(
                f"RiskMinimizer: example {odd} needs {counts[odd]} weights, but example 0 needs {counts[0]}. Give all "
                f"examples the same states and the same number of features."
            )
        loss, method = resolve_loss(self.loss), resolve_method(inference, {})
        loss.check_settings()
        method.check_settings()
        resolve_optimizer(self.optimizer).check_settings()
        rule = None
        if isinstance(loss, MarginalLoss):
            rule = resolve_gradient(self.gradient)
            rule.check_settings()
            rule.check_fits(method)
            if loss.uses_factors and not any(_has_labelled_factor(e) for e in examples):
                raise InvalidInputError(
                    f"RiskMinimizer: {type(loss).__name__} reads labels of factors, but no factor has labels at all "
                    f"its variables. Label neighbours, or use a loss of single variables such as 'univariate_logistic'."
                )
        return Risk(examples, loss, rule, method, float(self.ridge), self.n_jobs, int(self.random_state))


def _has_labelled_factor(one: Example) -> bool:
    """Whether some factor has no hidden variable, so that losses of factors have a term."""
    graph = one.form.graph
    if graph.n_factors == 0:
        return False
    return not bool(np.logical_or.reduceat(one.labels.hidden[graph.scope_idx], graph.scope_ptr[:-1]).all())
