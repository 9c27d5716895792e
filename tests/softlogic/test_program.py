"""Programs in Python: predicates, tables of every kind, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import Program, ground
from intarsia.softlogic.constants import ConstantTable
from intarsia.softlogic.tables import row_keys

ROWS = [("ann", 1, 0.5), ("bob", 2, 1.0)]


def knows():
    return Program().predicate("Knows", 2)


@pytest.mark.parametrize(
    "table",
    [
        ROWS,
        pd.DataFrame(ROWS, columns=["who", "whom", "truth"]),
        pd.DataFrame(ROWS, columns=["who", "whom", "truth"]).astype({"who": "category"}),
        pl.DataFrame(ROWS, schema=["who", "whom", "truth"], orient="row"),
        {"who": ["ann", "bob"], "whom": np.array([1, 2]), "truth": [0.5, 1.0]},
        np.array([["ann", "1", 0.5], ["bob", "2", 1.0]], dtype=object),
        {"who": ["ann", "bob"], "whom": np.array([1.0, 2.0]), "truth": np.array([0.5, 1.0])},
    ],
    ids=["rows", "pandas", "categories", "polars", "dict", "array", "whole floats"],
)
def test_tables_of_every_kind(table):
    program = knows().observe("Knows", table)
    (rows,) = program.data("knows", "observed")
    names = program.constants.names
    assert [[names[n] for n in row] for row in rows.arguments] == [["ann", "1"], ["bob", "2"]]
    assert rows.values.tolist() == [0.5, 1.0]


def test_truth_is_one_without_a_column():
    program = knows().observe("KNOWS", pd.DataFrame({"a": ["x"], "b": ["y"]}))
    assert program.data("Knows", "observed")[0].values.tolist() == [1.0]
    program = Program().predicate("Nice", 1).target("Nice", ["x", "y"]).observe("Nice", np.array([7]))
    assert program.n_atoms("target") == 2
    assert "7" in program.constants.names


def test_numbers_in_tables_and_in_rules_are_the_same_constants():
    program = knows().predicate("P", 1).rule("1: Knows(X, '2') -> P(X)")
    program.observe("Knows", pd.DataFrame(ROWS)).target("P", ["ann", "bob"])
    found = ground(program)
    assert found.atoms.name(int(found.mrf.terms.idx[0])) == "P('bob')"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([("a", "b", 1.5)], r"Program.observe\(Knows\), row 0: the truth value 1.5 is outside \[0, 1\]"),
        ([("a", "b"), ("a", "c", -0.1)], r"row 1: the truth value -0.1 is outside"),
        ([("a", "b", float("nan"))], r"row 0: the truth value nan is outside"),
        ([("a", "b", "high")], r"row 0: expected a truth value in \[0, 1\] after 2 arguments, got 'high'"),
        ([("a", "b"), ("a",)], r"row 1: 1 entries; expected 2 arguments and perhaps a truth value"),
        (pd.DataFrame({"a": ["x"]}), "the table has 1 columns; expected 2"),
        (pd.DataFrame({"a": ["x", None], "b": ["y", "z"]}), "row 1: .* names nothing"),
        (pl.DataFrame({"a": ["x", None], "b": ["y", "z"]}), "row 1: None names nothing"),
        ({"a": ["x"], "b": np.array([0.5])}, "row 0: 0.5 names nothing"),
        ({"a": ["x"], "b": [True]}, "row 0: True names nothing"),
        ({"a": ["x"], "b": ["y", "z"]}, "columns have different lengths"),
        ({("a", "b"): 0.5}, r"column \('a', 'b'\) is 0.5, expected a list with an entry for every atom"),
        ({"a": "xy", "b": "yz"}, "column 'a' is 'xy', expected a list"),
        ([None], "row 0: 1 entries; expected 2 arguments"),
        (7, "expected a data frame, a dict of columns or a list of rows, got int"),
    ],
)
def test_bad_tables(table, message):
    program = knows()
    with pytest.raises(InvalidInputError, match=message):
        program.observe("Knows", table)
    assert program.n_atoms("observed") == 0


def test_unknown_predicate_names_the_nearest():
    program = knows().predicate("Likes", 2)
    with pytest.raises(InvalidInputError, match=r"'Knosw' is not known. Known: 'Knows', 'Likes'. Did you mean 'Knows'"):
        program.rule("1: Knosw(A, B) -> Likes(A, B)")
    with pytest.raises(InvalidInputError, match="Did you mean 'Likes'"):
        program.observe("Like", [("a", "b")])
    with pytest.raises(InvalidInputError, match=r"Knows\(A\) has 1 arguments, but Knows was declared with 2"):
        program.rule("1: Knows(A) -> Likes(A, A)")
    with pytest.raises(InvalidInputError, match="'Knos' is not known"):
        program.rule("1: Knows(A, +B) <= 1 {B: Knos(A, B)}")
    assert program.rules == []


@pytest.mark.parametrize("name", ['x"; drop table t0', "", "two words", "1st", "a-b", "p(", None, "x\n"])
def test_hostile_names_are_refused(name):
    program = Program()
    with pytest.raises(InvalidInputError, match="a name consists of letters, digits"):
        program.predicate(name, 1)
    assert program.predicates == []


def test_words_of_the_database_are_names_like_others():
    program = Program()
    for name in ("select", "t0", "atom", "groups", "ranks", "given"):
        program.predicate(name, 1).target(name, ["x"]).rule(f"1: !{name}(X)")
    assert ground(program).mrf.n_terms == 6


def test_a_predicate_is_declared_once():
    with pytest.raises(InvalidInputError, match="already declared with 2 arguments as Knows"):
        knows().predicate("KNOWS", 3)
    assert len(knows().predicate("Knows", 2).predicates) == 1


def test_closed_predicates_have_no_targets():
    with pytest.raises(InvalidInputError, match="P is closed, so it has no target atoms"):
        Program().predicate("P", 1, closed=True).target("P", ["x"])


def test_bad_arity():
    with pytest.raises(InvalidInputError, match="predicate P: n_arguments must be a whole number"):
        Program().predicate("P", 0)


def test_unknown_atoms_are_named():
    atoms = ground(Program().predicate("P", 1).target("P", ["x"])).atoms
    with pytest.raises(InvalidInputError, match=r"P\('y'\) is neither a target nor latent.*for instance P\('x'\)"):
        atoms.find("P", "y")
    with pytest.raises(InvalidInputError, match="there is no variable 1"):
        atoms.atom(1)
    with pytest.raises(InvalidInputError, match="predicate='Q' is not known"):
        atoms.find("Q", "y")


def test_keys_of_long_rows_do_not_overflow():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2**20, (50, 7)).astype(np.int32)
    rows = np.concatenate([rows, rows[:10]])
    keys = row_keys(rows, 2**20)
    equal = (rows[:, None] == rows[None]).all(axis=2)
    np.testing.assert_array_equal(keys[:, None] == keys[None], equal)


def test_order_of_constants():
    table = ConstantTable()
    table.numbers(["b", "c", "a"], "x")
    assert table.ranks().tolist() == [1, 2, 0]
