"""Grounding of rules without sums: one join per rule, fetched in batches."""

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

# Number of groundings fetched at a time, which bounds the memory of a join.
BATCH_SIZE = 1 << 20
_N_EXAMPLES = 3


@dataclass(frozen=True)
class Pattern:
    """A rule without sums as a linear function of its atoms, compared with 0.

    Attributes
    ----------
    required, optional : list of (coefficient, Atom)
        Atoms that must be in the data for a grounding to exist, and atoms that may be missing from the data.
    comparisons : list of Literal
        Comparisons, possibly negated, that must hold in a grounding.
    constant : float
        Constant of the linear function.
    relation : {"<=", ">=", "="}
        Comparison of the linear function with 0.

    Examples
    --------
    The clause `!A(X) | B(X)` is satisfied if A(X) - B(X) <= 0.

    >>> from intarsia.softlogic.language.rules import read_rule
    >>> pattern = pattern_of(read_rule("1: A(X) -> B(X)"))
    >>> [(c, str(atom)) for c, atom in pattern.required + pattern.optional], pattern.constant
    ([(1.0, 'A(X)'), (-1.0, 'B(X)')], 0.0)
    """

    required: list[tuple[float, Atom]]
    optional: list[tuple[float, Atom]]
    comparisons: list[Literal]
    constant: float
    relation: str


def pattern_of(rule: Rule) -> Pattern:
    """Return the linear function of a rule; for a clause it is 1 minus the sum of the values of its literals."""
    required: list[tuple[float, Atom]] = []
    optional: list[tuple[float, Atom]] = []
    comparisons: list[Literal] = []
    if isinstance(rule, LogicalRule):
        for literal in rule.literals:
            if isinstance(literal.atom, Comparison):
                # If a comparison in the clause holds, the clause is satisfied, so only its negation needs grounding.
                comparisons.append(Literal(literal.atom, not literal.negated))
            elif literal.negated:
                required.append((1.0, literal.atom))
            else:
                optional.append((-1.0, literal.atom))
        return Pattern(required, optional, comparisons, 1.0 - len(required), "<=")
    for coefficient, atom in rule.terms:
        if isinstance(atom, Atom):
            required.append((_number(coefficient), atom))
        else:
            comparisons.append(Literal(atom))
    return Pattern(required, optional, comparisons, _number(rule.constant), rule.relation)


@dataclass
class GroundingCounts:
    """Counts of the groundings of a rule.

    Attributes
    ----------
    n_groundings : int
        Number of all groundings.
    n_constant : int
        Number of groundings without target or latent atoms.
    n_violated : int
        Number of these groundings that are violated.
    n_missing : int
        Number of groundings with an atom of an open predicate that is neither observed nor target.
    missing : list of str
        Examples of these atoms.
    """

    n_groundings: int = 0
    n_constant: int = 0
    n_violated: int = 0
    n_missing: int = 0
    missing: list[str] = field(default_factory=list)


