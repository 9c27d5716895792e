"""Grounding of arithmetic rules with sums: a row for every assignment of the variables that are not summed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.grounding.joins import GroundingCounts
from intarsia.softlogic.grounding.query import GroundingDatabase, JoinQuery, Terms
from intarsia.softlogic.grounding.rows import GroundRows, fold_known
from intarsia.softlogic.language.syntax import (
    ArithmeticRule,
    Atom,
    Cardinality,
    Coefficient,
    Literal,
    Number,
    SumVariable,
    Variable,
)

_GROUPS_AT_A_TIME = 200_000


def coefficient_values(coefficient: Coefficient, counts: Mapping[str, FloatArray], n: int) -> FloatArray:
    """A coefficient for each of n groundings, from how many atoms each sum has there.

    Examples
    --------
    >>> from intarsia.softlogic.language.syntax import Operation
    >>> half = Operation("/", Number(1.0), Cardinality("X"))
    >>> coefficient_values(half, {"X": np.array([2.0, 4.0])}, 2).tolist()
    [0.5, 0.25]
    """
    if isinstance(coefficient, Number):
        return np.full(n, coefficient.value)
    if isinstance(coefficient, Cardinality):
        return counts[coefficient.variable]
    left, right = (coefficient_values(part, counts, n) for part in (coefficient.left, coefficient.right))
    computed = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "@Min": np.minimum, "@Max": np.maximum}
    with np.errstate(divide="ignore", invalid="ignore"):
        values: FloatArray = computed[coefficient.operator](left, right)
    return values


class RuleSums:
    """Groundings of one arithmetic rule with sums as linear rows.

    Groundings are the assignments of the other variables for which every atom of the rule is found, as in PSL. A sum
    runs over the atoms that are observed, targets or latent and meet its filters, and |X| is how many these are. With
    `dialect="psl"` the sum over a closed predicate runs over all constants that stand at the place of its sum variable,
    also for other values of the other variables: atoms that no data name are false, and |X| counts them.

    Parameters
    ----------
    database : GroundingDatabase
        The atoms.
    rule : ArithmeticRule
        A rule with sums.
    """

    def __init__(self, database: GroundingDatabase, rule: ArithmeticRule) -> None:
        self._database = database
        self._rule = rule
        self._atoms = [(coefficient, atom) for coefficient, atom in rule.terms if isinstance(atom, Atom)]
        self._by_number: dict[str, bool] = {}
        self.counts = GroundingCounts()
        for condition in rule.filters.values():
            for literal in condition.literals():
                if isinstance(literal.atom, Atom) and not database.is_closed(literal.atom.predicate):
                    raise InvalidInputError(
                        f"rule {rule.text!r:.200}: the filter asks for {literal.atom}, which has targets, so that its "
                        f"truth is not known. Filters take closed predicates only."
                    )

    def rows(self) -> Iterator[GroundRows]:
        """All groundings, in pieces; `counts` is filled."""
        places = self._find_groups()
        n_groups = int(self._database.fetch("SELECT count(*) AS n FROM groups")["n"][0])
        for first in range(0, n_groups, _GROUPS_AT_A_TIME):
            yield self._piece(places, first, min(first + _GROUPS_AT_A_TIME, n_groups))
        self._database.run("DROP TABLE groups")

    def _find_groups(self) -> dict[str, str]:
        """Make table `groups`: a number and the values of the variables for each grounding; return their columns."""
        query = JoinQuery(self._database)
        for _, atom in self._atoms:
            query.join(_plain(atom))
        for _, comparison in self._rule.terms:
            if not isinstance(comparison, Atom):
                query.compare(Literal(comparison))
        self._by_number = query.by_number
        names = dict.fromkeys(
            term.name for _, atom in self._atoms for term in atom.arguments if isinstance(term, Variable)
        )
        chosen = ", ".join(["0 AS v", *(f"{query.place[name]} AS v{k}" for k, name in enumerate(names))])
        self._database.run(
            f"CREATE TEMP TABLE groups AS SELECT row_number() OVER () - 1 AS g, * FROM "
            f"(SELECT DISTINCT {chosen} {query.source} ORDER BY ALL)",
            query.bound,
        )
        return {name: f"g.v{k}" for k, name in enumerate(names)}

    def _piece(self, places: dict[str, str], first: int, stop: int) -> GroundRows:
        n = stop - first
        rows, atoms, coefficients = [], [], []
        counts: dict[str, FloatArray] = {}
        # A comparison is an atom to PSL here, though it adds nothing.
        n_atoms = np.full(n, float(len(self._rule.terms) - len(self._atoms)))
        for coefficient, atom in self._atoms:
            row, found = self._atoms_of_sum(atom, places, first, stop)
            rows.append(row)
            atoms.append(found)
            coefficients.append(coefficient)
            sums = [term.name for term in atom.arguments if isinstance(term, SumVariable)]
            if sums and self._database.program.dialect == "psl" and self._database.is_closed(atom.predicate):
                size = self._count_of_closed_sum(atom, sums, places, first, stop)
            else:
                size = np.bincount(row, minlength=n).astype(np.float64)
            counts.update(dict.fromkeys(sums, size))
            n_atoms += size
        const = coefficient_values(self._rule.constant, counts, n)
        coef = [coefficient_values(c, counts, n)[row] for c, row in zip(coefficients, rows, strict=True)]
        return self._as_rows(np.concatenate(rows), np.concatenate(atoms), np.concatenate(coef), const, n_atoms == 1.0)

    def _as_rows(
        self, row: Any, atom: Any, coef: FloatArray, const: FloatArray, single: NDArray[np.bool_]
    ) -> GroundRows:
        used = np.bincount(row, minlength=len(const)) > 0
        if not (np.isfinite(coef).all() and np.isfinite(const[used]).all()):
            raise InvalidInputError(
                f"rule {self._rule.text!r:.200}: a grounding divides by 0, since a sum in it has no atoms. "
                f"Use @Max[1, |X|] instead of |X|."
            )
        order = np.argsort(row, kind="stable")
        # Groundings without any atom are none.
        number = np.cumsum(used) - 1
        made = fold_known(
            number[row[order]],
            atom[order],
            coef[order],
            const[used],
            self._database.n_variables,
            self._database.values,
        )
        known = np.bincount(row, atom < self._database.n_variables, minlength=len(const))[used] == 0
        self.counts.n_groundings += made.n_rows
        self.counts.n_known += int(known.sum())
        self.counts.n_broken += int((_distance(made.const, self._rule.relation)[known] > 1e-9).sum())
        return GroundRows(made, single[used])

    def _terms_of_group(self, places: dict[str, str]) -> Terms:
        terms = Terms(self._database)
        terms.place, terms.by_number = dict(places), dict(self._by_number)
        return terms

    def _count_of_closed_sum(
        self, atom: Atom, sums: list[str], places: dict[str, str], first: int, stop: int
    ) -> FloatArray:
        """For each grounding, how many atoms PSL sums: all combinations of the constants of the sum variables."""
        table = self._database.table(atom.predicate)
        alone = Terms(self._database, prefix="a")
        pattern = " AND ".join(alone.matches("s", _plain(atom))) or "TRUE"
        terms = self._terms_of_group(places)
        values = []
        for k, name in enumerate(sums):
            values.append(f"(SELECT DISTINCT {alone.place[name]} AS x FROM {table} AS s WHERE {pattern}) AS d{k}")
            terms.place[name] = f"d{k}.x"
            terms.by_number |= {name: by_number for name, by_number in alone.by_number.items() if name in sums}
        conditions = [terms.condition(self._rule.filters[name]) for name in sums if name in self._rule.filters]
        found = self._database.fetch(
            f"SELECT g.g - $first AS g, count(*) AS n FROM groups AS g CROSS JOIN {' CROSS JOIN '.join(values)} "
            f"WHERE {' AND '.join(['g.g >= $first', 'g.g < $stop', *conditions])} GROUP BY g.g",
            {**alone.bound, **terms.bound, "first": first, "stop": stop},
        )
        size = np.zeros(stop - first)
        size[found["g"].astype(np.int64)] = found["n"]
        return size

    def _atoms_of_sum(
        self, atom: Atom, places: dict[str, str], first: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        terms = self._terms_of_group(places)
        conditions = terms.matches("s", _plain(atom))
        for name in (term.name for term in atom.arguments if isinstance(term, SumVariable)):
            if name in self._rule.filters:
                conditions.append(terms.condition(self._rule.filters[name]))
        found = self._database.fetch(
            f"SELECT g.g - $first AS g, s.atom AS atom FROM groups AS g JOIN "
            f"{self._database.table(atom.predicate)} AS s ON {' AND '.join(conditions) or 'TRUE'} "
            f"WHERE g.g >= $first AND g.g < $stop ORDER BY g, atom",
            {**terms.bound, "first": first, "stop": stop},
        )
        return found["g"].astype(np.int64), found["atom"].astype(np.int32)


def _plain(atom: Atom) -> Atom:
    """The atom with variables in place of sums."""
    return Atom(atom.predicate, tuple(Variable(t.name) if isinstance(t, SumVariable) else t for t in atom.arguments))


def _distance(values: FloatArray, relation: str) -> FloatArray:
    """By how much known rows break their relation."""
    if relation == "=":
        return np.abs(values)
    return values if relation == "<=" else -values
