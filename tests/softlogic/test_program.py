"""Programs built in Python: predicates, tables of every kind, rules, and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import Program, ground, read_rule
from intarsia.softlogic.grounding.tables import ConstantTable, row_keys

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


def test_values_are_1_without_a_column_of_values():
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
        ([("a", "b", 1.5)], r"Program.observe\(Knows\), row 0: the value 1.5 is outside \[0, 1\]"),
        ([("a", "b"), ("a", "c", -0.1)], r"row 1: the value -0.1 is outside"),
        ([("a", "b", float("nan"))], r"row 0: the value is missing"),
        ([("a", "b", "high")], r"row 0: expected a value in \[0, 1\] after 2 arguments, got 'high'"),
        ([("a", "b"), ("a",)], r"row 1: 1 entries; expected 2 arguments and optionally a value in"),
        (pd.DataFrame({"a": ["x"]}), "the table has 1 columns; expected 2"),
        (pd.DataFrame({"a": ["x", None], "b": ["y", "z"]}), "row 1: a constant must be a string or an integer, got .*"),
        (
            pl.DataFrame({"a": ["x", None], "b": ["y", "z"]}),
            "row 1: a constant must be a string or an integer, got None",
        ),
        ({"a": ["x"], "b": np.array([0.5])}, "row 0: a constant must be a string or an integer, got 0.5"),
        ({"a": ["x"], "b": [True]}, "row 0: a constant must be a string or an integer, got True"),
        ({"a": ["x"], "b": ["y", "z"]}, "column 'a' has 1 values, but 'b' has 2"),
        ({("a", "b"): 0.5}, r"column \('a', 'b'\) is 0.5, expected a list with one entry per row"),
        ({"a": "xy", "b": "yz"}, "column 'a' is 'xy', expected a list"),
        ([None], "row 0: 1 entries; expected 2 arguments"),
        (7, "expected a data frame .*, or a list of rows, got int"),
    ],
)
def test_bad_tables(table, message):
    program = knows()
    with pytest.raises(InvalidInputError, match=message):
        program.observe("Knows", table)
    assert program.n_atoms("observed") == 0


def test_error_on_an_unknown_predicate_suggests_the_nearest():
    program = knows().predicate("Likes", 2)
    with pytest.raises(InvalidInputError, match=r"'Knosw' is not known. Known: 'Knows', 'Likes'. Did you mean 'Knows'"):
        program.rule("1: Knosw(A, B) -> Likes(A, B)")
    with pytest.raises(InvalidInputError, match="Did you mean 'Likes'"):
        program.observe("Like", [("a", "b")])
    with pytest.raises(InvalidInputError, match=r"Knows\(A\) has 1 arguments, but Knows is declared with 2"):
        program.rule("1: Knows(A) -> Likes(A, A)")
    with pytest.raises(InvalidInputError, match="'Knos' is not known"):
        program.rule("1: Knows(A, +B) <= 1 {B: Knos(A, B)}")
    assert program.rules == []


@pytest.mark.parametrize("name", ['x"; drop table t0', "", "two words", "1st", "a-b", "p(", None, "x\n"])
def test_invalid_names_raise(name):
    program = Program()
    with pytest.raises(InvalidInputError, match="a name must consist of letters, digits"):
        program.predicate(name, 1)
    assert program.predicates == []


def test_sql_keywords_are_valid_names():
    program = Program()
    for name in ("select", "t0", "atom", "groups", "ranks", "given"):
        program.predicate(name, 1).target(name, ["x"]).rule(f"1: !{name}(X)")
    assert ground(program).mrf.n_terms == 6


def test_a_predicate_is_declared_once():
    with pytest.raises(InvalidInputError, match="already declared as Knows with 2 arguments"):
        knows().predicate("KNOWS", 3)
    assert len(knows().predicate("Knows", 2).predicates) == 1


def test_targets_of_closed_predicates_raise():
    with pytest.raises(InvalidInputError, match="P is closed, so it cannot have target atoms"):
        Program().predicate("P", 1, closed=True).target("P", ["x"])


def test_bad_arity():
    with pytest.raises(InvalidInputError, match=r"predicate P: n_arguments must be an integer in \[1, 100\]"):
        Program().predicate("P", 0)


def test_error_on_an_unknown_atom_names_it():
    atoms = ground(Program().predicate("P", 1).target("P", ["x"])).atoms
    with pytest.raises(InvalidInputError, match=r"P\('y'\) is neither a target nor latent.*for instance P\('x'\)"):
        atoms.find("P", "y")
    with pytest.raises(InvalidInputError, match="variable must be at least 0 and less than 1, got 1"):
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
    assert table.ranks(by_number=True).tolist() == [1, 2, 0]
    table.numbers(["10", "2", "-1", "2b"], "x")
    assert [table.names[k] for k in np.argsort(table.ranks(by_number=True))] == ["-1", "2", "10", "2b", "a", "b", "c"]
    assert [table.names[k] for k in np.argsort(table.ranks(by_number=False))] == ["-1", "10", "2", "2b", "a", "b", "c"]
    # A constant that is not in the data is ranked between the others.
    assert [table.rank(name, by_number=True) for name in ("2", "9", "10", "bb", "9" * 5000)] == [1, 1.5, 2, 5.5, 3.5]


# ---------------------------------------------------------------- duplicate rules, dialects, rule files


@pytest.mark.parametrize("dialect", ["plain", "psl"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1: P(X) -> Q(X)", "2: P(X) -> Q(X)"),
        ("1: P(X) -> Q(X)", "2: !q(X) -> !p(X)"),
        ("1: P(X) & Q(X) -> R(X, X)", "1: !R(X, X) & Q(X) -> !P(X)"),
        ("P(X) -> Q(X) .", "Q(X) | !P(X) ."),
        ("1: P(X) <= Q(X)", "2: P(X) - Q(X) <= 0"),
        ("P(X) = 0.5 .", "P(X) = 0.25 + 0.25 ."),
        ("1: P(+X) <= 1 ^2 {X: C(X) & D(X)}", "3: P(+X) <= 1 ^2 {X: D(X) & C(X)}"),
    ],
)
def test_equal_rules_count_once_as_in_psl(dialect, first, second):
    """PSL keeps the first rule and logs a warning for each of these pairs."""
    program = rules_program(dialect).rule(first)
    with pytest.warns(UserWarning, match="is already in the program as .* and counts once"):
        program.rule(second)
    assert [rule.text for rule in program.rules] == [first]
    assert "counts once" in program.notes[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1: P(X) -> Q(X)", "1: P(X) -> Q(X) ^2"),
        ("1: P(X) -> Q(X)", "P(X) -> Q(X) ."),
        ("1: P(X) -> Q(X)", "1: P(Y) -> Q(Y)"),
        ("1: P(X) + Q(X) <= 1", "1: Q(X) + P(X) <= 1"),
        ("1: P(X) = Q(X)", "1: Q(X) = P(X)"),
        ("1: P(+X) <= 1 {X: C(X)}", "1: P(+X) <= 1"),
        ("1: P(A) & Q(B) & (A != B) -> R(A, B)", "1: P(A) & Q(B) & (B != A) -> R(A, B)"),
    ],
)
def test_rules_that_differ_in_psl_both_count(first, second):
    """PSL adds both rules of each of these pairs."""
    assert len(rules_program("psl").rule(first).rule(second).rules) == 2


def rules_program(dialect="plain"):
    program = Program(dialect=dialect)
    for name in "PQCD":
        program.predicate(name, 1)
    return program.predicate("R", 2)


def test_the_weight_of_an_equal_rule_is_that_of_the_first():
    program = rules_program().target("P", ["a"]).rule("1: P(X) = 1")
    with pytest.warns(UserWarning, match="with weight 1, as in PSL"):
        program.rule("7: P(X) = 1")
    assert ground(program).mrf.weight.tolist() == [1.0]


def test_psl_dialect_splits_a_filter_with_alternatives():
    text = "1: R(X, +Y) >= 1 ^2 {Y: C(Y) | D(Y) & (Y != 'a')}"
    assert [rule.text for rule in rules_program().rule(text).rules] == [text]
    assert [rule.text for rule in rules_program("psl").rule(text).rules] == [
        "1: R(X, +Y) >= 1 ^2 {Y: (C(Y))}",
        "1: R(X, +Y) >= 1 ^2 {Y: (D(Y) & (Y != 'a'))}",
    ]
    for rule in rules_program("psl").rule(text).rules:
        assert read_rule(rule.text, dialect="psl") == rule


def test_too_many_alternatives_raise():
    condition = " & ".join("(C(Y) | D(Y) | (Y != 'a'))" for _ in range(10))
    with pytest.raises(InvalidInputError, match="more than 1000"):
        rules_program("psl").rule(f"1: R(X, +Y) >= 1 {{Y: {condition}}}")


def test_unknown_dialect():
    with pytest.raises(InvalidInputError, match=r"Program: dialect='PSL' is not known\. Known: 'plain', 'psl'"):
        Program(dialect="PSL")
    with pytest.raises(InvalidInputError, match="dialect='prolog' is not known"):
        read_rule("1: !P(X)", dialect="prolog")


def test_the_dialect_is_shown_and_cannot_change():
    assert repr(Program(dialect="psl")).endswith("0 targets, dialect='psl')")
    assert "dialect" not in repr(Program())
    assert rules_program("psl").without_data().dialect == "psl"


def test_types_of_arguments():
    program = Program().predicate("P", 2, types=["UniqueIntID", "String"])
    assert program.predicates[0].types == ("UniqueIntID", "String")
    with pytest.raises(InvalidInputError, match=r"types=\['String'\], expected a list of 2 type names"):
        Program().predicate("P", 2, types=["String"])
    with pytest.raises(InvalidInputError, match="predicate P: type='Int' is not known"):
        Program().predicate("P", 1, types=["Int"])


RULE_FILE = """
// Friends of chess know each other.
2.5: R(A, X) & R(B, X)
     && (A != B) -> R(A, B) ^2
