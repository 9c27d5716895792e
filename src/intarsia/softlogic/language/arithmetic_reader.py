"""Reading of linear expressions of arithmetic rules with the usual order of operations."""

from __future__ import annotations

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.language.rule_reader import ClauseReader, Linear, Token, combined
from intarsia.softlogic.language.syntax import Cardinality, Coefficient, Number


class ArithmeticReader(ClauseReader):
    """Linear expressions: sums of products of numbers, cardinalities and at most one atom each.

    `1 + 2 * P(X)` is 1 plus twice P(X), and `P(X) / 2 * 3` is 1.5 P(X).
    """

    # Whether a coefficient and its atom, or two terms, may stand on different lines. In a list of rules the next line
    # can also begin the next rule.
    _joins_lines = True

    def _continues(self) -> bool:
        """Whether what stands here can belong to the expression before it."""
        return self._joins_lines or self._source.same_line(self._source.tokens[self._at - 1], self.here)

    def _adds(self) -> bool:
        """Whether `+` or `-` continues the sum; `-2:` would be the weight of a next rule."""
        if self._begins_negative_weight():
            return False
        return self._is("+") or (self._is("-") and self._continues())

    def _begins_negative_weight(self) -> bool:
        return self._is("-") and self._ahead().kind == "number" and self._ahead(2).text == ":"

    def _linear(self) -> Linear:
        minus = self._take("-")
        total = self._product()
        if minus:
            total = Linear().minus(total)
        while self._adds():
            sign = self._step().text
            more = self._product()
            total = total.plus(more) if sign == "+" else total.minus(more)
        return total

    def _product(self) -> Linear:
        total = self._factor()
        while True:
            sign = self.here
            if self._is("*", "/"):
                self._at += 1
            elif not ((self._begins_predicate() or self._is("(")) and self._continues()):
                return total
            factor = self._factor()
            if factor.terms and (total.terms or sign.text == "/"):
                self._source.fail(sign.start, "a rule is linear: atoms cannot be multiplied by, or divide, each other.")
            total = self._quotient(total, factor.constant, sign) if sign.text == "/" else total.times(factor)

    def _quotient(self, dividend: Linear, divisor: Coefficient, sign: Token) -> Linear:
        try:
            return dividend.divided(divisor)
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
        if self._is("|"):
            return Linear([], self._cardinality())
        if token.kind == "function":
            return Linear([], self._function())
        if self._is("("):
            return self._in_parentheses()
        return Linear([(Number(1.0), self._atom("a predicate, a number, '|', '@Min', '@Max' or '('", sums=True))])

    def _in_parentheses(self) -> Linear:
        self._deeper()
        self._need("(")
        inside = self._linear()
        self._need(")", "an operator or ")
        self._depth -= 1
        return inside

    def _cardinality(self) -> Cardinality:
        self._need("|")
        name = self._name("a sum variable after '|'")
        self._need("|")
        return Cardinality(name)

    def _function(self) -> Coefficient:
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
        return combined(operator, parts[0].constant, parts[1].constant)
