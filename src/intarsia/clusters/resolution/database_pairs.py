"""SQL of scored pairs in a Parquet file or a DuckDB relation: ids are numbered without a Python object per row."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

from intarsia._files.tables import is_relation, parquet_relation, quoted
from intarsia.clusters.resolution.pair_columns import choose_columns
from intarsia.exceptions import InvalidInputError


def open_pairs(edges: Any) -> Any:
    """Return a context with the relation of a Parquet file or of a DuckDB relation."""
    return nullcontext(edges) if is_relation(edges) else parquet_relation(edges)


class DatabasePairs:
    """SQL of a relation of scored pairs, for queries with the relation under the name `pairs`.

    Attributes
    ----------
    columns : PairColumns
        Columns of ids.
    score, score_name : str
        Score column, as SQL and as it is.
    numbers : str
        Query of the distinct ids in ascending order: `k0`, ... and `number` from 0.
    """

    def __init__(
        self,
        relation: Any,
        id_columns: tuple[str, str] | None,
        score_column: str | None,
        with_tables: bool = True,
    ) -> None:
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        kind_of = {name: _kind_of_type(kind) for name, kind in kinds.items()}
        self.columns, self.score_name = choose_columns(kind_of, id_columns, score_column, with_tables)
        self.score = f"pairs.{quoted(self.score_name)}"
        columns = [f"pairs.{quoted(name)}" for name in (*self.columns.names, self.score_name)]
        condition = " or ".join(f"{name} is null" for name in columns)
        n_missing = relation.query("pairs", f"select count(*) from pairs where {condition}").fetchall()[0][0]
        if n_missing:
            raise InvalidInputError(f"{n_missing} rows lack an id or a score. Remove them.")
        ends = list(zip(self.columns.left, self.columns.right, strict=True))
        sides = list(zip(*(_in_one_type(relation, pair, kinds) for pair in ends), strict=True))
        selected = [", ".join(f"{text} as k{k}" for k, text in enumerate(side)) for side in sides]
        keys = ", ".join(f"k{k}" for k in range(len(ends)))
        self.numbers = (
            f"select {keys}, row_number() over (order by {keys}) - 1 as number "
            f"from (select {selected[0]} from pairs union select {selected[1]} from pairs)"
        )
        self._joins = " ".join(
            f"join numbers {name} on " + " and ".join(f"{name}.k{k} = {text}" for k, text in enumerate(side))
            for name, side in zip(("one", "two"), sides, strict=True)
        )

    def numbered(self, value: str) -> str:
        """Return the query of all pairs with the numbers `a` and `b` of their records and an SQL expression `value`."""
        return (
            f"with numbers as ({self.numbers}) select one.number as a, two.number as b, {value} as value "
            f"from pairs {self._joins}"
        )


def _in_one_type(relation: Any, ends: tuple[str, str], kinds: dict[str, str]) -> list[str]:
    """Return the SQL of the ids of both records; integers and their strings get one type, as by `one_type`."""
    names = [f"pairs.{quoted(name)}" for name in ends]
    types = {_kind_of_type(kinds[name]) for name in ends}
    if any(kinds[name].startswith("ENUM") for name in ends):
        return [f"{name}::VARCHAR" for name in names]
    if types == {"integer", "text"}:
        text = next(name for name, end in zip(names, ends, strict=True) if _kind_of_type(kinds[end]) == "text")
        is_other = f"not regexp_full_match({text}::VARCHAR, '0|-?[1-9][0-9]{{0,17}}')"
        n_others = relation.query("pairs", f"select count(*) from pairs where {is_other}").fetchall()[0][0]
        return [f"{name}::{'VARCHAR' if n_others else 'BIGINT'}" for name in names]
    if types == {"integer"} and any(_INEXACT_TYPE.match(kinds[name]) for name in ends):
        return [f"{name}::BIGINT" for name in names]
    return names


_INTEGER_TYPE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\(\d+,0\)")
_INEXACT_TYPE = re.compile("DECIMAL|U?HUGEINT")  # in NumPy
_MEASURE_TYPE = re.compile(r"DOUBLE|FLOAT|REAL|DECIMAL.*|BOOLEAN")


def _kind_of_type(name: str) -> str:
    """Return the kind of a column, as `kind_of_column`, from its type in DuckDB."""
    return "integer" if _INTEGER_TYPE.fullmatch(name) else "measure" if _MEASURE_TYPE.fullmatch(name) else "text"
