"""Parser for linear expressions of arithmetic rules, with the usual order of operations or as in PSL."""

from __future__ import annotations

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.language.reader import ClauseReader, Linear, Token, combined
from intarsia.softlogic.language.syntax import Atom, Cardinality, Coefficient, Comparison, Number


class ArithmeticReader(ClauseReader):
    """Parser for linear expressions: sums of products of numbers, cardinalities and at most one atom each.

    `1 + 2 * P(X)` is 1 plus twice P(X), and `P(X) / 2 * 3` is 1.5 P(X).
    """

    # Whether an expression may continue on the next line, which can also begin the next rule.
    _joins_lines = True

    def _continues(self) -> bool:
        """Return whether the current token can belong to the expression before it."""
        return self._joins_lines or self._source.same_line(self._source.tokens[self._position - 1], self.current)

    def _adds(self) -> bool:
        """Return whether `+` or `-` continues the sum; `-2:` would be the weight of the next rule."""
        if self._begins_negative_weight():
            return False
        return self._is("+") or (self._is("-") and self._continues())

    def _begins_negative_weight(self) -> bool:
        """Return whether a negative weight follows."""
        return self._is("-") and self._peek().kind == "number" and self._peek(2).text == ":"

    def _linear(self) -> Linear:
        """Parse a linear expression."""
        minus = self._accept("-")
        total = self._product()
        if minus:
            total = Linear().minus(total)
        while self._adds():
            sign = self._advance().text
            summand = self._product()
            total = total.plus(summand) if sign == "+" else total.minus(summand)
        return total

    def _product(self) -> Linear:
        """Parse factors joined by `*` or `/`, or without a sign."""
        total = self._factor()
        while True:
            sign = self.current
            if self._is("*", "/"):
                self._position += 1
            elif not ((self._begins_predicate() or self._is("(")) and self._continues()):
                return total
            factor = self._factor()
            if factor.terms and (total.terms or sign.text == "/"):
                self._source.fail(
                    sign.start, "a rule must be linear: atoms cannot be multiplied or divided by each other."
                )
            total = self._quotient(total, factor.constant, sign) if sign.text == "/" else total.times(factor)

    def _quotient(self, dividend: Linear, divisor: Coefficient, sign: Token) -> Linear:
        """Return a quotient; raise with the position of the sign if the divisor is 0."""
        try:
            return dividend.divided(divisor)
        except ZeroDivisionError:
            self._source.fail(sign.start, "division by 0. Use another divisor.")

    def _factor(self) -> Linear:
        """Parse a number, cardinality, function, atom or expression in parentheses, possibly with a minus sign."""
        token = self.current
        if token.kind == "number":
            self._position += 1
            return Linear([], Number(float(token.text)))
        if self._is("-"):
            self._nest()
            self._position += 1
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
        """Parse a linear expression in parentheses."""
        self._nest()
        self._require("(")
        inside = self._linear()
        self._require(")", "an operator or ")
        self._depth -= 1
        return inside

    def _cardinality(self) -> Cardinality:
        """Parse a cardinality such as `|X|`."""
        self._require("|")
        name = self._name("a sum variable after '|'")
        self._require("|")
        return Cardinality(name)

    def _function(self) -> Coefficient:
        """Parse `@Min` or `@Max` with two coefficients."""
        name = self._advance()
        operator = name.text.capitalize().replace("@m", "@M")
        if operator not in ("@Min", "@Max"):
            try:
                check_choice(name.text, ("@Min", "@Max"), "function")
            except InvalidInputError as error:
                self._source.fail(name.start, str(error))
        self._nest()
        closing = ")" if self._accept("(") else "]"
        if closing == "]":
            self._require("[", "'(' or ")
        operands = [self._linear()]
        self._require(",")
        operands.append(self._linear())
        self._require(closing)
        self._depth -= 1
        if operands[0].terms or operands[1].terms:
            self._source.fail(name.start, f"{operator} must have numbers or '|X|' as arguments, not atoms.")
        return combined(operator, operands[0].constant, operands[1].constant)


