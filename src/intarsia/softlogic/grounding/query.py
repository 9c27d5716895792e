"""Embedded database with the atoms of a program, and the SQL join of a rule.

Tables are named t0, t1, ... and columns a0, a1, ...; constants are passed as bound integer parameters. Names chosen by
users are never part of a query.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.exceptions import TooLargeError
from intarsia.softlogic.grounding.atoms import number_atoms
from intarsia.softlogic.grounding.tables import ARGUMENT_TYPES, AtomRows
from intarsia.softlogic.language.syntax import Atom, Comparison, Condition, Constant, Literal, Term
from intarsia.softlogic.program import Program


class GroundingDatabase:
    """Database with a table of atoms for each predicate.

    A row holds the number of an atom (variables come first), its arguments, and the smallest and largest value that it
    can have. Use it in a `with` block, which closes the connection.

    Parameters
    ----------
    program : Program
        Predicates and data.

    Examples
    --------
    >>> program = Program().predicate("Nice", 1).observe("Nice", [("ann", 0.3)]).target("Nice", ["bob"])
    >>> with GroundingDatabase(program) as database:
    ...     rows = database.fetch("SELECT atom, lo, hi FROM t0 ORDER BY atom")
    >>> rows["atom"].tolist(), rows["lo"].tolist(), rows["hi"].tolist()
    ([0, 1], [0.0, 0.3], [1.0, 0.3])
    """

    def __init__(self, program: Program) -> None:
        import duckdb  # imported here because only grounding needs it

        self.program = program
        self.atoms, observed = number_atoms(program)
        self.n_variables = len(self.atoms)
        # Values of observed atoms: atom n_variables + k has values[k].
        self.values: FloatArray = np.concatenate([np.empty(0), *(rows.values for rows in observed)])
        # With one thread the order of rows, and so of ground terms, is the same in every run.
        self._connection = duckdb.connect(":memory:", config={"threads": 1, "autoinstall_known_extensions": False})
        # In interactive sessions DuckDB would write a progress bar to stdout during long joins.
        self._connection.execute("SET enable_progress_bar = false")
        self._table: dict[str, str] = {}
        self.n_rows: dict[str, int] = {}
        self._ranked: set[bool] = set()
        first_observed = self.n_variables
        for p, observed_rows in enumerate(observed):
            self._fill(p, observed_rows, first_observed)
            first_observed += len(observed_rows)

    def __enter__(self) -> GroundingDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def table(self, predicate: str) -> str:
        """Return the name of the table of a predicate."""
        return self._table[predicate.upper()]

    def is_closed(self, predicate: str) -> bool:
        """Return whether atoms that are not in the table of a predicate are false."""
        return self.program.is_closed(self.program.find_predicate(predicate))

    def fetch(self, query: str, bound: dict[str, float] | None = None) -> dict[str, NDArray[Any]]:
        """Run a query and return the columns of its result."""
        return self._connection.execute(query, bound or {}).fetchnumpy()

    def run(self, query: str, bound: dict[str, float] | None = None) -> None:
        """Run a query whose result stays in the database."""
        self._connection.execute(query, bound or {})

    def ranks(self, by_number: bool) -> str:
        """Return the name of a table with the rank of each constant, ordered by number or as strings."""
        table = "ranks_by_number" if by_number else "ranks_of_strings"
        if by_number not in self._ranked:
            rank = self.program.constants.ranks(by_number)
            self._store(table, {"number": np.arange(len(rank), dtype=np.int32), "rank": rank})
            self._ranked.add(by_number)
        return table

    def _fill(self, p: int, observed: AtomRows, first_observed: int) -> None:
        """Create the table of predicate p."""
        free, start = self.atoms.arguments[p], self.atoms.start[p]
        arguments = np.concatenate([free, observed.arguments])
        columns: dict[str, NDArray[Any]] = {
            "atom": np.concatenate(
                [np.arange(start, start + len(free)), np.arange(first_observed, first_observed + len(observed))]
            ).astype(np.int32),
            **{f"a{k}": np.ascontiguousarray(column) for k, column in enumerate(arguments.T)},
            "lo": np.concatenate([np.zeros(len(free)), observed.values]),
            "hi": np.concatenate([np.ones(len(free)), observed.values]),
            "free": np.arange(len(arguments)) < len(free),
        }
        self._store(f"t{p}", columns)
        name = self.atoms.predicates[p].name
        self._table[name.upper()] = f"t{p}"
        self.n_rows[f"t{p}"] = len(arguments)

    def _store(self, name: str, columns: dict[str, NDArray[Any]]) -> None:
        """Create a table from columns."""
        self._connection.register("input_columns", columns)
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM input_columns")
        self._connection.unregister("input_columns")


_SIGNS = {"==": "=", "!=": "<>"}


class Terms:
    """SQL expressions for the terms of a rule: a column for a variable, a bound parameter for a constant."""

    def __init__(self, database: GroundingDatabase, prefix: str = "c") -> None:
        self.database = database
        self.bound: dict[str, float] = {}
        self.columns: dict[str, str] = {}
        # For variables with a declared type: whether their constants are ordered by number.
        self.by_number: dict[str, bool] = {}
        self._prefix = prefix

    def column(self, term: Term) -> str:
        """Return the column of a variable, or the bound parameter of a constant."""
        if isinstance(term, Constant):
            return self._bind(self.database.program.constants.find(term.value))
        return self.columns[term.name]

    def _bind(self, value: float) -> str:
        """Bind a number to a new parameter and return the parameter."""
        name = f"{self._prefix}{len(self.bound)}"
        self.bound[name] = value
        return f"${name}"

    def comparison(self, comparison: Comparison) -> str:
        """Return the SQL condition of a comparison."""
        if comparison.operator in _SIGNS:
            left, right = self.column(comparison.left), self.column(comparison.right)
            # Constants that are not in the data are all bound to -1, so two constants are compared by name.
            if isinstance(comparison.left, Constant) and isinstance(comparison.right, Constant):
                equal = comparison.left.value == comparison.right.value
                return f"{left} >= -1 AND {right} >= -1 AND {str(equal == (comparison.operator == '==')).upper()}"
            return f"{left} {_SIGNS[comparison.operator]} {right}"
        by_number = self._orders_by_number(comparison)
        return " < ".join(self._rank(term, by_number) for term in comparison.arguments)

    def _orders_by_number(self, comparison: Comparison) -> bool:
        """Return whether `%` compares by number: by the types of its variables if declared, else by the dialect."""
        names = [term.name for term in comparison.arguments if not isinstance(term, Constant)]
        types = [self.by_number[name] for name in names if name in self.by_number]
        return all(types) if types else self.database.program.dialect == "plain"

    def _rank(self, term: Term, by_number: bool) -> str:
        """Return SQL for the rank of a term in the order of the constants."""
        if isinstance(term, Constant):
            return self._bind(self.database.program.constants.rank(term.value, by_number))
        return f"(SELECT rank FROM {self.database.ranks(by_number)} WHERE number = {self.columns[term.name]})"

    def matches(self, alias: str, atom: Atom) -> list[str]:
        """Return conditions for a table row to match an atom; new variables are assigned the columns of this row."""
        conditions = []
        types = self.database.program.find_predicate(atom.predicate).types
        for k, term in enumerate(atom.arguments):
            column = f"{alias}.a{k}"
            if not isinstance(term, Constant) and term.name not in self.columns:
                self.columns[term.name] = column
                if types is not None:
                    self.by_number[term.name] = ARGUMENT_TYPES[types[k]]
            else:
                conditions.append(f"{column} = {self.column(term)}")
        return conditions

    def condition(self, condition: Condition | Literal) -> str:
        """Return the SQL condition of a filter; an atom of a closed predicate holds if its value is above 0."""
        if isinstance(condition, Condition):
            sign = " AND " if condition.operator == "&" else " OR "
            return f"({sign.join(self.condition(operand) for operand in condition.parts)})"
        if isinstance(condition.atom, Comparison):
            sql = self.comparison(condition.atom)
        else:
            inside = " AND ".join([*self.matches("f", condition.atom), "f.hi > 0"])
            sql = f"EXISTS (SELECT 1 FROM {self.database.table(condition.atom.predicate)} AS f WHERE {inside})"
        return f"NOT ({sql})" if condition.negated else sql


class JoinQuery(Terms):
    """SQL join of atoms on their common variables.

    Examples
    --------
    >>> from intarsia.softlogic.program import Program
    >>> from intarsia.softlogic.language.syntax import Variable
    >>> program = Program().predicate("Knows", 2).observe("Knows", [("a", "b"), ("b", "c")])
    >>> with GroundingDatabase(program) as database:
    ...     query = JoinQuery(database)
    ...     _ = query.join(Atom("Knows", (Variable("A"), Variable("B"))))
    ...     _ = query.join(Atom("Knows", (Variable("B"), Variable("C"))))
    ...     print(query.source)
    FROM t0 AS j0 JOIN t0 AS j1 ON j1.a0 = j0.a1 WHERE TRUE
    """

    def __init__(self, database: GroundingDatabase) -> None:
        super().__init__(database)
        self._joins: list[str] = []
        self._conditions: list[str] = []
        self._atoms: list[Atom] = []

    def check_size(self, rule: str, max_groundings: float) -> None:
        """Raise if the join of the required atoms has more rows than the limit, by an estimate from distinct values.

        It assumes that the values of a column are equally frequent and that the smaller of two sets is in the larger.
        """
        sizes = [self.database.n_rows[self.database.table(atom.predicate)] for atom in self._atoms]
        n = float(np.prod(np.array(sizes, dtype=np.float64)))
        if n <= max_groundings:
            return
        n_values: dict[str, int] = {}
        for atom in self._atoms:
            for k, term in enumerate(atom.arguments):
                table = self.database.table(atom.predicate)
                distinct = int(self.database.fetch(f"SELECT count(DISTINCT a{k}) AS n FROM {table}")["n"][0])
                n_joined = 1 if isinstance(term, Constant) else n_values.get(term.name)
                if n_joined is not None:
                    n /= max(distinct, n_joined)
                if not isinstance(term, Constant):
                    n_values[term.name] = distinct if n_joined is None else min(distinct, n_joined)
        if n > max_groundings * (1.0 + 1e-9):
            raise TooLargeError(
                f"rule {rule!r:.200} would have about {n:.3g} groundings, before comparisons, more than "
                f"max_groundings={max_groundings:g}. Join its atoms on common variables, add an atom that restricts "
                f"them, or raise max_groundings of ground or SoftLogic."
            )

    def join(self, atom: Atom) -> str:
        """Join an atom that must be in its table, and return the alias of its row."""
        alias = f"j{len(self._joins)}"
        self._atoms.append(atom)
        table = f"{self.database.table(atom.predicate)} AS {alias}"
        conditions = self.matches(alias, atom)
        if not self._joins:
            self._conditions += conditions
            self._joins.append(table)
        elif conditions:
            self._joins.append(f"JOIN {table} ON {' AND '.join(conditions)}")
        else:
            self._joins.append(f"CROSS JOIN {table}")
        return alias

    def look_up(self, atom: Atom) -> str:
        """Join an atom that may be missing from its table, and return the alias of its row."""
        if not self._joins:
            self._joins.append("(SELECT 0 AS atom) AS j0")
        alias = f"j{len(self._joins)}"
        conditions = self.matches(alias, atom)
        self._joins.append(f"LEFT JOIN {self.database.table(atom.predicate)} AS {alias} ON {' AND '.join(conditions)}")
        return alias

    def compare(self, comparison: Literal) -> None:
        """Add a comparison, possibly negated, as a condition."""
        self._conditions.append(self.condition(comparison))

    @property
    def source(self) -> str:
        """SQL of the join, from FROM on."""
        return f"FROM {' '.join(self._joins)} WHERE {' AND '.join(self._conditions) or 'TRUE'}"
