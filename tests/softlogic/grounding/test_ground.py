"""Grounding compared with nested loops, with counts of an independent grounder, and with results by hand."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.naive_grounding import FREE, Data, rows_of

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import LinearRows, Program, ground, read_psl, read_rule
from intarsia.softlogic.grounding import joins, sums
from intarsia.softlogic.grounding.rows import distinct
from intarsia_reproduction.benchmarks.measurement import in_fresh_process

CONSTANTS = ("a", "b", "2", "10")
ARITY = {"P": 1, "Q": 2, "R": 2, "S": 1}
# P and Q are open, R and S closed.
OPEN = ("P", "Q")
TEMPLATES = (
    "1: !P(X)",
    "1: !Q(X, Y) ^2",
    "2: R(X, Y) -> Q(X, Y)",
    "2: R(X, Y) & Q(Y, Z) & (X != Z) -> Q(X, Z) ^2",
    "1: Q(X, Y) & P(X) -> P(Y) | Q(Y, X)",
    "1: R(X, Y) & !S(X) -> !Q(X, Y)",
    "1: P(X) & P(Y) & (X == Y) -> S(X)",
    "1: P(X) & P(Y) & (X % Y) -> Q(X, Y)",
    "1: P(X) & P(Y) & !(X % Y) -> Q(X, Y)",
    "1: P(X) & (X % 'bb') -> S(X)",
    "1: R(X, X) -> P(X)",
    "1: R('a', X) & (X != 'c') -> P(X)",
    "1: P('b')",
    "1: P(X) -> P(X)",
    "1: S('z') -> P('a')",
    "1: R(X, Y) -> (X == Y) | P(X)",
    "P(X) & S(X) -> Q(X, X) .",
    "Q(X, Y) = Q(Y, X) .",
    "1: P(X) + S(X) <= 1.5 ^2",
    "1: 2 * P(X) - Q(X, Y) / 2 >= 0.25",
    "1: 0.5 = P(X) ^2",
    "1: Q(X, Y) + 0 * (X != Y) = R(X, Y)",
    "1: P(X) + P(Y) + (X != Y) - R(X, Y) <= 0",
    "1: P(X) + P(Y) - 2.5 * (X % Y) <= 0.5",
    "1: Q(X, +Y) + 3 * (X != 'a') <= 1",
    "Q(X, +Y) <= 1 .",
    "1: Q(X, +Y) = 1 ^2",
    "1: Q(+X, +Y) <= 2 {X: S(X)} {Y: !S(Y) | R(Y, Y)}",
    "1: Q(X, +Y) >= P(X) {Y: R(X, Y) & (Y != 'a')}",
    "1: Q(X, +Y) / @Max[1, |Y|] <= P(X)",
    "1: @Min[2, |Y|] * R(X, +Y) + P(X) <= |Y| + 0.5 {Y: S(Y)}",
)


@st.composite
def data_sets(draw):
    """Return random atoms: some atoms of open predicates are free, others have a value, the rest are missing."""
    atoms = {}
    for name, arity in ARITY.items():
        for arguments in [(x,) for x in CONSTANTS] if arity == 1 else [(x, y) for x in CONSTANTS for y in CONSTANTS]:
            choices = [None, 0.0, 0.4, 1.0] + ([FREE, FREE, FREE] if name in OPEN else [])
            value = draw(st.sampled_from(choices))
            if value is not None:
                atoms[name, arguments] = value
    return atoms


def program_of(atoms, rules):
    program = Program()
    for name, arity in ARITY.items():
        program.predicate(name, arity, closed=name not in OPEN)
    for (name, arguments), value in atoms.items():
        if value == FREE:
            program.target(name, [arguments])
        else:
            program.observe(name, [(*arguments, value)])
    for rule in rules:
        program.rule(rule)
    return program


def rows_by_rule(found):
    """Return the rows of the ground model by rule, in the format of the oracle."""
    mrf, atoms = found.mrf, found.atoms
    result = [[] for _ in mrf.group_names]
    for rows, group, signs in (
        (mrf.terms, mrf.term_group, (1.0,)),
        (mrf.inequalities, mrf.inequality_group, (1.0,)),
        (mrf.equalities, mrf.equality_group, (1.0, -1.0)),
    ):
        for j in range(rows.n_rows if rows is not None else 0):
            part = slice(rows.ptr[j], rows.ptr[j + 1])
            for sign in signs:
                coefs = []
                for variable, coef in zip(rows.idx[part].tolist(), rows.coef[part].tolist(), strict=True):
                    atom = atoms.atom(variable)
                    coefs.append(((atom.predicate.upper(), tuple(t.value for t in atom.arguments)), sign * coef))
                const = sign * float(rows.const[j])
                # One side of an equality can be satisfied for all values, such as -x <= 0.
                if const + sum(max(c, 0.0) for _, c in coefs) > 1e-9:
                    result[group[j]].append((tuple(sorted(coefs)), const))
    return result


def rounded(rows):
    return Counter((tuple((k, round(c, 9)) for k, c in coefs), round(const, 9) + 0.0) for coefs, const in rows)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data_sets(), st.lists(st.sampled_from(TEMPLATES), min_size=4, max_size=9, unique=True))
def test_random_programs_ground_like_nested_loops(atoms, rules):
    found = ground(program_of(atoms, rules), missing="zero")
    data = Data(atoms, closed=[name for name in ARITY if name not in OPEN])
    for text, report, ours in zip(rules, found.reports, rows_by_rule(found), strict=True):
        n, expected = rows_of(read_rule(text), data)
        assert report.n_groundings == n, text
        ours, expected = rounded(ours), rounded(expected)
        if report.is_hard:
            assert set(ours) == set(expected), text  # duplicate hard constraints are removed
        else:
            assert ours == expected, text


@pytest.mark.parametrize("text", TEMPLATES)
def test_every_template_has_groundings(text):
    """Without groundings the random test above would check nothing."""
    atoms = {}
    for name, arity in ARITY.items():
        for i, arguments in enumerate([(x,) for x in CONSTANTS] if arity == 1 else product(CONSTANTS, repeat=2)):
            atoms[name, arguments] = FREE if name in OPEN else (0.0, 1.0, 0.4)[i % 3]
    atoms["S", ("z",)] = 0.6
    found = ground(program_of(atoms, [text]))
    assert found.reports[0].n_groundings > 0
    if text != "1: P(X) -> P(X)":
        assert found.mrf.n_terms + found.mrf.n_constraints > 0


def test_batch_size_does_not_change_the_grounding(monkeypatch):
    atoms = {("Q", (x, y)): FREE for x in CONSTANTS for y in CONSTANTS} | {("R", ("a", y)): 1.0 for y in CONSTANTS}
    rules = [t for t in TEMPLATES if "S(" not in t and "P(" not in t]
    whole = ground(program_of(atoms, rules))
    monkeypatch.setattr(joins, "BATCH_SIZE", 2)
    monkeypatch.setattr(sums, "_BATCH_SIZE", 2)
    pieces = ground(program_of(atoms, rules))
    assert whole.mrf.n_terms > 10
    for ours, theirs in zip(rows_by_rule(pieces), rows_by_rule(whole), strict=True):
        assert rounded(ours) == rounded(theirs)
    assert [r.n_groundings for r in pieces.reports] == [r.n_groundings for r in whole.reports]


def test_order_of_rows_is_reproducible():
    atoms = {("Q", (x, y)): FREE for x in CONSTANTS for y in CONSTANTS} | {("R", ("a", y)): 1.0 for y in CONSTANTS}
    first, second = (ground(program_of(atoms, TEMPLATES), missing="zero").mrf for _ in range(2))
    np.testing.assert_array_equal(first.terms.idx, second.terms.idx)
    np.testing.assert_array_equal(first.terms.const, second.terms.const)


# ---------------------------------------------------------------- results computed by hand


def test_functional_constraint():
    program = Program().predicate("Is", 2).rule("Is(U, +L) = 1 .")
    program.target("Is", [("u", "x"), ("u", "y"), ("v", "x")]).observe("Is", [("v", "y", 0.25)])
    mrf = ground(program).mrf
    assert mrf.n_constraints == 2
    np.testing.assert_allclose(mrf.equalities.values([0.5, 0.5, 0.75]), [0.0, 0.0])


def test_terms_have_the_weights_and_powers_of_their_rules():
    program = Program().predicate("P", 1).target("P", ["a", "b"])
    program.rule("0.5: P(X) = 1 ^2").rule("P(X) <= 0.9 .").rule("3: !P(X)")
    mrf = ground(program).mrf
    assert mrf.weight.tolist() == [0.5, 0.5, 3.0, 3.0]
    assert mrf.power.tolist() == [2, 2, 1, 1]
    assert mrf.term_group.tolist() == [0, 0, 2, 2]
    assert mrf.inequality_group.tolist() == [1, 1]
    assert mrf.group_names[1] == "P(X) <= 0.9 ."
    # 2 x 0.5 x (1 - 1/2)^2 + 2 x 3 x 1/2
    assert mrf.objective([0.5, 0.5]) == pytest.approx(0.25 + 3.0)


def test_latent_atoms_are_variables():
    program = Program().predicate("P", 1).predicate("H", 1).rule("1: H(X) -> P(X)")
    program.target("P", ["a"]).latent("H", ["a"]).truth("P", [("a", 0.5), ("never asked", 1.0)])
    found = ground(program)
    assert found.mrf.n_variables == 2
    assert found.atoms.is_latent.tolist() == [False, True]
    np.testing.assert_array_equal(found.atoms.truth, [0.5, np.nan])


def test_report_counts_omitted_groundings():
    program = Program().predicate("P", 1).predicate("S", 1).predicate("None_", 1)
    program.target("P", ["a", "b"]).observe("P", ["c"]).observe("S", [("a", 1.0), ("b", 0.0), ("c", 1.0), ("d", 1.0)])
    program.rule("1: S(X) -> P(X)").rule("1: None_(X) -> P(X)").rule("S(X) & P(X) -> None_(X) .")
    program.observe("P", ["d"])
    found = ground(program)
    soft, nothing, hard = found.reports
    # a: a hinge. b: satisfied for every P('b'). c, d: constant.
    assert (soft.n_groundings, soft.n_terms, soft.n_satisfied, soft.n_constant, soft.n_violated) == (4, 1, 1, 2, 0)
    assert nothing.n_groundings == 0
    assert (hard.n_groundings, hard.n_constraints, hard.n_satisfied, hard.n_violated) == (4, 1, 1, 2)
    notes = "\n".join(found.notes())
    assert "None_(X) -> P(X)' has no groundings" in notes
    assert "the observations alone violate 2 of its groundings" in notes


# ---------------------------------------------------------------- results of PSL


def closed_sums(dialect):
    """Three constants occur as second argument of R, but no person has more than two of them."""
    program = Program(dialect=dialect).predicate("P", 1).predicate("R", 2).predicate("C", 1).target("P", ["a", "b"])
    program.observe("R", [("a", "x"), ("a", "y"), ("b", "x"), ("b", "z", 0.5)]).observe("C", ["x", "y"])
    return program.predicate("T", 2).target("T", [("a", "x"), ("a", "y"), ("b", "x")])


def coefficients(program):
    mrf = ground(program).mrf
    return mrf.terms.coef.tolist(), mrf.terms.const.tolist()


def test_cardinality_over_a_closed_predicate():
    """PSL counts 3 atoms in each sum, including atoms that are not in the data, and 2 that pass the filter."""
    rule = "1: |Y| P(X) + R(X, +Y) <= 1"
    assert coefficients(closed_sums("psl").rule(rule)) == ([3.0, 3.0], [1.0, 0.5])
    assert coefficients(closed_sums("plain").rule(rule)) == ([2.0, 2.0], [1.0, 0.5])
    rule = "1: |Y| P(X) + R(X, +Y) <= 1 {Y: C(Y)}"
    assert coefficients(closed_sums("psl").rule(rule)) == ([2.0, 2.0], [1.0, 0.0])
    assert coefficients(closed_sums("plain").rule(rule)) == ([2.0, 1.0], [1.0, 0.0])
    # PSL sums 2 times 3 atoms of R, and counts all of them for both variables.
    rule = "1: P(X) + R(+Z, +Y) >= |Y| + 10 * |Z| - 62"
    assert coefficients(closed_sums("psl").rule(rule))[1] == [0.5, 0.5]


def test_cardinality_over_an_open_predicate_counts_atoms_in_the_data():
    rule = "1: P(X) + T(X, +Y) <= |Y| / 4"
    for dialect in ("plain", "psl"):
        assert coefficients(closed_sums(dialect).rule(rule)) == ([1.0] * 5, [-0.5, -0.25])


def test_psl_splits_a_filter_with_alternatives():
    """PSL splits the rule, so T('a', 'x'), which passes both alternatives, is in two hinges."""
    rule = "1: T(X, +Y) >= 2 {Y: (Y == 'x') | C(Y)}"
    plain, psl = (ground(closed_sums(dialect).rule(rule)) for dialect in ("plain", "psl"))
    assert [report.n_terms for report in plain.reports] == [2]
    assert [report.n_terms for report in psl.reports] == [2, 2]


def test_psl_drops_single_atoms_with_large_coefficients():
    """PSL keeps only the lower side of the weighted equality, and the hard equality."""
    program = Program(dialect="psl").predicate("P", 1).target("P", ["a"])
    for rule in (
        "1: 3 P(X) <= 1", "3 P(X) <= 1 .", "1: 1 = 2 P(X)", "2 P(X) = 1 .", "1: 3 P(X) <= 0.5",
        "1: 3 P(+X) <= 1 {X: (X == 'a')}", "1: 3 P(X) + 0 * (X != 'z') <= 1",
    ):  # fmt: skip
        program.rule(rule)
    found = ground(program)
    assert [(r.n_terms, r.n_constraints, r.n_skipped) for r in found.reports] == [
        (0, 0, 1), (0, 0, 1), (1, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 1), (1, 0, 0),
    ]  # fmt: skip
    assert "1 groundings with a single atom are omitted, as in PSL" in "\n".join(found.notes())
    plain = Program().predicate("P", 1).target("P", ["a"]).rule("1: 3 P(X) <= 1")
    assert ground(plain).mrf.n_terms == 1


def test_a_comparison_in_an_arithmetic_rule_adds_nothing():
    """PSL ignores the comparison in P + P + 5 (A != B) <= 1.5, except that the people differ."""
    program = Program().predicate("P", 1).target("P", ["a", "b"]).rule("1: P(A) + P(B) + 5 * (A != B) <= 1.5")
    assert coefficients(program) == ([1.0] * 4, [-1.5, -1.5])


@pytest.mark.parametrize(
    ("dialect", "types", "pairs"),
    [
        ("plain", None, {("2", "10"), ("2", "a"), ("10", "a")}),
        # PSL orders by number if the type of the arguments is UniqueIntID, otherwise as strings.
        ("psl", None, {("10", "2"), ("2", "a"), ("10", "a")}),
        ("psl", "UniqueStringID", {("10", "2"), ("2", "a"), ("10", "a")}),
        ("psl", "UniqueIntID", {("2", "10"), ("2", "a"), ("10", "a")}),
        ("plain", "UniqueStringID", {("10", "2"), ("2", "a"), ("10", "a")}),
    ],
)
def test_order_of_constants(dialect, types, pairs):
    program = Program(dialect=dialect).predicate("R", 2, types=None if types is None else [types] * 2)
    program.target("R", list(product(["2", "10", "a"], repeat=2))).rule("1: R(A, B) + (A % B) <= 0")
    found = ground(program)
    atoms = [found.atoms.atom(k) for k in found.mrf.terms.idx.tolist()]
    assert {tuple(term.value for term in atom.arguments) for atom in atoms} == pairs


def test_constants_that_are_not_in_the_data_are_ordered():
    program = Program().predicate("P", 1).target("P", ["2", "10", "30"]).rule("1: P(A) + (A % '11') <= 0")
    assert ground(program).mrf.terms.idx.tolist() == [0, 1]


# ---------------------------------------------------------------- missing and duplicate atoms


def missing_program():
    program = Program().predicate("R", 2).predicate("Q", 2).rule("1: R(X, Y) -> Q(Y, X)")
    return program.observe("R", [("a", "b"), ("c", "d")]).target("Q", [("b", "a")])


def test_missing_target_raises_and_is_named():
    with pytest.raises(InvalidInputError, match=r"1 groundings need atoms .* Q\('d', 'c'\)\. Add them as targets"):
        ground(missing_program())


def test_missing_target_can_count_as_false():
    found = ground(missing_program(), missing="zero")
    assert found.mrf.n_terms == 1
    assert found.reports[0].n_missing == 1
    assert "such as Q('d', 'c')" in found.notes()[0]


def test_missing_target_in_a_satisfied_grounding_is_ignored():
    program = Program().predicate("R", 2).predicate("Q", 2).rule("1: R(X, Y) -> Q(Y, X)")
    program.observe("R", [("a", "b"), ("c", "d", 0.0)]).target("Q", [("b", "a")])
    assert ground(program).mrf.n_terms == 1


def test_unknown_value_of_missing():
    with pytest.raises(InvalidInputError, match="missing='ignore' is not known"):
        ground(missing_program(), missing="ignore")


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda p: p.target("P", ["a"]), r"P\('a'\) occurs twice in the data, as observed and as target"),
        (lambda p: p.observe("P", [("a", 0.5)]), r"P\('a'\) occurs twice in the data, with values 1 and 0.5"),
    ],
)
def test_conflicting_duplicate_atoms_raise(add, message):
    program = Program().predicate("P", 1).observe("P", ["a"])
    add(program)
    with pytest.raises(InvalidInputError, match=message):
        ground(program)


def test_equal_duplicate_atoms_count_once():
    program = Program().predicate("P", 1).target("P", ["a", "b", "a"]).target("P", ["b"]).rule("1: !P(X)")
    assert ground(program).mrf.n_variables == 2


def test_division_by_the_size_of_an_empty_sum_raises():
    program = Program().predicate("Q", 2).predicate("P", 1).predicate("S", 1)
    program.target("Q", [("a", "b")]).target("P", ["a"]).observe("S", ["x"])
    program.rule("1: P(X) + Q(X, +Y) <= 1 / |Y| {Y: S(Y)}")
    with pytest.raises(InvalidInputError, match=r"divides by 0.*Use @Max\[1, \|X\|\]"):
        ground(program)


def test_open_predicates_in_filters_raise():
    program = Program().predicate("Q", 2).predicate("P", 1).target("Q", [("a", "b")]).target("P", ["a"])
    program.rule("1: Q(X, +Y) <= 1 {Y: P(Y)}")
    with pytest.raises(InvalidInputError, match=r"contains P\(Y\).*only closed predicates"):
        ground(program)


def test_names_are_never_part_of_a_query():
    """Use constants and names that would end a query if they were part of it."""
    evil = "'; DROP TABLE t0; --"
    program = Program().predicate("select", 2).predicate("$from", 1)
    program.observe("select", [(evil, '"'), ("x", "y")]).target("$from", [evil, "x"])
    program.rule('1: SELECT(A, "\\"") -> $From(A)').rule("1: $from('\\'; DROP TABLE t0; --')").rule("1: !$from(A)")
    found = ground(program, missing="zero")
    assert [report.n_terms for report in found.reports] == [1, 1, 2]
    assert found.atoms.find("$FROM", evil) == 0


# ---------------------------------------------------------------- an independent grounder


@pytest.mark.data
def test_simple_acquaintances_has_the_counts_of_the_conformance_data(data, conformance):
    expected = json.loads((conformance / "softlogic" / "simple_acquaintances.json").read_text())
    folder = data / "simple_acquaintances"
    found = ground(read_psl(folder / "model.json", data=folder))
    soft = [r for r in found.reports if not r.is_hard]
    counts = [v for k, v in expected["ground_terms"].items() if k != "columns"]
    assert [[r.n_groundings, r.n_terms] for r in soft] == counts
    assert found.mrf.n_constraints == expected["equality_constraints_with_a_target"]
    assert found.mrf.n_variables == expected["n_targets"]


def test_long_joins_print_no_progress_bar():
    # DuckDB treats a process without a main file as interactive.
    found = in_fresh_process(
        "import json\n"
        "from intarsia.softlogic import Program\n"
        "from intarsia.softlogic.grounding.query import GroundingDatabase\n"
        "with GroundingDatabase(Program()) as database:\n"
        "    bar = database.fetch(\"SELECT current_setting('enable_progress_bar') AS bar\")['bar']\n"
        "print(json.dumps({'bar': bool(bar[0])}))"
    )
    assert found == {"bar": False}


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.permutations(range(4)), st.sampled_from([-1.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0])),
        max_size=40,
    ),
    st.booleans(),
)
def test_distinct_removes_duplicate_rows(parts, both_signs):
    given = [(tuple(sorted(order[:2])), coef, const) for order, coef, const in parts]
    rows = LinearRows(
        np.arange(0, 2 * len(given) + 1, 2),
        np.array([i for idx, *_ in given for i in idx], dtype=np.int64),
        np.array([c for _, coef, _ in given for c in (coef, -0.5)]),
        np.array([const for *_, const in given]),
    )
    found = distinct(rows, both_signs)

    def key(idx, coef, const):
        sign = np.sign(coef) if both_signs else 1.0
        return idx, sign * coef, sign * -0.5, sign * const + 0.0

    kept = [
        (tuple(found.idx[2 * j : 2 * j + 2].tolist()), found.coef[2 * j], found.const[j]) for j in range(found.n_rows)
    ]
    assert Counter(key(*row) for row in kept) == Counter({key(*row) for row in given})
