"""When two rules are one, and when PSL makes several rules of one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import product

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.language.reader import RuleText
from intarsia.softlogic.language.syntax import ArithmeticRule, Atom, Comparison, Condition, Literal, LogicalRule, Rule

# A filter that is written out as alternatives multiplies its rule this many times at most.
_MOST_ALTERNATIVES = 1000


def rule_key(rule: Rule) -> Hashable:
    """Equal for rules that PSL takes as one: those that differ in weight, or in the order of a clause's literals.

    A rule and its contrapositive are the same clause. Rules with and without a weight differ, and so do linear and
    squared ones. The terms of arithmetic rules are compared in their order.

    Examples
    --------
    >>> from intarsia.softlogic.language.rules import read_rule
    >>> first = rule_key(read_rule("1: P(X) -> Q(X)"))
    >>> first == rule_key(read_rule("2: !q(X) -> !p(X)")), first == rule_key(read_rule("1: P(X) -> Q(X) ^2"))
    (True, False)
    """
    kind = (rule.weight is None, rule.squared)
    if isinstance(rule, LogicalRule):
        return (*kind, frozenset(_literal_key(literal) for literal in rule.literals))
    terms = tuple((coefficient, _atom_key(atom)) for coefficient, atom in rule.terms)
    filters = frozenset((name, _condition_key(condition)) for name, condition in rule.filters.items())
    return (*kind, rule.relation, terms, rule.constant, filters)


def _literal_key(literal: Literal) -> Hashable:
    return literal.negated, _atom_key(literal.atom)


def _atom_key(atom: Atom | Comparison) -> Hashable:
    return replace(atom, predicate=atom.predicate.upper()) if isinstance(atom, Atom) else atom


def _condition_key(condition: Condition | Literal) -> Hashable:
    if isinstance(condition, Literal):
        return _literal_key(condition)
    if len(condition.parts) == 1:
        return _condition_key(condition.parts[0])
    return condition.operator, frozenset(_condition_key(part) for part in condition.parts)


def split_filters(rule: ArithmeticRule) -> list[ArithmeticRule]:
    """One rule for each alternative of its filters, as PSL does: a filter with `|` makes several rules.

    Raises
    ------
    InvalidInputError
        There would be more than a thousand.

    Examples
    --------
    >>> from intarsia.softlogic.language.rules import read_rule
    >>> [each.text for each in split_filters(read_rule("P(X, +Y) <= 1 . {Y: Q(Y) | !R(Y)}"))]
    ['P(X, +Y) <= 1 . {Y: (Q(Y))}', 'P(X, +Y) <= 1 . {Y: (!R(Y))}']
    """
    alternatives = {name: _alternatives(condition) for name, condition in rule.filters.items()}
    if all(len(each) == 1 for each in alternatives.values()):
        return [rule]
    without_filters = _without_filters(rule.text)
    rules = []
    for chosen in product(*alternatives.values()):
        filters = dict(zip(alternatives, chosen, strict=True))
        text = " ".join([without_filters, *(f"{{{name}: {condition}}}" for name, condition in filters.items())])
        rules.append(replace(rule, filters=filters, text=text))
        _check_number(len(rules))
    return rules


def _alternatives(condition: Condition | Literal) -> list[Condition]:
    """Conjunctions of literals of which one must hold: the disjunctive normal form."""
    if isinstance(condition, Literal):
        return [Condition("&", (condition,))]
    parts = [_alternatives(part) for part in condition.parts]
    if condition.operator == "|":
        return [alternative for part in parts for alternative in part]
    alternatives = []
    for chosen in product(*parts):
        literals = dict.fromkeys(literal for alternative in chosen for literal in alternative.literals())
        alternatives.append(Condition("&", tuple(literals)))
        _check_number(len(alternatives))
    return alternatives


def _check_number(n: int) -> None:
    if n > _MOST_ALTERNATIVES:
        raise InvalidInputError(
            f"PSL makes a rule of each alternative of a filter, more than {_MOST_ALTERNATIVES} here. Use "
            f"fewer '|' in the filters, or dialect='plain'."
        )


def _without_filters(text: str) -> str:
    """A rule's text without what stands in braces."""
    pieces, begin = [], 0
    for token in RuleText(text, "rule").tokens:
        if token.kind == "sign" and token.text == "{":
            pieces.append(text[begin : token.start].strip())
        elif token.kind == "sign" and token.text == "}":
            begin = token.end
    return " ".join(piece for piece in [*pieces, text[begin:].strip()] if piece)
