"""Parser for the rule language of PSL; errors report the position and the expected tokens."""

from __future__ import annotations

from collections.abc import Iterable

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.language.arithmetic import PslArithmeticReader
from intarsia.softlogic.language.reader import END
from intarsia.softlogic.language.syntax import (
    DIALECTS,
    ArithmeticRule,
    Atom,
    Comparison,
    Condition,
    Literal,
    LogicalRule,
    Rule,
    Variable,
    cardinalities,
)


def check_logical(rule: LogicalRule, place: str) -> None:
    """Raise if a variable does not occur in a joined atom, or if the rule has no atom.

    Joined atoms are those that are negated in the clause: positive atoms of the body and negated atoms of the head.
    """
    joined_atoms = [x.atom for x in rule.literals if x.negated and isinstance(x.atom, Atom)]
    if not rule.atoms:
        raise InvalidInputError(f"{place}: the rule has no predicate. Add an atom such as P(X).")
    bound = set(_names(joined_atoms))
    for literal in rule.literals:
        for name in _names([literal.atom]):
            if name not in bound:
                raise InvalidInputError(
                    f"{place}: variable {name} is unsafe: it occurs in no positive literal of the body (and in no "
                    f"negated literal of the head), so its values are undefined. Add such a literal; write a positive "
                    f"prior as P(X) = 1."
                )


def check_arithmetic(rule: ArithmeticRule, place: str) -> None:
    """Raise if a variable has no values, or if sums, filters and cardinalities are mismatched."""
    atoms = [atom for _, atom in rule.terms if isinstance(atom, Atom)]
    if not atoms:
        raise InvalidInputError(f"{place}: the rule has no predicate. Add an atom such as P(X).")
    sums = rule.sum_variables
    plain = set(_names(atoms))
    for name in sums:
        if sums.count(name) > 1:
            raise InvalidInputError(
                f"{place}: the sum +{name} occurs twice, but a variable can be summed over in one atom only. Use "
                f"another name."
            )
        if name in plain:
            raise InvalidInputError(f"{place}: {name} is both a sum variable and an ordinary variable. Use two names.")
    for name in _names([atom for _, atom in rule.terms if isinstance(atom, Comparison)]):
        if name not in plain:
            raise InvalidInputError(f"{place}: variable {name} is unsafe: it occurs in no atom. Add an atom with it.")
    counted_variables = cardinalities(rule.constant).union(
        *(cardinalities(coefficient) for coefficient, _ in rule.terms)
    )
    for name, description in [(name, "the cardinality |{}|") for name in sorted(counted_variables)] + [
        (name, "the filter of {}") for name in rule.filters
    ]:
        if name not in sums:
            raise InvalidInputError(
                f"{place}: {description.format(name)} needs a sum +{name} in the rule. "
                f"Sums: {', '.join('+' + variable for variable in sums) or 'none'}."
            )
    for summed, condition in rule.filters.items():
        for name in _names(literal.atom for literal in condition.literals()):
            if name != summed and name not in plain:
                raise InvalidInputError(
                    f"{place}: the filter of {summed} contains {name}, which is not a variable of the rule. Use only "
                    f"{summed} and variables that are not summed over."
                )


def _names(atoms: Iterable[Atom | Comparison]) -> list[str]:
    """Return the names of the variables, without sum variables."""
    return [term.name for atom in atoms for term in atom.arguments if isinstance(term, Variable)]


_RELATIONS = ("<=", ">=", "=")


def read_rule(text: str, place: str = "rule", dialect: str = "plain") -> Rule:
    """Parse a rule in PSL's rule language.

    Logical: `2.5: Friends(A, B) & Votes(A, P) & (A != B) -> Votes(B, P) ^2`. Arithmetic: `Votes(A, +P) = 1 .`. A
    number and a colon before a rule are its weight; a hard rule ends with a period. Arguments without quotes are
    variables, quoted arguments are constants.

    Parameters
    ----------
    text : str
        The rule.
    place : str
        Name of the rule in error messages.
    dialect : {"plain", "psl"}
        How arithmetic is parsed: with the usual order of operations, or as in PSL; see `Program`.

    Raises
    ------
    InvalidInputError
        The rule is malformed (the message has line, column and the expected tokens), or one of its variables is
        unsafe: nothing determines its values.

    Examples
    --------
    >>> rule = read_rule("0.5: Knows(A, B) & Knows(B, C) -> Knows(A, C)")
    >>> rule.weight, [str(literal) for literal in rule.literals]
    (0.5, ['!Knows(A, B)', '!Knows(B, C)', 'Knows(A, C)'])
    >>> read_rule("1: Knows(A B)")
    Traceback (most recent call last):
        ...
    intarsia.exceptions.InvalidInputError: rule, line 1, column 12: expected ',' or ')', got 'B'.

    In PSL's dialect the coefficient of an atom is the sum of all numbers before it:

    >>> [str(read_rule("1 + 2 * P(X) <= 3 .", dialect=name).terms[0][0]) for name in ("plain", "psl")]
    ['2', '3']
    """
    reader = _Reader(_checked(text, place), place, check_choice(dialect, DIALECTS, "dialect"))
    rule = reader.rule()
    if reader.current.kind != END:
        reader.fail_expected("the end of the rule, an operator before this, or '^2'" if rule.weight else "the end")
    return rule


