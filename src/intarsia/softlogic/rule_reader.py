"""Reading of atoms and clauses, from the tokens of a rule."""

from __future__ import annotations

from typing import NoReturn

from intarsia.softlogic.rule_tokens import END, RuleText, Token
from intarsia.softlogic.syntax import Atom, Comparison, Constant, Literal, SumVariable, Term, Variable

_COMPARISONS = {"=": "==", "-": "!=", "%": "%", "^": "%"}
# Far deeper than anyone writes, and far from the limit of Python's stack.
_DEEPEST = 60


class ClauseReader:
    """A place in the tokens, and what may stand there: terms, atoms, literals and clauses.

    Parameters
    ----------
    text : str
        One or more rules.
    where : str
        Their name in messages.
    dialect : {"plain", "psl"}
        How they are read; see `Program`.
    """

    def __init__(self, text: str, where: str, dialect: str = "plain") -> None:
        self._source = RuleText(text, where, dialect)
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