# at most half
1: P(X)
   + Q(X) <= 2
P(X) -> /* here
too */ Q(X) .
1: !P(X)
Q(X) = 0.5 .
"""


def test_rules_from_a_file(tmp_path):
    file = tmp_path / "rules.psl"
    file.write_text(RULE_FILE, encoding="utf-8-sig")
    program = rules_program("psl").rules_from(file)
    # PSL reads the same number of rules from the file, with these weights.
    assert [rule.weight for rule in program.rules] == [2.5, 1.0, None, 1.0, None]
    assert rules_program().rules_from(str(file)).rules[1].text == "1: P(X)\n   + Q(X) <= 2"


def test_a_rule_file_is_added_completely_or_not_at_all(tmp_path):
    file = tmp_path / "rules.psl"
    program = rules_program()
    file.write_text("1: !P(X)\n1: P(X) ->\n")
    with pytest.raises(InvalidInputError, match=r"^rules\.psl, line 2, column 11: expected a predicate"):
        program.rules_from(file)
    file.write_text("1: !P(X)\n1: !Nobody(X)\n")
    with pytest.raises(InvalidInputError, match=r"^rules\.psl '1: !Nobody\(X\)': predicate='Nobody' is not known"):
        program.rules_from(file)
    file.write_text("// nothing\n")
    with pytest.raises(InvalidInputError, match=r"rules\.psl: the file has no rules"):
        program.rules_from(file)
    file.write_bytes(b"1: !P('\xff')")
    with pytest.raises(InvalidInputError, match=r"rules\.psl: byte 8 is not valid UTF-8"):
        program.rules_from(file)
    with pytest.raises(InvalidInputError, match=r"the file .*nowhere.* does not exist"):
        program.rules_from(tmp_path / "nowhere.psl")
    assert program.rules == []


def test_warning_on_a_duplicate_rule_names_the_file(tmp_path):
    file = tmp_path / "rules.psl"
    file.write_text("1: !P(X)\n2: !P(X)\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = rules_program().rules_from(file)
    assert len(program.rules) == 1
    assert str(caught[0].message).startswith("rules.psl '2: !P(X)' is already in the program")
