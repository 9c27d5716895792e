"""Areas under the ROC and precision-recall curves of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True)
class RankingScores(ShownResult):
    """Areas under the curves of a ranking; NaN if all items, or no items, are positive.

    Attributes
    ----------
    auroc : float
        Area under the ROC curve: the probability that a positive item scores above a negative one; ties count half.
    auprc : float
        Area under the precision-recall curve, by the trapezoidal rule from precision 1 at recall 0.
    auprc_negative : float
        Area under the precision-recall curve of the negative items, ranked from the lowest score.
    n : int
        Number of items.

    Examples
    --------
    `ranking_scores` returns it.

    >>> RankingScores(1.0, 1.0, 1.0, n=2).auroc
    1.0
    """

    auroc: float
    auprc: float
    auprc_negative: float
    n: int

    def as_dict(self) -> dict[str, Any]:
        """Return the areas and `n` as a dict for JSON."""
        return {"auroc": self.auroc, "auprc": self.auprc, "auprc_negative": self.auprc_negative, "n": self.n}


@errors_from("ranking_scores")
def ranking_scores(y_true: ArrayLike, scores: ArrayLike) -> RankingScores:
    """Compute the areas under the ROC and precision-recall curves of scores; items of equal score are ranked together.

    Parameters
    ----------
    y_true : bool array (n,)
        Whether each item is positive.
    scores : float array (n,)
        Score of each item, larger for items that should be positive.

    Raises
    ------
    InvalidInputError
        If the lengths differ, or if a score is NaN.

    Examples
    --------
    Of the two pairs of a positive and a negative item, one is ranked correctly.

    >>> ranking = ranking_scores([True, False, True], [0.9, 0.5, 0.1])
    >>> ranking.auroc, round(ranking.auprc, 4)
    (0.5, 0.7917)
    """
    truth = np.asarray(y_true, dtype=bool)
    values = as_float_array(scores, "scores")
    if truth.ndim != 1 or truth.shape != values.shape:
        raise InvalidInputError(
            f"y_true has shape {truth.shape}, but scores has shape {values.shape}. Pass one score per item."
        )
    if np.isnan(values).any():
        raise InvalidInputError(f"scores[{int(np.argmax(np.isnan(values)))}] is NaN. Remove the item, or replace NaN.")
    if not truth.any() or truth.all():
        return RankingScores(np.nan, np.nan, np.nan, truth.size)
    hits, misses = _cumulative_counts(truth, values)
    auroc = float(np.trapezoid(hits / hits[-1], misses / misses[-1]))
    return RankingScores(
        auroc,
        _area_under_precision_recall(hits, misses),
        _area_under_precision_recall(*_cumulative_counts(~truth, -values)),
        truth.size,
    )


def _cumulative_counts(truth: np.ndarray[Any, np.dtype[np.bool_]], values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of positive and negative items down to the end of each run of equal scores, starting at 0."""
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), truth.size - 1)
    hits = np.concatenate([[0.0], np.cumsum(truth[order])[ends]])
    return hits, np.concatenate([[0.0], ends + 1.0]) - hits


def _area_under_precision_recall(hits: FloatArray, misses: FloatArray) -> float:
    """Return the area under the precision-recall curve by the trapezoidal rule."""
    precision = np.concatenate([[1.0], hits[1:] / (hits[1:] + misses[1:])])
    return float(np.trapezoid(precision, hits / hits[-1]))
