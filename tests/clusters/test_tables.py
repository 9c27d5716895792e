"""Tables of records from every kind of data frame."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia.clusters.tables import read_table, record_ids
from intarsia.exceptions import InvalidInputError

COLUMNS = {"name": ["Ann", None, "  "], "age": [3, 4, 5], "height": [1.5, float("nan"), 2.0]}
EXPECTED = {"name": ["Ann", None, None], "age": [3, 4, 5], "height": [1.5, None, 2.0]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: COLUMNS,
        lambda: pd.DataFrame(COLUMNS),
        lambda: pd.DataFrame(COLUMNS, index=[7, 7, 9]),
        lambda: pl.DataFrame(COLUMNS),
        lambda: [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
        lambda: {name: np.array(values, dtype=object) for name, values in COLUMNS.items()},
        lambda: {**COLUMNS, "age": np.array([3, 4, 5], dtype=np.uint8), "height": np.array(COLUMNS["height"])},
    ],
)
def test_every_kind_of_table_is_read_alike(make):
    table = read_table(make())
    assert table.columns == EXPECTED
    assert table.n_rows == 3
    assert read_table(table) is table


def test_integers_of_an_array_become_python_integers():
    assert type(read_table({"id": np.array([1, 2])}).columns["id"][0]) is int


def test_missing_values_of_pandas():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None], dtype="Int64"),
            "day": [pd.Timestamp("2001-02-03"), pd.NaT],
            "kind": pd.Categorical(["a", None]),
        }
    )
    columns = read_table(frame).columns
    assert columns["whole"] == [1, None]
    assert columns["day"][0] == datetime.datetime(2001, 2, 3)
    assert [values[1] for values in columns.values()] == [None] * 3


def test_empty_tables():
    assert read_table({}).n_rows == 0
    assert read_table([]).n_rows == 0
    assert read_table(pd.DataFrame({"a": []})).n_rows == 0


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "column 'a' has 2 values, but 'b' has 1"),
        (5, "records are of type int"),
    ],
)
def test_unsupported_tables(records, message):
    with pytest.raises(InvalidInputError, match=message):
        read_table(records)


def test_ids():
    table = read_table(pd.DataFrame({"id": [4, 2], "twice": ["a", "a"], "gap": ["b", None]}))
    assert record_ids(table, None) == [0, 1]
    assert record_ids(table, "id") == [4, 2]
    with pytest.raises(InvalidInputError, match="id 'a' is in row 0 and in row 1"):
        record_ids(table, "twice")
    with pytest.raises(InvalidInputError, match="the id of row 1 is missing"):
        record_ids(table, "gap")
    with pytest.raises(InvalidInputError, match="column='ids' is not known"):
        record_ids(table, "ids")
