"""Logistic regression of matching pairs of records, and entity labels as integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, frozen
from intarsia.clusters.logistic_regression import fit_logistic_regression
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.counts import is_hidden


def cluster_codes(clusters: Any, n_records: int) -> IntArray:
    """Return the entity of each record as an integer from 0 by first occurrence; -1 where it is None, NaN or -1.

    Examples
    --------
    >>> cluster_codes(["b", None, "a", "b"], 4)
    array([ 0, -1,  1,  0])
    """
    if isinstance(clusters, (str, Mapping)) or not hasattr(clusters, "__len__"):
        raise InvalidInputError(
            f"clusters is of type {type(clusters).__name__}; expected a sequence. Pass one entity per record."
        )
    if len(clusters) != n_records:
        raise InvalidInputError(
            f"there are {n_records} records, but {len(clusters)} clusters. Pass one per record, None where it is "
            f"unknown."
        )
    as_list = getattr(clusters, "tolist", None) or getattr(clusters, "to_list", None)
    code_of_label: dict[Any, int] = {}
    codes = np.full(n_records, -1, dtype=np.int64)
    for row, value in enumerate(as_list() if as_list is not None else clusters):
        label = value.item() if isinstance(value, np.generic) else value
        if not (is_hidden(label) or label != label):
            codes[row] = code_of_label.setdefault(label, len(code_of_label))
    if not code_of_label:
        raise InvalidInputError(
            f"{'no record' if n_records else 'there are no records, so none'} has a known cluster. Label some records."
        )
    return codes


# Larger log odds are clipped: a probability of 0.999994 is certain enough.
MAX_LOG_ODDS = 12.0


@dataclass(frozen=True, eq=False)
class PairMatcher:
    """Logistic regression on the features of a pair, fitted by `fit_matcher`.

    Attributes
    ----------
    weights : (n_features,) array
        Weights of the features, which are not standardised.
    intercept : float
        Log odds if all features are 0.

    Examples
    --------
    >>> PairMatcher(np.array([2.0]), -1.0).log_odds(np.array([[1.0], [0.5]]))
    array([1., 0.])
    """

    weights: FloatArray
    intercept: float

    def log_odds(self, values: FloatArray) -> FloatArray:
        """Return the log odds of each pair, clipped to ±12."""
        return np.clip(values @ self.weights + self.intercept, -MAX_LOG_ODDS, MAX_LOG_ODDS)


def fit_matcher(values: FloatArray, pairs: IntArray, clusters: IntArray, l2: float = 1.0) -> PairMatcher:
    """Fit a logistic regression to the pairs whose records both have a known cluster (-1: unknown).

    Features are divided by their standard deviation, so that the regularization treats them equally. If all pairs
    match, no pair matches or there are no pairs, the weights are 0 and the intercept is the smoothed log odds.

    Parameters
    ----------
    values : (n_pairs, n_features) array
        Features of each pair.
    pairs : (n_pairs, 2) int array
        Records of each pair.
    clusters : (n_records,) int array
        Known cluster of each record.
    l2 : float
        L2 regularization: `l2 / 2 |w|^2` is added to the loss summed over the pairs.

    Examples
    --------
    >>> pairs = np.array([[0, 1], [0, 2], [1, 2]])
    >>> matcher = fit_matcher(np.array([[0.9], [0.1], [0.2]]), pairs, np.array([5, 5, 6]))
    >>> bool(matcher.weights[0] > 0)
    True
    """
    first_cluster, second_cluster = clusters[pairs[:, 0]], clusters[pairs[:, 1]]
    labelled = (first_cluster >= 0) & (second_cluster >= 0)
    matches = (first_cluster == second_cluster)[labelled]
    n_matches, n_labelled = int(matches.sum()), int(labelled.sum())
    if n_matches in (0, n_labelled):
        intercept = float(np.log((n_matches + 0.5) / (n_labelled - n_matches + 0.5)))
        return PairMatcher(frozen(np.zeros(values.shape[1])), intercept)
    scale = values[labelled].std(axis=0)
    scale[scale == 0.0] = 1.0
    coefficients, intercept = fit_logistic_regression(values[labelled] / scale, matches, l2)
    return PairMatcher(frozen(coefficients / scale), intercept)
