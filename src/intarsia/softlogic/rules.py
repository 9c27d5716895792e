"""Rules of PSL's language as objects: a recursive-descent reader that says where and what it expected."""

from __future__ import annotations

from intarsia._validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.linear_text import Linear, combined
from intarsia.softlogic.rule_checks import check_arithmetic, check_logical
from intarsia.softlogic.rule_reader import ClauseReader
from intarsia.softlogic.rule_tokens import END
from intarsia.softlogic.syntax import (
    ArithmeticRule,
    Atom,
    Cardinality,
    Condition,
    Literal,
    LogicalRule,
    Number,
    Rule,
)

_RELATIONS = ("<=", ">=", "=")


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


class _Reader(ClauseReader):
    """Whole rules, logical and arithmetic."""

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
