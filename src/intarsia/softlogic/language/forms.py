"""Equality of rules, and the rules into which PSL splits a filter with alternatives."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import product

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.language.reader import RuleText
from intarsia.softlogic.language.syntax import ArithmeticRule, Atom, Comparison, Condition, Literal, LogicalRule, Rule

# Largest number of rules into which the filters of a rule may be split.
_MAX_ALTERNATIVES = 1000


def rule_key(rule: Rule) -> Hashable:
    """Return a key that is equal for rules that PSL treats as duplicates.

    Duplicates differ only in their weight or in the order of a clause's literals. A rule and its contrapositive are the
    same clause. Rules with and without a weight are different, and so are linear and squared rules. The order of the
    terms of an arithmetic rule matters.

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
    """Return a key of a literal that ignores the case of the predicate."""
    return literal.negated, _atom_key(literal.atom)


def _atom_key(atom: Atom | Comparison) -> Hashable:
    """Return a key of an atom that ignores the case of the predicate."""
    return replace(atom, predicate=atom.predicate.upper()) if isinstance(atom, Atom) else atom


def _condition_key(condition: Condition | Literal) -> Hashable:
    """Return a key of a filter that ignores the order of its operands."""
    if isinstance(condition, Literal):
        return _literal_key(condition)
    if len(condition.parts) == 1:
        return _condition_key(condition.parts[0])
    return condition.operator, frozenset(_condition_key(operand) for operand in condition.parts)


def split_filters(rule: ArithmeticRule) -> list[ArithmeticRule]:
    """Split a rule into one rule for each alternative of its filters, as PSL does for filters with `|`.

    Raises
    ------
    InvalidInputError
        There are more than a thousand alternatives.

    Examples
    --------
    >>> from intarsia.softlogic.language.rules import read_rule
    >>> [alternative.text for alternative in split_filters(read_rule("P(X, +Y) <= 1 . {Y: Q(Y) | !R(Y)}"))]
    ['P(X, +Y) <= 1 . {Y: (Q(Y))}', 'P(X, +Y) <= 1 . {Y: (!R(Y))}']
    """
    alternatives = {name: _alternatives(condition) for name, condition in rule.filters.items()}
    if all(len(conditions) == 1 for conditions in alternatives.values()):
        return [rule]
    without_filters = _without_filters(rule.text)
    rules = []
    for combination in product(*alternatives.values()):
        filters = dict(zip(alternatives, combination, strict=True))
        text = " ".join([without_filters, *(f"{{{name}: {condition}}}" for name, condition in filters.items())])
        rules.append(replace(rule, filters=filters, text=text))
        _check_number(len(rules))
    return rules


def _alternatives(condition: Condition | Literal) -> list[Condition]:
    """Return the disjunctive normal form of a condition as a list of conjunctions."""
    if isinstance(condition, Literal):
        return [Condition("&", (condition,))]
    operands = [_alternatives(operand) for operand in condition.parts]
    if condition.operator == "|":
        return [alternative for operand in operands for alternative in operand]
    alternatives = []
    for combination in product(*operands):
        literals = dict.fromkeys(literal for alternative in combination for literal in alternative.literals())
        alternatives.append(Condition("&", tuple(literals)))
        _check_number(len(alternatives))
    return alternatives


def _check_number(n: int) -> None:
    """Raise if there are too many alternatives."""
    if n > _MAX_ALTERNATIVES:
        raise InvalidInputError(
            f"PSL makes a rule of each alternative of a filter, but there are more than {_MAX_ALTERNATIVES}. Use "
            f"fewer '|' in the filters, or dialect='plain'."
        )


def _without_filters(text: str) -> str:
    """Return the text of a rule without its filters in braces."""
    pieces, begin = [], 0
    for token in RuleText(text, "rule").tokens:
        if token.kind == "sign" and token.text == "{":
            pieces.append(text[begin : token.start].strip())
        elif token.kind == "sign" and token.text == "}":
            begin = token.end
    return " ".join(piece for piece in [*pieces, text[begin:].strip()] if piece)
