"""Syntax tree of rules: terms, atoms, literals, coefficients, filters and rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Dialects of the rule language: with the usual order of operations, or exactly as in PSL.
DIALECTS = ("plain", "psl")
# The backslash comes first, because the backslashes of the other escapes must not be doubled.
_ESCAPES = (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r"))


@dataclass(frozen=True)
class Variable:
    """A variable of a rule, which stands for any constant.

    Examples
    --------
    >>> str(Variable("X"))
    'X'
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SumVariable:
    """A sum variable: an atom of an arithmetic rule is summed over its constants.

    Examples
    --------
    >>> str(SumVariable("X"))
    '+X'
    """

    name: str

    def __str__(self) -> str:
        return f"+{self.name}"


@dataclass(frozen=True)
class Constant:
    r"""A constant: the quoted name of an object.

    Examples
    --------
    >>> print(Constant("it's"))
    'it\'s'
    """

    value: str

    def __str__(self) -> str:
        inside = self.value
        for character, escape in _ESCAPES:
            inside = inside.replace(character, escape)
        return f"'{inside}'"


Term = Variable | SumVariable | Constant


@dataclass(frozen=True)
class Atom:
    """An atom: a predicate with its arguments.

    Examples
    --------
    >>> str(Atom("Knows", (Variable("A"), Constant("Bob"))))
    "Knows(A, 'Bob')"
    """

    predicate: str
    arguments: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.predicate}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Comparison:
    """A comparison: two terms that must be equal (`==`), differ (`!=`), or be in ascending order (`%`).

    Examples
    --------
    >>> str(Comparison("!=", Variable("A"), Variable("B")))
    '(A != B)'
    """

    operator: str
    left: Term
    right: Term

    @property
    def arguments(self) -> tuple[Term, ...]:
        """Both terms of the comparison."""
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


@dataclass(frozen=True)
class Literal:
    """A literal: an atom or a comparison, possibly negated.

    Examples
    --------
    >>> str(Literal(Atom("Nice", (Variable("A"),)), negated=True))
    '!Nice(A)'
    """

    atom: Atom | Comparison
    negated: bool = False

    def __str__(self) -> str:
        return f"{'!' if self.negated else ''}{self.atom}"


# ---------------------------------------------------------------- coefficients


@dataclass(frozen=True)
class Number:
    """A coefficient that is a number.

    Examples
    --------
    >>> str(Number(2.0))
    '2'
    """

    value: float

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True)
class Cardinality:
    """A coefficient that is the number of atoms in the sum over a variable.

    Examples
    --------
    >>> str(Cardinality("X"))
    '|X|'
    """

    variable: str

    def __str__(self) -> str:
        return f"|{self.variable}|"


@dataclass(frozen=True)
class Operation:
    """An operation on two coefficients: `+`, `-`, `*`, `/`, `@Min` or `@Max`.

    Examples
    --------
    >>> str(Operation("@Min", Number(2.0), Cardinality("X")))
    '@Min[2, |X|]'
    """

    operator: str
    left: Coefficient
    right: Coefficient

    def __str__(self) -> str:
        if self.operator.startswith("@"):
            return f"{self.operator}[{self.left}, {self.right}]"
        return f"({self.left} {self.operator} {self.right})"


Coefficient = Number | Cardinality | Operation


def cardinalities(coefficient: Coefficient) -> set[str]:
    """Return the names of the sum variables whose cardinality occurs in a coefficient.

    Examples
    --------
    >>> cardinalities(Operation("/", Number(1.0), Cardinality("X")))
    {'X'}
    """
    if isinstance(coefficient, Cardinality):
        return {coefficient.variable}
    if isinstance(coefficient, Operation):
        return cardinalities(coefficient.left) | cardinalities(coefficient.right)
    return set()


# ---------------------------------------------------------------- conditions of filters


@dataclass(frozen=True)
class Condition:
    """A filter condition: operands of which all (`&`) or any (`|`) must hold.

    Examples
    --------
    >>> nice = Literal(Atom("Nice", (Variable("A"),)))
    >>> str(Condition("|", (nice, Literal(nice.atom, negated=True))))
    '(Nice(A) | !Nice(A))'
    """

    operator: str
    parts: tuple[Literal | Condition, ...]

    def literals(self) -> Iterator[Literal]:
        """Yield every literal, from left to right."""
        for operand in self.parts:
            yield from operand.literals() if isinstance(operand, Condition) else (operand,)

    def __str__(self) -> str:
        return f"({f' {self.operator} '.join(map(str, self.parts))})"


# ---------------------------------------------------------------- rules


@dataclass(frozen=True)
class LogicalRule:
    """A logical rule: a clause of which at least one literal should hold, in Łukasiewicz logic.

    `A & B -> C` is the clause `!A | !B | C`. Its distance to satisfaction, for atoms with values in [0, 1], is
    `max(0, 1 - sum of the values of its literals)`.

    Attributes
    ----------
    literals : tuple of Literal
        Literals of the clause, without duplicates.
    weight : float or None
        Weight of the rule; None for a hard rule.
    squared : bool
        Whether the distance is squared.
    text : str
        Text of the rule.

    Examples
    --------
    >>> from intarsia.softlogic.language.rules import read_rule
    >>> rule = read_rule("2: A(X) & (X != 'b') -> B(X) ^2")
    >>> [str(literal) for literal in rule.literals], rule.weight, rule.squared
    (['!A(X)', "!(X != 'b')", 'B(X)'], 2.0, True)
    """

    literals: tuple[Literal, ...]
    weight: float | None
    squared: bool
    text: str

    @property
    def atoms(self) -> list[Atom]:
        """Atoms of the rule, from left to right."""
        return [literal.atom for literal in self.literals if isinstance(literal.atom, Atom)]


@dataclass(frozen=True)
class ArithmeticRule:
    """An arithmetic rule: a linear inequality or equality over atoms, compared with 0.

    Attributes
    ----------
    terms : tuple of (Coefficient, Atom or Comparison)
        Terms of the left side. A comparison only selects groundings: it must hold, and it adds nothing to the sum,
        whatever its coefficient.
    constant : Coefficient
        Constant of the left side.
    relation : {"<=", ">=", "="}
        Comparison of the left side with 0.
    filters : dict
        Sum variable -> condition that its constants must satisfy.
    weight, squared, text
        As for `LogicalRule`.

    Examples
    --------
    >>> from intarsia.softlogic.language.rules import read_rule
    >>> rule = read_rule("Is(U, +L) = 1 .")
    >>> [str(atom) for _, atom in rule.terms], rule.relation, rule.weight
    (['Is(U, +L)'], '=', None)
    """

    terms: tuple[tuple[Coefficient, Atom | Comparison], ...]
    constant: Coefficient
    relation: str
    filters: dict[str, Condition]
    weight: float | None
    squared: bool
    text: str

    @property
    def atoms(self) -> list[Atom]:
        """Atoms of the terms, from left to right, then those of the filters."""
        return [atom for _, atom in self.terms if isinstance(atom, Atom)] + [
            literal.atom
            for condition in self.filters.values()
            for literal in condition.literals()
            if isinstance(literal.atom, Atom)
        ]

    @property
    def sum_variables(self) -> list[str]:
        """Names of the variables that are summed over."""
        return [term.name for _, atom in self.terms for term in atom.arguments if isinstance(term, SumVariable)]


Rule = LogicalRule | ArithmeticRule
