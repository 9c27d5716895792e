"""The parts of a rule, as the reader makes them and grounding takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# How a program reads rules: with the usual order of operations, or exactly as PSL does.
DIALECTS = ("plain", "psl")
# The backslash comes first: those that the other escapes add must not be doubled.
_ESCAPES = (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r"))


@dataclass(frozen=True)
class Variable:
    """A name that stands for any constant.

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
    """A name over whose constants an atom of an arithmetic rule is summed.

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
    r"""A quoted name of one thing.

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
    """A predicate with its arguments.

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
    """Two terms that must be the same (`==`), differ (`!=`), or stand in their order (`%`).

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
        """Both terms."""
        return (self.left, self.right)

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


@dataclass(frozen=True)
class Literal:
    """An atom or a comparison, perhaps negated.

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
    """A coefficient that is written out.

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
    """How many atoms the sum over a variable has.

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
    """Two coefficients made one: `+`, `-`, `*`, `/`, `@Min` or `@Max`.

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
    """Names of the sum variables that a coefficient counts.

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
    """Literals, or conditions, of which all (`&`) or any (`|`) must hold.

    Examples
    --------
    >>> nice = Literal(Atom("Nice", (Variable("A"),)))
    >>> str(Condition("|", (nice, Literal(nice.atom, negated=True))))
    '(Nice(A) | !Nice(A))'
    """

    operator: str
    parts: tuple[Literal | Condition, ...]

    def literals(self) -> Iterator[Literal]:
        """Every literal, from left to right."""
        for part in self.parts:
            yield from part.literals() if isinstance(part, Condition) else (part,)

    def __str__(self) -> str:
        return f"({f' {self.operator} '.join(map(str, self.parts))})"


# ---------------------------------------------------------------- rules


@dataclass(frozen=True)
class LogicalRule:
    """A clause: at least one of its literals should hold, in Łukasiewicz' logic.

    `A & B -> C` is the clause `!A | !B | C`. Its distance from being satisfied, for atoms with truth values, is
    `max(0, 1 - sum of the literals' truth)`.

    Attributes
    ----------
    literals : tuple of Literal
        The clause; each literal stands in it once.
    weight : float or None
        None for a hard rule.
    squared : bool
        Whether the distance is squared.
    text : str
        The rule as it was written.

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
        """Every atom, from left to right."""
        return [literal.atom for literal in self.literals if isinstance(literal.atom, Atom)]


@dataclass(frozen=True)
class ArithmeticRule:
    """A linear inequality or equality over atoms: the sum of terms and a constant, compared with 0.

    Attributes
    ----------
    terms : tuple of (Coefficient, Atom or Comparison)
        All on the left side. A comparison selects groundings: where it does not hold there is none, and where it holds
        it adds nothing, whatever its coefficient.
    constant : Coefficient
        On the left side as well.
    relation : {"<=", ">=", "="}
        How the left side compares with 0.
    filters : dict
        Sum variable -> condition that its constants must meet.
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
        """Every atom that is summed, from left to right, then those of the filters."""
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
