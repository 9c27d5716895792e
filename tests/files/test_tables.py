"""Every kind of table is read, and results are returned in the kind of the input."""

from __future__ import annotations

import datetime
import gzip

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia._files.tables import TableKind, read_columns, table_kind, write_table
from intarsia.clusters import EntityClusterer
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.softlogic import Program, SoftLogic

COLUMNS = {"name": ["Ann", None, "Bob"], "age": [3, 4, 5], "height": [1.5, 2.5, 2.0]}


def relation(columns, con=None):
    """Return a relation of a new connection, filled by SQL instead of the writer under test."""
    con = duckdb.connect() if con is None else con
    rows = [tuple(row) for row in zip(*columns.values(), strict=True)]
    kinds = {str: "varchar", int: "bigint", float: "double", datetime.date: "date"}
    fields = [f'"{name}" {kinds[type(next(v for v in values if v is not None))]}' for name, values in columns.items()]
    con.execute(f"create or replace table made ({', '.join(fields)})")
    con.executemany(f"insert into made values ({', '.join('?' * len(columns))})", rows)
    return con.sql("select * from made")


def arrow(columns):
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed").table(columns)


KINDS = {
    "pandas": (pd.DataFrame, pd.DataFrame, lambda t: t.to_dict("list")),
    "polars": (pl.DataFrame, pl.DataFrame, lambda t: t.to_dict(as_series=False)),
    "lazy": (pl.LazyFrame, pl.LazyFrame, lambda t: t.collect().to_dict(as_series=False)),
    "relation": (
        relation,
        duckdb.DuckDBPyRelation,
        lambda t: dict(zip(t.columns, map(list, zip(*t.fetchall(), strict=True)), strict=True)),
    ),
    "arrow": (arrow, None, lambda t: t.to_pydict()),
}


def plain(columns):
    return {name: list(values) for name, values in columns.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_is_read_and_written(kind):
    make, cls, back = KINDS[kind]
    table = make(COLUMNS)
    found = read_columns(table)
    assert plain(found) == COLUMNS
    assert isinstance(found["age"], np.ndarray)
    written = write_table({"id": ["a", "b"], "share": np.array([0.5, 0.25])}, table_kind(table))
    assert isinstance(written, cls or type(table))
    assert back(written) == {"id": ["a", "b"], "share": [0.5, 0.25]}


def test_files(tmp_path):
    con = duckdb.connect()
    relation(COLUMNS, con)
    con.execute(f"copy made to '{tmp_path / 'made.parquet'}' (format parquet)")
    con.execute(f"copy made to '{tmp_path / 'made.csv'}' (header)")
    for path in (tmp_path / "made.parquet", str(tmp_path / "made.parquet")):
        assert plain(read_columns(path)) == COLUMNS
        assert table_kind(path) is None
    texts = {name: [None if v is None else str(v) for v in values] for name, values in COLUMNS.items()}
    assert read_columns(tmp_path / "made.csv") == texts
    (tmp_path / "bad.parquet").write_text("nothing")
    with pytest.raises(FileFormatError, match=r"bad\.parquet"):
        read_columns(tmp_path / "bad.parquet")
    with pytest.raises(InvalidInputError, match="there is no file"):
        read_columns("nowhere.parquet")
    with gzip.open(tmp_path / "made.tsv.gz", "wt") as file:
        file.write("name\tage\nAnn\t3\n")
    assert read_columns(str(tmp_path / "made.tsv.gz")) == {"name": ["Ann"], "age": ["3"]}
    (tmp_path / "made.doc").write_text("x")
    with pytest.raises(InvalidInputError, match="unknown file suffix"):
        read_columns(tmp_path / "made.doc")


def test_dates_and_missing_numbers_of_a_relation():
    day = datetime.date(2020, 2, 29)
    columns = read_columns(relation({"day": [day, None], "n": [None, 7], "x": [None, 0.5]}))
    assert columns == {"day": [day, None], "n": [None, 7], "x": [None, 0.5]}


def test_relations_are_written_to_their_connection():
    con = duckdb.connect()
    written = write_table({"age": [3]}, table_kind(relation(COLUMNS, con)))  # noqa: F841
    assert con.sql("select name from made join written using (age)").fetchall() == [("Ann",)]
    assert con.sql("select * from duckdb_views() where not internal").fetchall() == []


def test_duplicate_column_names_raise():
    with pytest.raises(InvalidInputError, match="two columns have the same name"):
        read_columns(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InvalidInputError, match="kind of table"):
        TableKind("PANDA")


@pytest.mark.parametrize("kind", KINDS)
def test_rules_and_records_accept_and_return_every_kind_of_table(kind):
    make, cls, back = KINDS[kind]
    program = Program().predicate("P", 1).rule("3: P(X) = 1 ^2").rule("1: !P(X) ^2").target("P", make({"a": ["x"]}))
    answer = SoftLogic(program).infer().table("P")
    assert isinstance(answer, cls or object)
    assert back(answer) == {"a": ["x"], "value": [pytest.approx(0.75, abs=1e-3)]}
    names = ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"]
    clusterer = EntityClusterer({"name": "jaro_winkler"}, blocking="all_pairs")
    expected = clusterer.fit({"name": names}, [0, 0, 1, 1, 2, 2]).predict_pairs({"name": names}, n_samples=5)
    clusterer.fit(make({"name": names, "who": [0, 0, 1, 1, 2, 2]}), "who")
    pairs = clusterer.predict_pairs(make({"name": names}), n_samples=5)
    assert isinstance(pairs, cls or object)
    assert back(pairs) == expected


def test_invalid_unicode_raises_where_the_table_cannot_hold_it():
    kind = table_kind(pl.DataFrame({"a": [1]}))
    with pytest.raises(InvalidInputError, match=r"cannot hold 'ann .ud800', which is not valid Unicode"):
        write_table({"name": ["ann \ud800"]}, kind)
