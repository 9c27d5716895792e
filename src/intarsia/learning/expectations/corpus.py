"""Corpus with expectations: sums over all examples that the methods need, and the expectations bound to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia.energies.binding.scalar_terms import ScalarFunctions, stack_functions
from intarsia.exceptions import InvalidInputError
from intarsia.learning.expectations.expectation import Expectation, row_norms, stack_coefficients
from intarsia.learning.expectations.positions import Positions


class Moments(NamedTuple):
    """Weighted sums over all examples of a model, possibly with scores changed by a tilt.

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
    def moments(self, weights: FloatArray, tilt: FloatArray | None = None, *, clamped: bool = False) -> Moments:
        """Return sums of the model whose node scores are reduced by `tilt`.

        With `clamped`, only labellings that agree with the labels are possible.
        """

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
        Weights of the functions; inf for hard constraints.
    low, high : (n_terms,) float arrays
        Interval in which each function is 0.
    weighted : (n_terms, n_states) CSR array
        Coefficients times the weights of the examples.
    scale : (n_terms,) float array
        Norms of the rows of `weighted`, by which multipliers are scaled.
    """

    names: list[str]
    coefficients: sparse.csr_array
    functions: ScalarFunctions
    psi: FloatArray
    low: FloatArray
    high: FloatArray
    weighted: sparse.csr_array
    scale: FloatArray

    def values(self, marginals: FloatArray) -> FloatArray:
        """Return the measurements of all examples together."""
        return np.asarray(self.weighted @ marginals)

    def tilt(self, multipliers: FloatArray) -> FloatArray:
        """Return the amounts by which multipliers reduce the scores of the states."""
        return np.asarray(self.coefficients.T @ multipliers)

    def penalties(self, values: FloatArray) -> FloatArray:
        """Return the penalty of each term; hard constraints have none, because they hold."""
        finite = np.isfinite(self.psi)
        penalties = np.zeros(self.psi.size)
        penalties[finite] = (np.where(finite, self.psi, 0.0) * self.functions.value(values))[finite]
        return penalties

    def violations(self, values: FloatArray) -> FloatArray:
        """Return the distance of each value from its interval."""
        return np.maximum(np.maximum(self.low - values, values - self.high), 0.0)


def check_arguments(expectations: Any, unused: dict[str, Any]) -> list[Expectation]:
    """Return a list of expectations from one or several, or raise if they or other arguments are invalid."""
    if expectations is None:
        raise InvalidInputError("method= is used only with expectations. Pass expectations=, or remove method.")
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
    coefficients = stack_coefficients([term.coefficients for term in terms], positions.n_states)
    state_weight = np.repeat(positions.weight[positions.example], np.diff(positions.state_ptr))
    weighted = sparse.csr_array(coefficients @ sparse.diags_array(state_weight))
    psi, low, high = (np.array([getattr(term, key) for term in terms]) for key in ("psi", "low", "high"))
    functions = stack_functions([term.functions for term in terms])
    names = [term.name for term in terms]
    return BoundExpectations(names, coefficients, functions, psi, low, high, weighted, row_norms(weighted))


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
    projected : float or None
        Expected value under the projected posterior of posterior regularization.
    multiplier : float or None
        Multiplier of the projection: 0 if the posterior meets the expectation without it.
    """

    name: str
    low: float
    high: float
    model: float
    projected: float | None
    multiplier: float | None


class ExpectationTable(Sequence[ExpectationRow]):
    """Table of the expectations of a fit, with their values under the model; it prints as text.

    Examples
    --------
    >>> print(ExpectationTable([ExpectationRow("label_proportion({'A': 0.6}): A", 0.6, 0.6, 0.58, None, None)]))
    expectation                         target  model  projected
    label_proportion({'A': 0.6}): A        0.6   0.58          -
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        self.rows = [ExpectationRow(*row) for row in rows]

    def to_json(self) -> list[list[Any]]:
        """Return the rows as lists of JSON values; an open end of an interval is None."""
        return [[row.name, *(x if np.isfinite(x) else None for x in (row.low, row.high)), *row[3:]] for row in self]

    @classmethod
    def from_json(cls, rows: Iterable[Sequence[Any]]) -> ExpectationTable:
        """Return the table of rows that `to_json` returned; raises for rows of another form."""
        numbers = []
        for name, low, high, *values in rows:
            ends = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
            numbers.append((str(name), *ends, *(None if x is None else float(x) for x in values)))
        return cls(numbers)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        width = max([31, *(len(row.name) for row in self.rows)])
        lines = [f"{'expectation':<{width}}  {'target':>8}  model  projected"]
        for row in self.rows:
            target = f"{row.low:.3g}" if row.low == row.high else f"{row.low:.3g}..{row.high:.3g}"
            projected = "-" if row.projected is None else f"{row.projected:.3g}"
            lines.append(f"{row.name:<{width}}  {target:>8}  {row.model:>5.3g}  {projected:>9}")
        return "\n".join(lines)
