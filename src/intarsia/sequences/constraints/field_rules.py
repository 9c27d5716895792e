"""Rules for the fields of a labelling: how often they occur, in which order, and with which others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.constraints.automaton import Automaton, count_automaton, occurrence_automaton, order_automaton
from intarsia.sequences.constraints.labels import field_of, segments_of
from intarsia.sequences.constraints.rule import Field, Rule, check_field, check_strength

if TYPE_CHECKING:
    from intarsia.energies import Energy


@dataclass(frozen=True, repr=False)
class CountRule(Rule):
    """Bounds on the number of segments of a field; created by `once`, `exactly_once` and `count`."""

    field: Field
    minimum: int = 0
    maximum: int | None = 1
    soft: bool = False
    strength: float | None = None

    def __post_init__(self) -> None:
        check_field(self.field, "count: field")
        check_number(self.minimum, "count: minimum", low=0, high=2**31, integer=True)
        if self.maximum is not None:
            check_number(self.maximum, "count: maximum", low=0, high=2**31, integer=True)
            if self.maximum < self.minimum:
                raise InvalidInputError(
                    f"count: maximum={self.maximum} is below minimum={self.minimum}, so that no labelling satisfies "
                    f"the rule. Pass minimum <= maximum."
                )
        check_strength(self, "count")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Field that is counted."""
        return (self.field,)

    @property
    def is_stationary(self) -> bool:
        """Whether positions and tokens have no effect, which is always so."""
        return True

    def violation(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> float:
        """Return the number of missing or surplus segments."""
        n = sum(run.field == self.field for run in segments_of(labels))
        surplus = 0 if self.maximum is None else n - self.maximum
        return float(max(self.minimum - n, surplus, 0))

    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether the number of segments is between `minimum` and `maximum`."""
        return self.violation(labels) == 0.0

    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton that counts segments up to the bounds."""
        return count_automaton(classes, self.field, *self._bounds(length))

    def penalty_automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton that charges 1 for each missing or surplus segment."""
        return count_automaton(classes, self.field, *self._bounds(length), is_soft=True)

    def _bounds(self, length: int) -> tuple[int, int | None]:
        """Return bounds with the same meaning for sequences of a length, so that the automaton stays small."""
        has_limit = self.maximum is not None and self.maximum < length
        return min(self.minimum, length + 1), self.maximum if has_limit else None

    def energy(self) -> Energy:
        """Return the energy on the expected number of segments."""
        from intarsia import energies

        if (self.minimum, self.maximum) == (0, 1):
            return energies.at_most_one(self.field, psi=self.psi)
        if (self.minimum, self.maximum) == (1, 1):
            return energies.exactly_one(self.field, psi=self.psi)
        starts = energies.SegmentStarts(self.field)
        parts: list[Energy] = []
        if self.minimum > 0:
            parts.append(energies.MeasuredEnergy(-starts, energies.SmoothedHinge(-self.minimum), psi=self.psi))
        if self.maximum is not None:
            parts.append(energies.MeasuredEnergy(starts, energies.SmoothedHinge(self.maximum), psi=self.psi))
        if not parts:
            raise InvalidInputError(f"{self!r} allows every labelling, so it has no energy. Set minimum or maximum.")
        return parts[0] if len(parts) == 1 else energies.EnergySum(parts)

    def __repr__(self) -> str:
        if (self.minimum, self.maximum) == (0, 1):
            return self._call("once", self.field)
        if (self.minimum, self.maximum) == (1, 1):
            return self._call("exactly_once", self.field)
        return self._call("count", self.field, minimum=self.minimum or None, maximum=self.maximum)


@dataclass(frozen=True, repr=False)
class OrderRule(Rule):
    """Order of fields; created by `in_order`."""

    order: tuple[Field, ...]
    soft: bool = False
    strength: float | None = None

    def __post_init__(self) -> None:
        for i, field in enumerate(self.order):
            check_field(field, f"in_order: field {i}")
        if len(self.order) < 2 or len(set(self.order)) < len(self.order):
            raise InvalidInputError(f"in_order needs two or more different fields, got {list(self.order)!r:.200}.")
        check_strength(self, "in_order")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields in their order."""
        return self.order

    @property
    def is_stationary(self) -> bool:
        """Whether positions and tokens have no effect, which is always so."""
        return True

    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether every segment of a field comes before every segment of the later fields."""
        ranks = [self.order.index(run.field) for run in segments_of(labels) if run.field in self.order]
        return ranks == sorted(ranks)

    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton that stores the last field that has occurred."""
        return order_automaton(classes, self.order)

    def energy(self) -> Energy:
        """Return the sum of the energies of neighbouring fields."""
        from intarsia import energies

        pairs = [energies.before(a, b, psi=self.psi) for i, a in enumerate(self.order) for b in self.order[i + 1 :]]
        return pairs[0] if len(pairs) == 1 else energies.EnergySum(pairs)

    def __repr__(self) -> str:
        return self._call("in_order", *self.order)


@dataclass(frozen=True, repr=False)
class NeedsRule(Rule):
    """Implication between fields; created by `needs`."""

    field: Field
    requirement: Field
    soft: bool = False
    strength: float | None = None

    def __post_init__(self) -> None:
        check_field(self.field, "needs: a")
        check_field(self.requirement, "needs: b")
        check_strength(self, "needs")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Field, and the field that it needs."""
        return (self.field, self.requirement)

    @property
    def is_stationary(self) -> bool:
        """Whether positions and tokens have no effect, which is always so."""
        return True

    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether the needed field occurs, or the first field does not."""
        fields = {field_of(label)[0] for label in labels}
        return self.field not in fields or self.requirement in fields

    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton that stores which of the fields have occurred."""
        return occurrence_automaton(classes, (self.field, self.requirement), lambda a, b: b or not a)

    def energy(self) -> Energy:
        """Return the energy on the expected numbers of segments."""
        from intarsia import energies

        return energies.implies(self.field, self.requirement, psi=self.psi)

    def __repr__(self) -> str:
        return self._call("needs", self.field, self.requirement)


@dataclass(frozen=True, repr=False)
class ExclusionRule(Rule):
    """Exclusion of two fields; created by `not_together`."""

    field: Field
    other: Field
    soft: bool = False
    strength: float | None = None

    def __post_init__(self) -> None:
        check_field(self.field, "not_together: a")
        check_field(self.other, "not_together: b")
        if self.field == self.other:
            raise InvalidInputError(
                f"not_together needs two different fields, got {self.field!r} twice. Use once({self.field!r}), or "
                f"count({self.field!r}, maximum=0)."
            )
        check_strength(self, "not_together")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields that exclude each other."""
        return (self.field, self.other)

    @property
    def is_stationary(self) -> bool:
        """Whether positions and tokens have no effect, which is always so."""
        return True

    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether at most one of the two fields occurs."""
        fields = {field_of(label)[0] for label in labels}
        return not (self.field in fields and self.other in fields)

    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the automaton that stores which of the fields have occurred."""
        return occurrence_automaton(classes, (self.field, self.other), lambda a, b: not (a and b))

    def energy(self) -> Energy:
        """Return the energy on the expected numbers of segments."""
        from intarsia import energies

        return energies.forbidden_together(self.field, self.other, psi=self.psi)

    def __repr__(self) -> str:
        return self._call("not_together", self.field, self.other)
