"""Records of an `EntityClusterer`: one table, two tables to be linked, or ids; with labels and sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.validation import IntArray
from intarsia._files.tables import is_table_file, table_kind
from intarsia.clusters.components import connected_components
from intarsia.clusters.tables import Table, read_table, record_ids
from intarsia.exceptions import InvalidInputError

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

SIDES = ("left", "right")


class SidedId(NamedTuple):
    """Id of a record of one of two tables."""

    side: str
    id: Any


@dataclass(frozen=True, eq=False)
class ClustererInput:
    """Records to be clustered.

    Attributes
    ----------
    records : Table, or list of ids
        Records; those of a second table follow those of the first.
    ids : list, optional
        Ids of the rows of two tables, with the table that each comes from; None for one table.
    side : (n_rows,) int array, optional
        Table of each row, 0 or 1; None for one table.
    sources : list, optional
        Source of each row: an entity has at most one record of each source.
    """

    records: Any
    ids: list[Any] | None = None
    side: IntArray | None = None
    sources: list[Any] | None = None

    def separating_keys(self, id_column: str | None, cannot_link: Sequence[Any] = ()) -> list[Any] | None:
        """Return a key for each row such that rows with different keys are never treated as one record."""
        if self.sources is None and not len(cannot_link):
            return None if self.side is None else self.side.tolist()
        ids = record_ids(self.records, id_column) if self.ids is None else self.ids
        if self.sources is not None:
            return ids
        linked_ids = {end for pair in cannot_link for end in pair}
        sides: Sequence[int] = np.zeros(len(ids), dtype=np.int64).tolist() if self.side is None else self.side.tolist()
        return [(side, name if name in linked_ids else None) for side, name in zip(sides, ids, strict=True)]

    def links(self, pairs: Sequence[Any], name: str) -> Sequence[Any]:
        """Return pairs of ids as ids of the rows; of two tables, the first id is of the left, the second of the right.

        Examples
        --------
        >>> read_input({"name": ["Ann"]}, {"name": ["Anne"]}).links([(0, 0)], "must_link")
        [(SidedId(side='left', id=0), SidedId(side='right', id=0))]
        """
        if self.side is None:
            return pairs
        links = []
        for row, pair in enumerate(pairs):
            ends = tuple(pair)
            if len(ends) != 2:
                raise InvalidInputError(
                    f"{name}, row {row}: {pair!r:.60}; expected an id of the left and an id of the right table. "
                    f"Correct it."
                )
            links.append(tuple(SidedId(side, end) for side, end in zip(SIDES, ends, strict=True)))
        return links


def is_table(value: Any) -> bool:
    """Return whether a value is a table of records, not a sequence of labels.

    Examples
    --------
    >>> is_table({"name": ["Ann"]}), is_table(["a", "b"]), is_table([{"name": "Ann"}])
    (True, False, True)
    """
    if isinstance(value, (Mapping, Table)) or is_table_file(value):
        return True
    if isinstance(value, Sequence) and not isinstance(value, str):
        return len(value) > 0 and all(isinstance(row, Mapping) for row in value)
    return not isinstance(value, (str, np.ndarray)) and table_kind(value) is not None


def read_input(
    X: Any,
    right: Any = None,
    *,
    edges: Any = None,
    id_column: str | None = None,
    source_column: str | None = None,
    one_to_one: bool = True,
    reads_columns: bool = True,
) -> ClustererInput:
    """Read the records of one table, or of two tables as one.

    Parameters
    ----------
    X : table, or list of ids
        Records; ids are enough if there are edges.
    right : table, optional
        Second table: only pairs across the two tables are candidates.
    edges : table, optional
        Scored pairs.
    id_column, source_column : str, optional
        Columns with ids and sources.
    one_to_one : bool
        Whether an entity has at most one record of each of two tables.
    reads_columns : bool
        Whether columns of the records are needed; without, a list of ids stays as it is.

    Examples
    --------
    >>> both = read_input({"name": ["Ann", "Bob"]}, {"name": ["Anne"], "age": [5]})
    >>> both.records.columns, both.side.tolist()
    ({'name': ['Ann', 'Bob', 'Anne'], 'age': [None, None, 5]}, [0, 0, 1])
    """
    if right is None:
        records = read_table(X) if edges is None or reads_columns or source_column is not None else X
        return ClustererInput(records, sources=None if source_column is None else records.column(source_column))
    if edges is not None:
        raise InvalidInputError(
            "edges= and a second table were passed. Pass the records of both tables as X, with source_column=, or "
            "use intarsia.clusters.resolve."
        )
    tables = []
    for name, table in zip(SIDES, (X, right), strict=True):
        with errors_in(name):
            tables.append(read_table(table))
    sizes = [table.n_rows for table in tables]
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for table in tables for name in table.columns):
        columns[name] = [value for table in tables for value in table.columns.get(name, [None] * table.n_rows)]
    ids = []
    for name, table in zip(SIDES, tables, strict=True):
        with errors_in(name):
            ids += [SidedId(name, value) for value in record_ids(table, id_column)]
    side = np.repeat(np.arange(2), sizes)
    sources = [SIDES[k] for k in side] if one_to_one else None
    return ClustererInput(Table(columns, sum(sizes), tables[0].kind), ids, side, sources)


def read_model_input(model: EntityClusterer, X: Any, right: Any, edges: Any, *, reads_columns: bool) -> ClustererInput:
    """Read the records of one table, of two tables or of edges, with the settings of a model."""
    return read_input(
        X,
        right,
        edges=edges,
        id_column=model.id_column,
        source_column=model.source_column,
        one_to_one=bool(model.one_to_one),
        reads_columns=reads_columns,
    )


def read_labels(y: Any, inputs: ClustererInput, matches: Any = None) -> tuple[Any, str | None]:
    """Return the entity of each row, None without labels, and the name of the column that it was read from.

    Parameters
    ----------
    y : sequence, name of a column, pair of sequences or None
        Entities; of two tables a sequence of those of both, or a pair of sequences.
    inputs : ClustererInput
        Records.
    matches : list of pairs of ids, optional
        For two tables: ids of the left and the right record of each match, instead of `y`.

    Examples
    --------
    >>> both = read_input({"name": ["Ann", "Bob"]}, {"name": ["Anne"]})
    >>> read_labels(None, both, matches=[(0, 0)])[0].tolist()
    [0, 1, 0]
    """
    if matches is not None:
        if y is not None or inputs.side is None or inputs.ids is None:
            raise InvalidInputError("matches= needs two tables and no y. Pass fit(left, right, matches=pairs).")
        row_of = {name: row for row, name in enumerate(inputs.ids)}
        pairs = inputs.links(_id_pairs(matches), "matches")
        for row, pair in enumerate(pairs):
            for side, name in pair:
                if (side, name) not in row_of:
                    raise InvalidInputError(
                        f"matches, row {row}: the {side} table has no record with id {name!r:.60}. Use ids of the "
                        f"tables, left first."
                    )
        ends = np.array([[row_of[end] for end in pair] for pair in pairs], dtype=np.int64).reshape(-1, 2)
        return connected_components(len(inputs.ids), ends), None
    if y is None:
        return None, None
    if isinstance(y, str):
        return inputs.records.column(y), y
    if inputs.side is not None and len(y) == 2 and all(hasattr(labels, "__len__") for labels in y):
        return [label for labels in y for label in labels], None
    return y, None


def _id_pairs(matches: Any) -> Sequence[Any]:
    """Return pairs of ids from a list of pairs, or from the first two columns of a table."""
    if not is_table(matches):
        return list(matches)
    with errors_in("matches"):
        columns = list(read_table(matches).columns.values())
    if len(columns) < 2:
        raise InvalidInputError("matches has fewer than two columns. Pass the ids of the left and the right records.")
    return list(zip(columns[0], columns[1], strict=True))