class RuleJoin:
    """Groundings of a rule without sums, computed by a join.

    Parameters
    ----------
    database : GroundingDatabase
        Database with the atoms.
    rule : Rule
        A rule without sums.
    missing : {"error", "zero"}
        How to treat atoms of open predicates that are neither observed nor targets.
    max_groundings : float
        Largest estimated number of groundings.
    """

    def __init__(self, database: GroundingDatabase, rule: Rule, missing: str, max_groundings: float) -> None:
        self._database = database
        self._rule = rule
        self._missing = missing
        self._pattern = pattern = pattern_of(rule)
        self._query = query = JoinQuery(database)
        self._required = [(coef, atom, query.join(atom)) for coef, atom in pattern.required]
        query.check_size(rule.text, max_groundings)
        self._optional = [(coef, atom, query.look_up(atom)) for coef, atom in pattern.optional]
        for comparison in pattern.comparisons:
            query.compare(comparison)
        sizes = {alias: database.n_rows[database.table(atom.predicate)] for _, atom, alias in self._required}
        # Batches are ranges of the atoms of the largest table.
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
        """Yield the groundings that can be violated, as linear rows, and set `counts`."""
        columns = [f"{alias}.atom" for _, _, alias in self._required]
        columns += [f"coalesce({alias}.atom, -1)" for _, _, alias in self._optional]
        selected = ", ".join(f"{column} AS x{k}" for k, column in enumerate(columns))
        coef = np.array([c for c, *_ in self._required + self._optional])
        # One query is enough for most rules; the groundings of a larger join are counted first to choose batches.
        first_batch = self._database.fetch(
            f"SELECT {selected}, {self._free} AS free, {self._violable} AS violable, {self._is_missing()} AS missing "
            f"{self._query.source} LIMIT {BATCH_SIZE + 1}",
            self._query.bound,
        )
        if len(first_batch["free"]) <= BATCH_SIZE:
            free, violable = first_batch["free"].astype(bool), first_batch["violable"].astype(bool)
            self._set_counts(len(free), (~free).sum(), (~free & violable).sum(), first_batch["missing"].sum())
            mask = free & violable
            yield self._as_rows(np.stack([first_batch[f"x{k}"][mask] for k in range(len(columns))]), coef)
            return
        del first_batch
        for low, high in self._batches():
            table = self._database.fetch(
                f"SELECT {selected} {self._query.source} AND {self._free} AND {self._violable} "
                f"AND {self._driver}.atom BETWEEN $low AND $high",
                {**self._query.bound, "low": low, "high": high},
            )
            yield self._as_rows(np.stack([table[f"x{k}"] for k in range(len(columns))]), coef)

    def _as_rows(self, atoms: Index32, coef: FloatArray) -> GroundRows:
        """Convert groundings, as numbers of atoms, to linear rows."""
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

    def _batches(self) -> list[tuple[int, int]]:
        """Set the counts, and return the range of atoms of the largest table for each batch."""
        driver = self._driver
        table = self._database.fetch(
            f"SELECT {driver}.atom AS driver, count(*) AS n, "
            f"count(*) FILTER (WHERE {self._free} AND {self._violable}) AS kept, "
            f"count(*) FILTER (WHERE NOT {self._free}) AS known, "
            f"count(*) FILTER (WHERE NOT {self._free} AND {self._violable}) AS broken, "
            f"count(*) FILTER (WHERE {self._is_missing()}) AS missing "
            f"{self._query.source} GROUP BY {driver}.atom ORDER BY driver",
            self._query.bound,
        )
        self._set_counts(*(table[name].sum() for name in ("n", "known", "broken", "missing")))
        is_needed = table["kept"] > 0
        atom, total = table["driver"][is_needed], np.cumsum(table["kept"][is_needed])
        begins = np.flatnonzero(np.diff((total - 1) // BATCH_SIZE, prepend=-1))
        ends = np.append(begins, len(atom))[1:] - 1
        return [(int(atom[i]), int(atom[j])) for i, j in zip(begins, ends, strict=True)]

    def _set_counts(self, n: int, n_constant: int, n_violated: int, n_missing: int) -> None:
        """Set the counts; raise if atoms are missing and this is an error."""
        missing = self._missing_atoms() if n_missing else []
        self.counts = GroundingCounts(int(n), int(n_constant), int(n_violated), int(n_missing), missing)
        if n_missing and self._missing == "error":
            self._raise_missing()

    # ---------------------------------------------------------------- conditions

    def _bound(self, above: str, below: str) -> str:
        """Return SQL for the largest (`hi`, `lo`) or smallest (`lo`, `hi`) value of the linear function of the rule."""
        summands = [repr(float(self._pattern.constant))]
        absent = {"lo": 0.0, "hi": 1.0 if self._missing == "error" else 0.0}
        for coef, _, alias in self._required:
            summands.append(f"({coef!r}) * {alias}.{above if coef > 0 else below}")
        for coef, atom, alias in self._optional:
            side = above if coef > 0 else below
            default = 0.0 if self._database.is_closed(atom.predicate) else absent[side]
            summands.append(f"({coef!r}) * coalesce({alias}.{side}, {default})")
        return f"({' + '.join(summands)})"

    def _any_free(self) -> str:
        """Return SQL for whether a grounding contains a variable."""
        closed = self._database.is_closed
        conditions = [f"{alias}.free" for _, atom, alias in self._required if not closed(atom.predicate)]
        default = str(self._missing == "error").upper()
        for _, atom, alias in self._optional:
            if not closed(atom.predicate):
                conditions.append(f"coalesce({alias}.free, {default})")
        return f"({' OR '.join(conditions) or 'FALSE'})"

    def _is_missing(self) -> str:
        """Return SQL for whether a grounding needs an atom that is missing from the data."""
        open_aliases = [alias for _, atom, alias in self._optional if not self._database.is_closed(atom.predicate)]
        # A grounding that is satisfied for every value of the missing atom does not need it, as in PSL.
        absent = " OR ".join(f"{alias}.atom IS NULL" for alias in open_aliases)
        return f"({absent}) AND {self._violable}" if absent else "FALSE"

    # ---------------------------------------------------------------- missing atoms

    def _missing_atoms(self) -> list[str]:
        """Return examples of missing atoms as strings."""
        names = self._database.program.constants.names
        examples: dict[str, None] = {}
        for _, atom, alias in self._optional:
            if self._database.is_closed(atom.predicate):
                continue
            terms = [term for term in atom.arguments if not isinstance(term, Constant)]
            columns = ", ".join(["0 AS z", *(f"{self._query.columns[t.name]} AS v{k}" for k, t in enumerate(terms))])
            # Fetch more rows than examples, because several groundings can need the same atom.
            rows = self._database.fetch(
                f"SELECT {columns} {self._query.source} AND {alias}.atom IS NULL AND {self._violable} "
                f"LIMIT {10 * _N_EXAMPLES}",
                self._query.bound,
            )
            for r in range(len(rows["z"])):
                bindings = {t.name: Constant(names[int(rows[f"v{k}"][r])]) for k, t in enumerate(terms)}
                arguments = (t if isinstance(t, Constant) else bindings[t.name] for t in atom.arguments)
                examples[str(Atom(atom.predicate, tuple(arguments)))] = None
        return list(examples)[:_N_EXAMPLES]

    def _raise_missing(self) -> None:
        """Raise an error that lists examples of missing atoms."""
        ellipsis = ", ..." if self.counts.n_missing > len(self.counts.missing) else ""
        raise InvalidInputError(
            f"rule {self._rule.text!r:.200}: {self.counts.n_missing} groundings need atoms that are neither observed "
            f"nor targets: {', '.join(self.counts.missing)}{ellipsis}. Add them as targets, or set missing='zero' to "
            f"treat them as false."
        )


def _number(coefficient: object) -> float:
    """Return the value of a constant coefficient."""
    if not isinstance(coefficient, Number):
        raise InvalidInputError(f"{coefficient} is a cardinality, but the rule has no sums. Use a number instead.")
    return coefficient.value


def has_sums(rule: Rule) -> bool:
    """Return whether a rule sums over a variable."""
    return isinstance(rule, ArithmeticRule) and bool(rule.sum_variables)
