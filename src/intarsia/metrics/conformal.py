"""Conformal prediction: sets of labels that contain the true label with a chosen probability.

Split conformal prediction needs held-out calibration instances that are exchangeable with the new instances: drawn at
random from the same source. The unit of exchangeability is the instance (a sequence, a picture, a graph, or a single
item such as a pair of records), never the position: positions of one instance depend on each other.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.error_context import entry_point, errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import FloatArray, as_float_array, check_choice, check_number
from intarsia.exceptions import ExchangeabilityWarning, InvalidInputError
from intarsia.metrics.counts import is_hidden

# A difference between calibration data and new data is reported below this p-value; fewer instances are not tested.
_LEVEL, _MIN_TESTED = 0.001, 10


@errors_from("conformal_quantile")
def conformal_quantile(scores: ArrayLike, alpha: float) -> float:
    """Return the threshold that the score of a new instance does not exceed with probability at least 1 - alpha.

    It is the k-th smallest of the n scores with k = ceil((n + 1) (1 - alpha)), the finite-sample correction of the
    empirical quantile, and infinite if k > n. If the scores of calibration and new instances are exchangeable, the
    probability is between 1 - alpha and, without ties, 1 - alpha + 1 / (n + 1).

    Parameters
    ----------
    scores : (n,) float array
        Nonconformity scores of the calibration instances: larger if the true label is less plausible.
    alpha : float
        Probability of an error, between 0 and 1.

    References
    ----------
    Vovk2005.

    Examples
    --------
    >>> conformal_quantile([0.1, 0.4, 0.2, 0.3], alpha=0.4)      # the third of four: ceil(5 * 0.6)
    0.3
    >>> conformal_quantile([0.1, 0.4, 0.2, 0.3], alpha=0.1)
    inf
    """
    values = np.sort(_checked_scores(scores, "scores"))
    check_number(alpha, "alpha", low=0.0, high=1.0, open_low=True)
    # Rounding must not turn (n + 1) (1 - alpha) into the next integer, as it does for n = 9 and alpha = 0.1.
    k = int(np.ceil((values.size + 1) * (1.0 - float(alpha)) - 1e-9))
    if k <= 0:
        return -np.inf
    return float(values[k - 1]) if k <= values.size else np.inf


@errors_from("conformal_p_values")
def conformal_p_values(calibration: ArrayLike, scores: ArrayLike) -> FloatArray:
    """Return the p-value of each score: the fraction of calibration scores that are at least as large.

    The new score counts as one of them: p = (1 + number of larger or equal scores) / (n + 1). For exchangeable
    instances, P(p <= alpha) <= alpha.

    Examples
    --------
    >>> conformal_p_values([0.1, 0.2, 0.3], [0.25, 0.9])
    array([0.5 , 0.25])
    """
    values = np.sort(_checked_scores(calibration, "calibration"))
    n_smaller = np.searchsorted(values, _checked_scores(scores, "scores"), side="left")
    return np.asarray((1.0 + values.size - n_smaller) / (1.0 + values.size), dtype=np.float64)


@dataclass(frozen=True)
class ExchangeabilityCheck(ShownResult):
    """Result of `check_exchangeability`.

    Attributes
    ----------
    p_value : float
        P-value of the two-sample Kolmogorov-Smirnov test; small if the instances are not exchangeable.
    statistic : float
        Largest difference between the distribution functions of the two samples.
    n_calibration, n_new : int
        Numbers of instances.

    Examples
    --------
    >>> check_exchangeability(np.arange(100), np.arange(100)).passed
    True
    """

    p_value: float
    statistic: float
    n_calibration: int
    n_new: int

    @property
    def passed(self) -> bool:
        """Whether no difference was detected, with a probability of false alarm of at most 0.001."""
        return self.p_value >= _LEVEL


@errors_from("check_exchangeability")
def check_exchangeability(calibration: ArrayLike, scores: ArrayLike) -> ExchangeabilityCheck:
    """Test whether the scores of calibration instances and of new instances have the same distribution.

    Exchangeable instances have scores with the same distribution, so a difference (drift) means that the coverage of
    conformal sets is not guaranteed. A test that passes does not prove exchangeability.

    Parameters
    ----------
    calibration, scores : (n,), (m,) float arrays
        One score per instance, such as nonconformity scores.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> check_exchangeability(rng.normal(size=200), rng.normal(size=100)).passed
    True
    >>> check_exchangeability(rng.normal(size=200), rng.normal(loc=1.0, size=100)).passed
    False
    """
    from scipy.stats import ks_2samp

    first, second = _checked_scores(calibration, "calibration"), _checked_scores(scores, "scores")
    if not first.size or not second.size:
        return ExchangeabilityCheck(1.0, 0.0, first.size, second.size)
    result = ks_2samp(first, second, method="auto")
    return ExchangeabilityCheck(float(result.pvalue), float(result.statistic), first.size, second.size)


def warn_unless_exchangeable(calibration: FloatArray, scores: FloatArray) -> None:
    """Warn if the scores of new instances differ from those of the calibration instances."""
    if min(calibration.size, scores.size) < _MIN_TESTED:
        return
    check = check_exchangeability(calibration, scores)
    if not check.passed:
        warnings.warn(
            f"the new instances differ from the calibration instances (Kolmogorov-Smirnov statistic "
            f"{check.statistic:.2f}, p = {check.p_value:.1g}), so the sets may not have their coverage. Calibrate with "
            f"instances from the new source.",
            ExchangeabilityWarning,
            stacklevel=2,
        )


class ConformalLabels:
    r"""Conformal sets of labels for each position of sequences, pixel of pictures, node of graphs, or single item.

    A label c is in the set of position t if 1 - P(c at t) is at most a threshold, which is computed from held-out
    instances. The calibration instances must not have been used by `fit`, and must be exchangeable with the new ones.
    A guarantee for a new instance, averaged over calibration sets and new instances, holds whatever the quality of the
    model; a better model has smaller sets.

    Parameters
    ----------
    estimator : ChainCRF, GridCRF, GraphCRF or other fitted estimator, optional
        Model with `predict_marginals` and `classes_`. Without it, X are the marginals themselves: arrays
        (..., n_classes), one per instance.
    alpha : float
        Probability of an error, between 0 and 1.
    guarantee : {"instance", "position"}
        "instance": with probability at least 1 - alpha, all positions of an instance have their true label in their
        set (the score of an instance is the largest score of its positions). "position": the expected fraction of
        positions of an instance whose true label is in its set is at least 1 - alpha (conformal risk control), and the
        sets are much smaller. Both are exact for finite samples; neither treats positions as independent.
    classes : sequence, optional
        Labels, in the order of the marginals; by default `estimator.classes_`, or 0 to n_classes - 1.
    allow_empty : bool
        Whether a set may be empty, which means that no label is plausible. False: the most probable label is always in
        the set, and the coverage may be higher than asked for.

    Attributes
    ----------
    threshold_ : float
        Labels with 1 - probability <= `threshold_` are in the set; infinite if there are too few calibration
        instances (fewer than 1 / alpha - 1).
    scores_ : (n,) float array
        Largest score of each calibration instance.

    References
    ----------
    Vovk2005; Angelopoulos2024 for guarantee="position".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> probability = rng.random(1000)                       # of class 1, for single items such as pairs of records
    >>> marginals = np.column_stack([1 - probability, probability])
    >>> y = (rng.random(1000) < probability).astype(int)
    >>> sets = ConformalLabels(alpha=0.1).conformalize(marginals[:500], y[:500])
    >>> round(sets.coverage(marginals[500:], y[500:]), 1)
    0.9
    >>> sets.predict_set([[0.99, 0.01], [0.5, 0.5]])
    [frozenset({0}), frozenset({0, 1})]
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        alpha: float = 0.1,
        guarantee: str = "instance",
        classes: Any = None,
        allow_empty: bool = True,
    ) -> None:
        self.estimator, self.alpha, self.guarantee = estimator, alpha, guarantee
        self.classes, self.allow_empty = classes, allow_empty

    @entry_point
    def conformalize(self, X: Any, y: Any) -> ConformalLabels:
        """Compute the threshold from held-out instances; hidden labels are left out.

        Parameters
        ----------
        X, y : lists of instances
            As in `fit` of the estimator, but not the instances of `fit`.

        Raises
        ------
        InvalidInputError
            If lengths differ, or if no instance is labelled.
        """
        check_number(self.alpha, "alpha", low=0.0, high=1.0, open_low=True)
        check_choice(self.guarantee, ("instance", "position"), "guarantee")
        marginals = self._marginals(X)
        scores = [score for score in self._scores(marginals, y) if score.size]
        if not scores:
            raise InvalidInputError("no calibration instance is labelled. Pass held-out instances with their labels.")
        largest = np.array([score.max() for score in scores])
        if self.guarantee == "instance":
            threshold = conformal_quantile(largest, self.alpha)
        else:
            threshold = _risk_threshold(scores, float(self.alpha))
        if threshold == np.inf and np.isfinite(largest).all():
            warnings.warn(
                f"{len(scores)} calibration instances are too few for alpha={self.alpha}: every set has all labels. "
                f"Pass at least {int(np.ceil(1.0 / self.alpha - 1e-9)) - 1} instances, or increase alpha.",
                UserWarning,
                stacklevel=2,
            )
        self.threshold_, self.scores_ = threshold, largest
        self._uncertainty = _uncertainty(marginals)
        return self

    @entry_point
    def predict_mask(self, X: Any) -> list[NDArray[np.bool_]]:
        """Return which labels are in the set of each position: bool arrays (..., n_classes), one per instance.

        Warns with `ExchangeabilityWarning` if the certainty of the model on X differs from that on the calibration
        instances more than chance explains.
        """
        self._check_conformalized()
        marginals = self._marginals(X)
        warn_unless_exchangeable(self._uncertainty, _uncertainty(marginals))
        return [self._mask(probabilities) for probabilities in marginals]

    @entry_point
    def predict_set(self, X: Any) -> list[Any]:
        """Return the set of labels of each position as frozensets: a list per sequence, nested lists for pictures."""
        masks = self.predict_mask(X)
        classes = self._class_list(masks)
        return [_frozensets(mask, classes) for mask in masks]

    @entry_point
    def coverage(self, X: Any, y: Any) -> float:
        """Return the fraction of instances, or the mean fraction of positions, whose true labels are in their sets."""
        self._check_conformalized()
        marginals = self._marginals(X)
        is_covered = [
            (score <= self.threshold_) | (is_best & (not self.allow_empty))
            for score, is_best in zip(self._scores(marginals, y), self._is_best(marginals, y), strict=True)
            if score.size
        ]
        if not is_covered:
            raise InvalidInputError("no instance is labelled. Pass the labels of at least one instance.")
        by_instance = [row.all() if self.guarantee == "instance" else row.mean() for row in is_covered]
        return float(np.mean(by_instance))

    # ---------------------------------------------------------------- marginals and scores

    def _check_conformalized(self) -> None:
        if not hasattr(self, "threshold_"):
            raise InvalidInputError("there is no threshold yet. Call conformalize(X, y) with held-out instances first.")

    def _marginals(self, X: Any) -> list[FloatArray]:
        if self.estimator is not None:
            results = self.estimator.predict_marginals(X)
            if any(isinstance(result, dict) for result in results):
                raise InvalidInputError(
                    "the estimator returns marginals by type of variable. Pass the marginals of one type as X, without "
                    "an estimator."
                )
            return [np.asarray(result, dtype=np.float64) for result in results]
        marginals = [as_float_array(row, f"X[{i}]") for i, row in enumerate(X)]
        for i, row in enumerate(marginals):
            if row.ndim == 0 or row.shape[-1] != marginals[0].shape[-1] or not ((row >= 0) & (row <= 1 + 1e-9)).all():
                raise InvalidInputError(
                    f"X[{i}] must be an array (..., n_classes) of probabilities, got shape {row.shape}. Pass "
                    f"marginals, or an estimator."
                )
        return marginals

    def _class_list(self, marginals: list[Any]) -> list[Any]:
        classes = getattr(self.estimator, "classes_", None) if self.classes is None else self.classes
        n = marginals[0].shape[-1] if marginals else 0
        labels = list(range(n)) if classes is None else np.asarray(classes).tolist()
        if marginals and len(labels) != n:
            raise InvalidInputError(f"there are {len(labels)} classes, but {n} marginals per position. Pass classes=.")
        return labels

    def _states(self, marginals: list[FloatArray], y: Any) -> list[NDArray[np.int64]]:
        """Return the class of each position, -1 if hidden, and the number of classes for an unknown label."""
        if len(y) != len(marginals):
            raise InvalidInputError(f"X has {len(marginals)} instances, but y has {len(y)}. Pass equally many.")
        labels = self._class_list(marginals)
        state_of = {label: c for c, label in enumerate(labels)}
        states = []
        for i, (probabilities, row) in enumerate(zip(marginals, y, strict=True)):
            values = np.empty(np.shape(row) if not isinstance(row, str) else (), dtype=object)
            values[...] = row
            if values.shape != probabilities.shape[:-1]:
                raise InvalidInputError(
                    f"y[{i}] has shape {values.shape}, but the marginals of X[{i}] have shape {probabilities.shape}. "
                    f"Pass one label per position."
                )
            python_labels = [v.item() if isinstance(v, np.generic) else v for v in values.ravel().tolist()]
            flat = [
                -1 if is_hidden(label) or isinstance(label, frozenset) else state_of.get(label, len(labels))
                for label in python_labels
            ]
            states.append(np.array(flat, dtype=np.int64))
        return states

    def _scores(self, marginals: list[FloatArray], y: Any) -> list[FloatArray]:
        """Return 1 - P(true label) of the labelled positions of each instance; infinite for an unknown label."""
        scores = []
        for probabilities, states in zip(marginals, self._states(marginals, y), strict=True):
            rows = probabilities.reshape(-1, probabilities.shape[-1])
            padded = np.column_stack([1.0 - rows, np.full(len(rows), np.inf)])
            scores.append(padded[np.arange(len(rows)), states][states >= 0])
        return scores

    def _is_best(self, marginals: list[FloatArray], y: Any) -> list[NDArray[np.bool_]]:
        """Return whether the label of each labelled position is the most probable."""
        return [
            (probabilities.reshape(-1, probabilities.shape[-1]).argmax(axis=1) == states)[states >= 0]
            for probabilities, states in zip(marginals, self._states(marginals, y), strict=True)
        ]

    def _mask(self, probabilities: FloatArray) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = 1.0 - probabilities <= self.threshold_
        if not self.allow_empty and mask.size:
            np.put_along_axis(mask, probabilities.argmax(axis=-1)[..., None], True, axis=-1)
        return mask


