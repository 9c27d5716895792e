"""Log odds that two records belong together, fitted pair by pair, and entity labels as integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, frozen
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.counts import is_hidden


def cluster_codes(clusters: Any, n_records: int) -> IntArray:
    """Number of each record's entity, from 0 by first occurrence; -1 where it is None, NaN or -1: not known.

    Examples
    --------
    >>> cluster_codes(["b", None, "a", "b"], 4)
    array([ 0, -1,  1,  0])
    """
    if isinstance(clusters, (str, Mapping)) or not hasattr(clusters, "__len__"):
        raise InvalidInputError(f"clusters is of type {type(clusters).__name__}; expected one for each record.")
    if len(clusters) != n_records:
        raise InvalidInputError(
            f"there are {n_records} records, but {len(clusters)} clusters. Give one for each record, None "
            f"where it is not known."
        )
    as_list = getattr(clusters, "tolist", None) or getattr(clusters, "to_list", None)
    number: dict[Any, int] = {}
    codes = np.full(n_records, -1, dtype=np.int64)
    for row, given in enumerate(as_list() if as_list is not None else clusters):
        label = given.item() if isinstance(given, np.generic) else given
        if not (is_hidden(label) or label != label):
            codes[row] = number.setdefault(label, len(number))
    if not number:
        raise InvalidInputError(
            f"{'no record' if n_records else 'there are no records, so none'} has a known cluster. Label some."
        )
    return codes


def first_numbers(labels: IntArray) -> IntArray:
    """The same clusters, numbered from 0 in the order in which they first occur.

    Examples
    --------
    >>> first_numbers(np.array([7, 3, 7]))
    array([0, 1, 0])
    """
    _, first, code = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[code].astype(np.int64)


# Log odds beyond these tell no more: the pair is sure.
SUREST = 12.0


@dataclass(frozen=True, eq=False)
class PairMatcher:
    """Logistic regression on the features of a pair; make it with `fit_matcher`.

    Attributes
    ----------
    weights : (n_features,) array
        Of the features as they come.
    intercept : float
        Log odds where all features are 0.

    Examples
    --------
    >>> PairMatcher(np.array([2.0]), -1.0).log_odds(np.array([[1.0], [0.5]]))
    array([1., 0.])
    """

    weights: FloatArray
    intercept: float

    def log_odds(self, values: FloatArray) -> FloatArray:
        """Log odds of each pair, within ±12."""
        return np.clip(values @ self.weights + self.intercept, -SUREST, SUREST)


def fit_matcher(values: FloatArray, pairs: IntArray, clusters: IntArray, l2: float = 1.0) -> PairMatcher:
    """Log odds from pairs whose records both have a known cluster (-1 is not known).

    Features are measured in units of their standard deviation, so that the penalty is fair to all. Where the pairs are
    all of one kind, or there is none, features say nothing and the intercept is that kind's smoothed log odds.

    Parameters
    ----------
    values : (n_pairs, n_features) array
        Features.
    pairs : (n_pairs, 2) int array
        Records of each pair.
    clusters : (n_records,) int array
        Known cluster of each record.
    l2 : float
        Precision of the Gaussian prior: `l2 / 2 |w|^2` beside the loss summed over the pairs.

    Examples
    --------
    >>> pairs = np.array([[0, 1], [0, 2], [1, 2]])
    >>> matcher = fit_matcher(np.array([[0.9], [0.1], [0.2]]), pairs, np.array([5, 5, 6]))
    >>> bool(matcher.weights[0] > 0)
    True
    """
    one, other = clusters[pairs[:, 0]], clusters[pairs[:, 1]]
    known = (one >= 0) & (other >= 0)
    same = (one == other)[known]
    n_same, n_known = int(same.sum()), int(known.sum())
    if n_same in (0, n_known):
        intercept = float(np.log((n_same + 0.5) / (n_known - n_same + 0.5)))
        return PairMatcher(frozen(np.zeros(values.shape[1])), intercept)
    from sklearn.linear_model import LogisticRegression

    scale = values[known].std(axis=0)
    scale[scale == 0.0] = 1.0
    model = LogisticRegression(C=1.0 / l2, solver="newton-cholesky", tol=1e-6)
    model.fit(values[known] / scale, same)
    return PairMatcher(frozen(model.coef_[0] / scale), float(model.intercept_[0]))
