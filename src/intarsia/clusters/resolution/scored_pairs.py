"""Read a table of scored pairs: which records it pairs, and the log odds that two records are one entity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia._files.tables import (
    TABLES,
    TableKind,
    is_parquet,
    is_relation,
    read_columns,
    table_kind,
    write_table,
)
from intarsia.clusters.resolution.database_pairs import DatabasePairs, open_pairs
from intarsia.clusters.resolution.pair_columns import (
    SCORE_COLUMNS,
    PairColumns,
    choose_columns,
    in_type_of,
    kind_of_column,
    one_type,
)
from intarsia.exceptions import InvalidInputError

SCALES = ("auto", "match_weight", "log_odds", "probability")
REPEATED = {"mean": "avg", "max": "max", "min": "min"}
_SMALLEST_PROBABILITY = 1e-9


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Pairs of records with log odds.

    Attributes
    ----------
    ids : list
        Id of each record, in ascending order; if `columns` has tables, pairs of a table and an id.
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
    columns : PairColumns
        Names of the columns of ids.
    """

    ids: list[Any]
    pairs: IntArray
    log_odds: FloatArray
    kind: TableKind | None
    scale: str
    n_repeated: int
    columns: PairColumns = field(default_factory=PairColumns)

    @cached_property
    def entity_names(self) -> list[Any]:
        """Name of the entity of which each record is the first one."""
        return self.columns.entity_names(self.ids)

    def record_table(self, records: IntArray | None = None) -> dict[str, list[Any]]:
        """Return the ids of all records, or of some, as columns."""
        return self.columns.record_columns(self.ids if records is None else [self.ids[k] for k in records.tolist()])

    def pair_table(self, pairs: IntArray) -> dict[str, list[Any]]:
        """Return the ids of pairs of records as columns."""
        left, right = ([self.ids[k] for k in side] for side in pairs.T.tolist())
        return self.columns.pair_columns(left, right)

    def tables(self) -> dict[Any, Any] | None:
        """Return the table of each record if pairs are across tables only, as in Splink's "link_only"."""
        if not self.columns.has_tables:
            return None
        code_of: dict[Any, int] = {}
        codes = np.array([code_of.setdefault(table, len(code_of)) for table, _ in self.ids], dtype=np.int64)
        if (codes[self.pairs[:, 0]] == codes[self.pairs[:, 1]]).any():
            return None
        return {name: name[0] for name in self.ids}


