"""Base class of weight learners for hinge-loss Markov random fields, and their result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.error_context import errors_in
from intarsia._core.html import ShownResult
from intarsia._core.registry import NamedParts
from intarsia._core.settings import Settings
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.learning.paired_problem import PairedProblem
from intarsia.softlogic.learning.surrogates import EntropySurrogate

Score = Callable[[FloatArray], float]
_N_SCORED = 30  # rows of the history that a validation score compares


@dataclass(frozen=True, eq=False)
class LearnedWeights(ShownResult):
    """Result of weight learning: the weights, the status and the history.

    Attributes
    ----------
    weights : float array (n_groups,)
        Weight of each group of the model.
    status : Status
        CONVERGED, MAX_ITER, TIME_LIMIT or INTERRUPTED.
    n_iter : int
        Number of updates of the weights.
    n_admm_iter : int
        Number of ADMM iterations on both inference problems together; 0 for learners without inference.
    latent : float array (n_latent,)
        Last values of the latent variables, in the order of the model.
    history : dict of arrays
        A row for the start and for each recorded update: "weights" (rows, n_groups), "updates" and "admm_iterations"
        so far, "seconds"; with `evaluate=True` also "objective", computed after learning at these weights; with
        `validation=` also "validation", the score of the rows that were scored (NaN for the others).

    Examples
    --------
    The label violates the rule: a rule for y = 1 with label y = 0 gets weight 0.

    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> from intarsia.softlogic.learning.paired_dual import PairedDual
    >>> from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    >>> result = PairedDual(optimizer=ProjectedSubgradient(average=False)).fit(rule, [0.0])
    >>> result.weights.tolist(), result.history["weights"][0].tolist(), result.latent.size
    ([0.0], [1.0], 0)
    """

    weights: FloatArray
    status: Status
    n_iter: int
    n_admm_iter: int
    latent: FloatArray
    history: dict[str, NDArray[Any]] = field(default_factory=dict)


class HingeLearner(NamedParts, Settings, ABC):
    """Base class of weight learners, the values of `SoftLogic(learner=...)`."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to choose the learner, in one line."""
    takes_latent: ClassVar[bool] = True
    """Whether variables may be latent, that is, without a label."""

    def fit(
        self,
        model: HingeLossMRF,
        labels: ArrayLike,
        *,
        start: ArrayLike | None = None,
        trainable: ArrayLike | None = None,
        validation: Score | None = None,
        title: str = "",
    ) -> LearnedWeights:
        """Learn a weight for each group of a model.

        Parameters
        ----------
        model : HingeLossMRF
            The model; the terms of a group share a weight.
        labels : float array (n_variables,)
            Labels in [0, 1]; NaN for latent variables.
        start : float array (n_groups,), optional
            Initial weights; by default the weights of the model.
        trainable : bool array (n_groups,), optional
            Which weights to learn, by default all; the other weights stay constant.
        validation : function, optional
            Function from weights to a score, such as the accuracy on held-out data; higher is better. With it, learning
            is stopped early: the result has the weights with the highest score among at most 30 recorded updates,
            spaced evenly in the logarithm of their number, the start and the end included.
        title : str
            Title of the progress display.

        Returns
        -------
        LearnedWeights
            The weights, the status and the history.

        Raises
        ------
        InvalidInputError
            A setting is invalid, no variable has a label, a label is missing and the learner needs all of them, or
            `validation` returns no number.
        """
        learner_name = type(self).__name__
        self.check_settings()
        problem = PairedProblem.of(model, labels, self._entropy())
        self._check_labels(problem.labels)
        with errors_in(learner_name):
            weights, mask = start_weights(model, start), trainable_mask(model, trainable)
        result = self._learn(model, problem, weights, mask, title or learner_name)
        if validation is None:
            return result
        with errors_in(learner_name):
            return _stopped_early(result, problem, validation)

    @abstractmethod
    def check_settings(self) -> None:
        """Raise if a setting is invalid."""

    @abstractmethod
    def _learn(
        self,
        model: HingeLossMRF,
        problem: PairedProblem,
        weights: FloatArray,
        trainable: NDArray[np.bool_],
        title: str,
    ) -> LearnedWeights:
        """Learn from checked data, starting at `weights`; only the weights in the mask `trainable` change."""

    def _entropy(self) -> EntropySurrogate | None:
        """Return the surrogate of the entropy; None by default."""
        return None

    def _check_labels(self, labels: FloatArray) -> None:
        """Raise if no variable has a label, or if one is missing and the learner needs all labels."""
        if labels.size and np.isnan(labels).all():
            raise InvalidInputError(
                f"{type(self).__name__}: no variable has a label to learn from. Pass at least one label."
            )
        if not self.takes_latent and np.isnan(labels).any():
            i = int(np.argmax(np.isnan(labels)))
            raise InvalidInputError(
                f"{type(self).__name__}: variable {i} has no label, but this learner needs all labels. "
                f"Label all variables, or use learner='paired_dual'."
            )


