"""Read a table of scored pairs: which records it pairs, and the log odds that two records are one entity."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia._files.tables import (
    PARQUET,
    TABLES,
    TableKind,
    is_table_file,
    quiet_database,
    read_columns,
    table_file_kind,
    table_kind,
    write_table,
)
from intarsia.exceptions import FileFormatError, InvalidInputError

# Names that record linkage programs use for the two ids of a pair.
ID_COLUMNS = (
    ("unique_id_l", "unique_id_r"), ("id_l", "id_r"), ("id1", "id2"), ("id_1", "id_2"), ("left", "right"),
    ("left_id", "right_id"), ("record_id_1", "record_id_2"), ("record_a", "record_b"), ("a", "b"),
)  # fmt: skip

# Names of score columns, the first one present is used, and how each is turned into log odds.
SCORE_COLUMNS = {
    "match_weight": "match_weight",
    "log_odds": "log_odds",
    "match_probability": "probability",
    "probability": "probability",
    "confidence_score": "probability",
    "confidence": "probability",
    "score": "auto",
}
SCALES = ("auto", "match_weight", "log_odds", "probability")
REPEATED = {"mean": "avg", "max": "max", "min": "min"}
_SMALLEST_PROBABILITY = 1e-9


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Pairs of records with log odds.

    Attributes
    ----------
    ids : list
        Id of each record, in ascending order.
    pairs : (n_pairs, 2) int array
        Records of each pair, the smaller number first; each pair once, in ascending order.
    log_odds : (n_pairs,) array
        Logarithm of P(same entity) / P(different entities).
    kind : TableKind or None
        Kind of table that the pairs came from.
    scale : str
        Meaning of the scores that were read: "match_weight", "log_odds" or "probability".
    n_repeated : int
        Number of rows that repeated an earlier pair.
    """

    ids: list[Any]
    pairs: IntArray
    log_odds: FloatArray
    kind: TableKind | None
    scale: str
    n_repeated: int


