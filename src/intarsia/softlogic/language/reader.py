"""Parser for tokens, atoms and clauses of rules; errors report line and column."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.language.syntax import (
    Atom,
    Coefficient,
    Comparison,
    Constant,
    Literal,
    Number,
    Operation,
    SumVariable,
    Term,
    Variable,
)

_PATTERN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)
  | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
  | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
  | (?P<power>\^[0-9]+)
  | (?P<function>@\w+)
  | (?P<sign>->|<-|>>|<<|<=|>=|/(?!\*)|[&|!~()\[\]{},.:+\-*=%^])
    """,
    re.VERBOSE | re.DOTALL,
)
# Alternative spellings of a sign.
_SPELLING = {">>": "->", "<<": "<-", "~": "!"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
# PSL replaces the kinds of escapes one after the other: an escaped backslash before a t becomes a backslash and a tab.
_PSL_ORDER = "'\"tnr\\"
_MAX_SHOWN = 30
END = "end"


@dataclass(frozen=True)
class Token:
    """A token: its kind, its text in the standard spelling, and its start and end position."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """Text of the token for error messages."""
        if self.kind == END:
            return "the end"
        return repr(self.text if len(self.text) <= _MAX_SHOWN else self.text[:_MAX_SHOWN] + "...")


class RuleText:
    """Tokens of the text of one or more rules; the last token marks the end.

    Parameters
    ----------
    text : str
        The rules.
    place : str
        Name of the text in error messages, such as `model.psl`.
    dialect : {"plain", "psl"}
        How escapes in constants are replaced.
    """

    def __init__(self, text: str, place: str, dialect: str = "plain") -> None:
        self.text = text
        self.place = place
        self._dialect = dialect
        self.tokens = list(self._tokenize())

    def _tokenize(self) -> list[Token]:
        """Split the text into tokens."""
        tokens, position = [], 0
        while position < len(self.text):
            match = _PATTERN.match(self.text, position)
            if match is None:
                self._fail_unknown_character(position)
            kind = match.lastgroup or ""
            if kind == "string":
                tokens.append(Token(kind, self._unescaped(match[0][1:-1], position + 1), position, match.end()))
            elif kind not in ("space", "comment"):
                tokens.append(Token(kind, _SPELLING.get(match[0], match[0]), position, match.end()))
            position = match.end()
        last = len(self.text.rstrip())
        tokens.append(Token(END, "", last, last))
        return tokens

    def _unescaped(self, inside: str, position: int) -> str:
        """Return the text inside the quotes of a constant, with escapes replaced."""
        for escape in _ESCAPE.finditer(inside):
            if escape[1] not in _ESCAPED:
                self.fail(
                    position + escape.start(),
                    rf"the escape {escape[0]} in a constant is not known. Known: \\, \', \", \n, \t, \r. Write a "
                    rf"backslash as \\.",
                )
        if self._dialect == "plain":
            return _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], inside)
        for letter in _PSL_ORDER:
            inside = inside.replace(f"\\{letter}", _ESCAPED[letter])
        return inside

    def _fail_unknown_character(self, position: int) -> NoReturn:
        """Raise because no token begins at a position."""
        character = self.text[position]
        if character in "'\"":
            self.fail(position, f"expected {character} at the end of the constant that starts here, got the end.")
        if self.text.startswith("/*", position):
            self.fail(position, "expected */ at the end of the comment that starts here, got the end.")
        self.fail(
            position,
            f"expected a predicate, a variable, a quoted constant, a number or an operator, got {character!r}.",
        )

    def fail(self, position: int, message: str) -> NoReturn:
        """Raise an error with line and column of a position in the text."""
        line = self.text.count("\n", 0, position) + 1
        column = position - (self.text.rfind("\n", 0, position) + 1) + 1
        full_message = f"{self.place}, line {line}, column {column}: {message}"
        raise InvalidInputError(full_message)

    def same_line(self, first: Token, second: Token) -> bool:
        """Return whether two tokens are on the same line."""
        return "\n" not in self.text[first.start : second.start]


_COMPUTED: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "@Min": min,
    "@Max": max,
}


def combined(operator: str, left: Coefficient, right: Coefficient) -> Coefficient:
    """Combine two coefficients with an operator; operations on numbers are evaluated.

    Examples
    --------
    >>> combined("*", Number(2.0), Number(3.0))
    Number(value=6.0)
    """
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(float(_COMPUTED[operator](left.value, right.value)))
    zero, unit = Number(0.0), Number(1.0)
    if (operator in "*/" and right == unit) or (operator in "+-" and right == zero):
        return left
    if (operator == "*" and left == unit) or (operator == "+" and left == zero):
        return right
    if (operator in "*/" and left == zero) or (operator == "*" and right == zero):
        return zero
    return Operation(operator, left, right)


_ZERO = Number(0.0)


@dataclass(frozen=True)
class Linear:
    """A linear expression: atoms with coefficients, and a constant.

    Examples
    --------
    >>> unit = Linear([], Number(1.0))
    >>> unit.plus(unit).times(unit).constant
    Number(value=2.0)
    """

    terms: list[tuple[Coefficient, Atom | Comparison]] = field(default_factory=list)
    constant: Coefficient = _ZERO

    def plus(self, other: Linear) -> Linear:
        """Return the sum of two expressions."""
        return Linear([*self.terms, *other.terms], combined("+", self.constant, other.constant))

    def minus(self, other: Linear) -> Linear:
        """Return the difference of two expressions."""
        return self.plus(other.times(Linear([], Number(-1.0))))

    def times(self, other: Linear) -> Linear:
        """Return the product of two expressions, of which at most one has atoms."""
        atoms, factor = (self, other.constant) if not other.terms else (other, self.constant)
        return Linear(
            [(combined("*", factor, coefficient), atom) for coefficient, atom in atoms.terms],
            combined("*", factor, atoms.constant),
        )

    def divided(self, divisor: Coefficient) -> Linear:
        """Return the quotient; raise ZeroDivisionError if the divisor is the number 0."""
        return Linear(
            [(combined("/", coefficient, divisor), atom) for coefficient, atom in self.terms],
            combined("/", self.constant, divisor),
        )


_COMPARISONS = {"=": "==", "-": "!=", "%": "%", "^": "%"}
# Limit on the nesting of parentheses, well below the limit of Python's stack.
_MAX_DEPTH = 60


class ClauseReader:
    """Recursive-descent parser for terms, atoms, literals and clauses.

    Parameters
    ----------
    text : str
        One or more rules.
    place : str
        Name of the text in error messages.
    dialect : {"plain", "psl"}
        Dialect of the rules; see `Program`.
    """

    def __init__(self, text: str, place: str, dialect: str = "plain") -> None:
        self._source = RuleText(text, place, dialect)
        self._dialect = dialect
        self._position = 0
        self._depth = 0

    # ---------------------------------------------------------------- tokens

    @property
    def current(self) -> Token:
        """The current token, which has not been consumed."""
        return self._source.tokens[self._position]

    def _peek(self, steps: int = 1) -> Token:
        """Return a token after the current one."""
        tokens = self._source.tokens
        return tokens[min(self._position + steps, len(tokens) - 1)]

    def _is(self, *signs: str) -> bool:
        """Return whether the current token is one of the signs."""
        return self.current.kind == "sign" and self.current.text in signs

    def _advance(self) -> Token:
        """Consume and return the current token."""
        token = self.current
        self._position += 1
        return token

    def _accept(self, sign: str) -> bool:
        """Consume the current token if it is this sign; return whether it is."""
        if self._is(sign):
            self._position += 1
            return True
        return False

    def _require(self, sign: str, alternatives: str = "") -> None:
        """Consume this sign, or raise."""
        if not self._accept(sign):
            self.fail_expected(f"{alternatives}{sign!r}")

    def _name(self, expected: str) -> str:
        """Consume and return a name, or raise."""
        if self.current.kind != "name":
            self.fail_expected(expected)
        return self._advance().text

    def fail_expected(self, expected: str) -> NoReturn:
        """Raise because the current token is not the expected one."""
        self._source.fail(self.current.start, f"expected {expected}, got {self.current.shown}.")

    def _nest(self) -> None:
        """Increase the nesting depth; raise if it is too large."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._source.fail(
                self.current.start, f"the rule is nested more than {_MAX_DEPTH} levels deep. Write a simpler rule."
            )

    # ---------------------------------------------------------------- logical rules

    def _clause(self) -> list[Literal]:
        """Parse an implication or a disjunction, and return the literals of its clause."""
        left, left_operator = self._chain()
        if self._is("->", "<-"):
            arrow = self._advance()
            right, right_operator = self._chain()
            body, head = (left, right) if arrow.text == "->" else (right, left)
            body_operator, head_operator = (
                (left_operator, right_operator) if arrow.text == "->" else (right_operator, left_operator)
            )
            if body_operator == "|" or head_operator == "&":
                self._source.fail(
                    arrow.start,
                    "the body of an implication must use only '&' and its head only '|'. Write several rules instead.",
                )
            return [Literal(literal.atom, not literal.negated) for literal in body] + head
        if left_operator == "&":
            self.fail_expected("'->' after a body with '&'")
        return left

    def _chain(self) -> tuple[list[Literal], str]:
        """Parse literals joined by the same operator; return the operator too, empty for a single literal."""
        literals, operator = self._group()
        while self._is("&", "|"):
            sign = self._advance()
            self._accept(sign.text)  # the second sign of `&&` or `||`
            group, group_operator = self._group()
            if {operator, group_operator, sign.text} - {""} != {sign.text}:
                self._source.fail(
                    sign.start, "'&' and '|' cannot be mixed on one side of a rule. Write several rules instead."
                )
            operator = sign.text
            literals += group
        return literals, operator

    def _group(self) -> tuple[list[Literal], str]:
        """Parse a literal, or literals in parentheses."""
        if not self._is("("):
            return [self._literal()], ""
        self._nest()
        self._position += 1
        chain = self._chain()
        self._require(")", "'&', '|' or ")
        self._depth -= 1
        return chain

    def _literal(self) -> Literal:
        """Parse an atom or a comparison, possibly negated."""
        negated = False
        while self._accept("!"):
            negated = not negated
        if self._is("("):
            self._nest()
            self._position += 1
            inside = self._literal()
            self._require(")")
            self._depth -= 1
            return Literal(inside.atom, inside.negated != negated)
        return Literal(self._atom("a predicate, '!' or '('"), negated)

    # ---------------------------------------------------------------- atoms

    def _atom(self, expected: str, sums: bool = False) -> Atom | Comparison:
        """Parse an atom or a comparison; with `sums` arguments may be sum variables."""
        is_name = self.current.kind == "name"
        if self._begins_predicate():
            return self._predicate_atom(sums)
        if not (is_name or self.current.kind == "string"):
            self.fail_expected(expected)
        left = self._term(False)
        operator = self._comparison_operator()
        if operator is None:
            self.fail_expected("'(' after a predicate" if is_name else "'==', '!=' or '%'")
        return Comparison(operator, left, self._term(False))

    def _begins_predicate(self) -> bool:
        """Return whether a predicate and an opening parenthesis follow."""
        return self.current.kind == "name" and self._peek().kind == "sign" and self._peek().text == "("

    def _comparison_operator(self) -> str | None:
        """Parse `==`, `!=` or `%` in any spelling; return None if something else follows."""
        if self._is("!") and self._peek().text == "=":
            self._position += 2
            return "!="
        if not self._is(*_COMPARISONS):
            return None
        operator = _COMPARISONS[self._advance().text]
        if operator == "==":
            self._accept("=")
        return operator

    def _predicate_atom(self, sums: bool) -> Atom:
        """Parse a predicate with its arguments."""
        predicate = self._advance().text
        self._position += 1
        arguments = [self._term(sums)]
        while self._accept(","):
            arguments.append(self._term(sums))
        self._require(")", "',' or ")
        return Atom(predicate, tuple(arguments))

    def ground_atom(self) -> Atom:
        """Parse an atom in which every name is a constant."""
        predicate = self._name("a predicate")
        self._require("(")
        arguments = []
        while True:
            if self.current.kind not in ("name", "number", "string"):
                self.fail_expected("a constant")
            arguments.append(Constant(self._advance().text))
            if not self._accept(","):
                break
        self._require(")", "',' or ")
        if self.current.kind != END:
            self.fail_expected("the end")
        return Atom(predicate, tuple(arguments))

    def _term(self, sums: bool) -> Term:
        """Parse a variable, a constant or, with `sums`, a sum variable."""
        if self.current.kind == "name":
            return Variable(self._advance().text)
        if self.current.kind == "string":
            return Constant(self._advance().text)
        if not self._is("+"):
            self.fail_expected("a variable or a quoted constant")
        if not sums:
            self._source.fail(self.current.start, "a sum '+X' needs an arithmetic rule, with '<=', '=' or '>='.")
        self._position += 1
        return SumVariable(self._name("a variable after '+'"))
