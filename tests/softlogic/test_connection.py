"""Programs that read tables of an open DuckDB connection, without copying strings of rows to Python."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import duckdb
import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import Program, SoftLogic, ground

RULE = "1: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2"


@pytest.fixture
def connection():
    con = duckdb.connect()
    con.execute(
        """create table likes as select * from (values ('ann', 7, 1.0), ('b "o" b', 7, 0.8), ('eve', 3, 0.4))"""
    )
    con.execute("create temp table pairs as select * from (values ('ann', 'b \"o\" b'), ('b \"o\" b', 'ann'))")
    con.execute('create view "my pairs" as select col0 as "select", col1 as "b""c" from pairs')
    return con


def declared(**settings):
    return Program(**settings).predicate("Likes", 2).predicate("Knows", 2).rule(RULE).rule("0.1: !Knows(A, B) ^2")


def test_tables_of_a_connection_equal_passed_tables(connection):
    named = declared(connection=connection).observe("Likes", "likes").target("Knows", "my pairs")
    listed = declared().observe("Likes", connection.sql("from likes").fetchall())
    listed.target("Knows", connection.sql("from pairs").fetchall())
    assert set(named.constants.names) == set(listed.constants.names)
    for name, role in (("Likes", "observed"), ("Knows", "target")):
        (mine,), (other,) = named.data(name, role), listed.data(name, role)
        texts = [np.array(p.constants.names)[rows.arguments] for p, rows in ((named, mine), (listed, other))]
        np.testing.assert_array_equal(*texts)
        np.testing.assert_array_equal(mine.values, other.values)
    np.testing.assert_array_equal(ground(named).mrf.weight, ground(listed).mrf.weight)
    answers = SoftLogic(named).infer(), SoftLogic(listed).infer()
    np.testing.assert_allclose(answers[0].x, answers[1].x, atol=1e-6)
    answer = answers[0].table("Knows")  # noqa: F841
    joined = connection.sql('select value from answer join "my pairs" using ("select", "b""c")').fetchall()
    np.testing.assert_allclose(sorted(joined), sorted(answers[0].x[:, None].tolist()))


def test_reading_leaves_no_objects_in_the_connection(connection):
    declared(connection=connection).observe("Likes", "likes")
    names = connection.sql("select table_name from information_schema.tables order by all").fetchall()
    assert names == [("likes",), ("my pairs",), ("pairs",)]


def test_copies_and_empty_programs(connection):
    program = declared(connection=connection).observe("Likes", "likes").target("Knows", "pairs")
    for other in (copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        assert (repr(other), other.connection) == (repr(program), None)
    assert repr(program.without_data().observe("Likes", "likes")).count("3 observed") == 1


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select 1 as a", r"Program.observe\(Likes\): the table has 1 columns; expected 2"),
        ("select 'x' as a, 0.5::double as b", 'column "b" is of type DOUBLE, expected strings or integers'),
        ("from (values ('a', 'b'), ('a', null))", "row 1: a constant must be a string or an integer, got None"),
        ("from (values ('a', 'b', 0.5), ('a', 'c', 1.5))", r"row 1: the value 1.5 is outside"),
        ("from (values ('a', 'b', 0.5), ('a', 'c', null))", r"row 1: the value is missing"),
        ("from (values ('a', 'b', 'high'))", "row 0: expected a value .*, got 'high'"),
        (None, r"Program.observe\(Likes\): the connection has no table or view 'bad'"),
    ],
)
def test_bad_tables(connection, sql, message):
    if sql is not None:
        connection.execute(f"create table bad as {sql}")
    with pytest.raises(InvalidInputError, match=message):
        declared(connection=connection).observe("Likes", "bad")


def test_a_closed_connection_raises(connection):
    program = declared(connection=connection)
    connection.close()
    with pytest.raises(InvalidInputError, match="DuckDB cannot read 'likes'"):
        program.observe("Likes", "likes")


def test_objects_that_are_not_connections_raise():
    with pytest.raises(InvalidInputError, match="connection must be a DuckDB connection, got str"):
        Program(connection="file.db")
    with pytest.raises(InvalidInputError, match="got str"):
        declared().observe("Likes", "likes")


def test_a_million_rows_are_copied_as_integers():
    con = duckdb.connect()
    con.execute(
        "create table likes as select 'somebody with number ' || (i % 1000) as who, "
        "'something with number ' || (i // 1000) as what, (i % 11) / 10.0 as truth from range(1000000) t(i)"
    )
    tracemalloc.start()
    program = declared(connection=con).observe("Likes", "likes")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (rows,) = program.data("Likes", "observed")
    assert len(rows) == 1_000_000
    assert len(program.constants) == 2000
    assert peak < 64e6  # as Python strings the rows alone need more than 140 MB
    at = 123_456
    assert [program.constants.names[k] for k in rows.arguments[at]] == [
        "somebody with number 456", "something with number 123",
    ]  # fmt: skip
    assert rows.values[at] == pytest.approx(at % 11 / 10)
