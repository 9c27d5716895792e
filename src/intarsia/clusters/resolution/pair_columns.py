"""Columns of a table of pairs: the ids of both records, and the tables that they come from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError

SOURCE = "source_dataset"  # Splink's column with the table of a record
LINK_ONLY = "link_only"  # column of labelled components: whether no pair of the whole table is within one table
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
_ENDINGS = (("_l", "_r"), ("_left", "_right"), ("_1", "_2"), ("_a", "_b"), ("_x", "_y"))
_NUMBERED = ("1", "2")  # endings of ids only: address1 and address2 belong to one record
_WHOLE_NAMES = (("left", "right"), ("left_id", "right_id"), ("a", "b"))
_USUAL_IDS = ("unique_id", "id", "record_id")
_ID = re.compile(r"(?:^|[\W_])(?i:u?u?id|guid|pk|key|record)$|[a-z](?:Id|ID|Key)$")
_SCORE = re.compile(r"(?i)(weight|probability|prob|score|odds|confidence|similarity|distance)$|^(gamma|mw|bf|tf)_")
_NUMBER = re.compile(r"(?i)[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)")
_OTHER_ROLES = ("match_key", "component", LINK_ONLY)
_OF_RESULTS = ("entity", "score", "bound", "confidence", "n_effective")
JOINT = "-__-"  # between the table and the id in the name of an entity, as Splink writes it
_LONGEST_INTEGER = 18  # digits that every database stores


@dataclass(frozen=True)
class PairColumns:
    """Names of the columns with the ids of the two records of a pair; with a table of each, that column comes first.

    Examples
    --------
    >>> PairColumns(("cust_id_l",), ("cust_id_r",)).record
    ('cust_id',)
    """

    left: tuple[str, ...] = ("id1",)
    right: tuple[str, ...] = ("id2",)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those of the left record first."""
        return self.left + self.right

    @property
    def record(self) -> tuple[str, ...]:
        """Names of the same columns in a table of records."""
        stems = (_stem(*pair) for pair in zip(self.left, self.right, strict=True))
        return tuple("id" if stem in ("", *_OF_RESULTS) else stem for stem in stems)

    @property
    def has_tables(self) -> bool:
        """Whether a record is named by its table and its id."""
        return len(self.left) == 2

    def entity_names(self, ids: Sequence[Any]) -> list[Any]:
        """Return the names of entities, which are those of their first record: one value, also with tables."""
        if not self.has_tables:
            return list(ids)
        names = [f"{table}{JOINT}{name}" for table, name in ids]
        if len(set(names)) < len(names):
            raise InvalidInputError(
                f"two records have the same name with {JOINT!r} between table and id. Rename a table."
            )
        return names

    def record_columns(self, ids: Sequence[Any]) -> dict[str, list[Any]]:
        """Return ids as columns of a table of records."""
        return _as_columns(self.record, ids)

    def pair_columns(self, left: Sequence[Any], right: Sequence[Any]) -> dict[str, list[Any]]:
        """Return ids of pairs as columns of a table of pairs."""
        return _as_columns(self.left, left) | _as_columns(self.right, right)

    def read_pairs(self, columns: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Return the ids of the left and of the right records; ids of a column have one type."""
        parts = []
        for names in zip(self.left, self.right, strict=True):
            values = []
            for name in names:
                values += _present(plain_list(columns[name]), name)
            parts.append(one_type(values))
        ids = parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))
        return ids[: len(ids) // 2], ids[len(ids) // 2 :]

    def record_names(self, columns: Mapping[str, Any], id_column: str | None = None) -> list[str]:
        """Return the columns of ids of a table of records: the same names, a usual name or the first column."""
        *tables, own_name = self.record
        candidates = [name for name in (id_column, own_name, *_USUAL_IDS, *columns) if name and name not in tables]
        name = next((name for name in candidates if name in columns), None)
        if name is None or not set(tables) <= set(columns):
            raise InvalidInputError(
                f"the table has columns {list(columns)[:6]}, but the pairs name a record by "
                f"{' and '.join(self.record)}. Add these columns."
            )
        return [*tables, name]

    def read_records(self, columns: Mapping[str, Any], id_column: str | None = None) -> list[Any]:
        """Return the ids of a table of records."""
        parts = [one_type(plain_list(columns[name])) for name in self.record_names(columns, id_column)]
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def choose_columns(
    kinds: dict[str, str], id_columns: tuple[str, str] | None, score_column: str | None, with_tables: bool = True
) -> tuple[PairColumns, str]:
    """Return the columns of ids and the score column; `kinds` has the kind of each column."""
    columns = choose_pair_columns(kinds, id_columns, [score_column], with_tables=with_tables)
    if score_column is not None:
        return columns, check_choice(score_column, kinds, "column")
    score = next((name for name in SCORE_COLUMNS if name in kinds), None)
    if score is None:
        others = [name for name, kind in kinds.items() if kind != "text" and name not in columns.names]
        if len(others) != 1:
            raise InvalidInputError(
                f"the table has {len(others)} columns of numbers besides the ids, {others[:6]}. Name the score with "
                f"score_column=."
            )
        score = others[0]
    return columns, score


def choose_pair_columns(
    columns: Mapping[str, str],
    id_columns: tuple[str, str] | None = None,
    others: Collection[str | None] = (),
    *,
    with_tables: bool = True,
) -> PairColumns:
    """Return the columns with the ids of a table of pairs; raise if they are not clear.

    A usual name comes first, then the only pair of names X_l and X_r that ends in "id" or "key", then the only pair,
    then the only two columns that are no scores. Floats and scores are never ids.

    Parameters
    ----------
    columns : dict of str -> str
        Kind of each column, see `kind_of_column`.
    id_columns : pair of str, optional
        Names of the id columns.
    others : collection of str
        Columns with another meaning.
    with_tables : bool
        Whether `source_dataset_l` and `source_dataset_r` are part of the ids.

    Examples
    --------
    >>> choose_pair_columns({"match_weight": "measure", "cust_id_l": "integer", "cust_id_r": "integer"}).names
    ('cust_id_l', 'cust_id_r')
    """
    sources = tuple(name for name in (f"{SOURCE}_l", f"{SOURCE}_r") if name in columns)
    if len(sources) == 1:
        raise InvalidInputError(f"the table has {sources[0]!r} alone. Add the column of the other record, or drop it.")
    if id_columns is None:
        ends = _recognised_pair(columns, {*others, *sources})
    elif isinstance(id_columns, str) or len(id_columns) != 2:
        raise InvalidInputError(f"id_columns is {id_columns!r}; expected the names of two columns. Pass a pair.")
    else:
        ends = (check_choice(id_columns[0], columns, "column"), check_choice(id_columns[1], columns, "column"))
    tables = sources if with_tables else ()
    return PairColumns((*tables[:1], ends[0]), (*tables[1:], ends[1]))


def _recognised_pair(columns: Mapping[str, str], others: Collection[str | None]) -> tuple[str, str]:
    """Return the two columns of ids; raise with the names that are missing or ambiguous."""
    compared = {name.removeprefix("gamma_") for name in columns if name.startswith("gamma_")} - set(_USUAL_IDS)
    others = {*others, *_OTHER_ROLES, *(stem + end for stem in compared for end in _ENDINGS[0])}  # compared by Splink
    free = [name for name in columns if name not in others]
    pairs = [pair for pair in _pairs(free) if not _SCORE.search(_stem(*pair))]
    plausible = [name for name in free if columns[name] != "measure" and not _SCORE.search(name)]
    ranked: dict[int, list[tuple[str, str]]] = {}
    for pair in pairs:
        if set(pair) <= set(plausible):
            ranked.setdefault(_rank(_stem(*pair)), []).append(pair)
    rank = min(ranked, default=_OTHER)
    best = ranked.get(rank, [])
    if rank not in (_LIKE_AN_ID, _OTHER) or (len(best) == 1 and (rank == _LIKE_AN_ID or len(plausible) < 4)):
        return best[0]
    texts = [name for name in plausible if columns[name] == "text"]
    for names in (plausible, texts):
        if not best and len(names) == 2:
            return names[0], names[1]
    raise InvalidInputError(f"{_unclear_ids(free, pairs, best)}. Pass the names of both columns as id_columns=.")


_LIKE_AN_ID, _WHOLE, _OTHER = range(len(_USUAL_IDS), len(_USUAL_IDS) + 3)


def _rank(stem: str) -> int:
    """Return the rank of the common part of two names: usual names of ids, others like an id, whole names, others."""
    if stem in _USUAL_IDS:
        return _USUAL_IDS.index(stem)
    return _WHOLE if not stem else _LIKE_AN_ID if _ID.search(stem) else _OTHER


def _unclear_ids(free: Sequence[str], pairs: Sequence[tuple[str, str]], best: Sequence[tuple[str, str]]) -> str:
    """Return the sentence that says which two columns of ids a table lacks."""
    if len(best) > 1:
        return f"the ids could be {' or '.join(f'{left!r}, {right!r}' for left, right in best[:4])}"
    for left, right in pairs:
        return f"{left!r} and {right!r} are not clearly ids: they hold floats or attributes, or others could be ids"
    for name in free:
        for first, second in (*_ENDINGS, *(ends[::-1] for ends in _ENDINGS)):
            stem = name.removesuffix(first)
            if stem != name and not _SCORE.search(stem):
                return f"the table has {name!r} but no {stem + second!r}; expected both"
    return f"the table has columns {list(free)[:8]}; expected two ids, such as 'unique_id_l' and 'unique_id_r'"


def _pairs(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield the pairs of names that differ in their endings."""
    distinct = dict.fromkeys(names)
    for first, second in _ENDINGS:
        for name in distinct:
            stem = name.removesuffix(first)
            if stem not in ("", name) and stem + second in distinct:
                yield name, stem + second
    for name in distinct:
        stem = name.removesuffix(_NUMBERED[0])
        if stem != name and _ID.search(stem) and stem + _NUMBERED[1] in distinct:
            yield name, stem + _NUMBERED[1]
    yield from (pair for pair in _WHOLE_NAMES if set(pair) <= set(distinct))


def _stem(left: str, right: str) -> str:
    """Return what the names of two columns have in common before their endings; empty if there is nothing."""
    for first, second in (*_ENDINGS, _NUMBERED):
        stem = left.removesuffix(first)
        if stem != left and right == stem + second:
            return stem
    return ""


def kind_of_column(values: Any) -> str:
    """Return "integer", "measure" (floats, booleans) or "text" for a column; strings of numbers are numbers.

    Examples
    --------
    >>> kind_of_column(np.array([0.5])), kind_of_column(["1", "2"]), kind_of_column(["a"])
    ('measure', 'integer', 'text')
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        return "integer" if values.dtype.kind in "iu" else "measure"
    kinds = {_kind_of_value(value) for value in values[:100] if value is not None}
    return next((kind for kind in ("text", "measure", "integer") if kind in kinds), "text")


def _kind_of_value(value: Any) -> str:
    """Return the kind of a value; strings of digits with a leading zero are text."""
    if isinstance(value, str):
        is_measure = _NUMBER.fullmatch(value) and not value.isdigit()
        return "integer" if is_integer_text(value) else "measure" if is_measure else "text"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return "integer"
    return "measure" if hasattr(value, "__float__") else "text"


def plain_list(values: Any) -> list[Any]:
    """Return a column as a list of Python objects."""
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    return [value.item() if hasattr(value, "item") else value for value in values]


def _present(values: list[Any], name: str) -> list[Any]:
    """Return the values; raise for the first that is missing."""
    missing = next((row for row, value in enumerate(values) if value is None or value != value), None)
    if missing is not None:
        raise InvalidInputError(f"row {missing}: the id in column {name!r} is missing. Remove the row.")
    return values


def one_type(ids: list[Any]) -> list[Any]:
    """Return ids with integers and their strings as one type: as integers if all are, otherwise as strings.

    Examples
    --------
    >>> one_type([2, "2", "30"]), one_type([2, "2", "x"]), one_type(["007", 7])
    ([2, 2, 30], ['2', '2', 'x'], ['007', '7'])
    """
    if set(map(type, ids)) != {int, str}:
        return ids
    if all(is_integer_text(name) for name in ids if isinstance(name, str)):
        return [int(name) for name in ids]
    return [str(name) for name in ids]


def in_type_of(ids: list[Any], others: Collection[Any]) -> list[Any]:
    """Return ids in the type of other ids, if one kind is integers and the other their text, as in a CSV file.

    Examples
    --------
    >>> in_type_of(["1", "20"], [1, 3]), in_type_of([1, 20], ["x"]), in_type_of(["1", "007"], [1, 7])
    ([1, 20], ['1', '20'], ['1', '007'])
    >>> in_type_of([("shop", "1")], [("shop", 3)])
    [('shop', 1)]
    """
    types, other_types = set(map(type, ids)), set(map(type, others))
    if types == other_types == {tuple} and len({*map(len, ids), *map(len, others)}) == 1:
        columns = zip(zip(*ids, strict=True), zip(*others, strict=True), strict=True)
        return list(zip(*(in_type_of(list(column), other) for column, other in columns), strict=True))
    if not types <= {int, str}:
        return ids
    if other_types == {int} and all(is_integer_text(name) for name in ids if isinstance(name, str)):
        return [int(name) for name in ids]
    return [str(name) for name in ids] if other_types == {str} else ids


def is_integer_text(text: str) -> bool:
    """Return whether a string is an integer as `str` writes it, without leading zeros and signs."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_INTEGER and str(int(text)) == text


def _as_columns(names: tuple[str, ...], ids: Sequence[Any]) -> dict[str, list[Any]]:
    """Return ids as columns with these names."""
    if len(names) == 1:
        return {names[0]: list(ids)}
    return {name: [values[k] for values in ids] for k, name in enumerate(names)}