def read_scored_pairs(
    edges: Any,
    ids: Any = None,
    *,
    id_columns: tuple[str, str] | None = None,
    score_column: str | None = None,
    scale: str = "auto",
    repeated: str = "mean",
) -> ScoredPairs:
    """Read the pairs of a table, number the records and convert the scores into log odds.

    Parameters
    ----------
    edges : table
        One row per pair: two ids and a score. Files and DuckDB relations are numbered by DuckDB. A `ScoredPairs` is
        returned unchanged.
    ids : list or table, optional
        Ids of all records, including those in no pair; each once.
    id_columns : pair of str, optional
        Columns with the ids; by default those of Splink and others, or the first two columns.
    score_column : str, optional
        Column with the score; by default a usual name, or the only other column of numbers.
    scale : {"auto", "match_weight", "log_odds", "probability"}
        Meaning of the score. Splink's match weight has base 2 and contains the prior: log odds = weight x ln 2. "auto"
        reads it off the name of the column; a column without a usual name is a probability if all its values are
        between 0 and 1.
    repeated : {"mean", "max", "min"}
        How the scores of a pair that occurs several times are joined.

    Examples
    --------
    >>> pairs = read_scored_pairs({"id1": ["b", "c"], "id2": ["a", "b"], "match_weight": [1.0, -2.0]}, list("abcd"))
    >>> pairs.ids, pairs.pairs.tolist(), pairs.log_odds.round(2).tolist()
    (['a', 'b', 'c', 'd'], [[0, 1], [1, 2]], [0.69, -1.39])
    """
    if isinstance(edges, ScoredPairs):
        return edges
    check_choice(scale, SCALES, "scale")
    check_choice(repeated, REPEATED, "repeated")
    other_ids = [] if ids is None else listed_ids(ids)
    with errors_in("edges"):
        if is_relation(edges) or (is_table_file(edges) and table_file_kind(Path(edges)) in PARQUET):
            columns = _numbered_by_database(edges, other_ids, id_columns, score_column)
        else:
            columns = _numbered_in_memory(edges, other_ids, id_columns, score_column)
    names, ends, score, name = columns
    if ids is not None:
        _check_ids(names, in_type_of(other_ids, names))
    log_odds, scale = _to_log_odds(score, name, scale)
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if loops.size:
        raise InvalidInputError(
            f"edges, row {loops[0]}: record {names[ends[loops[0], 0]]!r} is paired with itself. Remove this row."
        )
    ends.sort(axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, log_odds = ends[order], log_odds[order]
    is_first = np.ones(len(ends), dtype=bool)
    is_first[1:] = (ends[1:] != ends[:-1]).any(axis=1)
    starts = np.flatnonzero(is_first)
    if len(starts) < len(ends):
        if repeated == "mean":
            log_odds = np.add.reduceat(log_odds, starts) / np.diff(np.append(starts, len(ends)))
        else:
            log_odds = (np.maximum if repeated == "max" else np.minimum).reduceat(log_odds, starts)
    n_repeated = len(ends) - len(starts)
    return ScoredPairs(names, np.ascontiguousarray(ends[starts]), log_odds, table_kind(edges), scale, n_repeated)


def is_relation(table: Any) -> bool:
    """Return whether `table` is a DuckDB relation, without importing DuckDB."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(table, duckdb.DuckDBPyRelation)


def listed_ids(ids: Any) -> list[Any]:
    """Return the ids of a list, a column, or the first column of a table."""
    if hasattr(ids, "to_list"):
        ids = ids.to_list()
    if isinstance(ids, np.ndarray):
        return list(ids.tolist())
    if isinstance(ids, Sequence) and not isinstance(ids, str):
        return list(ids)
    columns = read_columns(ids)
    if not columns:
        raise InvalidInputError(f"ids are of type {type(ids).__name__}. Pass a list of ids, or {TABLES}.")
    name = next((name for name in ("unique_id", "id", "record_id") if name in columns), next(iter(columns)))
    return list(columns[name].tolist() if isinstance(columns[name], np.ndarray) else columns[name])


def in_type_of(ids: list[Any], others: Collection[Any]) -> list[Any]:
    """Return ids in the type of other ids, if one kind is integers and the other their text, as in a CSV file.

    Examples
    --------
    >>> in_type_of(["1", "20"], [1, 3]), in_type_of([1, 20], ["3"]), in_type_of(["1", "007"], [1, 7])
    ([1, 20], ['1', '20'], ['1', '007'])
    """
    types, other_types = set(map(type, ids)), set(map(type, others))
    if types == {str} and other_types == {int} and all(map(_is_integer_text, ids)):
        return [int(name) for name in ids]
    if types == {int} and other_types == {str} and all(map(_is_integer_text, others)):
        return [str(name) for name in ids]
    return ids


def _is_integer_text(text: str) -> bool:
    """Return whether a string is an integer as `str` writes it, without leading zeros and signs."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text


def _check_ids(names: list[Any], ids: list[Any]) -> None:
    """Raise if `ids` has an id twice, or lacks an id of a pair; `names` are the ids of both, each once."""
    if len(set(ids)) == len(ids) == len(names):
        return
    distinct_ids = set[Any]()
    for row, name in enumerate(ids):
        if name in distinct_ids:
            raise InvalidInputError(f"ids, row {row}: id {name!r:.60} is there twice. Pass each id once.")
        distinct_ids.add(name)
    unknown = next(name for name in names if name not in distinct_ids)
    hint = ""
    if ids and type(unknown) is not type(ids[0]):
        hint = f" Ids of pairs are of type {type(unknown).__name__}, those in ids {type(ids[0]).__name__}."
    raise InvalidInputError(
        f"edges: a pair has id {unknown!r:.60}, which is not in ids.{hint} Add it to ids, or remove the pair."
    )


def choose_id_columns(names: Sequence[str], id_columns: tuple[str, str] | None) -> tuple[str, str]:
    """Return the names of the two id columns of a table of pairs.

    Examples
    --------
    >>> choose_id_columns(["score", "unique_id_l", "unique_id_r"], None)
    ('unique_id_l', 'unique_id_r')
    """
    if id_columns is not None:
        if isinstance(id_columns, str) or len(id_columns) != 2:
            raise InvalidInputError(f"id_columns is {id_columns!r}; expected the names of two columns. Pass a pair.")
        first, second = (check_choice(name, names, "column") for name in id_columns)
        return first, second
    usual = next((pair for pair in ID_COLUMNS if set(pair) <= set(names)), None)
    if usual is None and len(names) < 3:
        raise InvalidInputError(
            f"the table has columns {list(names)}; expected two ids and a score. Pass such a table, or name the "
            f"columns with id_columns= and score_column=."
        )
    return usual or (names[0], names[1])


def _choose_columns(
    names: Sequence[str], numeric: Sequence[str], id_columns: tuple[str, str] | None, score_column: str | None
) -> tuple[str, str, str]:
    """Return the names of the two id columns and of the score column."""
    first, second = choose_id_columns(names, id_columns)
    if score_column is not None:
        return first, second, check_choice(score_column, names, "column")
    score = next((name for name in SCORE_COLUMNS if name in names), None)
    if score is None:
        others = [name for name in numeric if name not in (first, second)]
        if len(others) != 1:
            raise InvalidInputError(
                f"the table has {len(others)} columns of numbers besides the ids, {others[:6]}. Name the score with "
                f"score_column=."
            )
        score = others[0]
    return first, second, score


def _numbered_in_memory(
    edges: Any, other_ids: list[Any], id_columns: tuple[str, str] | None, score_column: str | None
) -> tuple[list[Any], IntArray, FloatArray, str]:
    """Read the table, number its ids in ascending order; return ids, pairs, scores and the name of the score."""
    columns = read_columns(edges)
    if columns is None:
        raise InvalidInputError(f"the pairs are of type {type(edges).__name__}. Pass {TABLES}.")
    columns = {str(name): values for name, values in columns.items()}
    numeric = [name for name, values in columns.items() if _is_numeric(values)]
    first, second, score = _choose_columns(list(columns), numeric, id_columns, score_column)
    ends = [plain_list(columns[name]) for name in (first, second)]
    for name, values in zip((first, second), ends, strict=True):
        missing = next((row for row, value in enumerate(values) if value is None or value != value), None)
        if missing is not None:
            raise InvalidInputError(f"row {missing}: the id in column {name!r} is missing. Remove the row.")
    names_in_pairs = {*ends[0], *ends[1]}
    names = sorted_ids({*names_in_pairs, *in_type_of(other_ids, names_in_pairs)})
    number = {name: k for k, name in enumerate(names)}
    pairs = np.empty((len(ends[0]), 2), dtype=np.int64)
    for side in (0, 1):
        pairs[:, side] = np.fromiter(map(number.__getitem__, ends[side]), np.int64, len(ends[side]))
    return names, pairs, _numbers(columns[score], score), score


def _numbered_by_database(
    edges: Any, other_ids: list[Any], id_columns: tuple[str, str] | None, score_column: str | None
) -> tuple[list[Any], IntArray, FloatArray, str]:
    """Number the ids of a Parquet file or a DuckDB relation by SQL, without a Python object per row."""
    relation, (left, right, value), score = database_pairs(edges, id_columns, score_column)
    text = f"select {left} as id from pairs union select {right} as id from pairs order by id"
    in_pairs = relation.query("pairs", text)
    names_in_pairs = _fetched(in_pairs.fetchnumpy()["id"])
    numbered = relation.query(
        "pairs",
        f"with names as (select id, row_number() over (order by id) - 1 as number from "
        f"(select {left} as id from pairs union select {right} as id from pairs)) "
        f"select a.number as a, b.number as b, pairs.{value}::double as s from pairs "
        f"join names a on a.id = pairs.{left} join names b on b.id = pairs.{right}",
    ).fetchnumpy()
    pairs = np.column_stack([numbered["a"], numbered["b"]]).astype(np.int64)
    scores = np.asarray(numbered["s"], dtype=np.float64)
    extra = set(in_type_of(other_ids, names_in_pairs)) - set(names_in_pairs) if other_ids else set()
    if not extra:
        return names_in_pairs, pairs, _check_finite(scores, score), score
    names = sorted_ids({*names_in_pairs, *extra})
    number = {name: k for k, name in enumerate(names)}
    new_number = np.fromiter(map(number.__getitem__, names_in_pairs), np.int64, len(names_in_pairs))
    return names, new_number[pairs], _check_finite(scores, score), score


def database_pairs(
    edges: Any, id_columns: tuple[str, str] | None, score_column: str | None
) -> tuple[Any, tuple[str, str, str], str]:
    """Return the relation of a Parquet file or a relation, its three columns quoted for SQL, and the score's name."""
    import duckdb

    if is_relation(edges):
        relation = edges
    else:
        path = Path(edges)
        if not path.is_file():
            raise InvalidInputError(f"there is no file {path}. Check the path.")
        try:
            relation = quiet_database().read_parquet(str(path))
        except duckdb.Error as error:
            raise FileFormatError(f"{path.name}: {str(error).splitlines()[0]}. Export the file again.") from None
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    numeric = [name for name, kind in kinds.items() if kind.startswith(_NUMERIC_TYPES)]
    first, second, score = _choose_columns(relation.columns, numeric, id_columns, score_column)
    quoted = ['"' + name.replace('"', '""') + '"' for name in (first, second, score)]
    left, right, value = quoted
    missing = relation.query(
        "pairs", f"select count(*) from pairs where {left} is null or {right} is null or {value} is null"
    ).fetchall()[0]
    if missing[0]:
        raise InvalidInputError(f"{missing[0]} rows lack an id or a score. Remove them.")
    return relation, (left, right, value), score


def log_odds_expression(relation: Any, score: str, name: str, scale: str) -> str:
    """Return the SQL expression that turns the quoted column `score` into log odds; raise for invalid scores."""
    check_choice(scale, SCALES, "scale")
    smallest, largest, n_bad = relation.query(
        "scored_pairs",
        f"select min({score}), max({score}), count(*) filter (not isfinite({score}::double)) from scored_pairs",
    ).fetchall()[0]
    if n_bad:
        raise InvalidInputError(f"{n_bad} values of {name!r} are not finite. Correct them, or remove the rows.")
    ends = np.array([] if smallest is None else [smallest, largest], dtype=np.float64)
    scale = _to_log_odds(ends, name, scale)[1]
    if scale == "match_weight":
        return f"{score}::double * ln(2.0)"
    if scale == "log_odds":
        return f"{score}::double"
    low = _SMALLEST_PROBABILITY
    clipped = f"greatest(least({score}::double, {1 - low!r}), {low!r})"
    return f"ln({clipped}) - ln(1.0 - {clipped})"


_NUMERIC_TYPES = (
    "DOUBLE", "FLOAT", "REAL", "DECIMAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT",
    "USMALLINT", "UINTEGER", "UBIGINT",
)  # fmt: skip


def _fetched(column: Any) -> list[Any]:
    """Return a column of DuckDB as a list of Python objects."""
    return list(column.tolist())


def plain_list(values: Any) -> list[Any]:
    """Return a column as a list of Python objects."""
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    return [value.item() if hasattr(value, "item") else value for value in values]


def sorted_ids(ids: set[Any]) -> list[Any]:
    """Return the ids in ascending order; ids of different types are ordered by their text."""
    if None in ids:
        raise InvalidInputError("an id is missing. Pass an id for every record.")
    try:
        return sorted(ids)
    except TypeError:
        return sorted(ids, key=str)


def _is_numeric(values: Any) -> bool:
    """Return whether a column holds numbers, or strings that are numbers."""
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "iufb"
    sample = [value for value in values[:100] if value is not None]
    try:
        [float(value) for value in sample]
    except (TypeError, ValueError):
        return False
    return bool(sample)


def _numbers(values: Any, name: str) -> FloatArray:
    """Return a column as floats; raise for the first value that is not a finite number."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return _check_finite(values.astype(np.float64), name)
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = float(value)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"row {row}: {name!r} is {value!r:.40}, expected a finite number. Correct the score, or remove the row."
            ) from None
    return _check_finite(numbers, name)


def _check_finite(scores: FloatArray, name: str) -> FloatArray:
    """Return the scores; raise for the first that is NaN or infinite."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise InvalidInputError(
            f"row {bad[0]}: {name!r} is {scores[bad[0]]}, expected a finite number. Correct the score, or remove the "
            f"row."
        )
    return scores


