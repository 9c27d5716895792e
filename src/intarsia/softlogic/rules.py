"""Rules of PSL's language as objects: a recursive-descent reader that says where and what it expected."""

from __future__ import annotations

from typing import NoReturn

from intarsia._validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.linear_text import Linear, combined
from intarsia.softlogic.rule_checks import check_arithmetic, check_logical
from intarsia.softlogic.rule_tokens import END, RuleText, Token
from intarsia.softlogic.syntax import (
    ArithmeticRule,
    Atom,
    Cardinality,
    Comparison,
    Condition,
    Constant,
    Literal,
    LogicalRule,
    Number,
    Rule,
    SumVariable,
    Term,
    Variable,
)

_COMPARISONS = {"==": "==", "=": "==", "!=": "!=", "-": "!=", "%": "%", "^": "%"}
_RELATIONS = ("<=", ">=", "=")
# Far deeper than anyone writes, and far from the limit of Python's stack.
_DEEPEST = 60


def read_rule(text: str, where: str = "rule") -> Rule:
    """One rule from its text, in PSL's language.

    Logical: `2.5: Friends(A, B) & Votes(A, P) & (A != B) -> Votes(B, P) ^2`. Arithmetic: `Votes(A, +P) = 1 .`. A
    number and a colon before a rule are its weight; a hard rule ends with a period. Names without quotes inside
    parentheses are variables, quoted ones constants.

    Parameters
    ----------
    text : str
        The rule.
    where : str
        What to call it in messages.

    Raises
    ------
    InvalidInputError
        The text is no rule: the message has line, column and what was expected. Or nothing tells which values one of
        its variables takes.

    Examples
    --------
    >>> rule = read_rule("0.5: Knows(A, B) & Knows(B, C) -> Knows(A, C)")
    >>> rule.weight, [str(literal) for literal in rule.literals]
    (0.5, ['!Knows(A, B)', '!Knows(B, C)', 'Knows(A, C)'])
    >>> read_rule("1: Knows(A B)")
    Traceback (most recent call last):
        ...
    intarsia.exceptions.InvalidInputError: rule, line 1, column 12: expected ',' or ')', got 'B'.
    """
    reader = _Reader(_checked(text, where), where)
    rule = reader.rule()
    if reader.here.kind != END:
        reader.expected("the end of the rule, an operator before this, or '^2'" if rule.weight else "the end")
    return rule


def read_rules(text: str, where: str = "rules") -> list[Rule]:
    """All rules of a text, one after the other; `//`, `#` and `/* */` begin comments.

    Examples
    --------
    >>> rules = read_rules('''
    ... 1: !Knows(A, B) ^2        // nobody knows anybody, at first
    ... Knows(A, B) = Knows(B, A) .
    ... ''')
    >>> [rule.text for rule in rules]
    ['1: !Knows(A, B) ^2', 'Knows(A, B) = Knows(B, A) .']
    """
    reader = _Reader(_checked(text, where), where)
    found = []
    while reader.here.kind != END:
        found.append(reader.rule())
    return found


def read_ground_atom(text: str) -> Atom:
    """One atom without variables; constants may be quoted or not.

    Raises
    ------
    InvalidInputError
        The text is no atom.

    Examples
    --------
    >>> str(read_ground_atom("Knows(0, 'Ann B.')"))
    "Knows('0', 'Ann B.')"
    """
    return _Reader(_checked(text, "atom"), "atom").ground_atom()


def _checked(text: str, where: str) -> str:
    if not isinstance(text, str):
        raise InvalidInputError(f"{where} must be a text, got {type(text).__name__}.")
    return text


