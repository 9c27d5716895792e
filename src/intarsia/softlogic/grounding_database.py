"""The atoms of a program in an embedded database, for the joins that rules ask for.

Tables are called t0, t1, ... and columns a0, a1, ...; constants are numbers and are bound. So no name that a user
chose is ever part of a query.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from intarsia._validation import FloatArray
from intarsia.softlogic.atoms import number_atoms
from intarsia.softlogic.program import Program
from intarsia.softlogic.tables import AtomRows


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
