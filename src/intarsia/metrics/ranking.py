"""How well scores rank what is true above what is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True)
class RankingScores(ShownResult):
    """Areas under curves of a ranking; NaN where all items, or none, are true.

    Attributes
    ----------
    auroc : float
        Area under the receiver operating characteristic: how often a true item is above one that is not, ties half.
    auprc : float
        Area under the curve of precision against recall, by trapezoids from precision 1 at recall 0.
    auprc_negative : float
        The same for what is not true, ranked from the lowest score.
    n : int
        Items.

    Examples
    --------
    See `ranking_scores`, which makes it.

    >>> RankingScores(1.0, 1.0, 1.0, n=2).auroc
    1.0
    """

    auroc: float
    auprc: float
    auprc_negative: float
    n: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"auroc": self.auroc, "auprc": self.auprc, "auprc_negative": self.auprc_negative, "n": self.n}


def ranking_scores(y_true: ArrayLike, scores: ArrayLike) -> RankingScores:
    """Areas under the curves that a ranking by scores draws; items of equal score come together.

    Parameters
    ----------
    y_true : bool array (n,)
        What is true.
    scores : float array (n,)
        Larger for what should be true.

    Raises
    ------
    InvalidInputError
        Lengths differ, or a score is NaN.

    Examples
    --------
    Of the two pairs of a true and a false item one is in order.

    >>> found = ranking_scores([True, False, True], [0.9, 0.5, 0.1])
    >>> found.auroc, round(found.auprc, 4)
    (0.5, 0.7917)
    """
    truth = np.asarray(y_true, dtype=bool)
    values = as_float_array(scores, "ranking_scores: scores")
    if truth.ndim != 1 or truth.shape != values.shape:
        raise InvalidInputError(
            f"ranking_scores: y_true has shape {truth.shape}, but scores {values.shape}. Give a score for each."
        )
    if np.isnan(values).any():
        raise InvalidInputError(f"ranking_scores: scores[{int(np.argmax(np.isnan(values)))}] is NaN. Leave it out.")
    if not truth.any() or truth.all():
        return RankingScores(np.nan, np.nan, np.nan, truth.size)
    hits, misses = _curve(truth, values)
    auroc = float(np.trapezoid(hits / hits[-1], misses / misses[-1]))
    return RankingScores(
        auroc, _precision_recall(hits, misses), _precision_recall(*_curve(~truth, -values)), truth.size
    )


def _curve(truth: np.ndarray[Any, np.dtype[np.bool_]], values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """True and false items among the first, at the end of each run of equal scores; from nothing on."""
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), truth.size - 1)
    hits = np.concatenate([[0.0], np.cumsum(truth[order])[ends]])
    return hits, np.concatenate([[0.0], ends + 1.0]) - hits


def _precision_recall(hits: FloatArray, misses: FloatArray) -> float:
    precision = np.concatenate([[1.0], hits[1:] / (hits[1:] + misses[1:])])
    return float(np.trapezoid(precision, hits / hits[-1]))
