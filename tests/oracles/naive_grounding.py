"""Grounding by enumeration of all assignments of constants to variables, with dicts of atoms.

It uses nested loops over all constants instead of joins, and looks up each literal.
"""

from __future__ import annotations

import itertools

from intarsia.softlogic.language.syntax import (
    Atom,
    Cardinality,
    Comparison,
    Condition,
    Constant,
    LogicalRule,
    Number,
    SumVariable,
)

FREE = "free"


class Data:
    """Atoms as a dict from (predicate, arguments) to a value in [0, 1], or FREE for targets and latent atoms."""

    def __init__(self, atoms, closed):
        self.atoms = {(p.upper(), tuple(map(str, a))): v for (p, a), v in atoms.items()}
        self.closed = {p.upper() for p in closed}
        self.constants = sorted({c for _, arguments in self.atoms for c in arguments})

    def get(self, predicate, arguments):
        return self.atoms.get((predicate.upper(), arguments))


def filled(atom, values):
    return tuple(t.value if isinstance(t, Constant) else values[t.name] for t in atom.arguments)


def holds(comparison, values):
    left, right = (t.value if isinstance(t, Constant) else values[t.name] for t in comparison.arguments)
    if comparison.operator == "%":
        return int(left) < int(right) if left.isdigit() and right.isdigit() else left < right
    return {"==": left == right, "!=": left != right}[comparison.operator]


def condition_holds(condition, values, data):
    if isinstance(condition, Condition):
        parts = [condition_holds(part, values, data) for part in condition.parts]
        return all(parts) if condition.operator == "&" else any(parts)
    if isinstance(condition.atom, Comparison):
        result = holds(condition.atom, values)
    else:
        result = (data.get(condition.atom.predicate, filled(condition.atom, values)) or 0.0) > 0
    return result != condition.negated


def number(coefficient, counts):
    if isinstance(coefficient, Number):
        return coefficient.value
    if isinstance(coefficient, Cardinality):
        return counts[coefficient.variable]
    left, right = number(coefficient.left, counts), number(coefficient.right, counts)
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
        "@Min": lambda: min(left, right),
        "@Max": lambda: max(left, right),
    }[coefficient.operator]()


def linear(entries, constant, data, missing_is=0.0):
    """Return the coefficients of free atoms, and the constant that contains all other atoms."""
    coefs = {}
    for coefficient, key in entries:
        value = data.get(*key)
        if value == FREE:
            coefs[(key[0].upper(), key[1])] = coefs.get((key[0].upper(), key[1]), 0.0) + coefficient
        else:
            constant += coefficient * (missing_is if value is None else value)
    return {k: c for k, c in coefs.items() if c != 0.0}, constant


def ground_logical(rule: LogicalRule, data):
    """Return (coefficients, constant) of the distance to satisfaction of every grounding."""
    names = sorted({t.name for x in rule.literals for t in x.atom.arguments if not isinstance(t, Constant)})
    for constants in itertools.product(data.constants, repeat=len(names)):
        values = dict(zip(names, constants, strict=True))
        satisfied, entries, constant = False, [], 1.0
        for literal in rule.literals:
            if isinstance(literal.atom, Comparison):
                satisfied |= holds(literal.atom, values) != literal.negated
                continue
            key = (literal.atom.predicate, filled(literal.atom, values))
            if literal.negated:
                if data.get(*key) is None:
                    satisfied = True  # false, as there is no data
                constant -= 1.0
                entries.append((1.0, key))
            else:
                entries.append((-1.0, key))
        if not satisfied:
            yield linear(entries, constant, data)


def ground_arithmetic(rule, data):
    """Return (coefficients, constant) of the left-hand side of every grounding."""
    atoms = [(c, a) for c, a in rule.terms if isinstance(a, Atom)]
    names = sorted({t.name for _, a in rule.terms for t in a.arguments if not isinstance(t, (Constant, SumVariable))})
    for constants in itertools.product(data.constants, repeat=len(names)):
        values = dict(zip(names, constants, strict=True))
        if not all(holds(a, values) for _, a in rule.terms if isinstance(a, Comparison)):
            continue
        matches, counts, every_atom_found = [], {}, True
        for _, atom in atoms:
            sums = [t.name for t in atom.arguments if isinstance(t, SumVariable)]
            here = []
            found_any = False
            for summed in itertools.product(data.constants, repeat=len(sums)):
                local = {**values, **dict(zip(sums, summed, strict=True))}
                key = (atom.predicate, filled(atom, local))
                if data.get(*key) is None:
                    continue
                found_any = True
                if all(condition_holds(rule.filters[s], local, data) for s in sums if s in rule.filters):
                    here.append(key)
            every_atom_found &= found_any
            matches.append(here)
            counts.update(dict.fromkeys(sums, len(here)))
        if not every_atom_found or not any(matches):
            continue
        entries = [(number(c, counts), k) for (c, _), keys in zip(atoms, matches, strict=True) for k in keys]
        yield linear(entries, number(rule.constant, counts), data)


def rows_of(rule, data):
    """Return (n_groundings, rows): every hinge that can be violated as (sorted coefficients, constant) of `<= 0`."""
    grounder = ground_logical if isinstance(rule, LogicalRule) else ground_arithmetic
    relation = "<=" if isinstance(rule, LogicalRule) else rule.relation
    n, rows = 0, []
    for coefs, constant in grounder(rule, data):
        n += 1
        signs = {"<=": (1.0,), ">=": (-1.0,), "=": (1.0, -1.0)}[relation]
        for sign in signs:
            largest = sign * constant + sum(max(sign * c, 0.0) for c in coefs.values())
            if coefs and largest > 1e-9:
                rows.append((tuple(sorted((k, sign * c) for k, c in coefs.items())), sign * constant))
    return n, rows
