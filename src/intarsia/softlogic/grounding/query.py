"""The atoms of a program in an embedded database, and the join that a rule asks for.

Tables are called t0, t1, ... and columns a0, a1, ...; constants are numbers and are bound. So no name that a user
chose is ever part of a query.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.softlogic.grounding.atoms import number_atoms
from intarsia.softlogic.grounding.tables import ARGUMENT_TYPES, AtomRows
from intarsia.softlogic.language.syntax import Atom, Comparison, Condition, Constant, Literal, Term
from intarsia.softlogic.program import Program


class GroundingDatabase:
    """Tables of atoms: a number for each (variables first), its arguments, and the least and largest truth it can have.

    Use it in a `with` block, which closes it.

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
        import duckdb  # only grounding needs it

        self.program = program
        self.atoms, observed = number_atoms(program)
        self.n_variables = len(self.atoms)
        # Truth of the atoms that are no variables; atom n_variables + k has values[k].
        self.values: FloatArray = np.concatenate([np.empty(0), *(rows.values for rows in observed)])
        # One thread: the order of the rows, and so of the ground terms, is the same in every run.
        self._connection = duckdb.connect(":memory:", config={"threads": 1, "autoinstall_known_extensions": False})
        # Where nobody's file is the main program, DuckDB would draw a bar on stdout during long joins.
        self._connection.execute("SET enable_progress_bar = false")
        self._table: dict[str, str] = {}
        self.n_rows: dict[str, int] = {}
        self._ranked: set[bool] = set()
        first_known = self.n_variables
        for p, known in enumerate(observed):
            self._fill(p, known, first_known)
            first_known += len(known)

    def __enter__(self) -> GroundingDatabase:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def table(self, predicate: str) -> str:
        """Name of a predicate's table."""
        return self._table[predicate.upper()]

    def is_closed(self, predicate: str) -> bool:
        """Whether atoms of a predicate that are not in its table are false."""
        return self.program.is_closed(self.program.find_predicate(predicate))

    def fetch(self, query: str, bound: dict[str, float] | None = None) -> dict[str, NDArray[Any]]:
        """Columns of an answer."""
        return self._connection.execute(query, bound or {}).fetchnumpy()

    def run(self, query: str, bound: dict[str, float] | None = None) -> None:
        """A query whose answer stays in the database."""
        self._connection.execute(query, bound or {})

    def ranks(self, by_number: bool) -> str:
        """Name of a table with the place of each constant in their order, by number or as strings."""
        table = "ranks_by_number" if by_number else "ranks_of_strings"
        if by_number not in self._ranked:
            rank = self.program.constants.ranks(by_number)
            self._store(table, {"number": np.arange(len(rank), dtype=np.int32), "rank": rank})
            self._ranked.add(by_number)
        return table

    def _fill(self, p: int, known: AtomRows, first_known: int) -> None:
        free, start = self.atoms.arguments[p], self.atoms.start[p]
        arguments = np.concatenate([free, known.arguments])
        columns: dict[str, NDArray[Any]] = {
            "atom": np.concatenate(
                [np.arange(start, start + len(free)), np.arange(first_known, first_known + len(known))]
            ).astype(np.int32),
            **{f"a{k}": np.ascontiguousarray(column) for k, column in enumerate(arguments.T)},
            "lo": np.concatenate([np.zeros(len(free)), known.values]),
            "hi": np.concatenate([np.ones(len(free)), known.values]),
            "free": np.arange(len(arguments)) < len(free),
        }
        self._store(f"t{p}", columns)
        name = self.atoms.predicates[p].name
        self._table[name.upper()] = f"t{p}"
        self.n_rows[f"t{p}"] = len(arguments)

    def _store(self, name: str, columns: dict[str, NDArray[Any]]) -> None:
        self._connection.register("given", columns)
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        self._connection.unregister("given")


_SIGNS = {"==": "=", "!=": "<>"}


