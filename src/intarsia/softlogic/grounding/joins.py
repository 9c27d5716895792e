"""Grounding of rules without sums: one join per rule, fetched piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from intarsia._core.validation import FloatArray, read_only
from intarsia._kernels.ground_rows import fold_groundings
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.grounding.query import GroundingDatabase, JoinQuery
from intarsia.softlogic.grounding.rows import ROUNDING, GroundRows, owned_rows
from intarsia.softlogic.hinge.linear_rows import Index32
from intarsia.softlogic.language.syntax import (
    ArithmeticRule,
    Atom,
    Comparison,
    Constant,
    Literal,
    LogicalRule,
    Number,
    Rule,
)

# Groundings that are fetched at a time: what a join needs of memory, whatever its size.
PIECE = 1 << 20
_EXAMPLES = 3


@dataclass(frozen=True)
class Pattern:
    """A rule without sums as a linear function of its atoms, compared with 0.

    Attributes
    ----------
    joined, looked_up : list of (coefficient, Atom)
        Atoms that a grounding needs in the data, and atoms that may be missing there.
    comparisons : list of Literal
        Comparisons, perhaps negated, that a grounding must meet.
    constant : float
        Added to the atoms.
    relation : {"<=", ">=", "="}
        How the sum compares with 0.

    Examples
    --------
    The distance of `!A(X) | B(X)` from being satisfied is A(X) - B(X).

    >>> from intarsia.softlogic.language.rules import read_rule
    >>> pattern = pattern_of(read_rule("1: A(X) -> B(X)"))
    >>> [(c, str(atom)) for c, atom in pattern.joined + pattern.looked_up], pattern.constant
    ([(1.0, 'A(X)'), (-1.0, 'B(X)')], 0.0)
    """

    joined: list[tuple[float, Atom]]
    looked_up: list[tuple[float, Atom]]
    comparisons: list[Literal]
    constant: float
    relation: str


def pattern_of(rule: Rule) -> Pattern:
    """The linear function of a rule; that of a clause is 1 minus the truth of its literals, and should not exceed 0."""
    joined: list[tuple[float, Atom]] = []
    looked_up: list[tuple[float, Atom]] = []
    comparisons: list[Literal] = []
    if isinstance(rule, LogicalRule):
        for literal in rule.literals:
            if isinstance(literal.atom, Comparison):
                # Where a literal of the clause holds there is nothing to ask of the atoms.
                comparisons.append(Literal(literal.atom, not literal.negated))
            elif literal.negated:
                joined.append((1.0, literal.atom))
            else:
                looked_up.append((-1.0, literal.atom))
        return Pattern(joined, looked_up, comparisons, 1.0 - len(joined), "<=")
    for coefficient, atom in rule.terms:
        if isinstance(atom, Atom):
            joined.append((_number(coefficient), atom))
        else:
            comparisons.append(Literal(atom))
    return Pattern(joined, looked_up, comparisons, _number(rule.constant), rule.relation)


@dataclass
class GroundingCounts:
    """What a rule grounded to.

    Attributes
    ----------
    n_groundings : int
        All of them.
    n_known : int
        Those in which no variable stands.
    n_broken : int
        Those of them that are not satisfied.
    n_missing : int
        Groundings with an atom of an open predicate that is neither observed nor target.
    missing : list of str
        Some of these atoms.
    """

    n_groundings: int = 0
    n_known: int = 0
    n_broken: int = 0
    n_missing: int = 0
    missing: list[str] = field(default_factory=list)


class RuleJoin:
    """The join of one rule: its counts, and its groundings as linear rows.

    Parameters
    ----------
    database : GroundingDatabase
        The atoms.
    rule : Rule
        A rule without sums.
    missing : {"error", "zero"}
        What an atom of an open predicate is that is neither observed nor target.
    """

    def __init__(self, database: GroundingDatabase, rule: Rule, missing: str) -> None:
        self._database = database
        self._rule = rule
        self._missing = missing
        self._pattern = pattern = pattern_of(rule)
        self._query = query = JoinQuery(database)
        self._joined = [(coef, atom, query.join(atom)) for coef, atom in pattern.joined]
        self._looked_up = [(coef, atom, query.look_up(atom)) for coef, atom in pattern.looked_up]
        for comparison in pattern.comparisons:
            query.compare(comparison)
        sizes = {alias: database.n_rows[database.table(atom.predicate)] for _, atom, alias in self._joined}
        # The join is cut along its longest table.
        self._driver = max(sizes, key=sizes.__getitem__, default="j0")
        violable = {
            "<=": f"{self._bound('hi', 'lo')} > {ROUNDING}",
            ">=": f"{self._bound('lo', 'hi')} < -{ROUNDING}",
            "=": f"({self._bound('hi', 'lo')} > {ROUNDING} OR {self._bound('lo', 'hi')} < -{ROUNDING})",
        }
        self._violable = violable[pattern.relation]
        self._free = self._any_free()
        self.counts = GroundingCounts()

    def rows(self) -> Iterator[GroundRows]:
        """Groundings with a variable that are not satisfied whatever its value, as linear rows; `counts` is filled."""
        columns = [f"{alias}.atom" for _, _, alias in self._joined]
        columns += [f"coalesce({alias}.atom, -1)" for _, _, alias in self._looked_up]
        chosen = ", ".join(f"{column} AS x{k}" for k, column in enumerate(columns))
        coef = np.array([c for c, *_ in self._joined + self._looked_up])
        # One query is enough for most rules; a larger join is counted first, so that it can be cut.
        whole = self._database.fetch(
            f"SELECT {chosen}, {self._free} AS free, {self._violable} AS violable, {self._is_missing()} AS missing "
            f"{self._query.source} LIMIT {PIECE + 1}",
            self._query.bound,
        )
        if len(whole["free"]) <= PIECE:
            free, violable = whole["free"].astype(bool), whole["violable"].astype(bool)
            self._report(len(free), (~free).sum(), (~free & violable).sum(), whole["missing"].sum())
            kept = free & violable
            yield self._as_rows(np.stack([whole[f"x{k}"][kept] for k in range(len(columns))]), coef)
            return
        del whole
        for low, high in self._pieces():
            found = self._database.fetch(
                f"SELECT {chosen} {self._query.source} AND {self._free} AND {self._violable} "
                f"AND {self._driver}.atom BETWEEN $low AND $high",
                {**self._query.bound, "low": low, "high": high},
            )
            yield self._as_rows(np.stack([found[f"x{k}"] for k in range(len(columns))]), coef)

    def _as_rows(self, atoms: Index32, coef: FloatArray) -> GroundRows:
        idx, row_coef = np.empty(atoms.size, dtype=np.int32), np.empty(atoms.size)
        const = np.empty(atoms.shape[1])
        n_rows, n_entries, length = fold_groundings(
            read_only(atoms), read_only(coef), self._pattern.constant, read_only(self._database.values),
            self._database.n_variables, self._pattern.relation != "<=", self._pattern.relation != ">=", ROUNDING,
            idx, row_coef, const,
        )  # fmt: skip
        rows = owned_rows(length[:n_rows], idx[:n_entries].copy(), row_coef[:n_entries].copy(), const[:n_rows].copy())
        single = isinstance(self._rule, ArithmeticRule) and len(self._rule.terms) == 1
        return GroundRows(rows, np.full(n_rows, single))

    def _pieces(self) -> list[tuple[int, int]]:
        """Fill the counts; return the ranges of the driving table's atoms that give a piece each."""
        driver = self._driver
        found = self._database.fetch(
            f"SELECT {driver}.atom AS driver, count(*) AS n, "
            f"count(*) FILTER (WHERE {self._free} AND {self._violable}) AS kept, "
            f"count(*) FILTER (WHERE NOT {self._free}) AS known, "
            f"count(*) FILTER (WHERE NOT {self._free} AND {self._violable}) AS broken, "
            f"count(*) FILTER (WHERE {self._is_missing()}) AS missing "
            f"{self._query.source} GROUP BY {driver}.atom ORDER BY driver",
            self._query.bound,
        )
        self._report(*(found[name].sum() for name in ("n", "known", "broken", "missing")))
        kept = found["kept"] > 0
        atom, total = found["driver"][kept], np.cumsum(found["kept"][kept])
        begins = np.flatnonzero(np.diff((total - 1) // PIECE, prepend=-1))
        ends = np.append(begins, len(atom))[1:] - 1
        return [(int(atom[i]), int(atom[j])) for i, j in zip(begins, ends, strict=True)]

    def _report(self, n: int, n_known: int, n_broken: int, n_missing: int) -> None:
        missing = self._missing_atoms() if n_missing else []
        self.counts = GroundingCounts(int(n), int(n_known), int(n_broken), int(n_missing), missing)
        if n_missing and self._missing == "error":
            self._refuse_missing()

    # ---------------------------------------------------------------- conditions

    def _bound(self, above: str, below: str) -> str:
        """The largest (`hi`, `lo`) or least (`lo`, `hi`) value of the rule's function over what variables can be."""
        parts = [repr(float(self._pattern.constant))]
        absent = {"lo": 0.0, "hi": 1.0 if self._missing == "error" else 0.0}
        for coef, _, alias in self._joined:
            parts.append(f"({coef!r}) * {alias}.{above if coef > 0 else below}")
        for coef, atom, alias in self._looked_up:
            side = above if coef > 0 else below
            otherwise = 0.0 if self._database.is_closed(atom.predicate) else absent[side]
            parts.append(f"({coef!r}) * coalesce({alias}.{side}, {otherwise})")
        return f"({' + '.join(parts)})"

    def _any_free(self) -> str:
        closed = self._database.is_closed
        parts = [f"{alias}.free" for _, atom, alias in self._joined if not closed(atom.predicate)]
        otherwise = str(self._missing == "error").upper()
        for _, atom, alias in self._looked_up:
            if not closed(atom.predicate):
                parts.append(f"coalesce({alias}.free, {otherwise})")
        return f"({' OR '.join(parts) or 'FALSE'})"

    def _is_missing(self) -> str:
        open_ones = [alias for _, atom, alias in self._looked_up if not self._database.is_closed(atom.predicate)]
        # What is satisfied whatever the missing atom may be needs it no more than PSL does.
        absent = " OR ".join(f"{alias}.atom IS NULL" for alias in open_ones)
        return f"({absent}) AND {self._violable}" if absent else "FALSE"

    # ---------------------------------------------------------------- missing atoms

    def _missing_atoms(self) -> list[str]:
        names = self._database.program.constants.names
        found: dict[str, None] = {}
        for _, atom, alias in self._looked_up:
            if self._database.is_closed(atom.predicate):
                continue
            terms = [term for term in atom.arguments if not isinstance(term, Constant)]
            columns = ", ".join(["0 AS z", *(f"{self._query.place[t.name]} AS v{k}" for k, t in enumerate(terms))])
            # Some rows more than examples, since an atom may be missed by several.
            rows = self._database.fetch(
                f"SELECT {columns} {self._query.source} AND {alias}.atom IS NULL AND {self._violable} "
                f"LIMIT {10 * _EXAMPLES}",
                self._query.bound,
            )
            for r in range(len(rows["z"])):
                known = {t.name: Constant(names[int(rows[f"v{k}"][r])]) for k, t in enumerate(terms)}
                arguments = (t if isinstance(t, Constant) else known[t.name] for t in atom.arguments)
                found[str(Atom(atom.predicate, tuple(arguments)))] = None
        return list(found)[:_EXAMPLES]

    def _refuse_missing(self) -> None:
        more = ", ..." if self.counts.n_missing > len(self.counts.missing) else ""
        raise InvalidInputError(
            f"rule {self._rule.text!r:.200}: {self.counts.n_missing} groundings need atoms that are neither observed "
            f"nor targets: {', '.join(self.counts.missing)}{more}. Add them as targets, or ground with missing='zero' "
            f"to take them as false."
        )


def _number(coefficient: object) -> float:
    if not isinstance(coefficient, Number):
        raise InvalidInputError(f"{coefficient} counts what a rule without sums does not have.")
    return coefficient.value


def has_sums(rule: Rule) -> bool:
    """Whether a rule sums over a variable."""
    return isinstance(rule, ArithmeticRule) and bool(rule.sum_variables)
