"""Generalized expectation criteria: weights whose own expectations on unlabelled data are close to the targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from intarsia._core.progress import fit_progress
from intarsia._core.validation import FloatArray
from intarsia.energies.binding.scalar_terms import ScalarFunctions, stack_functions
from intarsia.exceptions import InvalidInputError
from intarsia.learning.expectations.expectation import Expectation
from intarsia.learning.expectations.positions import Positions
from intarsia.learning.minimum import LARGEST_WEIGHT, Minimum, Search, largest
from intarsia.learning.optimizer import Optimizer, warn_unless_converged

# Slope at a probability of 0 of a penalty that is infinite there.
_STEEP = 1e50


class Moments(NamedTuple):
    """Weighted sums over all examples of a model.

    Attributes
    ----------
    log_partition : float
        Sum of log Z.
    marginals : (n_states,) float array
        Probabilities of the states of all positions, without the weights of the examples.
    statistics : (n_weights,) float array
        Sum of the expected features.
    """

    log_partition: float
    marginals: FloatArray
    statistics: FloatArray


class Corpus(ABC):
    """Examples of a model whose log-potentials are linear in its weights."""

    positions: Positions
    n_weights: int
    has_labels: bool
    """Whether some label is not hidden."""

    @property
    def mass(self) -> float:
        """Weighted number of positions."""
        return float(self.positions.weight[self.positions.example].sum())

    @abstractmethod
    def moments(self, weights: FloatArray, *, clamped: bool = False) -> Moments:
        """Return sums of the model; with `clamped`, only labellings that agree with the labels are possible."""

    @abstractmethod
    def covariance(self, weights: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the weighted sum of the covariances of the features with the sum of `direction` over the labels."""


@dataclass(frozen=True, eq=False)
class BoundExpectations:
    """Expectations on a corpus: `sum_j psi_j f_j(a_j . mu)`, with the sum over all examples inside f.

    Attributes
    ----------
    names : list of str
        Name of each term.
    coefficients : (n_terms, n_states) CSR array
        Coefficients a_j of the probabilities of all states.
    functions : ScalarFunctions
        Functions f_j.
    psi : (n_terms,) float array
        Weights of the functions.
    low, high : (n_terms,) float arrays
        Interval in which each function is 0.
    weighted : (n_terms, n_states) CSR array
        Coefficients times the weights of the examples.
    """

    names: list[str]
    coefficients: sparse.csr_array
    functions: ScalarFunctions
    psi: FloatArray
    low: FloatArray
    high: FloatArray
    weighted: sparse.csr_array

    def values(self, marginals: FloatArray) -> FloatArray:
        """Return the measurements of all examples together."""
        return np.asarray(self.weighted @ marginals)

    def spread(self, slopes: FloatArray) -> FloatArray:
        """Return the derivatives in the probabilities of all states, from those in the measurements."""
        return np.asarray(self.coefficients.T @ slopes)


def check_arguments(expectations: Any, unused: dict[str, Any]) -> list[Expectation]:
    """Return a list of expectations from one or several, or raise if they or other arguments are invalid."""
    name = next((name for name, value in unused.items() if value is not None), None)
    if name is not None:
        raise InvalidInputError(f"{name}= cannot be used with expectations. Remove it.")
    items = [expectations] if isinstance(expectations, Expectation) else expectations
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise InvalidInputError(
            f"expectations must be a list of Expectation objects, got {type(expectations).__name__}. Use "
            f"label_proportion, label_given or label_count."
        )
    items = list(items)
    if not items:
        raise InvalidInputError("expectations is empty. Pass at least one, or None to learn from labels alone.")
    for i, item in enumerate(items):
        if not isinstance(item, Expectation):
            raise InvalidInputError(
                f"expectations[{i}] is {item!r:.60}, of type {type(item).__name__}. Use label_proportion, label_given "
                f"or label_count."
            )
    return items


def bind_expectations(expectations: Sequence[Expectation], positions: Positions) -> BoundExpectations:
    """Return the terms of all expectations on these positions.

    Examples
    --------
    >>> from intarsia.learning.expectations import label_proportion
    >>> table = (np.arange(2), np.array(["A", "B"]), np.ones((2, 1)), None)
    >>> positions = Positions(np.zeros(2, int), np.array([0, 2, 4]), np.ones(1), np.zeros(1, int), 1, {"": table})
    >>> bound = bind_expectations([label_proportion({"A": 0.75})], positions)
    >>> bound.values(np.array([0.5, 0.5, 1.0, 0.0])), bound.psi     # "A" and the other labels, on two positions
    (array([0.75, 0.25]), array([2., 2.]))
    """
    terms = [term for expectation in expectations for term in expectation.terms(positions)]
    # Functions of one family are next to each other, so that they are evaluated together.
    terms.sort(key=lambda term: type(term.functions).__name__)
    coefficients = sparse.csr_array(sparse.vstack([term.coefficients for term in terms], format="csr"))
    state_weight = np.repeat(positions.weight[positions.example], np.diff(positions.state_ptr))
    weighted = sparse.csr_array(coefficients @ sparse.diags_array(state_weight))
    psi, low, high = (np.array([getattr(term, key) for term in terms]) for key in ("psi", "low", "high"))
    functions = stack_functions([term.functions for term in terms])
    names = [term.name for term in terms]
    return BoundExpectations(names, coefficients, functions, psi, low, high, weighted)