def _to_log_odds(scores: FloatArray, name: str, scale: str) -> tuple[FloatArray, str]:
    """Convert scores into log odds; return them and the scale that was used."""
    scale = SCORE_COLUMNS.get(name, "auto") if scale == "auto" else scale
    in_unit_interval = bool(len(scores) and scores.min() >= 0 and scores.max() <= 1)
    if scale == "auto":
        scale = "probability" if in_unit_interval else "log_odds"
    if scale == "match_weight":
        return scores * np.log(2.0), scale
    if scale == "probability":
        if len(scores) and not in_unit_interval:
            row = int(np.flatnonzero((scores < 0) | (scores > 1))[0])
            raise InvalidInputError(
                f"edges, row {row}: {name!r} is {scores[row]}, expected a probability. Pass scale='log_odds' if the "
                f"scores are log odds."
            )
        clipped = np.clip(scores, _SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY)
        return np.log(clipped) - np.log1p(-clipped), scale
    return scores.copy(), scale


def result_table(columns: dict[str, Any], kind: TableKind | None) -> Any:
    """Return columns as a table of a kind, or as a dict of lists.

    Examples
    --------
    >>> result_table({"id": ["a"], "score": np.array([0.5])}, None)
    {'id': ['a'], 'score': [0.5]}
    """
    if kind is not None:
        return write_table(columns, kind)
    return {name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in columns.items()}