class _Reader:
    """A place in the tokens, and what may stand there."""

    def __init__(self, text: str, where: str) -> None:
        self._source = RuleText(text, where)
        self._at = 0
        self._depth = 0

    # ---------------------------------------------------------------- moving on

    @property
    def here(self) -> Token:
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
        self._source.fail(self.here.start, f"expected {what}, got {self.here.shown}.")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._source.fail(self.here.start, f"nested more than {_DEEPEST} deep. Write a simpler rule.")

    # ---------------------------------------------------------------- a whole rule

    def rule(self) -> Rule:
        begin = self.here
        self._depth = 0
        weight = self._weight()
        arithmetic = self._is_arithmetic()
        if arithmetic:
            left = self._linear()
            if not self._is(*_RELATIONS):
                self.expected("'<=', '>=', '=' or an operator")
            relation = self._step().text
            left = left.minus(self._linear())
        else:
            clause = self._clause()
        squared, hard, filters = self._endings(weight, arithmetic)
        text = self._source.text[begin.start : self._source.tokens[self._at - 1].end]
        where = f"{self._source.where} {text!r:.200}"
        if not hard and weight is None:
            self._source.fail(
                self.here.start,
                f"expected '.' after a hard rule, or a weight and ':' before a soft one, got {self.here.shown}.",
            )
        if arithmetic:
            made = ArithmeticRule(tuple(left.terms), left.constant, relation, filters, weight, squared, text)
            check_arithmetic(made, where)
            return made
        rule = LogicalRule(tuple(clause), weight, squared, text)
        check_logical(rule, where)
        return rule

    def _weight(self) -> float | None:
        if self._is("-") and self._ahead().kind == "number" and self._ahead(2).text == ":":
            self._source.fail(self.here.start, "a weight must be at least 0. Negate the rule instead.")
        if self.here.kind == "number" and self._ahead().text == ":":
            weight = float(self._step().text)
            self._at += 1
            if weight == float("inf"):
                self._source.fail(
                    self._source.tokens[self._at - 2].start,
                    "a weight must be finite. End the rule with '.' to make it hard.",
                )
            return weight
        return None

    def _is_arithmetic(self) -> bool:
        """Whether `<=`, `>=` or `=` follows outside parentheses before the rule ends."""
        depth = 0
        tokens = self._source.tokens
        for k in range(self._at, len(tokens) - 1):
            token = tokens[k]
            if token.kind == "power" or (token.kind == "number" and tokens[k + 1].text == ":" and depth == 0):
                return False
            if token.kind != "sign":
                continue
            depth += (token.text in "([{") - (token.text in ")]}")
            if depth <= 0 and token.text in _RELATIONS:
                return True
            if depth <= 0 and token.text in (".", "->", "<-"):
                return False
        return False

    def _endings(self, weight: float | None, arithmetic: bool) -> tuple[bool, bool, dict[str, Condition]]:
        squared = hard = False
        filters: dict[str, Condition] = {}
        while True:
            if self.here.kind == "power":
                if self.here.text not in ("^1", "^2"):
                    self.expected("'^1' or '^2'")
                if weight is None:
                    self._source.fail(
                        self.here.start, "a hard rule has no power. Give a weight, or leave the power out."
                    )
                squared = self._step().text == "^2"
            elif self._is("."):
                if weight is not None:
                    self._source.fail(
                        self.here.start, "a rule with a weight is not hard. Leave out the weight, or the '.'."
                    )
                self._at += 1
                hard = True
            elif self._is("{") and arithmetic:
                self._filter(filters)
            else:
                return squared, hard, filters

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
        negated = self._take("!")
        if negated and self._take("("):
            atom = self._atom("an atom")
            self._need(")")
        else:
            atom = self._atom("a predicate" if negated else "a predicate, '!' or '('")
        return Literal(atom, negated)

    # ---------------------------------------------------------------- atoms

    def _atom(self, what: str, sums: bool = False) -> Atom | Comparison:
        is_name = self.here.kind == "name"
        if is_name and self._ahead().text == "(" and self._ahead().kind == "sign":
            return self._predicate_atom(sums)
        if is_name and self._ahead().text not in _COMPARISONS:
            self._at += 1
            self.expected("'(' after a predicate")
        if not (is_name or self.here.kind == "string"):
            self.expected(what)
        left = self._term(False)
        if not self._is(*_COMPARISONS):
            self.expected("'==', '!=' or '%'")
        return Comparison(_COMPARISONS[self._step().text], left, self._term(False))

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

    # ---------------------------------------------------------------- arithmetic rules

    def _linear(self) -> Linear:
        minus = self._take("-")
        total = self._product()
        if minus:
            total = Linear().minus(total)
        while self._is("+", "-"):
            sign = self._step().text
            more = self._product()
            total = total.plus(more) if sign == "+" else total.minus(more)
        return total

    def _product(self) -> Linear:
        total = self._factor()
        while True:
            sign = self.here
            begins_atom = sign.kind == "name" and self._ahead().text == "("
            if self._is("*", "/"):
                self._at += 1
            # Without a sign only on the same line: in a list of rules the next line is the next rule.
            elif not (begins_atom and self._source.same_line(self._source.tokens[self._at - 1], sign)):
                return total
            factor = self._factor()
            if factor.terms and (total.terms or sign.text == "/"):
                self._source.fail(sign.start, "a rule is linear: atoms cannot be multiplied by, or divide, each other.")
            try:
                total = total.divided(factor.constant) if sign.text == "/" else total.times(factor)
            except ZeroDivisionError:
                self._source.fail(sign.start, "a division by 0.")

    def _factor(self) -> Linear:
        token = self.here
        if token.kind == "number":
            self._at += 1
            return Linear([], Number(float(token.text)))
        if self._is("-"):
            self._deeper()
            self._at += 1
            inside = self._factor()
            self._depth -= 1
            return Linear().minus(inside)
        if self._take("|"):
            name = self._name("a sum variable after '|'")
            self._need("|")
            return Linear([], Cardinality(name))
        if token.kind == "function":
            return self._function()
        if self._is("("):
            self._deeper()
            self._at += 1
            inside = self._linear()
            self._need(")", "an operator or ")
            self._depth -= 1
            return inside
        return Linear([(Number(1.0), self._atom("a predicate, a number, '|', '@Min', '@Max' or '('", sums=True))])

    def _function(self) -> Linear:
        name = self._step()
        operator = name.text.capitalize().replace("@m", "@M")
        if operator not in ("@Min", "@Max"):
            try:
                check_choice(name.text, ("@Min", "@Max"), "function")
            except InvalidInputError as error:
                self._source.fail(name.start, str(error))
        self._deeper()
        closing = ")" if self._take("(") else "]"
        if closing == "]":
            self._need("[", "'(' or ")
        parts = [self._linear()]
        self._need(",")
        parts.append(self._linear())
        self._need(closing)
        self._depth -= 1
        if parts[0].terms or parts[1].terms:
            self._source.fail(name.start, f"{operator} compares numbers and '|X|', not atoms.")
        return Linear([], combined(operator, parts[0].constant, parts[1].constant))

    def _filter(self, filters: dict[str, Condition]) -> None:
        self._at += 1
        begin = self.here
        name = self._name("a sum variable after '{'")
        if name in filters:
            self._source.fail(begin.start, f"a second filter for {name}. Join both with '&'.")
        self._need(":")
        filters[name] = self._condition("|")
        self._need("}", "'&', '|' or ")

    def _condition(self, operator: str) -> Condition:
        parts = [self._condition_part(operator)]
        while self._take(operator):
            parts.append(self._condition_part(operator))
        only = parts[0]
        return only if len(parts) == 1 and isinstance(only, Condition) else Condition(operator, tuple(parts))

    def _condition_part(self, operator: str) -> Literal | Condition:
        if operator == "|":
            return self._condition("&")
        if self._is("("):
            self._deeper()
            self._at += 1
            inside = self._condition("|")
            self._need(")", "'&', '|' or ")
            self._depth -= 1
            return inside
        return self._literal()
