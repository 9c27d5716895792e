"""Rules of PSL's language as objects: a recursive-descent parser that reports position and expected tokens."""

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
    """Raise if a variable stands in no atom that is joined, or if the rule has no atom at all.

    Joined are the atoms that are negated in the clause: positive ones of the body, negated ones of the head.
    """
    joined = [x.atom for x in rule.literals if x.negated and isinstance(x.atom, Atom)]
    if not rule.atoms:
        raise InvalidInputError(f"{place}: there is no predicate in the rule. Compare atoms, not only terms.")
    bound = set(_names(joined))
    for literal in rule.literals:
        for name in _names([literal.atom]):
            if name not in bound:
                raise InvalidInputError(
                    f"{place}: variable {name} is unsafe: it stands in no positive literal of the body (and in no "
                    f"negated one of the head), so nothing tells which values it takes. Add such a literal; "
                    f"a positive prior is written as P(X) = 1."
                )


def check_arithmetic(rule: ArithmeticRule, place: str) -> None:
    """Raise if a variable has no values, or if sums, filters and cardinalities do not fit each other."""
    atoms = [atom for _, atom in rule.terms if isinstance(atom, Atom)]
    if not atoms:
        raise InvalidInputError(f"{place}: there is no predicate in the rule. Compare atoms, not only numbers.")
    sums = rule.sum_variables
    plain = set(_names(atoms))
    for name in sums:
        if sums.count(name) > 1:
            raise InvalidInputError(
                f"{place}: the sum +{name} stands twice. A variable is summed over in one atom; use another name."
            )
        if name in plain:
            raise InvalidInputError(f"{place}: {name} is summed over and is also a variable of its own. Use two names.")
    for name in _names([atom for _, atom in rule.terms if isinstance(atom, Comparison)]):
        if name not in plain:
            raise InvalidInputError(f"{place}: variable {name} is unsafe: it stands in no atom of the rule.")
    counted = cardinalities(rule.constant).union(*(cardinalities(coefficient) for coefficient, _ in rule.terms))
    for name, what in [(name, "the cardinality |{}|") for name in sorted(counted)] + [
        (name, "the filter of {}") for name in rule.filters
    ]:
        if name not in sums:
            raise InvalidInputError(
                f"{place}: {what.format(name)} needs a sum +{name} in the rule. "
                f"Sums: {', '.join('+' + known for known in sums) or 'none'}."
            )
    for summed, condition in rule.filters.items():
        for name in _names(literal.atom for literal in condition.literals()):
            if name != summed and name not in plain:
                raise InvalidInputError(
                    f"{place}: the filter of {summed} names {name}, which is no variable of the rule. A filter may use "
                    f"{summed} and variables that are not summed over."
                )


def _names(atoms: Iterable[Atom | Comparison]) -> list[str]:
    """Names of the variables, sums left out."""
    return [term.name for atom in atoms for term in atom.arguments if isinstance(term, Variable)]


_RELATIONS = ("<=", ">=", "=")


def read_rule(text: str, place: str = "rule", dialect: str = "plain") -> Rule:
    """One rule from its text, in PSL's language.

    Logical: `2.5: Friends(A, B) & Votes(A, P) & (A != B) -> Votes(B, P) ^2`. Arithmetic: `Votes(A, +P) = 1 .`. A
    number and a colon before a rule are its weight; a hard rule ends with a period. Names without quotes inside
    parentheses are variables, quoted ones constants.

    Parameters
    ----------
    text : str
        The rule.
    place : str
        Its name in messages.
    dialect : {"plain", "psl"}
        How arithmetic is read: with the usual order of operations, or as PSL does; see `Program`.

    Raises
    ------
    InvalidInputError
        The text is no rule: the message has line, column and what was expected. Or nothing says which values one of
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

    PSL takes the sum of all numbers before an atom as its coefficient:

    >>> [str(read_rule("1 + 2 * P(X) <= 3 .", dialect=name).terms[0][0]) for name in ("plain", "psl")]
    ['2', '3']
    """
    reader = _Reader(_checked(text, place), place, check_choice(dialect, DIALECTS, "dialect"))
    rule = reader.rule()
    if reader.here.kind != END:
        reader.expected("the end of the rule, an operator before this, or '^2'" if rule.weight else "the end")
    return rule