class ExpectationRow(NamedTuple):
    """Expectation after a fit.

    Attributes
    ----------
    name : str
        Expectation and label.
    low, high : float
        Target, as an interval without penalty.
    model : float
        Expected value under the fitted model.
    """

    name: str
    low: float
    high: float
    model: float


class ExpectationTable(Sequence[ExpectationRow]):
    """Table of the expectations of a fit, with their values under the model; it prints as text.

    Examples
    --------
    >>> print(ExpectationTable([ExpectationRow("label_proportion({'A': 0.6}): A", 0.6, 0.6, 0.58)]))
    expectation                         target  model
    label_proportion({'A': 0.6}): A        0.6   0.58
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        self.rows = [ExpectationRow(*row) for row in rows]

    def to_json(self) -> list[list[Any]]:
        """Return the rows as lists of JSON values; an open end of an interval is None."""
        return [[row.name, *(x if np.isfinite(x) else None for x in (row.low, row.high)), row.model] for row in self]

    @classmethod
    def from_json(cls, rows: Iterable[Sequence[Any]]) -> ExpectationTable:
        """Return the table of rows that `to_json` returned; raises for rows of another form."""
        numbers = []
        for name, low, high, model, *_ in rows:  # files of 0.1 may have further columns
            ends = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
            numbers.append((str(name), *ends, float(model)))
        return cls(numbers)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        width = max([31, *(len(row.name) for row in self.rows)])
        lines = [f"{'expectation':<{width}}  {'target':>8}  model"]
        for row in self.rows:
            target = f"{row.low:.3g}" if row.low == row.high else f"{row.low:.3g}..{row.high:.3g}"
            lines.append(f"{row.name:<{width}}  {target:>8}  {row.model:>5.3g}")
        return "\n".join(lines)


class GeneralizedExpectationRisk:
    r"""Objective of generalized expectation criteria (Mann2010) per position; a call returns value and gradient.

    .. math:: -\log p_w(y_{known} | x) + \sum_j \psi_j f_j(E_w[a_j]) + \frac{l_2}2 \lVert w \rVert^2
    """

    def __init__(self, corpus: Corpus, expectations: BoundExpectations, l2: float) -> None:
        self.corpus, self.expectations, self.l2 = corpus, expectations, l2

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient at these weights; the value is infinite if a weight is too large."""
        if not largest(weights) < LARGEST_WEIGHT:
            return np.inf, np.zeros(weights.size)
        corpus, expectations = self.corpus, self.expectations
        free = corpus.moments(weights)
        values = expectations.values(free.marginals)
        penalties = expectations.psi * expectations.functions.value(values)
        value = float(penalties.sum()) + 0.5 * self.l2 * float(weights @ weights)
        slopes = expectations.psi * expectations.functions.derivative(values)
        gradient = corpus.covariance(weights, expectations.spread(slopes)) + self.l2 * weights
        if corpus.has_labels:
            clamped = corpus.moments(weights, clamped=True)
            value += free.log_partition - clamped.log_partition
            gradient += free.statistics - clamped.statistics
        return value / corpus.mass, gradient / corpus.mass


def learn_from_expectations(
    corpus: Corpus,
    expectations: BoundExpectations,
    settings: tuple[float, Optimizer, bool],
    start: FloatArray,
    title: str,
) -> tuple[Minimum, ExpectationTable]:
    """Fit weights with the L2 regularization, optimizer and verbosity in `settings`, and show the progress."""
    l2, optimizer, verbose = settings
    _check_reachable(corpus, expectations)
    with threadpool_limits(1, user_api="blas"), fit_progress(title, verbose) as report:

        def watch(search: Search) -> None:
            if report is not None:
                fraction = search.n_iter / max(1, int(optimizer.max_iter))
                report(search.n_iter, search.value, largest(search.gradient), fraction)

        minimum = optimizer.minimize(GeneralizedExpectationRisk(corpus, expectations, l2), start, watch=watch)
        warn_unless_converged(minimum, optimizer, "max_iter")
        model = expectations.values(corpus.moments(minimum.point).marginals).tolist()
    columns = (expectations.names, expectations.low.tolist(), expectations.high.tolist(), model)
    return minimum, ExpectationTable(zip(*columns, strict=True))


def _check_reachable(corpus: Corpus, expectations: BoundExpectations) -> None:
    """Raise if a penalty is infinite for all weights, because no position can have the label."""
    values = expectations.values(corpus.moments(np.zeros(corpus.n_weights)).marginals)
    impossible = (values <= 0.0) & (expectations.functions.derivative(np.zeros(values.size)) < -_STEEP)
    if impossible.any():
        j = int(np.argmax(impossible))
        raise InvalidInputError(
            f"{expectations.names[j]} should be {expectations.low[j]:g}, but the labels or forbidden transitions "
            f"exclude it at all its positions. Set its target to 0, or allow the label."
        )