def read_rules(text: str, place: str = "rules", dialect: str = "plain") -> list[Rule]:
    """Parse all rules of a text; a rule may span several lines.

    `//` and `#` begin a comment up to the end of the line; `/* */` enclose a comment.

    Parameters
    ----------
    text : str
        The rules.
    place : str
        Name of the text in error messages, such as the name of a file.
    dialect : {"plain", "psl"}
        How arithmetic is parsed; see `read_rule`.

    Examples
    --------
    >>> rules = read_rules('''
    ... 1: !Knows(A, B) ^2        // by default nobody knows anybody
    ... Knows(A, B) = Knows(B, A) .
    ... ''')
    >>> [rule.text for rule in rules]
    ['1: !Knows(A, B) ^2', 'Knows(A, B) = Knows(B, A) .']
    """
    reader = _Reader(_checked(text, place), place, check_choice(dialect, DIALECTS, "dialect"))
    rules = []
    while reader.current.kind != END:
        rules.append(reader.next_rule())
    return rules


def read_ground_atom(text: str) -> Atom:
    """Parse an atom without variables; constants may be quoted or not.

    Raises
    ------
    InvalidInputError
        The text is not an atom.

    Examples
    --------
    >>> str(read_ground_atom("Knows(0, 'Ann B.')"))
    "Knows('0', 'Ann B.')"
    """
    return _Reader(_checked(text, "atom"), "atom").ground_atom()


