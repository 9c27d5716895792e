"""Expectations: known proportions, counts and measurements of labels on data whose labels are hidden."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from intarsia._core.settings import Settings
from intarsia._core.validation import check_choice, check_number
from intarsia.energies.binding.scalar_terms import Penalties, PoissonDeviances, ScalarFunctions
from intarsia.exceptions import InvalidInputError
from intarsia.learning.expectations.positions import Positions

DISTANCES = ("squared", "kl")
# Proportions of all labels may differ from 1 by this much, so that rounded figures can be used.
_SUM_TOLERANCE = 1e-3


class Term(NamedTuple):
    """One convex function of one linear measurement of the marginals.

    Attributes
    ----------
    name : str
        Name in tables and errors.
    coefficients : (1, n_states) CSR array
        Coefficients of the probabilities of all states of all positions.
    functions : ScalarFunctions
        A single function of the measurement.
    psi : float
        Weight of the function.
    low, high : float
        Interval in which the function is 0.
    """

    name: str
    coefficients: sparse.csr_array
    functions: ScalarFunctions
    psi: float
    low: float
    high: float


class Expectation(Settings, ABC):
    """Base class of the expectations that `fit(expectations=[...])` takes.

    A subclass stores `distance` and `strength` and implements `terms` and `labels_used`.
    """

    distance: str
    strength: float
    kind: str | None = None
    """Type of the variables of a `GraphCRF` with several types."""

    @abstractmethod
    def terms(self, positions: Positions) -> list[Term]:
        """Return the functions of measurements on these data, or raise if the expectation is invalid for them."""

    @abstractmethod
    def labels_used(self) -> list[Any]:
        """Return the labels that the expectation names."""

    @property
    def title(self) -> str:
        """Short name for tables and errors."""
        return repr(self)

    def check_settings(self) -> None:
        """Raise InvalidInputError for an invalid distance or strength."""
        check_choice(self.distance, DISTANCES, f"{self.title}: distance")
        valid = isinstance(self.strength, (int, float, np.integer, np.floating)) and 0 < self.strength < math.inf
        if not valid:
            raise InvalidInputError(f"{self.title}: strength must be a positive number, got {self.strength!r:.60}.")

    def term(self, name: str, coefficients: sparse.csr_array, low: float, high: float, size: float) -> list[Term]:
        """Return the penalty of a measurement outside [low, high], with weight `strength * size`."""
        psi = float(self.strength) * size
        if self.distance == "kl":
            return [Term(name, coefficients, PoissonDeviances([low], [1.0]), psi, low, high)]
        if low == high:
            return [Term(name, coefficients, Penalties([low], [-math.inf], [math.inf], [1.0]), psi, low, high)]
        terms = []
        if low > -math.inf:
            below = Penalties([low], [-math.inf], [0.0], [1.0])
            terms.append(Term(f"{name} >= {low:g}", coefficients, below, psi, low, math.inf))
        if high < math.inf:
            above = Penalties([high], [0.0], [math.inf], [1.0])
            terms.append(Term(f"{name} <= {high:g}", coefficients, above, psi, -math.inf, high))
        return terms


class LabelExpectation(Expectation):
    r"""Expected fraction or number of positions with each label, possibly only where a feature occurs.

    The functions `label_proportion`, `label_given` and `label_count` create it. With :math:`z_l` the expected fraction
    of the covered positions that have label l (or their expected number per example), t its target and n the number of
    covered positions (or examples), the penalties are

    .. math:: n\,\tfrac12 \sum_l (z_l - t_l)^2, \qquad n \sum_l t_l \log (t_l / z_l),

    each times `strength`: the factor n puts it on the scale of a log-likelihood that is summed over positions. Labels
    that are not named share the rest of the probability.

    Parameters
    ----------
    labels : dict of label -> float or (low, high)
        Target of each label, or an interval that has no penalty; None for an open end.
    feature : str, int or list of bool arrays, optional
        Feature (its name, or its column if features are arrays) at whose positions the labels are counted; or a mask
        of the positions of each example. By default all positions.
    unit : {"proportion", "count"}
        Fraction of the covered positions, or number per example.
    distance : {"squared", "kl"}
        Penalty; "kl" (Kullback-Leibler divergence from target to expectation) needs proportions without intervals.
    strength : float
        Factor of the penalty.
    examples : list of int, optional
        Sequences or graphs that are covered, by index in X; by default all.
    per_example : bool
        Whether every covered example has to meet the expectation by itself; by default all of them together.
    kind : str, optional
        Type of the variables of a `GraphCRF` with several types.

    Examples
    --------
    >>> LabelExpectation({"A": 0.6}, distance="kl").title
    "label_proportion({'A': 0.6})"
    """

    def __init__(
        self,
        labels: Mapping[Any, Any],
        *,
        feature: Any = None,
        unit: str = "proportion",
        distance: str = "squared",
        strength: float = 1.0,
        examples: Sequence[int] | None = None,
        per_example: bool = False,
        kind: str | None = None,
    ) -> None:
        self.labels = labels
        self.feature = feature
        self.unit = unit
        self.distance = distance
        self.strength = strength
        self.examples = examples
        self.per_example = per_example
        self.kind = kind

    @property
    def title(self) -> str:
        """Short name for tables and errors."""
        if self.feature is None:
            return f"label_{'count' if self.unit == 'count' else 'proportion'}({self.labels!r:.80})"
        name = repr(self.feature) if isinstance(self.feature, (str, int, np.integer)) else "positions"
        return f"label_given({name}, {self.labels!r:.80})"

    def labels_used(self) -> list[Any]:
        """Return the labels with a target."""
        self._check_labels()
        return list(self.labels)

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        self._check_labels()
        check_choice(self.unit, ("proportion", "count"), f"{self.title}: unit")
        ranges = {label: self._interval(label) for label in self.labels}
        if self.distance == "kl":
            if self.unit == "count":
                raise InvalidInputError(
                    f"{self.title}: distance='kl' compares proportions, but unit is 'count'. Use distance='squared'."
                )
            label = next((label for label, (low, high) in ranges.items() if low != high), None)
            if label is not None:
                raise InvalidInputError(
                    f"{self.title}: distance='kl' needs one number per label, but {label!r} has an interval. Use "
                    f"distance='squared'."
                )
        total = sum(max(low, 0.0) for low, _ in ranges.values())
        if self.unit == "proportion" and total > 1.0 + _SUM_TOLERANCE:
            raise InvalidInputError(
                f"{self.title}: the proportions sum to {total:g}, which is more than 1. Pass fractions of the covered "
                f"positions, or use unit='count'."
            )

    def _check_labels(self) -> None:
        if not isinstance(self.labels, Mapping) or not self.labels:
            raise InvalidInputError(
                f"expectations: labels must be a dict label -> target with at least one label, got "
                f"{self.labels!r:.60}. Pass {{'NAME': 0.9}}, for example."
            )

    def _interval(self, label: Any) -> tuple[float, float]:
        """Return the interval of a label without penalty."""
        target, place = self.labels[label], f"{self.title}: target of {label!r}"
        ends = target if isinstance(target, (tuple, list)) else (target, target)
        if len(ends) != 2 or (ends[0] is None and ends[1] is None):
            raise InvalidInputError(f"{place} must be a number or a pair (low, high), got {target!r:.60}.")
        highest = 1.0 if self.unit == "proportion" else math.inf
        for end in ends:
            if end is not None:
                check_number(end, place, low=0.0, high=highest, open_high=math.isinf(highest))
        low = -math.inf if ends[0] is None else float(ends[0])
        high = math.inf if ends[1] is None else float(ends[1])
        if low > high:
            raise InvalidInputError(
                f"{place} is the interval ({low:g}, {high:g}), whose ends are reversed. Pass the smaller one first."
            )
        return low, high

    def terms(self, positions: Positions) -> list[Term]:
        """Return a term for each label (and each example, if required), and one for all other labels with "kl"."""
        self.check_settings()
        view = positions.view(self.kind, self.title)
        covered = view.covered(self.feature, self.examples, self.title)
        columns = {label: view.state_of(label, self.title) for label in self.labels}
        self._check_total(view.classes.tolist())
        if not self.per_example:
            return self._terms(positions, covered, columns, "")
        by_example = positions.split(covered)
        return [
            term
            for example, rows in by_example.items()
            for term in self._terms(positions, rows, columns, f" in X[{positions.source[example]}]")
        ]

    def _check_total(self, classes: list[Any]) -> None:
        """Raise if all labels have targets that cannot sum to 1."""
        if self.unit == "count" or len(self.labels) < len(classes):
            return
        total = sum(min(high, 1.0) for _, high in map(self._interval, self.labels))
        if total < 1.0 - _SUM_TOLERANCE:
            raise InvalidInputError(
                f"{self.title}: all labels have a proportion, but their sum is at most {total:g} instead of 1. "
                f"Correct the proportions, or leave one label out."
            )

    def _terms(self, positions: Positions, rows: Any, columns: dict[Any, Any], suffix: str) -> list[Term]:
        weight = positions.weight_of(rows)
        size = positions.weight_of_examples(rows) if self.unit == "count" else weight
        if not size > 0.0:
            raise InvalidInputError(
                f"{self.title}{suffix} covers only sequences or graphs of weight 0. Pass positive sample weights, or "
                f"remove it."
            )
        terms, rest = [], 1.0
        total = sum(self._interval(label)[0] for label in self.labels) if self.distance == "kl" else 1.0
        for label, first_states in columns.items():
            low, high = self._interval(label)
            row = positions.row(first_states[rows], 1.0 / size)
            if self.distance == "kl" and total > 1.0:  # rounded figures
                low = high = low / total
            rest -= low
            terms += self.term(f"{self.title}{suffix}: {label}", row, low, high, size)
        if self.distance == "kl":
            others = positions.others(rows, list(columns.values()), 1.0 / size)
            if others.nnz:
                rest = max(rest, 0.0)
                terms += self.term(f"{self.title}{suffix}: other labels", others, rest, rest, size)
        return terms


class MeasuredExpectation(Expectation):
    r"""Expected value of a linear measurement :math:`\sum_i \sum_l a_{il} p(y_i = l)` with coefficients of your choice.

    Parameters
    ----------
    coefficients : list of (T, n_classes) arrays
        Coefficients of each example: a row per position, a column per class, in the order of `classes`.
    target : float or (low, high)
        Preferred value of the measurement, or an interval without penalty; None for an open end.
    strength : float
        Factor of the penalty, half the squared distance from the target.
    name : str
        Name in tables and errors.

    Examples
    --------
    >>> MeasuredExpectation([np.ones((2, 3))], (1.0, None), name="length").title
    "measurement('length')"
    """

    distance = "squared"

    def __init__(
        self,
        coefficients: Sequence[Any],
        target: Any,
        *,
        strength: float = 1.0,
        name: str = "measurement",
    ) -> None:
        self.coefficients = coefficients
        self.target = target
        self.strength = strength
        self.name = name

    @property
    def title(self) -> str:
        """Short name for tables and errors."""
        return f"measurement({self.name!r})"

    def labels_used(self) -> list[Any]:
        """Return an empty list: coefficients have columns instead of labels."""
        return []

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        ends = self.target if isinstance(self.target, (tuple, list)) else (self.target, self.target)
        if len(ends) != 2 or (ends[0] is None and ends[1] is None):
            raise InvalidInputError(
                f"{self.title}: target must be a number or a pair (low, high), got {self.target!r:.60}."
            )
        for end in ends:
            if end is not None:
                check_number(end, f"{self.title}: target", low=-1e100, high=1e100)
        if None not in ends and ends[0] > ends[1]:
            raise InvalidInputError(f"{self.title}: target {self.target} has reversed ends. Pass the smaller first.")

    def terms(self, positions: Positions) -> list[Term]:
        """Return a single term."""
        self.check_settings()
        ends = self.target if isinstance(self.target, (tuple, list)) else (self.target, self.target)
        low, high = -math.inf if ends[0] is None else ends[0], math.inf if ends[1] is None else ends[1]
        row = positions.measurement(self.coefficients, self.title)
        return self.term(self.title, row, float(low), float(high), 1.0)


def label_proportion(
    labels: Mapping[Any, Any],
    *,
    distance: str = "kl",
    strength: float = 1.0,
    examples: Sequence[int] | None = None,
    per_example: bool = False,
    kind: str | None = None,
) -> LabelExpectation:
    """Expect known fractions of all positions to have each label: learning from label proportions.

    Labels that are not named share the rest. See `LabelExpectation` for the parameters.

    Examples
    --------
    >>> label_proportion({"NOUN": 0.3, "VERB": (0.1, 0.2)}, distance="squared").labels["VERB"]
    (0.1, 0.2)
    """
    return LabelExpectation(
        labels, distance=distance, strength=strength, examples=examples, per_example=per_example, kind=kind
    )


def label_given(
    feature: Any,
    labels: Mapping[Any, Any],
    *,
    distance: str = "kl",
    strength: float = 1.0,
    examples: Sequence[int] | None = None,
    kind: str | None = None,
) -> LabelExpectation:
    """Expect known fractions of labels where a feature occurs, such as a word: "labelled features".

    See `LabelExpectation` for the parameters.

    Examples
    --------
    >>> label_given("word=smith", {"NAME": 0.9}).title
    "label_given('word=smith', {'NAME': 0.9})"
    """
    return LabelExpectation(labels, feature=feature, distance=distance, strength=strength, examples=examples, kind=kind)


def label_count(
    label: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    feature: Any = None,
    per_example: bool = True,
    strength: float = 1.0,
    examples: Sequence[int] | None = None,
    kind: str | None = None,
) -> LabelExpectation:
    """Expect a label at least or at most so many times in each example, or on average with `per_example=False`.

    Examples
    --------
    >>> label_count("VERB", at_least=1).labels
    {'VERB': (1, None)}
    """
    return LabelExpectation(
        {label: (at_least, at_most)}, feature=feature, unit="count", strength=strength, examples=examples,
        per_example=per_example, kind=kind,
    )  # fmt: skip
