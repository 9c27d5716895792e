"""Parsing of the rule language, and error messages for malformed rules."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import read_rule, read_rules
from intarsia.softlogic.language.syntax import DIALECTS, ArithmeticRule, Constant, LogicalRule


def clause(text):
    return [str(literal) for literal in read_rule(text).literals]


def linear(text):
    rule = read_rule(text)
    return [(str(c), str(a)) for c, a in rule.terms], str(rule.constant), rule.relation


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ("1: A(X) & B(X) -> C(X)", ["!A(X)", "!B(X)", "C(X)"]),
        ("1: A(X) && B(X) >> C(X)", ["!A(X)", "!B(X)", "C(X)"]),
        ("1: C(X) <- A(X) & B(X)", ["!A(X)", "!B(X)", "C(X)"]),
        ("1: C(X) << (A(X) & (B(X)))", ["!A(X)", "!B(X)", "C(X)"]),
        ("1: A(X) -> B(X) | !C(X)", ["!A(X)", "B(X)", "!C(X)"]),
        ("1: A(X) -> B(X) || ~C(X)", ["!A(X)", "B(X)", "!C(X)"]),
        ("1: A(X) & ~B(X) -> C(X)", ["!A(X)", "B(X)", "C(X)"]),
        ("1: ~A(X)", ["!A(X)"]),
        ("1: !(A(X))", ["!A(X)"]),
        ("1: !A(X) | B(X)", ["!A(X)", "B(X)"]),
        ("1: !!A(X) -> B(X)", ["!A(X)", "B(X)"]),
        ("1: !!!A(X)", ["!A(X)"]),
        ("1: !((A(X)))", ["!A(X)"]),
        ("1: !(~(A(X))) -> ((B(X)))", ["!A(X)", "B(X)"]),
        ("1: A(X) & & B(X) -> C(X) | | D(X)", ["!A(X)", "!B(X)", "C(X)", "D(X)"]),
        ("1: A(X) &\n& B(X) -> C(X)", ["!A(X)", "!B(X)", "C(X)"]),
        ("1: A(X) & B(X) & A(X) -> C(X) | C(X)", ["!A(X)", "!B(X)", "C(X)"]),
        ("1: A(X) -> B(X) | !A(X)", ["!A(X)", "B(X)"]),
        ("1: A(X) & !A(X) -> B(X)", ["!A(X)", "A(X)", "B(X)"]),
        ("1: A(X) & B(Y) & (X ! = Y) -> C(X)", ["!A(X)", "!B(Y)", "!(X != Y)", "C(X)"]),
        ("1: A(X) & B(Y) & X = = Y -> C(X)", ["!A(X)", "!B(Y)", "!(X == Y)", "C(X)"]),
        ("1: A(X) & B(Y) & !(X % Y) -> C(X)", ["!A(X)", "!B(Y)", "(X % Y)", "C(X)"]),
        ("1: A(X) & B(Y) & (X != Y) -> C(X)", ["!A(X)", "!B(Y)", "!(X != Y)", "C(X)"]),
        ("1: A(X) & B(Y) & X ~= Y -> C(X)", ["!A(X)", "!B(Y)", "!(X != Y)", "C(X)"]),
        ("1: A(X) & B(Y) & (X - Y) -> C(X)", ["!A(X)", "!B(Y)", "!(X != Y)", "C(X)"]),
        ("1: A(X) & B(Y) & (X = Y) -> C(X)", ["!A(X)", "!B(Y)", "!(X == Y)", "C(X)"]),
        ("1: A(X) & B(Y) & (X ^ Y) -> C(X)", ["!A(X)", "!B(Y)", "!(X % Y)", "C(X)"]),
        ("1: A('x y', \"it's\")", ["A('x y', 'it\\'s')"]),
        ("1: A('a\\'b\\\\')", ["A('a\\'b\\\\')"]),
        ("1: A('a\\tb\\nc\\rd')", ["A('a\\tb\\nc\\rd')"]),
        ("1: A /* in between */ (X) -> // at the end\n B(X)", ["!A(X)", "B(X)"]),
        ("1: Größe(X) -> B_2$(X)", ["!Größe(X)", "B_2$(X)"]),
    ],
)
def test_logical_rules_are_parsed_to_clauses(text, literals):
    assert clause(text) == literals


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A(X) = 0.5 .", ([("1", "A(X)")], "-0.5", "=")),
        ("A(X) <= B(X) + C(X) .", ([("1", "A(X)"), ("-1", "B(X)"), ("-1", "C(X)")], "0", "<=")),
        ("A(X) >= 3.0 * B(X) - 2.0 C(X) .", ([("1", "A(X)"), ("-3", "B(X)"), ("2", "C(X)")], "0", ">=")),
        ("A(X) / 4 - 1 <= 0 .", ([("0.25", "A(X)")], "-1", "<=")),
        ("1 - 2 * A(X) <= 0 .", ([("-2", "A(X)")], "1", "<=")),
        ("2 * (A(X) - (B(X) - 1)) / 4 = -1 .", ([("0.5", "A(X)"), ("-0.5", "B(X)")], "1.5", "=")),
        ("-A(X) >= -1e-1 .", ([("-1", "A(X)")], "0.1", ">=")),
        ("@Min[2, 3] A(X) + @Max(1, -1) <= 1 .", ([("2", "A(X)")], "0", "<=")),
        ("A(+X) / |X| <= 1 .", ([("(1 / |X|)", "A(+X)")], "-1", "<=")),
        ("|X| * A(+X) <= |X| .", ([("|X|", "A(+X)")], "(-1 * |X|)", "<=")),
        ("A(X) + 0 * (X != 'a') <= 1 .", ([("1", "A(X)"), ("0", "(X != 'a')")], "-1", "<=")),
        ("2 (A(X)) + (1 + 2) (B(X) - 1) <= 0 .", ([("2", "A(X)"), ("3", "B(X)")], "-3", "<=")),
        ("2\nA(X) <= 1\n.", ([("2", "A(X)")], "-1", "<=")),
        ("1 + 2 * A(X) - 1 - 2 <= 0 .", ([("2", "A(X)")], "-2", "<=")),
        ("A(X) / 2 * 3 <= 0 .", ([("1.5", "A(X)")], "0", "<=")),
    ],
)
def test_arithmetic_rules_are_parsed_to_linear_functions(text, expected):
    assert linear(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * A(X) <= 3 .", ([("3", "A(X)")], "-3")),
        ("1 - 2 * A(X) <= 3 .", ([("-1", "A(X)")], "-3")),
        ("2 * 3 + 4 A(X) <= 3 .", ([("10", "A(X)")], "-3")),
        ("1 + (2 * A(X)) <= 3 .", ([("2", "A(X)")], "-2")),
        ("1 + A(X) <= 3 .", ([("1", "A(X)")], "-2")),
        ("A(X) / 2 * 4 <= 3 .", ([("0.125", "A(X)")], "-3")),
        ("A(X) / 2 + 3 <= 3 .", ([("0.2", "A(X)")], "-3")),
        ("(A(X) / 2) + 3 <= 3 .", ([("0.5", "A(X)")], "0")),
        ("A(X) / 2 + 3 * B(X) <= 3 .", ([("0.5", "A(X)"), ("3", "B(X)")], "-3")),
        ("A(X) / 2 + 3 - 4 * B(X) <= 3 .", ([("0.2", "A(X)"), ("-4", "B(X)")], "-3")),
        ("B(X) + A(X) / 2 - 1 + C(X) <= 3 .", ([("1", "B(X)"), ("1", "A(X)"), ("1", "C(X)")], "-3")),
        ("A(X) - 1 - 2 <= 3 .", ([("1", "A(X)")], "-2")),
        ("A(X) - (B(X) - 2) <= 3 .", ([("1", "A(X)"), ("-1", "B(X)")], "-1")),
        ("A(X) - 2 - 3 B(X) - 4 - 1 <= 1 .", ([("1", "A(X)"), ("1", "B(X)")], "-4")),
        ("2\n(A(X)) <= 1 .", ([("2", "A(X)")], "-1")),
    ],
)
def test_order_of_operations_of_psl(text, expected):
    """Coefficients equal those of PSL's parser; the constant is moved to the left side."""
    rule = read_rule(text, dialect="psl")
    assert ([(str(c), str(a)) for c, a in rule.terms], str(rule.constant)) == expected