def _checked(text: str, place: str) -> str:
    """Return the text, or raise if it is not a string."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{place} must be a string, got {type(text).__name__}.")
    return text


class _Reader(PslArithmeticReader):
    """Parser for complete rules, logical and arithmetic."""

    def next_rule(self) -> Rule:
        """Parse the next rule; it takes as many lines as possible, if the rest can begin another rule."""
        begin = self._position
        try:
            rule = self.rule()
            if self._begins_rule():
                return rule
        except InvalidInputError:
            pass
        self._position = begin
        self._joins_lines = False
        try:
            return self.rule()
        finally:
            self._joins_lines = True

    def _begins_rule(self) -> bool:
        """Return whether the current token can begin a rule."""
        if self._is("|"):
            return self._peek().kind == "name" and self._peek(2).text == "|"
        return self.current.kind in (END, "number", "name", "string", "function") or self._is("!", "(", "-")

    def rule(self) -> Rule:
        """Parse a rule with its weight and endings, and check it."""
        begin = self.current
        self._depth = 0
        weight = self._weight()
        arithmetic = self._is_arithmetic()
        if arithmetic:
            linear = self._linear()
            if not self._is(*_RELATIONS):
                self.fail_expected("'<=', '>=', '=' or an operator")
            relation = self._advance().text
            linear = linear.minus(self._linear())
        else:
            clause = self._clause()
        squared, hard, filters = self._endings(weight, arithmetic)
        text = self._source.text[begin.start : self._source.tokens[self._position - 1].end]
        place = f"{self._source.place} {text!r:.200}"
        if not hard and weight is None:
            self._source.fail(
                self.current.start,
                f"expected '.' after a hard rule, or a weight and ':' before a soft rule, got {self.current.shown}.",
            )
        if arithmetic:
            arithmetic_rule = ArithmeticRule(
                tuple(linear.terms), linear.constant, relation, filters, weight, squared, text
            )
            check_arithmetic(arithmetic_rule, place)
            return arithmetic_rule
        # A literal that occurs twice in a clause counts once.
        rule = LogicalRule(tuple(dict.fromkeys(clause)), weight, squared, text)
        check_logical(rule, place)
        return rule

    def _weight(self) -> float | None:
        """Parse the weight of a rule; return None if there is none."""
        if self._begins_negative_weight():
            self._source.fail(
                self.current.start,
                "a weight must be at least 0: with a negative weight the objective would not be convex, and inference "
                "could not guarantee the minimum. Give the negated rule a positive weight: !P(X) instead of P(X) = 1, "
                "or A(X) -> !B(X) instead of A(X) -> B(X).",
            )
        if self.current.kind == "number" and self._peek().text == ":":
            weight = float(self._advance().text)
            self._position += 1
            if weight == float("inf"):
                self._source.fail(
                    self._source.tokens[self._position - 2].start,
                    "a weight must be finite. End the rule with '.' to make it hard.",
                )
            return weight
        return None

    def _is_arithmetic(self) -> bool:
        """Return whether `<=`, `>=` or `=` follows outside parentheses before the rule ends."""
        after_atom: list[bool] = []  # for each open parenthesis, whether a predicate precedes it
        tokens = self._source.tokens
        for k in range(self._position, len(tokens) - 1):
            token, following = tokens[k], tokens[k + 1]
            if token.kind == "power" or (token.kind == "number" and following.text == ":" and not after_atom):
                return False
            if token.kind != "sign":
                continue
            if token.text in "([{":
                after_atom.append(token.text == "(" and k > self._position and tokens[k - 1].kind == "name")
            elif token.text in ")]}":
                # An arithmetic rule continues after an atom only with a sign; a name begins the next rule.
                if after_atom and after_atom.pop() and not after_atom and following.kind == "name":
                    return False
            elif not after_atom:
                if token.text == "=" and "=" in (following.text, tokens[k - 1].text):
                    continue
                if token.text == "!" and following.text == "=":
                    continue
                if token.text in _RELATIONS and tokens[k - 1].text != "!":
                    return True
                if token.text in (".", "->", "<-", "&", "!"):
                    return False
        return False

    def _endings(self, weight: float | None, arithmetic: bool) -> tuple[bool, bool, dict[str, Condition]]:
        """Parse power, period and filters; return whether the rule is squared, whether it is hard, and the filters."""
        power: str | None = None
        hard = False
        filters: dict[str, Condition] = {}
        while True:
            if self.current.kind == "power":
                if self.current.text not in ("^1", "^2"):
                    self.fail_expected("'^1' or '^2'")
                if weight is None:
                    self._source.fail(
                        self.current.start, "a hard rule cannot have a power. Add a weight, or remove the power."
                    )
                if power is not None:
                    self._source.fail(
                        self.current.start,
                        f"the rule has a second power, {self.current.shown} after {power!r}. Remove one.",
                    )
                power = self._advance().text
            elif self._is("."):
                if weight is not None:
                    self._source.fail(
                        self.current.start, "a rule cannot have both a weight and a '.'. Remove one of them."
                    )
                if hard:
                    self._source.fail(self.current.start, "the rule ends with a second '.'. Remove it.")
                self._position += 1
                hard = True
            elif self._is("{") and arithmetic:
                self._filter(filters)
            else:
                return power == "^2", hard, filters

    # ---------------------------------------------------------------- filters

    def _filter(self, filters: dict[str, Condition]) -> None:
        """Parse a filter and add it to the filters."""
        self._position += 1
        begin = self.current
        name = self._name("a sum variable after '{'")
        if name in filters:
            self._source.fail(begin.start, f"the rule has a second filter for {name}. Join both with '&'.")
        self._require(":")
        filters[name] = self._condition("|")
        self._require("}", "'&', '|' or ")

    def _condition(self, operator: str) -> Condition:
        """Parse operands joined by an operator."""
        parts = [self._operand_of(operator)]
        while self._accept(operator):
            self._accept(operator)
            parts.append(self._operand_of(operator))
        first = parts[0]
        return first if len(parts) == 1 and isinstance(first, Condition) else Condition(operator, tuple(parts))

    def _operand_of(self, operator: str) -> Literal | Condition:
        """Parse an operand of `|` or `&`."""
        if operator == "|":
            return self._condition("&")
        if self._is("("):
            self._nest()
            self._position += 1
            inside = self._condition("|")
            self._require(")", "'&', '|' or ")
            self._depth -= 1
            return inside if len(inside.parts) > 1 else inside.parts[0]
        return self._literal()
