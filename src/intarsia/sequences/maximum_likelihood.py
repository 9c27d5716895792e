"""Weights under which the labels of the training sequences are most probable: the usual learner of chain models."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.progress import fit_progress
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.transaction import describe
from intarsia._core.validation import FloatArray, as_seed, check_n_jobs, check_number
from intarsia._files.checkpoint import Checkpoint
from intarsia.exceptions import NotSupportedError
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer, warn_unless_converged
from intarsia.learning.owl_qn import OWLQN
from intarsia.learning.registry import OPTIMIZERS
from intarsia.learning.staged_fit import EarlyStopping, StagedFit
from intarsia.sequences.chain_data import ChainExamples
from intarsia.sequences.chain_learner import ChainLearner
from intarsia.sequences.chain_risk import ChainRisk


class MaximumLikelihood(NamedParts, ChainLearner):
    r"""Weights of a chain model by (partial) likelihood with L2 and L1 penalties.

    The minimum of

    .. math:: \sum_s a_s \bigl(\log Z_s(w) - \log Z_s(w; A_s)\bigr) + \frac{l_2}2 \lVert w \rVert^2 + l_1 \sum_i |w_i|,

    :math:`A_s` being what is known of the labels: one labelling, or all that agree with label sets and hidden labels.
    Convex where all labels are known. CRFsuite's `c1` is `l1`, its `c2` is `l2 / 2`, and all weights are penalised,
    as there: the minimum is the same where the weights are (there `feature.possible_states` and
    `feature.possible_transitions` on, here `weights="all"` and `ends=False`). The optimiser sees this sum divided by
    the weighted number of labelled positions, so that its tolerance and steps need not change with the amount of data;
    `ChainCRF.risk_` is that quotient.

    Parameters
    ----------
    l2 : float
        :math:`l_2`, the precision of a Gaussian prior; the default of 1 equals CRFsuite's `c2=0.5`. With `partial_fit`
        it is counted once for each call.
    l1 : float
        :math:`l_1`; above 0 many weights are exactly 0. Needs "lbfgs", and is then done by `OWLQN` with its settings.
    optimizer : str or Optimizer
        How the minimum is searched.
    validation_fraction : float
        Share of the sequences, at random, held out for early stopping; the weights with the lowest negative
        log-likelihood on them, after any iteration, are the result.
    patience : int
        Iterations without a lower one after which the search ends (STALLED, without a warning).
    checkpoint : str or Path, optional
        File that is written after every iteration; if it exists, the fit goes on from there. See `RiskMinimizer`.
    n_jobs : int, optional
        Threads over chunks of sequences; the result does not depend on it.
    random_state : int, Generator or None
        Seed of batches and of what is held out.
    verbose : bool
        Show progress on stderr, only on a terminal.

    Examples
    --------
    >>> from intarsia.sequences.chain_crf import ChainCRF
    >>> crf = ChainCRF(learner=MaximumLikelihood(l2=0.2)).fit([[["sun"], ["rain"]]], [["good", "bad"]])
    >>> crf.predict([[["sun"], ["rain"]]])[0].tolist(), crf.status_.name
    (['good', 'bad'], 'CONVERGED')
    """

    name: ClassVar[str] = "maximum_likelihood"
    summary: ClassVar[str] = "the default: probabilities that mean something, L2 and L1, hidden labels"

    _parts: ClassVar[Parts] = {"optimizer": OPTIMIZERS}

    def __init__(
        self,
        *,
        l2: float = 1.0,
        l1: float = 0.0,
        optimizer: str | Optimizer = "lbfgs",
        validation_fraction: float = 0.0,
        patience: int = 10,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.l2 = l2
        self.l1 = l1
        self.optimizer = optimizer
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.l2, "MaximumLikelihood: l2", low=0.0, high=np.inf, open_high=True)
        check_number(self.l1, "MaximumLikelihood: l1", low=0.0, high=np.inf, open_high=True)
        check_n_jobs(self.n_jobs, "MaximumLikelihood: n_jobs")
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        optimizer.check_settings()
        if self.l1 > 0 and not isinstance(optimizer, LBFGS):
            raise NotSupportedError(
                f"MaximumLikelihood: l1={self.l1} with {type(optimizer).__name__}, which needs a smooth function. Use "
                f"optimizer='lbfgs', or l1=0."
            )

    def check_examples(self, examples: ChainExamples) -> None:
        """Raise where settings and examples do not fit."""
        self.check_settings()

    def minimize(
        self,
        examples: ChainExamples,
        start: FloatArray,
        *,
        validation: ChainExamples | None = None,
        title: str = "",
    ) -> Minimum:
        """Weights of the lowest risk found from `start`, with status and history.

        Warns
        -----
        ConvergenceWarning
            When the search ended before its tolerance; not after Ctrl-C or early stopping.
        """
        self.check_settings()
        seed = as_seed(self.random_state)
        train, held_out = self.hold_out(examples, validation, seed)
        risk = self.risk(train)
        optimizer = self._optimizer(risk)
        stopping = None
        if held_out is not None:
            stopping = EarlyStopping(ChainRisk(held_out, 0.0, self.n_jobs), int(self.patience))
        limit = int(optimizer.max_iter)
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            found = StagedFit(
                optimizer,
                risk,
                [(len(risk), limit)],
                np.arange(len(risk)),
                seed,
                stopping,
                self._checkpoint(risk, held_out, seed),
                report,
            ).run(start)
        given_up = stopping is not None and stopping.given_up
        if not given_up:
            with errors_in("MaximumLikelihood"):
                warn_unless_converged(found, optimizer, "max_iter")
        return found

    def step(self, examples: ChainExamples, weights: FloatArray, state: Any = None) -> tuple[FloatArray, Any, float]:
        """One pass over the examples in batches, for data that come bit by bit; needs an optimiser of mini-batches."""
        self.check_settings()
        return OPTIMIZERS.resolve(self.optimizer).epoch(
            self.risk(examples), weights, state or {}, as_seed(self.random_state)
        )

    def risk(self, examples: ChainExamples) -> ChainRisk:
        """The objective without the L1 penalty, per labelled position."""
        return ChainRisk(examples, float(self.l2) / (examples.mass or 1.0), self.n_jobs)

    def _optimizer(self, risk: ChainRisk) -> Optimizer:
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        if self.l1 > 0 and isinstance(optimizer, LBFGS):
            return OWLQN(l1=float(self.l1) / (risk.mass or 1.0), **optimizer.get_params(deep=False))
        return optimizer

    def _checkpoint(self, risk: ChainRisk, held_out: ChainExamples | None, seed: int) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        optimizer = OPTIMIZERS.resolve(self.optimizer)
        settings = {
            "optimizer": describe(optimizer, "max_iter", "tol"),
            "l1": describe(float(self.l1)),
            "l2": describe(float(self.l2)),
            "random_state": describe(seed),
            "number of weights": describe(risk.n_weights),
        }
        parts = [risk.examples] if held_out is None else [risk.examples, held_out]
        return Checkpoint(self.checkpoint, settings, np.array([_sums(part) for part in parts]))


def _sums(examples: ChainExamples) -> tuple[float, ...]:
    """Sizes and sums that tell data apart: the risk at fixed weights stands for features and labels."""
    value, _ = ChainRisk(examples)(np.cos(np.arange(examples.layout.n_weights)))
    return float(len(examples)), float(examples.data.ptr[-1]), examples.mass, value
