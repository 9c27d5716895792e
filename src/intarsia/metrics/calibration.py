"""Calibration of confidences: reliability curve and expected calibration error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, IntArray, as_float_array, check_choice, check_number
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(ShownResult):
    """Accuracy of predictions as a function of their confidence; returned by `reliability_curve`.

    Attributes
    ----------
    confidence : (n_bins,) float array
        Mean confidence of the predictions of each bin; bins without predictions are omitted.
    accuracy : (n_bins,) float array
        Fraction of correct predictions of each bin.
    count : (n_bins,) int array
        Number of predictions of each bin.

    Examples
    --------
    >>> curve = reliability_curve([True, False, True, True], [0.6, 0.6, 0.9, 0.9], n_bins=5)
    >>> curve.accuracy, curve.count
    (array([0.5, 1. ]), array([2, 2]))
    """

    confidence: FloatArray
    accuracy: FloatArray
    count: IntArray

    @property
    def error(self) -> float:
        """Expected calibration error: mean difference of confidence and accuracy, weighted by the counts."""
        if not self.count.size:
            return 0.0
        return float(np.abs(self.confidence - self.accuracy) @ self.count / self.count.sum())

    @property
    def max_error(self) -> float:
        """Largest difference of confidence and accuracy of a bin."""
        return float(np.abs(self.confidence - self.accuracy).max(initial=0.0))

    def as_dict(self) -> dict[str, Any]:
        """Return the curve, `error` and `max_error` as a dict for JSON."""
        return {
            "confidence": self.confidence.tolist(),
            "accuracy": self.accuracy.tolist(),
            "count": self.count.tolist(),
            "error": self.error,
            "max_error": self.max_error,
        }


@errors_from("reliability_curve")
def reliability_curve(
    correct: ArrayLike, confidence: ArrayLike, *, n_bins: int = 10, strategy: str = "uniform"
) -> ReliabilityCurve:
    """Compute the accuracy of predictions in bins of their confidence.

    Predictions are calibrated if, of those with confidence p, a fraction p is correct: the curve is then the diagonal.

    Parameters
    ----------
    correct : (n,) bool array
        Whether each prediction is correct.
    confidence : (n,) float array
        Probability of each prediction, in [0, 1].
    n_bins : int
        Number of bins.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal numbers of predictions.

    Raises
    ------
    InvalidInputError
        If shapes differ, or a confidence is not in [0, 1].

    Examples
    --------
    >>> curve = reliability_curve([True, False, True, True], [0.6, 0.6, 0.9, 0.9], n_bins=5)
    >>> curve.confidence.round(2), curve.accuracy
    (array([0.6, 0.9]), array([0.5, 1. ]))
    """
    check_number(n_bins, "n_bins", low=1, high=10**6, integer=True)
    check_choice(strategy, ("uniform", "quantile"), "strategy")
    is_correct = np.asarray(correct)
    values = as_float_array(confidence, "confidence")
    if is_correct.shape != values.shape or values.ndim != 1:
        raise InvalidInputError(
            f"correct has shape {is_correct.shape}, but confidence has shape {values.shape}. Pass two vectors of equal "
            f"length."
        )
    if (is_correct.dtype.kind not in "bui" and is_correct.size) or not np.isin(is_correct, (0, 1)).all():
        raise InvalidInputError("correct must contain True and False only. Compare predicted and true labels first.")
    is_invalid = ~((values >= 0.0) & (values <= 1.0))
    if is_invalid.any():
        i = int(np.argmax(is_invalid))
        raise InvalidInputError(f"confidence[{i}] is {values[i]}. Pass probabilities in [0, 1].")
    n, bins = values.size, int(n_bins)
    if strategy == "uniform":
        index = np.minimum((values * bins).astype(np.int64), bins - 1)
    else:
        index = np.empty(n, dtype=np.int64)
        index[np.argsort(values, kind="stable")] = np.arange(n) * bins // max(n, 1)
    count = np.bincount(index, minlength=bins)
    is_used = count > 0
    total_confidence = np.bincount(index, weights=values, minlength=bins)[is_used]
    n_correct = np.bincount(index, weights=is_correct.astype(np.float64), minlength=bins)[is_used]
    count = count[is_used]
    return ReliabilityCurve(total_confidence / count, n_correct / count, count)


@errors_from("calibration_error")
def calibration_error(
    correct: ArrayLike, confidence: ArrayLike, *, n_bins: int = 10, strategy: str = "uniform"
) -> float:
    """Compute the expected calibration error: the mean difference of confidence and accuracy over bins.

    Arguments are those of `reliability_curve`. With few predictions per bin the error is biased upwards.

    Examples
    --------
    >>> round(calibration_error([True, False, True, True], [0.6, 0.6, 0.9, 0.9]), 3)     # (0.1 + 0.1) / 2
    0.1
    """
    return reliability_curve(correct, confidence, n_bins=n_bins, strategy=strategy).error
