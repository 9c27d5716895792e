"""Must-links, cannot-links and sources of records, read by id; contradictions are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.validation import IntArray
from intarsia._files.tables import TABLES, read_columns
from intarsia.clusters.components import Links, checked_links
from intarsia.clusters.resolution.pair_columns import PairColumns, in_type_of, plain_list
from intarsia.clusters.resolution.scored_pairs import ScoredPairs
from intarsia.clusters.tables import check_id
from intarsia.exceptions import InvalidInputError

_SOURCE_COLUMNS = ("source", "source_dataset", "dataset", "table")


def read_links(records: ScoredPairs, must: Sequence[Any], cannot: Sequence[Any], source: Any) -> Links:
    """Read constraints by id; raise for unknown ids and for contradictions.

    Examples
    --------
    >>> abc = ScoredPairs(["a", "b", "c"], np.empty((0, 2), int), np.empty(0), None, "log_odds", 0)
    >>> read_links(abc, [("a", "c")], [], {"a": 1, "b": 1}).source.tolist()
    [0, 0, -1]
    >>> read_links(abc, [("a", "b"), ("b", "c")], [("a", "c")], None)
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: 'a' and 'c' must not be together, but must-links join them. Drop one of \
the links.
    """
    if not len(must) and not len(cannot) and source is None:
        none = np.empty((0, 2), dtype=np.int64)
        return Links(none, none, None)
    ids = records.ids
    number = {name: k for k, name in enumerate(ids)}
    must_pairs, cannot_pairs = (
        _numbered(number, pairs, name) for pairs, name in ((must, "must_link"), (cannot, "cannot_link"))
    )
    n = len(ids)
    if source is None:
        return checked_links(n, must_pairs, cannot_pairs, None, ids.__getitem__, str)
    codes, names = _source_codes(number, source, records.columns)
    return checked_links(n, must_pairs, cannot_pairs, codes, ids.__getitem__, lambda record: names[codes[record]])


def _numbered(number: dict[Any, int], pairs: Sequence[Any], name: str) -> IntArray:
    """Return pairs of ids as numbers of records."""
    ends = np.empty((len(pairs), 2), dtype=np.int64)
    first_ids = list(islice(number, 1))  # ids are in ascending order, hence of one type
    for row, pair in enumerate(pairs):
        values = tuple(pair)
        for value in values:
            check_id(value, f"{name}, row {row}")
        if len(values) != 2 or values[0] == values[1]:
            raise InvalidInputError(
                f"{name}, row {row}: {pair!r:.60}; expected the ids of two different records. Correct it."
            )
        if values[0] not in number or values[1] not in number:  # cells of a CSV file are strings
            values = tuple(in_type_of(list(values), first_ids))
        for side, value in enumerate(values):
            if value not in number:
                raise InvalidInputError(
                    f"{name}, row {row}: there is no record with id {value!r:.60}. Use ids of the pairs, or pass all "
                    f"ids with ids=."
                )
            ends[row, side] = number[value]
    return ends


def _source_codes(number: dict[Any, int], source: Any, id_columns: PairColumns) -> tuple[IntArray, list[Any]]:
    """Return the number of each record's source, -1 where it is unknown, and the names of the sources."""
    if isinstance(source, Mapping) and not set(_SOURCE_COLUMNS) & set(source):
        items = list(source.items())
    else:
        with errors_in("source"):
            columns = read_columns(source)
        names = [] if columns is None else [str(name) for name in columns]
        if columns is None or len(names) < 2:
            raise InvalidInputError(
                f"source is of type {type(source).__name__}. Pass a dict id -> source, or {TABLES}."
            )
        with errors_in("source"):
            ids = id_columns.read_records(columns)
        source_name = next((name for name in _SOURCE_COLUMNS if name in names), names[1])
        items = list(zip(ids, plain_list(columns[source_name]), strict=True))
    codes, code_of = np.full(len(number), -1, dtype=np.int64), dict[Any, int]()
    names_in_type = in_type_of([name for name, _ in items], number)
    if items and number and not set(names_in_type) & set(number):
        raise InvalidInputError(
            f"source has no id of the pairs: it has {names_in_type[0]!r:.60}, they have {next(iter(number))!r:.60}. "
            f"Use the same ids."
        )
    for name, (_, value) in zip(names_in_type, items, strict=True):
        if name in number and value is not None:
            codes[number[name]] = code_of.setdefault(value, len(code_of))
    return codes, list(code_of)
