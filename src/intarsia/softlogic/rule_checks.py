"""What a rule must be beyond its grammar: every variable gets its values from somewhere."""

from __future__ import annotations

from collections.abc import Iterable

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.syntax import (
    ArithmeticRule,
    Atom,
    Comparison,
    LogicalRule,
    Variable,
    cardinalities,
)


def check_logical(rule: LogicalRule, where: str) -> None:
    """Raise if a variable stands in no atom that is joined, or if the rule has no atom at all.

    Joined are the atoms that are negated in the clause: positive ones of the body, negated ones of the head.
    """
    joined = [x.atom for x in rule.literals if x.negated and isinstance(x.atom, Atom)]
    if not rule.atoms:
        raise InvalidInputError(f"{where}: there is no predicate in the rule. Compare atoms, not only terms.")
    bound = set(_names(joined))
    for literal in rule.literals:
        for name in _names([literal.atom]):
            if name not in bound:
                raise InvalidInputError(
                    f"{where}: variable {name} is unsafe: it stands in no positive literal of the body (and in no "
                    f"negated one of the head), so nothing tells which values it takes. Add such a literal; "
                    f"a positive prior is written as P(X) = 1."
                )


def check_arithmetic(rule: ArithmeticRule, where: str) -> None:
    """Raise if a variable has no values, or if sums, filters and cardinalities do not fit each other."""
    atoms = [atom for _, atom in rule.terms if isinstance(atom, Atom)]
    if not atoms:
        raise InvalidInputError(f"{where}: there is no predicate in the rule. Compare atoms, not only numbers.")
    sums = rule.sum_variables
    plain = set(_names(atoms))
    for name in sums:
        if sums.count(name) > 1:
            raise InvalidInputError(
                f"{where}: the sum +{name} stands twice. A variable is summed over in one atom; use another name."
            )
        if name in plain:
            raise InvalidInputError(f"{where}: {name} is summed over and is also a variable of its own. Use two names.")
    for name in _names([atom for _, atom in rule.terms if isinstance(atom, Comparison)]):
        if name not in plain:
            raise InvalidInputError(f"{where}: variable {name} is unsafe: it stands in no atom of the rule.")
    counted = cardinalities(rule.constant).union(*(cardinalities(coefficient) for coefficient, _ in rule.terms))
    for name, what in [(name, "the cardinality |{}|") for name in sorted(counted)] + [
        (name, "the filter of {}") for name in rule.filters
    ]:
        if name not in sums:
            raise InvalidInputError(
                f"{where}: {what.format(name)} needs a sum +{name} in the rule. "
                f"Sums: {', '.join('+' + known for known in sums) or 'none'}."
            )
    for summed, condition in rule.filters.items():
        for name in _names(literal.atom for literal in condition.literals()):
            if name != summed and name not in plain:
                raise InvalidInputError(
                    f"{where}: the filter of {summed} names {name}, which is no variable of the rule. A filter may use "
                    f"{summed} and variables that are not summed over."
                )


def _names(atoms: Iterable[Atom | Comparison]) -> list[str]:
    """Names of the variables, sums left out."""
    return [term.name for atom in atoms for term in atom.arguments if isinstance(term, Variable)]