def read_rules(text: str, place: str = "rules", dialect: str = "plain") -> list[Rule]:
    """Read all rules of a text, one after the other; a rule may span lines.

    `//` and `#` begin comments up to the end of the line, and `/* */` enclose them.

    Parameters
    ----------
    text : str
        The rules.
    place : str
        Their name in messages, such as the name of a file.
    dialect : {"plain", "psl"}
        See `read_rule`.

    Examples
    --------
    >>> rules = read_rules('''
    ... 1: !Knows(A, B) ^2        // nobody knows anybody, at first
    ... Knows(A, B) = Knows(B, A) .
    ... ''')
    >>> [rule.text for rule in rules]
    ['1: !Knows(A, B) ^2', 'Knows(A, B) = Knows(B, A) .']
    """
    reader = _Reader(_checked(text, place), place, check_choice(dialect, DIALECTS, "dialect"))
    rules = []
    while reader.here.kind != END:
        rules.append(reader.next_rule())
    return rules


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


def _checked(text: str, place: str) -> str:
    if not isinstance(text, str):
        raise InvalidInputError(f"{place} must be a text, got {type(text).__name__}.")
    return text


class _Reader(PslArithmeticReader):
    """Whole rules, logical and arithmetic."""

    def next_rule(self) -> Rule:
        """One rule of several: lines belong to it as long as that leaves something that can begin another rule."""
        begin = self._at
        try:
            rule = self.rule()
            if self._begins_rule():
                return rule
        except InvalidInputError:
            pass
        self._at = begin
        self._joins_lines = False
        try:
            return self.rule()
        finally:
            self._joins_lines = True

    def _begins_rule(self) -> bool:
        if self._is("|"):
            return self._ahead().kind == "name" and self._ahead(2).text == "|"
        return self.here.kind in (END, "number", "name", "string", "function") or self._is("!", "(", "-")

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
        place = f"{self._source.place} {text!r:.200}"
        if not hard and weight is None:
            self._source.fail(
                self.here.start,
                f"expected '.' after a hard rule, or a weight and ':' before a soft one, got {self.here.shown}.",
            )
        if arithmetic:
            made = ArithmeticRule(tuple(left.terms), left.constant, relation, filters, weight, squared, text)
            check_arithmetic(made, place)
            return made
        # A literal that stands in a clause twice counts once.
        rule = LogicalRule(tuple(dict.fromkeys(clause)), weight, squared, text)
        check_logical(rule, place)
        return rule

    def _weight(self) -> float | None:
        if self._begins_negative_weight():
            self._source.fail(
                self.here.start,
                "a weight must be at least 0: with a negative one the objective would not be convex, and inference "
                "could not guarantee to find its minimum. Give the negated rule a positive weight: !P(X) instead of "
                "P(X) = 1, or A(X) -> !B(X) instead of A(X) -> B(X).",
            )
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
        after_atom: list[bool] = []  # of each parenthesis that is open, whether a predicate stands before it
        tokens = self._source.tokens
        for k in range(self._at, len(tokens) - 1):
            token, ahead = tokens[k], tokens[k + 1]
            if token.kind == "power" or (token.kind == "number" and ahead.text == ":" and not after_atom):
                return False
            if token.kind != "sign":
                continue
            if token.text in "([{":
                after_atom.append(token.text == "(" and k > self._at and tokens[k - 1].kind == "name")
            elif token.text in ")]}":
                # After an atom nothing but a sign goes on with an arithmetic rule; a name begins the next rule.
                if after_atom and after_atom.pop() and not after_atom and ahead.kind == "name":
                    return False
            elif not after_atom:
                if token.text == "=" and "=" in (ahead.text, tokens[k - 1].text):
                    continue
                if token.text == "!" and ahead.text == "=":
                    continue
                if token.text in _RELATIONS and tokens[k - 1].text != "!":
                    return True
                if token.text in (".", "->", "<-", "&", "!"):
                    return False
        return False

    def _endings(self, weight: float | None, arithmetic: bool) -> tuple[bool, bool, dict[str, Condition]]:
        power: str | None = None
        hard = False
        filters: dict[str, Condition] = {}
        while True:
            if self.here.kind == "power":
                if self.here.text not in ("^1", "^2"):
                    self.expected("'^1' or '^2'")
                if weight is None:
                    self._source.fail(
                        self.here.start, "a hard rule has no power. Give a weight, or leave the power out."
                    )
                if power is not None:
                    self._source.fail(
                        self.here.start, f"a second power, {self.here.shown} after {power!r}. Write one of them."
                    )
                power = self._step().text
            elif self._is("."):
                if weight is not None:
                    self._source.fail(
                        self.here.start, "a rule with a weight is not hard. Leave out the weight, or the '.'."
                    )
                if hard:
                    self._source.fail(self.here.start, "a second '.' after a hard rule. Write one.")
                self._at += 1
                hard = True
            elif self._is("{") and arithmetic:
                self._filter(filters)
            else:
                return power == "^2", hard, filters

    # ---------------------------------------------------------------- filters

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
            self._take(operator)
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
            return inside if len(inside.parts) > 1 else inside.parts[0]
        return self._literal()
