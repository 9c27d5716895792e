"""Read linear expressions of arithmetic rules, with the usual order of operations or as PSL's grammar does."""

from __future__ import annotations

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.language.reader import ClauseReader, Linear, Token, combined
from intarsia.softlogic.language.syntax import Atom, Cardinality, Coefficient, Comparison, Number


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


class PslArithmeticReader(ArithmeticReader):
    """Linear expressions in which a coefficient is the longest run of numbers, also over `+` and `-`.

    `1 + 2 * P(X)` is 3 P(X), `P(X) / 2 * 3` is P(X) / 6, and `P(X) - 1 - 2` is P(X) - (1 - 2). A coefficient multiplies
    one atom, not a sum in parentheses.
    """

    def _linear(self) -> Linear:
        if self._dialect == "plain":
            return super()._linear()
        total = self._operand()
        while self._adds():
            sign = self._step().text
            more = self._operand()
            total = total.plus(more) if sign == "+" else total.minus(more)
        return total

    def _operand(self) -> Linear:
        """An atom with a coefficient before it and a divisor after it, a coefficient, or a sum in parentheses."""
        coefficient: Coefficient = Number(1.0)
        prefixes = self._coefficients()
        if prefixes:
            self._at, coefficient = prefixes[-1]
            if not self._take("*") and not self._begins_factor():
                return Linear([], coefficient)
            atom = self._operand_atom()
        elif self._is("("):
            speculative = self._atom_in_parentheses()
            if speculative is None:
                return self._in_parentheses()
            atom = speculative
        else:
            if self._is("-"):
                self._source.fail(
                    self.here.start, "PSL has no minus before an atom or a parenthesis. Write -1 * and the atom."
                )
            atom = self._operand_atom()
        total = Linear([(coefficient, atom)])
        sign = self.here
        return self._quotient(total, self._divisor(), sign) if self._take("/") else total

    def _begins_factor(self) -> bool:
        """Whether an atom follows that can be multiplied by the coefficient before it without a sign."""
        return (self.here.kind in ("name", "string") or self._is("(")) and self._continues()

    def _operand_atom(self) -> Atom | Comparison:
        if not self._is("("):
            return self._atom("a predicate, a number, '|', '@Min', '@Max' or '('", sums=True)
        self._deeper()
        self._at += 1
        atom = self._operand_atom()
        if not self._is(")"):
            self._source.fail(
                self.here.start,
                f"expected ')', got {self.here.shown}. PSL multiplies single atoms, not sums in parentheses: write the "
                f"coefficient before each atom, or use dialect='plain'.",
            )
        self._at += 1
        self._depth -= 1
        return atom

    def _atom_in_parentheses(self) -> Atom | Comparison | None:
        """An atom in parentheses, or None, without a step, if something else stands in them."""
        at, depth = self._at, self._depth
        try:
            return self._operand_atom()
        except InvalidInputError:
            self._at, self._depth = at, depth
            return None

    def _divisor(self) -> Coefficient:
        """The longest coefficient that leaves the next atom its own."""
        ends = self._coefficients()
        if not ends:
            self.expected("a number, '|', '@Min', '@Max' or a coefficient in parentheses")
        self._at, longest = ends[-1]
        if not self._is("*") and not self._begins_factor():
            return longest
        for at, coefficient in reversed(ends[:-1]):
            if self._source.tokens[at].text in ("+", "-"):
                self._at = at
                return coefficient
        return longest

    def _coefficients(self) -> list[tuple[int, Coefficient]]:
        """Every coefficient that begins here, with the place of its end, shortest first; no step is taken."""
        begin = self._at
        product = self._single_coefficient()
        if product is None:
            return []
        total: Coefficient = Number(0.0)
        sign = "+"
        ends = [(self._at, product)]
        while self._is("*", "/") or self._adds():
            operator = self._step()
            factor = self._single_coefficient()
            if factor is None:
                break
            if operator.text in "*/":
                try:
                    product = combined(operator.text, product, factor)
                except ZeroDivisionError:
                    self._source.fail(operator.start, "a division by 0.")
            else:
                total, sign, product = combined(sign, total, product), operator.text, factor
            ends.append((self._at, combined(sign, total, product)))
        self._at = begin
        return ends

    def _single_coefficient(self) -> Coefficient | None:
        """A number, cardinality, function or coefficient in parentheses; None, without a step, if nothing of these."""
        if self.here.kind == "number" or (self._is("-") and self._ahead().kind == "number"):
            sign = -1.0 if self._take("-") else 1.0
            return Number(sign * float(self._step().text))
        if self._is("|"):
            return self._cardinality()
        if self.here.kind == "function":
            return self._function()
        if not self._is("("):
            return None
        begin = self._at
        self._deeper()
        self._at += 1
        inside = self._coefficients()
        self._depth -= 1
        if inside:
            self._at, coefficient = inside[-1]
            if self._take(")"):
                return coefficient
        self._at = begin
        return None