class Terms:
    """Where the value of each term stands in a query: a column for a variable, a bound number for a constant."""

    def __init__(self, database: GroundingDatabase, prefix: str = "c") -> None:
        self.database = database
        self.bound: dict[str, float] = {}
        self.place: dict[str, str] = {}
        # Of variables whose type is declared: whether their constants are ordered by number.
        self.by_number: dict[str, bool] = {}
        self._prefix = prefix

    def column(self, term: Term) -> str:
        """The column of a variable, or a name for the number of a constant."""
        if isinstance(term, Constant):
            return self._bind(self.database.program.constants.find(term.value))
        return self.place[term.name]

    def _bind(self, value: float) -> str:
        name = f"{self._prefix}{len(self.bound)}"
        self.bound[name] = value
        return f"${name}"

    def comparison(self, comparison: Comparison) -> str:
        """A condition on two terms."""
        if comparison.operator in _SIGNS:
            left, right = self.column(comparison.left), self.column(comparison.right)
            # Two constants that no data name are both bound as -1, so their names decide.
            if isinstance(comparison.left, Constant) and isinstance(comparison.right, Constant):
                same = comparison.left.value == comparison.right.value
                return f"{left} >= -1 AND {right} >= -1 AND {str(same == (comparison.operator == '==')).upper()}"
            return f"{left} {_SIGNS[comparison.operator]} {right}"
        by_number = self._orders_by_number(comparison)
        return " < ".join(self._rank(term, by_number) for term in comparison.arguments)

    def _orders_by_number(self, comparison: Comparison) -> bool:
        """Whether `%` compares numbers: as the types of its variables say, or else as the dialect does."""
        names = [term.name for term in comparison.arguments if not isinstance(term, Constant)]
        types = [self.by_number[name] for name in names if name in self.by_number]
        return all(types) if types else self.database.program.dialect == "plain"

    def _rank(self, term: Term, by_number: bool) -> str:
        if isinstance(term, Constant):
            return self._bind(self.database.program.constants.rank(term.value, by_number))
        return f"(SELECT rank FROM {self.database.ranks(by_number)} WHERE number = {self.place[term.name]})"

    def matches(self, alias: str, atom: Atom) -> list[str]:
        """Conditions under which a row of a predicate's table is an atom; variables met first get their place there."""
        conditions = []
        types = self.database.program.find_predicate(atom.predicate).types
        for k, term in enumerate(atom.arguments):
            column = f"{alias}.a{k}"
            if not isinstance(term, Constant) and term.name not in self.place:
                self.place[term.name] = column
                if types is not None:
                    self.by_number[term.name] = ARGUMENT_TYPES[types[k]]
            else:
                conditions.append(f"{column} = {self.column(term)}")
        return conditions

    def condition(self, condition: Condition | Literal) -> str:
        """A filter: an atom of a closed predicate holds where its truth is above 0."""
        if isinstance(condition, Condition):
            sign = " AND " if condition.operator == "&" else " OR "
            return f"({sign.join(self.condition(part) for part in condition.parts)})"
        if isinstance(condition.atom, Comparison):
            made = self.comparison(condition.atom)
        else:
            inside = " AND ".join([*self.matches("f", condition.atom), "f.hi > 0"])
            made = f"EXISTS (SELECT 1 FROM {self.database.table(condition.atom.predicate)} AS f WHERE {inside})"
        return f"NOT ({made})" if condition.negated else made


class JoinQuery(Terms):
    """Atoms joined on the variables they share.

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

    def join(self, atom: Atom) -> str:
        """Add an atom that must be in its table; returns what its row is called."""
        alias = f"j{len(self._joins)}"
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
        """Add an atom whose row is empty if it is not in its table."""
        if not self._joins:
            self._joins.append("(SELECT 0 AS atom) AS j0")
        alias = f"j{len(self._joins)}"
        conditions = self.matches(alias, atom)
        self._joins.append(f"LEFT JOIN {self.database.table(atom.predicate)} AS {alias} ON {' AND '.join(conditions)}")
        return alias

    def compare(self, comparison: Literal) -> None:
        """Keep what meets a comparison, or does not if it is negated."""
        self._conditions.append(self.condition(comparison))

    @property
    def source(self) -> str:
        """Everything from FROM on."""
        return f"FROM {' '.join(self._joins)} WHERE {' AND '.join(self._conditions) or 'TRUE'}"