def read_scored_pairs(
    edges: Any,
    ids: Any = None,
    *,
    id_columns: tuple[str, str] | None = None,
    score_column: str | None = None,
    scale: str = "auto",
    repeated: str = "mean",
    earlier_ids: Sequence[Any] = (),
    with_tables: bool = True,
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
        Columns with the ids; by default they are recognised by their names, see `choose_pair_columns`.
    score_column : str, optional
        Column with the score; by default a usual name, or the only other column of numbers.
    scale : {"auto", "match_weight", "log_odds", "probability"}
        Meaning of the score. Splink's match weight has base 2 and contains the prior: log odds = weight x ln 2. "auto"
        reads it off the name of the column; a column without a usual name is a probability if all its values are
        between 0 and 1.
    repeated : {"mean", "max", "min"}
        How the scores of a pair that occurs several times are joined.
    earlier_ids : list
        Further ids that pairs may have if `ids` are passed.
    with_tables : bool
        Whether `source_dataset_l` and `source_dataset_r` are part of the ids.

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
    with errors_in("edges"):
        numbered = _numbered_by_database if is_relation(edges) or is_parquet(edges) else _numbered_in_memory
        columns, names, ends, score, name = numbered(edges, id_columns, score_column, with_tables)
    if ids is not None:
        with errors_in("ids"):
            other_ids = in_type_of(listed_ids(ids, columns), names)
            _check_once(other_ids)
            other_ids = list(dict.fromkeys([*other_ids, *in_type_of(list(earlier_ids), names)]))
        _check_known(names, other_ids)
        if len(other_ids) > len(names):
            all_names = sorted_ids(set(other_ids))
            names, ends = all_names, positions(names, all_names)[ends]
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
    return ScoredPairs(
        names, np.ascontiguousarray(ends[starts]), log_odds, table_kind(edges), scale, n_repeated, columns
    )


def listed_ids(ids: Any, columns: PairColumns) -> list[Any]:
    """Return the ids of a list, of a column or of a table of records; with tables, pairs of a table and an id."""
    if hasattr(ids, "to_list"):
        ids = ids.to_list()
    if isinstance(ids, np.ndarray):
        ids = ids.tolist()
    if isinstance(ids, Sequence) and not isinstance(ids, str):
        wrong = next((name for name in ids if not isinstance(name, tuple)), None) if columns.has_tables else None
        if wrong is not None:
            table, own_name = columns.record
            raise InvalidInputError(
                f"an id is {wrong!r:.60}, but the pairs name a record by {table!r} and {own_name!r}. Pass a table with "
                f"these columns, or pairs of both."
            )
        return one_type(list(ids))
    table_columns = read_columns(ids)
    if not table_columns:
        raise InvalidInputError(f"ids are of type {type(ids).__name__}. Pass a list of ids, or {TABLES}.")
    return columns.read_records({str(name): values for name, values in table_columns.items()})


def positions(ids: Sequence[Any], names: Sequence[Any]) -> IntArray:
    """Return the position of each id in `names`."""
    number = {name: k for k, name in enumerate(names)}
    return np.fromiter(map(number.__getitem__, ids), np.int64, len(ids))


def _check_once(ids: list[Any]) -> None:
    """Raise if an id occurs twice."""
    distinct_ids = set[Any]()
    for row, name in enumerate(ids if len(set(ids)) < len(ids) else ()):
        if name in distinct_ids:
            raise InvalidInputError(f"row {row}: id {name!r:.60} is there twice. Pass each id once.")
        distinct_ids.add(name)


def _check_known(names: list[Any], ids: list[Any]) -> None:
    """Raise if `ids` lacks an id of a pair."""
    all_ids = set(ids)
    unknown = next((name for name in names if name not in all_ids), None)
    if unknown is None:
        return
    hint = ""
    if ids and type(unknown) is not type(ids[0]):
        hint = f" Ids of pairs are of type {type(unknown).__name__}, those in ids {type(ids[0]).__name__}."
    raise InvalidInputError(
        f"edges: a pair has id {unknown!r:.60}, which is not in ids.{hint} Add it to ids, or remove the pair."
    )


_Numbered = tuple[PairColumns, list[Any], IntArray, FloatArray, str]


def _numbered_in_memory(
    edges: Any, id_columns: tuple[str, str] | None, score_column: str | None, with_tables: bool
) -> _Numbered:
    """Read the table, number its ids in ascending order; return columns, ids, pairs, scores and the score's name."""
    table = read_columns(edges)
    if table is None:
        raise InvalidInputError(f"the pairs are of type {type(edges).__name__}. Pass {TABLES}.")
    table = {str(name): values for name, values in table.items()}
    kinds = {name: kind_of_column(values) for name, values in table.items()}
    columns, score = choose_columns(kinds, id_columns, score_column, with_tables)
    left, right = columns.read_pairs(table)
    names = sorted_ids({*left, *right})
    pairs = positions([*left, *right], names).reshape(2, -1).T
    return columns, names, np.ascontiguousarray(pairs), _numbers(table[score], score), score


def _numbered_by_database(
    edges: Any, id_columns: tuple[str, str] | None, score_column: str | None, with_tables: bool
) -> _Numbered:
    """Number the ids of a Parquet file or a DuckDB relation by SQL, without a Python object per row."""
    with open_pairs(edges) as relation:
        source = DatabasePairs(relation, id_columns, score_column, with_tables)
        ids = relation.query("pairs", f"select * exclude number from ({source.numbers}) order by number").fetchnumpy()
        numbered = relation.query("pairs", source.numbered(f"{source.score}::double")).fetchnumpy()
    columns = [values.tolist() for values in ids.values()]
    names = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    pairs = np.column_stack([numbered["a"], numbered["b"]]).astype(np.int64)
    scores = np.asarray(numbered["value"], dtype=np.float64)
    return source.columns, names, pairs, _check_finite(scores, source.score_name), source.score_name


def log_odds_expression(relation: Any, score: str, name: str, scale: str) -> str:
    """Return the SQL expression that turns the quoted column `score` into log odds; raise for invalid scores."""
    check_choice(scale, SCALES, "scale")
    smallest, largest, n_bad = relation.query(
        "pairs",
        f"select min({score}), max({score}), count(*) filter (not isfinite({score}::double)) from pairs",
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


def sorted_ids(ids: set[Any]) -> list[Any]:
    """Return the ids in ascending order; ids of different types are ordered by their text."""
    if None in ids:
        raise InvalidInputError("an id is missing. Pass an id for every record.")
    try:
        return sorted(ids)
    except TypeError:
        return sorted(ids, key=str)


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
