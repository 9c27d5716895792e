"""Empirical risk minimization: weights that minimize a loss of the results of inference."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.progress import fit_progress
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.transaction import describe
from intarsia._core.validation import FloatArray, as_generator, as_seed, check_n_jobs, check_number
from intarsia._files.checkpoint import Checkpoint
from intarsia.gradients import GRADIENTS, GradientRule
from intarsia.gradients.message_stack import kept_stacks
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import FactorGraph
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.learning.examples import Example, data_sums
from intarsia.learning.learner import Learner
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer, warn_unless_converged
from intarsia.learning.registry import OPTIMIZERS, SCHEDULES
from intarsia.learning.risk import Risk, check_fits, check_labelled, check_validation, hold_out, warn_if_above_one
from intarsia.learning.staged_fit import EarlyStopping, Incremental, StagedFit
from intarsia.losses import LOSSES, DirectLoss, Loss
from intarsia.losses.loss import check_pair


class RiskMinimizer(NamedParts, Learner):
    r"""Empirical risk minimization: weights that minimize a loss of the inference results, with L2 regularization.

    .. math:: R(w) = \frac1N \Big[ \sum_e a_e L(\mu(\theta_e(w)), y_e) + \frac{l_2}{2} \lVert w \rVert^2 \Big],

    with :math:`a_e` the weights of the examples (1 by default) and N the weighted number of labelled variables in all
    of them. The division by N does not move the minimum; it makes the reported risk one per variable. So `l2` is the
    precision of a Gaussian prior on the weights: with more data the same `l2` has less effect. The model is fitted
    through the inference that will be used to predict, exact or approximate, as in a conditional random field (CRF).

    Parameters
    ----------
    loss : str or Loss
        Loss that compares the results of inference with the labels.
    gradient : "auto", str or GradientRule
        How the gradient of the loss is propagated through the inference. "auto": a loss that computes its gradient
        (likelihoods at convergence, pseudo-likelihood, ...) uses that, a loss of marginals uses truncated
        back-propagation. `TruncatedGradient` with a likelihood or EM gives the truncated likelihood, after exactly that
        many sweeps.
    optimizer : str or Optimizer
        Optimizer that searches for the minimum.
    l2 : float
        L2 regularization: penalty of `l2 / 2` times the squared norm of the weights, added to the loss summed over
        labelled variables. With `partial_fit`, added to the sum over the examples of each call.
    precondition : bool
        Whether to precondition the line search by second moments of the features (`FeatureCurvature`). The minimum is
        the same and is reached in several times fewer iterations if features have different scales or are correlated.
    schedule : "incremental" or Incremental, optional
        Training schedule that starts with few examples; None for all examples from the start.
    validation_fraction : float
        Fraction of the examples, at random, that is held out for early stopping; 0 for none. `minimize` also accepts
        validation examples. The weights with the lowest risk on these examples (without the penalty), after any
        iteration, are then the result. A search that `patience` ends has status STALLED, because the validation risk
        stalled, and does not warn, since early stopping was requested; it has not reached its tolerance, so it is not
        CONVERGED.
    patience : int
        Number of iterations without a lower validation risk after which the search (of the current stage) ends.
    checkpoint : str or Path, optional
        File that is written after every iteration. If it exists, the fit resumes from it as if it had not been
        interrupted, and `start` is ignored; the file is rejected if settings or data differ. Limits on iterations,
        `tol`, `patience`, `n_jobs` and `verbose` may differ, so that a fit can be prolonged.
    n_jobs : int, optional
        Number of threads over the examples, as in joblib; the result does not depend on it.
    random_state : int, Generator or None
        Seed of batches, of the held-out examples, and of losses that draw samples; from a Generator one seed is drawn
        for each fit. Losses draw the same samples at every evaluation, so that the search sees one function.
    verbose : bool
        Whether to show iteration, risk, gradient and remaining time, on stderr and only on a terminal.

    References
    ----------
    Domke2013, sections 4 and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import LinearScores
    >>> scores = LinearScores(chain_graph(4, 2), [[-1.0], [2.0], [-2.0], [1.0]])
    >>> result = RiskMinimizer(l2=0.4).minimize([example(scores, [0, 1, 0, 1])], "tree_reweighted")
    >>> result.status.name, bool(result.value < result.history["risk"][0])
    ('CONVERGED', True)
    """

    name: ClassVar[str] = "risk_minimizer"
    summary: ClassVar[str] = "the default: any loss, fitted through the inference that predicts"

    _parts: ClassVar[Parts] = {"loss": LOSSES, "gradient": GRADIENTS, "optimizer": OPTIMIZERS, "schedule": SCHEDULES}

    def __init__(
        self,
        *,
        loss: str | Loss = "clique_logistic",
        gradient: str | GradientRule = "auto",
        optimizer: str | Optimizer = "lbfgs",
        l2: float = 1.0,
        precondition: bool = True,
        schedule: str | Incremental | None = None,
        validation_fraction: float = 0.0,
        patience: int = 10,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.gradient = gradient
        self.optimizer = optimizer
        self.l2 = l2
        self.precondition = precondition
        self.schedule = schedule
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise if settings, inference and examples do not match."""
        check_number(self.l2, "RiskMinimizer: l2", low=0.0, high=np.inf, open_high=True)
        with errors_in("RiskMinimizer"):
            as_generator(self.random_state)
        check_number(self.validation_fraction, "RiskMinimizer: validation_fraction", low=0.0, high=1.0, open_high=True)
        check_number(self.patience, "RiskMinimizer: patience", low=1, integer=True)
        check_n_jobs(self.n_jobs, "RiskMinimizer: n_jobs")
        self._check_same_weights(examples)
        check_labelled(examples)
        loss, method = LOSSES.resolve(self.loss), METHODS.resolve(inference, {})
        for example in examples:  # hidden labels or weights that the loss does not support
            check_pair(loss, example.form.graph, example.labels)
        method.check_settings()
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        optimizer.check_settings()
        optimizer.check_fits(loss)
        if self.schedule is not None:
            SCHEDULES.resolve(self.schedule).check_settings()
        rule = self._rule(loss)
        check_fits(examples, loss, method, rule)

    def check_validation(
        self, examples: Sequence[Example], inference: str | InferenceMethod, validation: Sequence[Example] | None
    ) -> None:
        """Raise if early stopping cannot use these examples; None checks those that would be held out."""
        train, held_out = self._hold_out(examples, validation)
        if held_out:
            self.check_examples(train, inference)
            check_validation(held_out, LOSSES.resolve(self.loss), train[0].scores.n_weights)

    def minimize(
        self,
        examples: Sequence[Example],
        inference: str | InferenceMethod,
        start: FloatArray | None = None,
        *,
        validation: Sequence[Example] | None = None,
        title: str = "",
    ) -> Minimum:
        """Return the weights with the lowest risk, searched from `start`, with status and history.

        Parameters
        ----------
        examples : list of Example
            Training examples.
        inference : str or InferenceMethod
            Inference method that computes the marginals.
        start : float array, optional
            Weights to start from; 0 by default.
        validation : list of Example, optional
            Examples for early stopping; no training examples are held out then.
        title : str
            Title of the progress line.

        Returns
        -------
        Minimum
            The history has a row for the start and each iteration of each stage, with "n_examples" of the stage, and
            "validation_risk" with early stopping. After Ctrl-C the value is the risk on the examples of the stage in
            which the weights were reached.

        Warns
        -----
        ConvergenceWarning
            If the last stage ended before its tolerance; not after Ctrl-C or early stopping.
        """
        seeded = self.with_seed()
        if seeded is not self:
            return seeded.minimize(examples, inference, start, validation=validation, title=title)
        self.check_examples(examples, inference)
        train, held_out = self._hold_out(examples, validation)
        risk = self.risk(train, inference) if len(train) < len(examples) else self._risk(train, inference)
        weights = self._start_weights(start, risk.n_weights)
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        stopping = None
        if held_out:
            stopping = EarlyStopping(self._validation_risk(held_out, risk), int(self.patience))
        stages = [(len(risk), int(optimizer.max_iter))]
        if self.schedule is not None:
            stages = SCHEDULES.resolve(self.schedule).stages(len(risk))
        with kept_stacks(), fit_progress(title or type(self).__name__, self.verbose) as report:
            result = StagedFit(
                optimizer,
                risk,
                stages,
                self._rng().permutation(len(risk)),
                as_seed(self.random_state),
                stopping,
                self._checkpoint([*train, *held_out], risk, len(held_out)),
                report,
                risk.loss.gradient_is_of_value,
            ).run(weights)
        warn_if_above_one(risk, result)
        stopped_early = stopping is not None and stopping.given_up
        if not stopped_early:
            limit = "max_iter" if self.schedule is None else "max_iter of the schedule"
            with errors_in("RiskMinimizer"):
                warn_unless_converged(result, optimizer, limit)
        return result

    def resumes(self) -> bool:
        """Return whether there is a checkpoint to resume from."""
        return self.checkpoint is not None and os.path.exists(self.checkpoint)

    def step(
        self, examples: Sequence[Example], inference: str | InferenceMethod, weights: FloatArray, state: Any = None
    ) -> tuple[FloatArray, Any, float]:
        """Make one pass over the examples in mini-batches, for data that arrive incrementally.

        Parameters
        ----------
        examples : list of Example
            New examples.
        inference : str or InferenceMethod
            Inference method that computes the marginals.
        weights : float array
            Current weights; not modified.
        state : object
            State that the last call returned; None at first.

        Returns
        -------
        weights : float array
        state : object
            State for the next call.
        risk : float
            Mean risk of the batches, each before its step.

        Raises
        ------
        NotSupportedError
            If the optimizer needs all data at once.

        Examples
        --------
        >>> import numpy as np
        >>> from intarsia.graph import chain_graph
        >>> from intarsia.learning.examples import example
        >>> from intarsia.models import LinearScores
        >>> scores = LinearScores(chain_graph(4, 2), [[-1.0], [2.0], [-2.0], [1.0]])
        >>> learner = RiskMinimizer(loss="univariate_logistic", optimizer="adam")
        >>> weights, state, risk = learner.step([example(scores, [0, 1, 0, 1])], "tree_reweighted", np.zeros(6))
        >>> bool(weights[1] > weights[0]), round(risk, 4)          # log 2 before the step
        (True, 0.6931)
        """
        seeded = self.with_seed()
        if seeded is not self:
            return seeded.step(examples, inference, weights, state)
        risk = self.risk(examples, inference)
        return OPTIMIZERS.resolve(self.optimizer).epoch(
            risk, self._start_weights(weights, risk.n_weights), state or {}, as_seed(self.random_state)
        )

    def marginals(self, graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod) -> FloatArray:
        """Compute the marginals as during the fit: with the truncated gradient, after exactly its number of sweeps.

        `infer` with that many sweeps may differ: mean field skips variables that hardly change.

        Examples
        --------
        >>> from intarsia.graph import chain_graph
        >>> graph = chain_graph(2, 2)
        >>> RiskMinimizer().marginals(graph, graph.zeros(), "tree_reweighted")[:2].tolist()
        [0.5, 0.5]
        """
        method = METHODS.resolve(inference, {})
        rule = self._rule(LOSSES.resolve(self.loss))
        if isinstance(rule, TruncatedGradient):
            return rule.marginals(graph, theta, method)
        return super().marginals(graph, theta, method)

    def risk(self, examples: Sequence[Example], inference: str | InferenceMethod) -> Risk:
        """Return the regularized risk as a function of the weights.

        Raises
        ------
        InvalidInputError
            If there are no examples or no labels, or if the examples differ in their number of weights.
        NotSupportedError
            If loss, inference and gradient rule do not work together.
        """
        self.check_examples(examples, inference)
        return self.with_seed()._risk(examples, inference)

    def _risk(self, examples: Sequence[Example], inference: str | InferenceMethod) -> Risk:
        """Return the regularized risk of examples that are already checked."""
        loss = LOSSES.resolve(self.loss)
        return Risk(
            examples,
            loss,
            self._rule(loss),
            METHODS.resolve(inference, {}),
            float(self.l2) / sum(example.mass for example in examples),
            self.n_jobs,
            as_seed(self.random_state),
            preconditioned=bool(self.precondition),
        )

    def _named_part(self, name: str, value: str) -> Any:
        return TruncatedGradient() if (name, value) == ("gradient", "auto") else super()._named_part(name, value)

    def _rule(self, loss: Loss) -> GradientRule | None:
        """Return the gradient rule; None for a loss that computes its gradient."""
        if isinstance(self.gradient, str) and self.gradient == "auto":
            return None if isinstance(loss, DirectLoss) else TruncatedGradient()
        return GRADIENTS.resolve(self.gradient)

    def _hold_out(
        self, examples: Sequence[Example], validation: Sequence[Example] | None
    ) -> tuple[list[Example], list[Example]]:
        """Return the training examples and those for early stopping."""
        if validation is not None or self.validation_fraction == 0.0:
            return list(examples), list(validation or [])
        return hold_out(examples, self.validation_fraction, self._rng())

    def _validation_risk(self, held_out: list[Example], risk: Risk) -> Risk:
        """Return the risk of the held-out examples, without regularization."""
        check_validation(held_out, risk.loss, risk.n_weights)
        return Risk(held_out, risk.loss, risk.rule, risk.inference, 0.0, self.n_jobs, as_seed(self.random_state))

    def _checkpoint(self, examples: list[Example], risk: Risk, n_held_out: int) -> Checkpoint | None:
        """Return the checkpoint file with the settings and data that must not change; None without one."""
        if self.checkpoint is None:
            return None
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        settings = {
            "loss": describe(risk.loss),
            "gradient": describe(risk.rule),
            "inference": describe(risk.inference),
            "optimizer": describe(optimizer, "max_iter", "tol"),
            "l2": describe(float(self.l2)),
            "precondition": describe(bool(self.precondition)),
            "schedule": describe(None if self.schedule is None else SCHEDULES.resolve(self.schedule), "max_iter"),
            "random_state": describe(as_seed(self.random_state)),
            "number of validation examples": describe(n_held_out),
            "number of weights": describe(risk.n_weights),
        }
        return Checkpoint(self.checkpoint, settings, data_sums(examples))

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(as_seed(self.random_state))
