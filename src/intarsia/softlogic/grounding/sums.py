"""Grounding of arithmetic rules with sums: a row for each assignment of the variables that are not summed over."""

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

_BATCH_SIZE = 200_000


def coefficient_values(coefficient: Coefficient, counts: Mapping[str, FloatArray], n: int) -> FloatArray:
    """Return the coefficient in each of n groundings, from the number of atoms in each sum.

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
    left, right = (coefficient_values(operand, counts, n) for operand in (coefficient.left, coefficient.right))
    computed = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "@Min": np.minimum, "@Max": np.maximum}
    with np.errstate(divide="ignore", invalid="ignore"):
        values: FloatArray = computed[coefficient.operator](left, right)
    return values


class RuleSums:
    """Groundings of an arithmetic rule with sums, as linear rows.

    A grounding is an assignment of the other variables for which every atom of the rule is in the data, as in PSL. A
    sum runs over the observed, target and latent atoms that satisfy its filters, and |X| is the number of these atoms.
    With `dialect="psl"` the sum over a closed predicate runs over all constants that occur in the position of its sum
    variable, also with other values of the other variables: atoms that are not in the data are false, and |X| counts
    them.

    Parameters
    ----------
    database : GroundingDatabase
        Database with the atoms.
    rule : ArithmeticRule
        A rule with sums.
    max_groundings : float
        Largest estimated number of rows of the join of its atoms.
    """

    def __init__(self, database: GroundingDatabase, rule: ArithmeticRule, max_groundings: float = np.inf) -> None:
        self._database = database
        self._rule, self._max_groundings = rule, max_groundings
        self._atoms = [(coefficient, atom) for coefficient, atom in rule.terms if isinstance(atom, Atom)]
        self._by_number: dict[str, bool] = {}
        self.counts = GroundingCounts()
        for condition in rule.filters.values():
            for literal in condition.literals():
                if isinstance(literal.atom, Atom) and not database.is_closed(literal.atom.predicate):
                    raise InvalidInputError(
                        f"rule {rule.text!r:.200}: the filter contains {literal.atom}, whose predicate is open, so its "
                        f"value is unknown. Use only closed predicates in filters."
                    )

    def rows(self) -> Iterator[GroundRows]:
        """Yield all groundings in batches, and set `counts`."""
        columns = self._find_groups()
        n_groups = int(self._database.fetch("SELECT count(*) AS n FROM groups")["n"][0])
        for first in range(0, n_groups, _BATCH_SIZE):
            yield self._batch(columns, first, min(first + _BATCH_SIZE, n_groups))
        self._database.run("DROP TABLE groups")

    def _find_groups(self) -> dict[str, str]:
        """Create table `groups` with the variables of each grounding, and return the column of each variable."""
        query = JoinQuery(self._database)
        for _, atom in self._atoms:
            query.join(_plain(atom))
        query.check_size(self._rule.text, self._max_groundings)
        for _, comparison in self._rule.terms:
            if not isinstance(comparison, Atom):
                query.compare(Literal(comparison))
        self._by_number = query.by_number
        names = dict.fromkeys(
            term.name for _, atom in self._atoms for term in atom.arguments if isinstance(term, Variable)
        )
        selected = ", ".join(["0 AS v", *(f"{query.columns[name]} AS v{k}" for k, name in enumerate(names))])
        self._database.run(
            f"CREATE TEMP TABLE groups AS SELECT row_number() OVER () - 1 AS g, * FROM "
            f"(SELECT DISTINCT {selected} {query.source} ORDER BY ALL)",
            query.bound,
        )
        return {name: f"g.v{k}" for k, name in enumerate(names)}

    def _batch(self, columns: dict[str, str], first: int, stop: int) -> GroundRows:
        """Return the groundings from number `first` to `stop`."""
        n = stop - first
        rows, atoms, coefficients = [], [], []
        counts: dict[str, FloatArray] = {}
        # PSL counts a comparison as an atom, although it adds nothing to the sum.
        n_atoms = np.full(n, float(len(self._rule.terms) - len(self._atoms)))
        for coefficient, atom in self._atoms:
            row, sum_atoms = self._atoms_of_sum(atom, columns, first, stop)
            rows.append(row)
            atoms.append(sum_atoms)
            coefficients.append(coefficient)
            sums = [term.name for term in atom.arguments if isinstance(term, SumVariable)]
            if sums and self._database.program.dialect == "psl" and self._database.is_closed(atom.predicate):
                size = self._count_of_closed_sum(atom, sums, columns, first, stop)
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
        """Convert entries of groundings to linear rows, and add to the counts."""
        has_atoms = np.bincount(row, minlength=len(const)) > 0
        if not (np.isfinite(coef).all() and np.isfinite(const[has_atoms]).all()):
            raise InvalidInputError(
                f"rule {self._rule.text!r:.200}: a grounding divides by 0, because one of its sums has no atoms. "
                f"Use @Max[1, |X|] instead of |X|."
            )
        order = np.argsort(row, kind="stable")
        # A grounding without atoms does not count.
        number = np.cumsum(has_atoms) - 1
        ground_rows = fold_known(
            number[row[order]],
            atom[order],
            coef[order],
            const[has_atoms],
            self._database.n_variables,
            self._database.values,
        )
        is_constant = np.bincount(row, atom < self._database.n_variables, minlength=len(const))[has_atoms] == 0
        self.counts.n_groundings += ground_rows.n_rows
        self.counts.n_constant += int(is_constant.sum())
        self.counts.n_violated += int((_distance(ground_rows.const, self._rule.relation)[is_constant] > 1e-9).sum())
        return GroundRows(ground_rows, single[has_atoms])

    def _terms_of_group(self, columns: dict[str, str]) -> Terms:
        """Return the SQL expressions of the variables of a grounding."""
        terms = Terms(self._database)
        terms.columns, terms.by_number = dict(columns), dict(self._by_number)
        return terms

    def _count_of_closed_sum(
        self, atom: Atom, sums: list[str], columns: dict[str, str], first: int, stop: int
    ) -> FloatArray:
        """Return for each grounding how many atoms PSL sums: all combinations of constants of the sum variables."""
        table = self._database.table(atom.predicate)
        all_terms = Terms(self._database, prefix="a")
        pattern = " AND ".join(all_terms.matches("s", _plain(atom))) or "TRUE"
        terms = self._terms_of_group(columns)
        values = []
        for k, name in enumerate(sums):
            values.append(f"(SELECT DISTINCT {all_terms.columns[name]} AS x FROM {table} AS s WHERE {pattern}) AS d{k}")
            terms.columns[name] = f"d{k}.x"
            terms.by_number |= {name: by_number for name, by_number in all_terms.by_number.items() if name in sums}
        conditions = [terms.condition(self._rule.filters[name]) for name in sums if name in self._rule.filters]
        result = self._database.fetch(
            f"SELECT g.g - $first AS g, count(*) AS n FROM groups AS g CROSS JOIN {' CROSS JOIN '.join(values)} "
            f"WHERE {' AND '.join(['g.g >= $first', 'g.g < $stop', *conditions])} GROUP BY g.g",
            {**all_terms.bound, **terms.bound, "first": first, "stop": stop},
        )
        size = np.zeros(stop - first)
        size[result["g"].astype(np.int64)] = result["n"]
        return size

    def _atoms_of_sum(
        self, atom: Atom, columns: dict[str, str], first: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the atoms in a sum, with the number of the grounding of each."""
        terms = self._terms_of_group(columns)
        conditions = terms.matches("s", _plain(atom))
        for name in (term.name for term in atom.arguments if isinstance(term, SumVariable)):
            if name in self._rule.filters:
                conditions.append(terms.condition(self._rule.filters[name]))
        result = self._database.fetch(
            f"SELECT g.g - $first AS g, s.atom AS atom FROM groups AS g JOIN "
            f"{self._database.table(atom.predicate)} AS s ON {' AND '.join(conditions) or 'TRUE'} "
            f"WHERE g.g >= $first AND g.g < $stop ORDER BY g, atom",
            {**terms.bound, "first": first, "stop": stop},
        )
        return result["g"].astype(np.int64), result["atom"].astype(np.int32)


def _plain(atom: Atom) -> Atom:
    """Return the atom with plain variables in place of sum variables."""
    return Atom(atom.predicate, tuple(Variable(t.name) if isinstance(t, SumVariable) else t for t in atom.arguments))


def _distance(values: FloatArray, relation: str) -> FloatArray:
    """Return the violation of the relation by each row without variables."""
    if relation == "=":
        return np.abs(values)
    return values if relation == "<=" else -values