def _stopped_early(result: LearnedWeights, problem: PairedProblem, validation: Score) -> LearnedWeights:
    """Return the recorded weights with the highest validation score, and the latent variables at these weights."""
    from intarsia.softlogic.learning.side_run import SideRun

    history = dict(result.history)
    rows = spread_rows(history["updates"], _N_SCORED)
    scores = np.full(len(history["weights"]), np.nan)
    scores[rows] = [_checked_score(validation(history["weights"][row])) for row in rows]
    best = int(np.nanargmax(scores))
    weights = history["weights"][best].copy()
    history["validation"] = scores
    if best == len(scores) - 1 and _checked_score(validation(result.weights)) >= scores[best]:
        return replace(result, history=history)  # the mean of all updates, if the optimizer averages
    latent = result.latent
    if latent.size:
        run = SideRun(problem, problem.clamped, ConsensusADMM())
        run.solve(weights)
        latent = run.point.copy()
    return replace(result, weights=weights, latent=latent, history=history)


def spread_rows(counts: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Return about `n_rows` rows of a history, evenly spaced in the logarithm of the counts, with both ends.

    Examples
    --------
    >>> spread_rows(np.array([0, 2, 4, 6, 8, 10, 12, 14, 16]), 4)
    array([0, 1, 3, 8])
    """
    last = len(counts) - 1
    if last < n_rows:
        return np.arange(last + 1)
    targets = np.geomspace(max(1, counts[1]), counts[last], n_rows - 1)
    return np.unique(np.concatenate([[0], np.searchsorted(counts, targets * (1.0 - 1e-12)), [last]]).clip(0, last))


def _checked_score(score: Any) -> float:
    """Return a validation score as a float; raise if it is not a number."""
    try:
        number = float(score)
    except (TypeError, ValueError):
        number = np.nan
    if np.isnan(number):
        raise InvalidInputError(
            f"validation must return a number, got {score!r:.40}. Return a score of the weights, such as an accuracy."
        )
    return number


def start_weights(model: HingeLossMRF, start: ArrayLike | None) -> FloatArray:
    """Return checked initial weights; by default those of the model (1 for a group without terms).

    Examples
    --------
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rows = LinearRows([0, 1, 2], [0, 0], [1.0, -1.0], [0, 1])
    >>> start_weights(HingeLossMRF(1, rows, [3.0, 5.0], 1, term_group=[0, 1]), None)
    array([3., 5.])
    """
    if start is None:
        weights = np.ones(model.n_groups)
        group = np.arange(model.n_terms) if model.term_group is None else model.term_group
        groups, first = np.unique(group, return_index=True)
        weights[groups] = model.weight[first]
        return weights
    weights = as_float_array(start, "start").copy()
    if weights.shape != (model.n_groups,):
        raise InvalidInputError(
            f"start has shape {weights.shape}, but there are {model.n_groups} groups. Pass one weight per group."
        )
    good = np.isfinite(weights) & (weights >= 0.0)
    if not good.all():
        k = int(np.argmax(~good))
        raise InvalidInputError(f"start[{k}] is {weights[k]}. Weights must be finite and at least 0.")
    return weights


def trainable_mask(model: HingeLossMRF, trainable: ArrayLike | None) -> NDArray[np.bool_]:
    """Return a checked mask of the weights to learn; by default all.

    Examples
    --------
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> trainable_mask(HingeLossMRF(1, LinearRows([0, 1], [0], [1.0], [0.0]), 1.0, 1), None)
    array([ True])
    """
    if trainable is None:
        return np.ones(model.n_groups, dtype=bool)
    mask = np.asarray(trainable)
    if mask.dtype != bool or mask.shape != (model.n_groups,):
        raise InvalidInputError(
            f"trainable must be a boolean array of shape ({model.n_groups},), one entry per group, got {mask.dtype} of "
            f"shape {mask.shape}."
        )
    return mask