def _checked_scores(scores: ArrayLike, name: str) -> FloatArray:
    values = as_float_array(scores, name)
    if values.ndim != 1 or np.isnan(values).any():
        raise InvalidInputError(f"{name} must be a vector of numbers without NaN, got shape {values.shape}. Check it.")
    return values


def _risk_threshold(scores: list[FloatArray], alpha: float) -> float:
    """Return the smallest threshold at which the corrected mean fraction of missed positions is at most alpha.

    The correction (sum of fractions + 1) / (n + 1) treats the new instance as one that misses every position.
    """
    n = len(scores)
    values = np.concatenate(scores)
    weights = np.concatenate([np.full(score.size, 1.0 / score.size) for score in scores])
    order = np.argsort(values, kind="stable")
    n_missed = n - np.cumsum(weights[order])  # sum over instances of the fraction above each threshold
    is_enough = n_missed + 1.0 <= alpha * (n + 1) + 1e-9
    # Equal scores are covered together, so the first that is enough is not later than its last equal.
    return float(values[order][np.argmax(is_enough)]) if is_enough.any() else np.inf


def _uncertainty(marginals: list[FloatArray]) -> FloatArray:
    """Return the largest 1 - maximum probability of the positions of each instance, which needs no labels."""
    return np.array([1.0 - row.max(axis=-1).min() for row in marginals if row.size])


def _frozensets(mask: NDArray[np.bool_], classes: list[Any]) -> Any:
    if mask.ndim == 1:
        return frozenset(classes[c] for c in np.flatnonzero(mask))
    return [_frozensets(row, classes) for row in mask]
