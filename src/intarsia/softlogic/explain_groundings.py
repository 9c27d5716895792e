"""Sources of ground terms: the constants of the rule's variables, and the observed atoms in the constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.softlogic.grounding.ground import Grounding
from intarsia.softlogic.grounding.joins import has_sums, pattern_of
from intarsia.softlogic.grounding.query import GroundingDatabase, JoinQuery, Terms
from intarsia.softlogic.grounding.sums import RuleSums
from intarsia.softlogic.hinge.linear_rows import LinearRows
from intarsia.softlogic.language.syntax import (
    ArithmeticRule,
    Atom,
    Comparison,
    Condition,
    Constant,
    Literal,
    Rule,
    SumVariable,
    Term,
    Variable,
)
from intarsia.softlogic.program import Program

# Largest number of groundings to search for a rule with sums, because each needs several queries.
_MAX_SUMS = 200
_TOLERANCE = 1e-9
_Entries = dict[int, float]


@dataclass(frozen=True)
class Source:
    """The grounding behind a term or a constraint.

    Attributes
    ----------
    bindings : dict of str to str
        Constant of each variable of the rule.
    facts : tuple of (str, float)
        Atoms of the grounding that are not variables, with their values.

    Examples
    --------
    >>> Source({"A": "ann"}, (("Likes('ann')", 0.8),)).bindings["A"]
    'ann'
    """

    bindings: dict[str, str]
    facts: tuple[tuple[str, float], ...]


class GroundingSources:
    """Lookup of the groundings behind rows of a ground model.

    Each lookup joins the data of the program again, for a single atom. Use it in a `with` block. If the atoms of the
    program have changed since it was ground, lookups return nothing.

    Parameters
    ----------
    program : Program
        The program that was ground.
    grounding : Grounding
        Its ground model.

    Examples
    --------
    >>> from intarsia.softlogic.grounding.ground import ground
    >>> program = Program().predicate("Friend", 2).predicate("Nice", 1).rule("1: Friend(A, B) -> Nice(B)")
    >>> program = program.observe("Friend", [("ann", "bob", 0.8)]).target("Nice", ["bob"])
    >>> grounding = ground(program)
    >>> with GroundingSources(program, grounding) as sources:
    ...     sources.of_rows(0, grounding.mrf.terms, [0], 0)[0]
    Source(bindings={'A': 'ann', 'B': 'bob'}, facts=(("Friend('ann', 'bob')", 0.8),))
    """

    def __init__(self, program: Program, grounding: Grounding) -> None:
        self._program = program
        self._database = GroundingDatabase(program)
        current, original = self._database.atoms, grounding.atoms
        self._usable = current.start == original.start and all(
            np.array_equal(a, b) for a, b in zip(current.arguments, original.arguments, strict=True)
        )

    def __enter__(self) -> GroundingSources:
        return self

    def __exit__(self, *error: Any) -> None:
        self._database.__exit__(*error)

    def of_rows(
        self, rule_number: int, rows: LinearRows, row_numbers: Sequence[int], variable: int
    ) -> dict[int, Source]:
        """Return the sources of selected rows of a rule that all contain the same variable.

        Returns
        -------
        dict of int to Source
            Source of each row; rows whose grounding was not found are omitted.
        """
        missing = dict.fromkeys(row_numbers)
        sources: dict[int, Source] = {}
        if not self._usable or rule_number >= len(self._program.rules):
            return sources
        rule = self._program.rules[rule_number]
        if isinstance(rule, ArithmeticRule) and has_sums(rule):
            candidates = self._of_sums(rule, variable)
        else:
            candidates = self._of_join(rule, variable)
        # Signs of the linear function for which the product must not exceed 0; an equality has both signs.
        relation = rule.relation if isinstance(rule, ArithmeticRule) else "<="
        signs = {"<=": (1.0,), ">=": (-1.0,), "=": (1.0, -1.0)}[relation]
        for entries, constant, source in candidates:
            for sign in signs:
                row = next((row for row in missing if _is_row(rows, row, entries, constant, sign)), None)
                if row is not None:
                    sources[row] = source
                    del missing[row]
            if not missing:
                break
        return sources

    # ---------------------------------------------------------------- rules without sums

    def _of_join(self, rule: Rule, variable: int) -> Iterator[tuple[_Entries, float, Source]]:
        """Yield coefficients, constant and source of each grounding of a rule without sums."""
        database, pattern = self._database, pattern_of(rule)
        query = JoinQuery(database)
        aliased = [(coef, atom, query.join(atom)) for coef, atom in pattern.required]
        aliased += [(coef, atom, query.look_up(atom)) for coef, atom in pattern.optional]
        for comparison in pattern.comparisons:
            query.compare(comparison)
        for values, bindings in self._assignments(query, [(atom, alias) for _, atom, alias in aliased], variable):
            entries: _Entries = {}
            constant, facts = pattern.constant, []
            for (coef, atom, _), number in zip(aliased, values, strict=True):
                if 0 <= number < database.n_variables:
                    entries[number] = entries.get(number, 0.0) + coef
                else:
                    truth = self._truth(number)
                    constant += coef * truth
                    facts.append((str(_bound_atom(atom, bindings)), truth))
            yield entries, constant, Source(bindings, tuple(dict.fromkeys(facts)))

    def _assignments(
        self, query: JoinQuery, aliased: list[tuple[Atom, str]], variable: int
    ) -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
        """Yield numbers of the atoms (-1: not in the data) and constants of the variables of each grounding."""
        names = list(query.columns)
        selected = [f"coalesce({alias}.atom, -1) AS x{k}" for k, (_, alias) in enumerate(aliased)]
        selected += [f"{query.columns[name]} AS v{k}" for k, name in enumerate(names)]
        columns = [f"x{k}" for k in range(len(aliased))] + [f"v{k}" for k in range(len(names))]
        predicate = self._database.atoms.atom(variable).predicate.upper()
        visited = set()
        constants = self._program.constants.names
        for atom, alias in aliased:
            if atom.predicate.upper() != predicate:
                continue
            table = self._database.fetch(
                f"SELECT {', '.join(selected)} {query.source} AND {alias}.atom = $variable ORDER BY ALL",
                {**query.bound, "variable": variable},
            )
            for row in zip(*(table[column].tolist() for column in columns), strict=True):
                if row not in visited:
                    visited.add(row)
                    numbers = row[len(aliased) :]
                    yield (
                        row[: len(aliased)],
                        {name: constants[number] for name, number in zip(names, numbers, strict=True)},
                    )

    def _truth(self, number: int) -> float:
        """Return the value of an observed atom; an atom with a negative number is not in the data and false."""
        return 0.0 if number < 0 else float(self._database.values[number - self._database.n_variables])

    # ---------------------------------------------------------------- rules with sums

    def _of_sums(self, rule: ArithmeticRule, variable: int) -> Iterator[tuple[_Entries, float, Source]]:
        """Yield coefficients, constant and source of each grounding of a rule with sums."""
        query = JoinQuery(self._database)
        atoms = [_with_variables(atom) for _, atom in rule.terms if isinstance(atom, Atom)]
        aliased = [(atom, query.join(atom)) for atom in atoms]
        for _, comparison in rule.terms:
            if isinstance(comparison, Comparison):
                query.compare(Literal(comparison))
        summed = set(rule.sum_variables)
        visited = set()
        for _, all_bindings in self._assignments(query, aliased, variable):
            bindings = {name: constant for name, constant in all_bindings.items() if name not in summed}
            key = tuple(bindings.items())
            if key in visited:
                continue
            visited.add(key)
            if len(visited) > _MAX_SUMS:
                return
            bound = _bound_rule(rule, bindings)
            for rows, _ in list(RuleSums(self._database, bound).rows()):
                for row in range(rows.n_rows):
                    yield _entries(rows, row), float(rows.const[row]), Source(bindings, self._facts_of_sums(bound))

    def _facts_of_sums(self, rule: ArithmeticRule) -> tuple[tuple[str, float], ...]:
        """Return the observed atoms in the sums of a rule whose other variables are bound, with their values."""
        facts: dict[str, float] = {}
        for _, atom in rule.terms:
            if not isinstance(atom, Atom):
                continue
            terms = Terms(self._database)
            conditions = terms.matches("s", _with_variables(atom))
            for term in atom.arguments:
                if isinstance(term, SumVariable) and term.name in rule.filters:
                    conditions.append(terms.condition(rule.filters[term.name]))
            names = [f"a{k}" for k in range(len(atom.arguments))]
            table = self._database.fetch(
                f"SELECT s.atom AS atom, {', '.join(f's.{name} AS {name}' for name in names)} "
                f"FROM {self._database.table(atom.predicate)} AS s "
                f"WHERE {' AND '.join(['NOT s.free', *conditions])} ORDER BY atom",
                terms.bound,
            )
            for number, *arguments in zip(*(table[name].tolist() for name in ("atom", *names)), strict=True):
                constants = tuple(Constant(self._program.constants.names[n]) for n in arguments)
                facts[str(Atom(atom.predicate, constants))] = self._truth(number)
        return tuple(facts.items())


def _is_row(rows: LinearRows, row: int, entries: _Entries, constant: float, sign: float) -> bool:
    """Return whether a row equals the linear function of a grounding, times a sign."""
    row_entries = _entries(rows, row)
    nonzero = {variable: coef for variable, coef in entries.items() if abs(coef) > _TOLERANCE}
    if set(row_entries) != set(nonzero):
        return False
    order = list(row_entries)
    row_values: FloatArray = np.array([*(row_entries[v] for v in order), float(rows.const[row])])
    grounding_values: FloatArray = np.array([*(nonzero[v] for v in order), constant])
    return bool(np.allclose(row_values, sign * grounding_values, atol=_TOLERANCE))


def _entries(rows: LinearRows, row: int) -> _Entries:
    """Return the coefficient of each variable in a row."""
    entries = slice(int(rows.ptr[row]), int(rows.ptr[row + 1]))
    return dict(zip(rows.idx[entries].tolist(), rows.coef[entries].tolist(), strict=True))


# ---------------------------------------------------------------- substitution of constants for variables


def _with_variables(atom: Atom) -> Atom:
    """Return the atom with plain variables in place of sum variables."""
    return Atom(atom.predicate, tuple(Variable(t.name) if isinstance(t, SumVariable) else t for t in atom.arguments))


def _bound_term(term: Term, bindings: dict[str, str]) -> Term:
    """Return the constant bound to a variable; other terms are returned unchanged."""
    return Constant(bindings[term.name]) if isinstance(term, Variable) and term.name in bindings else term


def _bound_atom(atom: Atom, bindings: dict[str, str]) -> Atom:
    """Return an atom with constants in place of bound variables."""
    return Atom(atom.predicate, tuple(_bound_term(term, bindings) for term in atom.arguments))


def _bound(atom: Atom | Comparison, bindings: dict[str, str]) -> Atom | Comparison:
    """Return an atom or a comparison with constants in place of bound variables."""
    if isinstance(atom, Atom):
        return _bound_atom(atom, bindings)
    return Comparison(atom.operator, _bound_term(atom.left, bindings), _bound_term(atom.right, bindings))


def _bound_condition(condition: Condition | Literal, bindings: dict[str, str]) -> Condition | Literal:
    """Return a filter with constants in place of bound variables."""
    if isinstance(condition, Literal):
        return Literal(_bound(condition.atom, bindings), condition.negated)
    return Condition(condition.operator, tuple(_bound_condition(operand, bindings) for operand in condition.parts))


def _bound_rule(rule: ArithmeticRule, bindings: dict[str, str]) -> ArithmeticRule:
    """Return an arithmetic rule with constants in place of bound variables."""
    filters = {name: _bound_condition(condition, bindings) for name, condition in rule.filters.items()}
    return replace(
        rule,
        terms=tuple((coefficient, _bound(atom, bindings)) for coefficient, atom in rule.terms),
        filters={name: condition for name, condition in filters.items() if isinstance(condition, Condition)},
    )
