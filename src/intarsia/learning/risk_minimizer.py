"""Weights that minimise a loss of what the inference gives: the learner."""

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
from intarsia.learning.fit_checks import (
    check_fits,
    check_labelled,
    check_start,
    check_validation,
    hold_out,
    warn_if_above_one,
)
from intarsia.learning.learner import Learner
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer, warn_unless_converged
from intarsia.learning.registry import OPTIMIZERS, SCHEDULES
from intarsia.learning.risk import Risk
from intarsia.learning.staged_fit import EarlyStopping, Incremental, StagedFit
from intarsia.losses import LOSSES, DirectLoss, Loss
from intarsia.losses.loss import check_pair


class RiskMinimizer(NamedParts, Learner):
    r"""Weights that minimise the summed loss of the inference's answers, plus an L2 penalty.

    .. math:: R(w) = \frac1N \Big[ \sum_e a_e L(\mu(\theta_e(w)), y_e) + \frac{l_2}{2} \lVert w \rVert^2 \Big],

    with :math:`a_e` the examples' weights (1 by default) and N the weighted number of labelled variables in all of
    them. The division by N does not move the minimum; it makes the reported risk one per variable. So `l2` is the
    precision of a Gaussian prior on the weights: with more data the same `l2` counts for less.

    Parameters
    ----------
    loss : str or Loss
        How far the answer is from the truth.
    gradient : "auto", str or GradientRule
        How the loss flows back through the inference. "auto": a loss with a gradient of its own (likelihoods at
        convergence, pseudo-likelihood, ...) uses that, a loss of marginals the truncated rule. `TruncatedGradient`
        with a likelihood or EM is the truncated one, of exactly that many sweeps.
    optimizer : str or Optimizer
        How the minimum is searched.
    l2 : float
        Penalty: `l2 / 2` times the squared length of the weights, beside the loss summed over labelled variables. With
        `partial_fit` it stands beside the sum over the examples of each call.
    precondition : bool
        Whether second moments of the features shape the steps of a line search (`FeatureCurvature`). The minimum is
        the same and is reached in several times fewer iterations where features are of different size or go together.
    schedule : "incremental" or Incremental, optional
        Learn from few examples first.
    validation_fraction : float
        Share of the examples, at random, that is held out for early stopping; 0 for none. `minimize` also takes
        examples for it. The weights with the lowest risk on them (without the penalty), after any iteration, are then
        the result. A search ended by `patience` is STALLED, which is what happened to the validation risk, but without
        a warning, since it was asked for; it has not reached its tolerance, so it is not CONVERGED.
    patience : int
        Iterations without a lower validation risk after which the search (of the present stage) ends.
    checkpoint : str or Path, optional
        File that is written after every iteration. If it exists, the fit goes on from there, as if it had not been
        broken off, and `start` is not used; it is refused if settings or data are others. Limits on iterations, `tol`,
        `patience`, `n_jobs` and `verbose` may differ, so that a fit can be prolonged.
    n_jobs : int, optional
        Threads over the examples, as in joblib; the result does not depend on it.
    random_state : int, Generator or None
        Seed of batches, of what is held out, and of losses that draw samples; one is drawn from a Generator for each
        fit. Draws of losses are the same at every evaluation, so that the search sees one function.
    verbose : bool
        Show iteration, risk, gradient and time left, on stderr and only on a terminal.

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
    >>> found = RiskMinimizer(l2=0.4).minimize([example(scores, [0, 1, 0, 1])], "tree_reweighted")
    >>> found.status.name, bool(found.value < found.history["risk"][0])
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
        """Raise where settings, inference and examples do not fit."""
        check_number(self.l2, "RiskMinimizer: l2", low=0.0, high=np.inf, open_high=True)
        with errors_in("RiskMinimizer"):
            as_generator(self.random_state)
        check_number(self.validation_fraction, "RiskMinimizer: validation_fraction", low=0.0, high=1.0, open_high=True)
        check_number(self.patience, "RiskMinimizer: patience", low=1, integer=True)
        check_n_jobs(self.n_jobs, "RiskMinimizer: n_jobs")
        check_labelled(examples)
        loss, method = LOSSES.resolve(self.loss), METHODS.resolve(inference, {})
        for one in examples:  # hidden labels or weights that the loss cannot take are told before any work
            check_pair(loss, one.form.graph, one.labels)
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
        """Raise where these cannot tell when to stop; with None, those that would be held out."""
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
        """Weights of the lowest risk found from `start` (0 by default), with status and history.

        Parameters
        ----------
        examples : list of Example
            What to learn from.
        inference : str or InferenceMethod
            How scores become marginals.
        start : float array, optional
            Weights to begin with.
        validation : list of Example, optional
            For early stopping; nothing is then held out of the examples.
        title : str
            What the progress line calls this fit.

        Returns
        -------
        Minimum
            Its history has a row for the start and each iteration of each stage, with "n_examples" of the stage, and
            "validation_risk" if there is early stopping. After Ctrl-C the value is the risk of the examples of the
            stage that the weights are from.

        Warns
        -----
        ConvergenceWarning
            When the last stage ended before its tolerance; not after Ctrl-C or early stopping.
        """
        seeded = self.with_seed()
        if seeded is not self:
            return seeded.minimize(examples, inference, start, validation=validation, title=title)
        self.check_examples(examples, inference)
        train, held_out = self._hold_out(examples, validation)
        risk = self.risk(train, inference) if len(train) < len(examples) else self._risk(train, inference)
        weights = check_start(start, risk.n_weights)
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        stopping = None
        if held_out:
            stopping = EarlyStopping(self._validation_risk(held_out, risk), int(self.patience))
        stages = [(len(risk), int(optimizer.max_iter))]
        if self.schedule is not None:
            stages = SCHEDULES.resolve(self.schedule).stages(len(risk))
        with kept_stacks(), fit_progress(title or type(self).__name__, self.verbose) as report:
            found = StagedFit(
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
        warn_if_above_one(risk, found)
        given_up = stopping is not None and stopping.given_up
        if not given_up:
            limit = "max_iter" if self.schedule is None else "max_iter of the schedule"
            with errors_in("RiskMinimizer"):
                warn_unless_converged(found, optimizer, limit)
        return found

    def resumes(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.checkpoint is not None and os.path.exists(self.checkpoint)

    def step(
        self, examples: Sequence[Example], inference: str | InferenceMethod, weights: FloatArray, state: Any = None
    ) -> tuple[FloatArray, Any, float]:
        """One pass over the examples in batches, for data that come bit by bit.

        Parameters
        ----------
        examples : list of Example
            The new ones.
        inference : str or InferenceMethod
            How scores become marginals.
        weights : float array
            Those so far; not changed.
        state : object
            What the last call gave; None at first.

        Returns
        -------
        weights : float array
        state : object
            For the next call.
        risk : float
            Mean over the batches, each before its step.

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
            risk, check_start(weights, risk.n_weights), state or {}, as_seed(self.random_state)
        )

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
        method = METHODS.resolve(inference, {})
        rule = self._rule(LOSSES.resolve(self.loss))
        if isinstance(rule, TruncatedGradient):
            return rule.marginals(graph, theta, method)
        return super().marginals(graph, theta, method)

    def risk(self, examples: Sequence[Example], inference: str | InferenceMethod) -> Risk:
        """Regularised risk as a function of the weights.

        Raises
        ------
        InvalidInputError
            Without examples, without any label, or if the examples differ in their number of weights.
        NotSupportedError
            If loss, inference and gradient rule do not fit.
        """
        self.check_examples(examples, inference)
        return self.with_seed()._risk(examples, inference)

    def _risk(self, examples: Sequence[Example], inference: str | InferenceMethod) -> Risk:
        """Regularised risk of examples that are checked already."""
        loss = LOSSES.resolve(self.loss)
        return Risk(
            examples,
            loss,
            self._rule(loss),
            METHODS.resolve(inference, {}),
            float(self.l2) / sum(one.mass for one in examples),
            self.n_jobs,
            as_seed(self.random_state),
            preconditioned=bool(self.precondition),
        )

    def _named_part(self, name: str, value: str) -> Any:
        return TruncatedGradient() if (name, value) == ("gradient", "auto") else super()._named_part(name, value)

    def _rule(self, loss: Loss) -> GradientRule | None:
        """How the loss flows back; None for a loss that knows its own gradient."""
        if isinstance(self.gradient, str) and self.gradient == "auto":
            return None if isinstance(loss, DirectLoss) else TruncatedGradient()
        return GRADIENTS.resolve(self.gradient)

    def _hold_out(
        self, examples: Sequence[Example], validation: Sequence[Example] | None
    ) -> tuple[list[Example], list[Example]]:
        """Examples to learn from, and those for early stopping."""
        if validation is not None or self.validation_fraction == 0.0:
            return list(examples), list(validation or [])
        return hold_out(examples, self.validation_fraction, self._rng())

    def _validation_risk(self, held_out: list[Example], risk: Risk) -> Risk:
        check_validation(held_out, risk.loss, risk.n_weights)
        return Risk(held_out, risk.loss, risk.rule, risk.inference, 0.0, self.n_jobs, as_seed(self.random_state))

    def _checkpoint(self, examples: list[Example], risk: Risk, n_held_out: int) -> Checkpoint | None:
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