def test_escapes_of_psl():
    """PSL replaces the escape of a tab before that of a backslash, which gives a backslash and a tab."""
    text = r"1: A('x\\ty\n')"
    assert read_rule(text).literals[0].atom.arguments == (Constant("x\\ty\n"),)
    assert read_rule(text, dialect="psl").literals[0].atom.arguments == (Constant("x\\\ty\n"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1: 2 * (A(X) + B(X)) <= 1", "column 14: expected '\\)', got '\\+'. PSL multiplies single atoms"),
        ("1: -A(X) <= 1", "column 4: PSL does not allow a minus before an atom or a parenthesis. Write -1 \\*"),
        ("1: A(X) / B(X) <= 1", "column 11: expected a number"),
        ("1: A(X) * 2 <= 1", "column 9: expected '<=', '>=', '=' or an operator, got '\\*'"),
        ("1: A(X) / 2 / 0 <= 1", "column 13: division by 0"),
        ("1: A(X) / 0 <= 1", "column 9: division by 0"),
        ("1: " + "(" * 100 + "1 + A(X)" + ")" * 100 + " <= 1", "the rule is nested more than 60 levels deep"),
    ],
)
def test_rules_that_psl_rejects_raise_in_its_dialect(text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_rule(text, dialect="psl")


def test_negative_weights_raise_with_the_reason():
    for text in ("-1: A(X) -> B(X)", "1: A(X) <= 2\n-0.5: !A(X)"):
        with pytest.raises(InvalidInputError, match=r"not be convex, and inference could not .* the negated rule"):
            read_rules(text)


@pytest.mark.parametrize("dialect", ["plain", "psl"])
def test_where_one_rule_ends_and_the_next_begins(dialect):
    text = (
        "1: A(X) <= 2\nB(X) -> A(X) .\n1: !A(X)\nB(X) = 0 .\n"
        "1: A(X) <= 2\n-1 * B(X) <= 0 .\n1: A(X)\n <= 2\nB(X)\n3: !A(X)"
    )
    # PSL's parser returns the same rules.
    assert [rule.text for rule in read_rules(text, dialect=dialect)] == [
        "1: A(X) <= 2",
        "B(X) -> A(X) .",
        "1: !A(X)",
        "B(X) = 0 .",
        "1: A(X) <= 2",
        "-1 * B(X) <= 0 .",
        "1: A(X)\n <= 2\nB(X)",
        "3: !A(X)",
    ]


def test_weights_powers_and_periods():
    assert [(r.weight, r.squared) for r in read_rules("0025: A(X) -> B(X) ^2 0.5 : !A(X) ^1 1e-2: !B(X)")] == [
        (25.0, True),
        (0.5, False),
        (0.01, False),
    ]
    assert read_rule("A(X) -> B(X) .").weight is None
    assert read_rule("1: A(X, +Y) = 1").weight == 1.0
    assert isinstance(read_rule("A(X) = 1."), ArithmeticRule)
    assert isinstance(read_rule("A(X) & (X = 'b') -> B(X)."), LogicalRule)


def test_filters():
    rule = read_rule("1: A(X, +Y, +Z) <= 1 ^2 {Y: B(X) & !C(Y) | (Y != 'a')} {Z: C(Z)}")
    assert {name: str(condition) for name, condition in rule.filters.items()} == {
        "Y": "((B(X) & !C(Y)) | ((Y != 'a')))",
        "Z": "(C(Z))",
    }
    assert rule.squared
    assert read_rule("A(+Y) <= 1 . {Y: C(Y)}").weight is None


def test_many_rules_keep_their_texts():
    text = "# first\n1: A(X) = 1\nB(X) = 0 .   // hard\n2: A(X)\n  -> B(X) ^2\n/* 3: */ !A(X) ."
    assert [rule.text for rule in read_rules(text)] == ["1: A(X) = 1", "B(X) = 0 .", "2: A(X)\n  -> B(X) ^2", "!A(X) ."]


# ---------------------------------------------------------------- malformed rules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1: A(X Y)", "line 1, column 8: expected ',' or ')', got 'Y'"),
        ("1: A(X) &\n  -> B(X)", "line 2, column 3: expected a predicate, '!' or '(', got '->'"),
        ("1: A(X", "line 1, column 7: expected ',' or ')', got the end"),
        ("1: A(X) -> ", "line 1, column 11: expected a predicate, '!' or '(', got the end"),
        ("", "line 1, column 1: expected a predicate"),
        ("1: A", "line 1, column 5: expected '(' after a predicate, got the end"),
        ("1: A()", "line 1, column 6: expected a variable or a quoted constant, got ')'"),
        ("1: A(1)", "line 1, column 6: expected a variable or a quoted constant, got '1'"),
        ("1: A('x)", "line 1, column 6: expected ' at the end of the constant"),
        ("1: A(X) /* x", "line 1, column 9: expected */ at the end of the comment"),
        ("1: A(X) ? B(X)", "line 1, column 9: expected a predicate, a variable"),
        ("1: A(X) & B(X)", "line 1, column 15: expected '->' after a body"),
        ("1: A(X) & B(X) | C(X) -> D(X)", "line 1, column 16: '&' and '|' cannot be mixed"),
        ("1: A(X) | B(X) -> C(X)", "line 1, column 16: the body of an implication must use only '&'"),
        ("1: A(X) -> B(X) & C(X)", "line 1, column 9: the body of an implication must use only '&' and its head only"),
        ("A(X) -> B(X)", "line 1, column 13: expected '.' after a hard rule, or a weight and ':'"),
        ("1: A(X) -> B(X) .", "line 1, column 17: a rule cannot have both a weight and a '.'"),
        ("A(X) -> B(X) ^2 .", "line 1, column 14: a hard rule cannot have a power"),
        ("1: A(X) -> B(X) ^3", "line 1, column 17: expected '^1' or '^2', got '^3'"),
        ("1: A(X) -> B(X) ^2 ^2", "line 1, column 20: the rule has a second power, '^2' after '^2'. Remove one"),
        ("1: A(X) -> B(X) ^1 ^2", "line 1, column 20: the rule has a second power, '^2' after '^1'"),
        ("A(X) -> B(X) . .", "line 1, column 16: the rule ends with a second '.'"),
        ("A(X) <= 0.5 ..", "line 1, column 14: the rule ends with a second '.'"),
        ("1: A('a\\qb')", "line 1, column 8: the escape \\q in a constant is not known. Known: \\\\, "),
        ("1: A(X) & & & B(X) -> C(X)", "line 1, column 13: expected a predicate, '!' or '(', got '&'"),
        ("1: !(A(X) & B(X))", "line 1, column 11: expected ')', got '&'"),
        (
            "-1: !A(X)",
            "line 1, column 1: a weight must be at least 0: with a negative weight the objective would not be",
        ),
        ("1e999: !A(X)", "line 1, column 1: a weight must be finite"),
        ("1: A(X) -> B(X) B(Y)", "line 1, column 17: expected the end of the rule, an operator before this"),
        ("1: A(+X) -> B(X)", "line 1, column 6: a sum '+X' needs an arithmetic rule"),
        ("1: A(X) * B(X) <= 1", "line 1, column 9: a rule must be linear"),
        ("1: 1 / A(X) <= 1", "line 1, column 6: a rule must be linear"),
        ("1: A(X) / 0 <= 1", "line 1, column 9: division by 0"),
        ("1: A(X) + <= 1", "line 1, column 11: expected a predicate, a number"),
        ("1: @Mean[1, 2] * A(X) <= 1", "line 1, column 4: function='@Mean' is not known. Known: '@Max', '@Min'"),
        ("1: @Min[A(X), 2] <= 1", "line 1, column 4: @Min must have numbers"),
        ("1: A(+X) <= 1 {X B(X)}", "line 1, column 18: expected ':', got 'B'"),
        ("1: A(+X) <= 1 {X: B(X)} {X: C(X)}", "line 1, column 26: the rule has a second filter for X"),
        ("1: " + "(" * 100 + "A(X)" + ")" * 100, "line 1, column 64: the rule is nested more than 60 levels deep"),
        ("1: " + "-" * 100_000 + "A(X) <= 1", "line 1, column 65: the rule is nested more than 60 levels deep"),
    ],
)
def test_syntax_errors_name_line_column_and_expected_tokens(text, message):
    with pytest.raises(InvalidInputError) as caught:
        read_rule(text)
    assert f"rule, {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1: A(X) -> B(Y)", "variable Y is unsafe"),
        ("1: A(X)", r"variable X is unsafe.*positive prior as P\(X\) = 1"),
        ("1: !A(X) -> B(X)", "variable X is unsafe"),
        ("1: A(X) & (Y != X) -> B(X)", "variable Y is unsafe"),
        ("1: A(X) + 0 * (Y != X) <= 1", "variable Y is unsafe"),
        ("1: 'a' == 'b'", "the rule has no predicate"),
        ("1: 2 <= 3", "the rule has no predicate"),
        ("1: A(+X) + B(+X) <= 1", r"the sum \+X occurs twice"),
        ("1: A(+X) + B(X) <= 1", "X is both a sum variable and an ordinary variable"),
        ("1: A(X) / |X| <= 1", r"the cardinality \|X\| needs a sum \+X"),
        ("1: A(X, +Y) <= 1 {X: B(X)}", r"the filter of X needs a sum \+X in the rule. Sums: \+Y"),
        ("1: A(X, +Y) <= 1 {Y: B(Z)}", "the filter of Y contains Z"),
    ],
)
def test_rules_whose_variables_have_no_values(text, message):
    with pytest.raises(InvalidInputError, match=message):
        read_rule(text)


def test_errors_name_the_place_of_the_rule():
    with pytest.raises(InvalidInputError, match=r"^model\.json: rules, number 3, line 1, column 6"):
        read_rule("1: A(", "model.json: rules, number 3")
    with pytest.raises(InvalidInputError, match=r"^rules, line 3, column 6"):
        read_rules("1: !A(X)\n\n2: !B\n")
    with pytest.raises(InvalidInputError, match="must be a string, got int"):
        read_rule(3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text("AXb(),&|!->.:12+*/{}'\"%^=< \n@[]#\\", max_size=30), st.sampled_from(DIALECTS))
def test_any_text_is_parsed_or_raises_invalid_input(text, dialect):
    with contextlib.suppress(InvalidInputError):
        assert read_rule(text, dialect=dialect).atoms
    with contextlib.suppress(InvalidInputError):
        read_rules(text, dialect=dialect)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.text(max_size=8))
def test_a_constant_written_out_is_read_back(name):
    assert read_rule(f"1: A({Constant(name)})").literals[0].atom.arguments == (Constant(name),)
