"""Read a rule's tokens, atoms, clauses and linear sums, with line and column for error messages."""

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
# Different spellings of one thing.
_SPELLING = {">>": "->", "<<": "<-", "~": "!"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
# PSL replaces one kind of escape after the other: an escaped backslash before a t becomes a backslash and a tab.
_PSL_ORDER = "'\"tnr\\"
_LONGEST_SHOWN = 30
END = "end"


@dataclass(frozen=True)
class Token:
    """A word or sign: its kind, its text in the chosen spelling, where it starts and where it ends."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """For messages."""
        if self.kind == END:
            return "the end"
        return repr(self.text if len(self.text) <= _LONGEST_SHOWN else self.text[:_LONGEST_SHOWN] + "...")


class RuleText:
    """The text of one or more rules and its tokens, the last of which is the end.

    Parameters
    ----------
    text : str
        The rules.
    place : str
        Their name in messages, such as `model.psl`.
    dialect : {"plain", "psl"}
        How escapes in constants are read.
    """

    def __init__(self, text: str, place: str, dialect: str = "plain") -> None:
        self.text = text
        self.place = place
        self._dialect = dialect
        self.tokens = list(self._read())

    def _read(self) -> list[Token]:
        found, at = [], 0
        while at < len(self.text):
            match = _PATTERN.match(self.text, at)
            if match is None:
                self._fail_unreadable(at)
            kind = match.lastgroup or ""
            if kind == "string":
                found.append(Token(kind, self._unescaped(match[0][1:-1], at + 1), at, match.end()))
            elif kind not in ("space", "comment"):
                found.append(Token(kind, _SPELLING.get(match[0], match[0]), at, match.end()))
            at = match.end()
        last = len(self.text.rstrip())
        found.append(Token(END, "", last, last))
        return found

    def _unescaped(self, inside: str, at: int) -> str:
        """A constant without its quotes, its escapes replaced."""
        for escape in _ESCAPE.finditer(inside):
            if escape[1] not in _ESCAPED:
                self.fail(
                    at + escape.start(),
                    rf"the escape {escape[0]} in a constant is not known. Known: \\, \', \", \n, \t, \r. Write a "
                    rf"backslash as \\.",
                )
        if self._dialect == "plain":
            return _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], inside)
        for letter in _PSL_ORDER:
            inside = inside.replace(f"\\{letter}", _ESCAPED[letter])
        return inside

    def _fail_unreadable(self, at: int) -> NoReturn:
        sign = self.text[at]
        if sign in "'\"":
            self.fail(at, f"expected {sign} at the end of the constant that starts here, got the end.")
        if self.text.startswith("/*", at):
            self.fail(at, "expected */ at the end of the comment that starts here, got the end.")
        self.fail(at, f"expected a predicate, a variable, a quoted constant, a number or an operator, got {sign!r}.")

    def fail(self, at: int, message: str) -> NoReturn:
        """Raise with line and column of a place in the text."""
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        raise InvalidInputError(f"{self.place}, line {line}, column {column}: {message}")

    def same_line(self, first: Token, second: Token) -> bool:
        """Whether no line ends between two tokens."""
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


_COMPARISONS = {"=": "==", "-": "!=", "%": "%", "^": "%"}
# Far deeper than anyone writes, and far from the limit of Python's stack.
_DEEPEST = 60


class ClauseReader:
    """A place in the tokens, and what may stand there: terms, atoms, literals and clauses.

    Parameters
    ----------
    text : str
        One or more rules.
    place : str
        Their name in messages.
    dialect : {"plain", "psl"}
        How they are read; see `Program`.
    """

    def __init__(self, text: str, place: str, dialect: str = "plain") -> None:
        self._source = RuleText(text, place, dialect)
        self._dialect = dialect
        self._at = 0
        self._depth = 0

    # ---------------------------------------------------------------- moving on

    @property
    def here(self) -> Token:
        """The token that is read next."""
        return self._source.tokens[self._at]

    def _ahead(self, steps: int = 1) -> Token:
        tokens = self._source.tokens
        return tokens[min(self._at + steps, len(tokens) - 1)]

    def _is(self, *signs: str) -> bool:
        return self.here.kind == "sign" and self.here.text in signs

    def _step(self) -> Token:
        token = self.here
        self._at += 1
        return token

    def _take(self, sign: str) -> bool:
        if self._is(sign):
            self._at += 1
            return True
        return False

    def _need(self, sign: str, also: str = "") -> None:
        if not self._take(sign):
            self.expected(f"{also}{sign!r}")

    def _name(self, what: str) -> str:
        if self.here.kind != "name":
            self.expected(what)
        return self._step().text

    def expected(self, what: str) -> NoReturn:
        """Raise, since something else stands here."""
        self._source.fail(self.here.start, f"expected {what}, got {self.here.shown}.")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._source.fail(self.here.start, f"nested more than {_DEEPEST} deep. Write a simpler rule.")

    # ---------------------------------------------------------------- logical rules

    def _clause(self) -> list[Literal]:
        left, joined = self._chain()
        if self._is("->", "<-"):
            arrow = self._step()
            right, right_joined = self._chain()
            body, head = (left, right) if arrow.text == "->" else (right, left)
            body_joined, head_joined = (joined, right_joined) if arrow.text == "->" else (right_joined, joined)
            if body_joined == "|" or head_joined == "&":
                self._source.fail(
                    arrow.start,
                    "the body of an implication is joined by '&' and its head by '|'. Write several rules instead.",
                )
            return [Literal(literal.atom, not literal.negated) for literal in body] + head
        if joined == "&":
            self.expected("'->' after a body that is joined by '&'")
        return left

    def _chain(self) -> tuple[list[Literal], str]:
        """Literals joined by one operator, which is empty if there is one literal only."""
        literals, joined = self._group()
        while self._is("&", "|"):
            sign = self._step()
            self._take(sign.text)  # `&&` and `||`, also with a space in between
            more, inside = self._group()
            if {joined, inside, sign.text} - {""} != {sign.text}:
                self._source.fail(
                    sign.start, "'&' and '|' cannot be mixed on one side of a rule. Write several rules instead."
                )
            joined = sign.text
            literals += more
        return literals, joined

    def _group(self) -> tuple[list[Literal], str]:
        if not self._is("("):
            return [self._literal()], ""
        self._deeper()
        self._at += 1
        found = self._chain()
        self._need(")", "'&', '|' or ")
        self._depth -= 1
        return found

    def _literal(self) -> Literal:
        negated = False
        while self._take("!"):
            negated = not negated
        if self._is("("):
            self._deeper()
            self._at += 1
            inside = self._literal()
            self._need(")")
            self._depth -= 1
            return Literal(inside.atom, inside.negated != negated)
        return Literal(self._atom("a predicate, '!' or '('"), negated)

    # ---------------------------------------------------------------- atoms

    def _atom(self, what: str, sums: bool = False) -> Atom | Comparison:
        is_name = self.here.kind == "name"
        if self._begins_predicate():
            return self._predicate_atom(sums)
        if not (is_name or self.here.kind == "string"):
            self.expected(what)
        left = self._term(False)
        operator = self._comparison_operator()
        if operator is None:
            self.expected("'(' after a predicate" if is_name else "'==', '!=' or '%'")
        return Comparison(operator, left, self._term(False))

    def _begins_predicate(self) -> bool:
        """Whether a predicate and its parenthesis follow."""
        return self.here.kind == "name" and self._ahead().kind == "sign" and self._ahead().text == "("

    def _comparison_operator(self) -> str | None:
        """Read `==`, `!=` or `%` in any spelling, their signs perhaps apart; None if something else follows."""
        if self._is("!") and self._ahead().text == "=":
            self._at += 2
            return "!="
        if not self._is(*_COMPARISONS):
            return None
        operator = _COMPARISONS[self._step().text]
        if operator == "==":
            self._take("=")
        return operator

    def _predicate_atom(self, sums: bool) -> Atom:
        predicate = self._step().text
        self._at += 1
        arguments = [self._term(sums)]
        while self._take(","):
            arguments.append(self._term(sums))
        self._need(")", "',' or ")
        return Atom(predicate, tuple(arguments))

    def ground_atom(self) -> Atom:
        """An atom in which every name is a constant."""
        predicate = self._name("a predicate")
        self._need("(")
        arguments = []
        while True:
            if self.here.kind not in ("name", "number", "string"):
                self.expected("a constant")
            arguments.append(Constant(self._step().text))
            if not self._take(","):
                break
        self._need(")", "',' or ")
        if self.here.kind != END:
            self.expected("the end")
        return Atom(predicate, tuple(arguments))

    def _term(self, sums: bool) -> Term:
        if self.here.kind == "name":
            return Variable(self._step().text)
        if self.here.kind == "string":
            return Constant(self._step().text)
        if not self._is("+"):
            self.expected("a variable or a quoted constant")
        if not sums:
            self._source.fail(
                self.here.start, "a sum '+X' stands in arithmetic rules only, those with '<=', '=', '>='."
            )
        self._at += 1
        return SumVariable(self._name("a variable after '+'"))
