"""Sums of atoms with coefficients while a rule is read: what `+`, `-`, `*` and `/` do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from intarsia.softlogic.syntax import Atom, Coefficient, Comparison, Number, Operation

_COMPUTED: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "@Min": min,
    "@Max": max,
}


def combined(operator: str, left: Coefficient, right: Coefficient) -> Coefficient:
    """A coefficient from two; numbers are computed at once.

    Examples
    --------
    >>> combined("*", Number(2.0), Number(3.0))
    Number(value=6.0)
    """
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(float(_COMPUTED[operator](left.value, right.value)))
    zero, one = Number(0.0), Number(1.0)
    if (operator in "*/" and right == one) or (operator in "+-" and right == zero):
        return left
    if (operator == "*" and left == one) or (operator == "+" and left == zero):
        return right
    if (operator in "*/" and left == zero) or (operator == "*" and right == zero):
        return zero
    return Operation(operator, left, right)


_ZERO = Number(0.0)


@dataclass(frozen=True)
class Linear:
    """Atoms with coefficients, and a constant.

    Examples
    --------
    >>> one = Linear([], Number(1.0))
    >>> one.plus(one).times(one).constant
    Number(value=2.0)
    """

    terms: list[tuple[Coefficient, Atom | Comparison]] = field(default_factory=list)
    constant: Coefficient = _ZERO

    def plus(self, other: Linear) -> Linear:
        """The sum."""
        return Linear([*self.terms, *other.terms], combined("+", self.constant, other.constant))

    def minus(self, other: Linear) -> Linear:
        """The difference."""
        return self.plus(other.times(Linear([], Number(-1.0))))

    def times(self, other: Linear) -> Linear:
        """The product; one of the two has no atoms."""
        atoms, factor = (self, other.constant) if not other.terms else (other, self.constant)
        return Linear(
            [(combined("*", factor, coefficient), atom) for coefficient, atom in atoms.terms],
            combined("*", factor, atoms.constant),
        )

    def divided(self, divisor: Coefficient) -> Linear:
        """The quotient; ZeroDivisionError if the divisor is the number 0."""
        return Linear(
            [(combined("/", coefficient, divisor), atom) for coefficient, atom in self.terms],
            combined("/", self.constant, divisor),
        )