class PslArithmeticReader(ArithmeticReader):
    """Parser for linear expressions in PSL's dialect: a coefficient is the longest run of numbers, across `+` and `-`.

    `1 + 2 * P(X)` is 3 P(X), `P(X) / 2 * 3` is P(X) / 6, and `P(X) - 1 - 2` is P(X) - (1 - 2). A coefficient multiplies
    a single atom, not a sum in parentheses.
    """

    def _linear(self) -> Linear:
        if self._dialect == "plain":
            return super()._linear()
        total = self._operand()
        while self._adds():
            sign = self._advance().text
            summand = self._operand()
            total = total.plus(summand) if sign == "+" else total.minus(summand)
        return total

    def _operand(self) -> Linear:
        """Parse an atom with optional coefficient and divisor, a coefficient, or a sum in parentheses."""
        coefficient: Coefficient = Number(1.0)
        prefixes = self._coefficients()
        if prefixes:
            self._position, coefficient = prefixes[-1]
            if not self._accept("*") and not self._begins_factor():
                return Linear([], coefficient)
            atom = self._operand_atom()
        elif self._is("("):
            inner_atom = self._atom_in_parentheses()
            if inner_atom is None:
                return self._in_parentheses()
            atom = inner_atom
        else:
            if self._is("-"):
                self._source.fail(
                    self.current.start,
                    "PSL does not allow a minus before an atom or a parenthesis. Write -1 * and the atom.",
                )
            atom = self._operand_atom()
        total = Linear([(coefficient, atom)])
        sign = self.current
        return self._quotient(total, self._divisor(), sign) if self._accept("/") else total

    def _begins_factor(self) -> bool:
        """Return whether an atom follows that the coefficient before it multiplies without a sign."""
        return (self.current.kind in ("name", "string") or self._is("(")) and self._continues()

    def _operand_atom(self) -> Atom | Comparison:
        """Parse an atom, possibly in parentheses."""
        if not self._is("("):
            return self._atom("a predicate, a number, '|', '@Min', '@Max' or '('", sums=True)
        self._nest()
        self._position += 1
        atom = self._operand_atom()
        if not self._is(")"):
            self._source.fail(
                self.current.start,
                f"expected ')', got {self.current.shown}. PSL multiplies single atoms, not sums in parentheses. Write "
                f"the coefficient before each atom, or use dialect='plain'.",
            )
        self._position += 1
        self._depth -= 1
        return atom

    def _atom_in_parentheses(self) -> Atom | Comparison | None:
        """Parse an atom in parentheses; return None and consume nothing if something else is in them."""
        position, depth = self._position, self._depth
        try:
            return self._operand_atom()
        except InvalidInputError:
            self._position, self._depth = position, depth
            return None

    def _divisor(self) -> Coefficient:
        """Parse the longest divisor that does not take the coefficient of the next atom."""
        ends = self._coefficients()
        if not ends:
            self.fail_expected("a number, '|', '@Min', '@Max' or a coefficient in parentheses")
        self._position, longest = ends[-1]
        if not self._is("*") and not self._begins_factor():
            return longest
        for position, coefficient in reversed(ends[:-1]):
            if self._source.tokens[position].text in ("+", "-"):
                self._position = position
                return coefficient
        return longest

    def _coefficients(self) -> list[tuple[int, Coefficient]]:
        """Return all coefficients that begin at the current token, shortest first, with the position of their end."""
        begin = self._position
        product = self._single_coefficient()
        if product is None:
            return []
        total: Coefficient = Number(0.0)
        sign = "+"
        ends = [(self._position, product)]
        while self._is("*", "/") or self._adds():
            operator = self._advance()
            factor = self._single_coefficient()
            if factor is None:
                break
            if operator.text in "*/":
                try:
                    product = combined(operator.text, product, factor)
                except ZeroDivisionError:
                    self._source.fail(operator.start, "division by 0. Use another divisor.")
            else:
                total, sign, product = combined(sign, total, product), operator.text, factor
            ends.append((self._position, combined(sign, total, product)))
        self._position = begin
        return ends

    def _single_coefficient(self) -> Coefficient | None:
        """Parse a number, cardinality, function or coefficient in parentheses; return None if there is none."""
        if self.current.kind == "number" or (self._is("-") and self._peek().kind == "number"):
            sign = -1.0 if self._accept("-") else 1.0
            return Number(sign * float(self._advance().text))
        if self._is("|"):
            return self._cardinality()
        if self.current.kind == "function":
            return self._function()
        if not self._is("("):
            return None
        begin = self._position
        self._nest()
        self._position += 1
        inside = self._coefficients()
        self._depth -= 1
        if inside:
            self._position, coefficient = inside[-1]
            if self._accept(")"):
                return coefficient
        self._position = begin
        return None
