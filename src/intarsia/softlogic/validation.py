"""Validation scores of weights on held-out targets, for early stopping of `SoftLogic.fit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, check_choice, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.metrics import ranking_scores
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.hinge.mrf import HingeLossMRF

Scoring = str | Callable[[FloatArray, FloatArray], float]
_TRUE = 0.5  # labels above count as true in rankings


def scoring_function(scoring: Scoring) -> Callable[[FloatArray, FloatArray], float]:
    """Return a function of true and inferred values, higher for better values.

    Parameters
    ----------
    scoring : str or function
        "neg_mean_squared_error", "auroc", "auprc", "auprc_negative" (see `ranking_scores`), or such a function.

    Examples
    --------
    >>> scoring_function("neg_mean_squared_error")(np.array([1.0, 0.0]), np.array([0.5, 0.0]))
    -0.125
    """
    if callable(scoring):
        return scoring
    check_choice(scoring, list(_SCORES), "scoring")
    return _SCORES[scoring]


def _negative_error(truth: FloatArray, values: FloatArray) -> float:
    return -float(np.mean((truth - values) ** 2))


def _area(name: str, truth: FloatArray, values: FloatArray) -> float:
    is_true = truth > _TRUE
    if is_true.all() or not is_true.any():
        raise InvalidInputError(
            f"scoring={name!r} needs true and false targets to validate on, but all {truth.size} are "
            f"{'true' if is_true.any() else 'false'}. Hold out more targets, or use scoring='neg_mean_squared_error'."
        )
    return float(getattr(ranking_scores(is_true, values), name))


_SCORES: dict[str, Callable[[FloatArray, FloatArray], float]] = {
    "neg_mean_squared_error": _negative_error,
    **{name: partial(_area, name) for name in ("auroc", "auprc", "auprc_negative")},
}


def hold_out_labels(labels: FloatArray, fraction: float) -> NDArray[np.bool_]:
    """Return a mask of a random fraction of the labelled variables, at least one and not all; always the same.

    Examples
    --------
    >>> mask = hold_out_labels(np.array([np.nan, 1.0, 0.0, 1.0]), 0.3)
    >>> int(mask.sum()), bool(mask[0])
    (1, False)
    """
    check_number(fraction, "validation", low=0.0, high=1.0, open_low=True, open_high=True)
    labelled = np.flatnonzero(~np.isnan(labels))
    if labelled.size < 2:
        raise InvalidInputError(
            f"validation={fraction} needs at least two targets with a true value, got {labelled.size}. Add true values "
            f"with Program.truth, or pass a Program with other data."
        )
    n = min(max(1, round(float(fraction) * labelled.size)), labelled.size - 1)
    mask = np.zeros(labels.size, dtype=bool)
    mask[np.random.default_rng(0).permutation(labelled)[:n]] = True
    return mask


class HeldOutScore:
    """Score of weights: infer all variables of a model, and compare some of them with their true values.

    Examples
    --------
    The rule pulls y to 1, so weight 1 predicts the label 1 and weight 0 leaves y at 1/2.

    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    >>> score = HeldOutScore(rule, np.array([1.0]), np.array([True]), ConsensusADMM(), "neg_mean_squared_error")
    >>> round(score(np.array([1.0])), 3), round(score(np.array([0.0])), 3)
    (-0.0, -0.25)
    """

    def __init__(
        self,
        model: HingeLossMRF,
        truth: FloatArray,
        mask: NDArray[np.bool_],
        inference: ConsensusADMM,
        scoring: Scoring,
    ) -> None:
        self._model, self._truth, self._mask = model, truth[mask], mask
        self._inference, self._scoring = inference, scoring_function(scoring)

    def __call__(self, weights: FloatArray) -> float:
        """Return the score of these weights."""
        # No warm start: variables without any effective rule must stay at 1/2, as in `SoftLogic.infer`.
        result = self._inference.solve(self._model.with_weights(weights))
        return self._scoring(self._truth, result.x[self._mask])
