"""`constrain` on arrays: results, bad input, empty and short sequences; probabilities under many rules."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.sequences.constraints.rule_zoo import planted_problem

from intarsia._core.status import Status
from intarsia.exceptions import InvalidInputError
from intarsia.sequences import constrain, count, exactly_once, fixed, once, one_of
from intarsia.sequences.constraints import lagrangian, posterior, solver
from intarsia.sequences.constraints.posterior import posterior_of
from intarsia.sequences.constraints.solver import Chain
from intarsia.sequences.constraints.trellis import Automata


def test_best_labellings_with_start_and_end_scores():
    rng = np.random.default_rng(0)
    scores, table, start, end = (rng.normal(size=shape) for shape in [(4, 3), (3, 3), 3, 3])
    result = constrain(scores, table, require=[once("a")], start=start, end=end, classes=["a", "b", "c"], n_best=4)
    values = []
    for y in itertools.product(range(3), repeat=4):
        if once("a").check(["abc"[c] for c in y]):
            steps = sum(table[a, b] for a, b in itertools.pairwise(y))
            values.append(start[y[0]] + end[y[-1]] + scores[np.arange(4), list(y)].sum() + steps)
    np.testing.assert_allclose([value for _, value in result.alternatives], sorted(values)[::-1][:4])
    assert result.labels == result.alternatives[0][0]
    assert result.score == pytest.approx(result.bound)
    assert result.proven
    assert result.gap == pytest.approx(0.0)
    assert result.violated == result.clash == []


def test_empty_and_short_sequences():
    assert constrain(np.zeros((0, 2)), require=[once(0)]).labels == []
    empty = constrain(np.zeros((0, 2)), require=[once(0), exactly_once(1)])
    assert empty.status is Status.INFEASIBLE
    assert empty.clash == [exactly_once(1)]
    assert constrain([[1.0, 2.0]], require=[exactly_once(0)]).labels == [0]
    assert constrain([[1.0]], require=[exactly_once(0)]).labels == [0]


def test_scores_that_exclude_everything():
    result = constrain(np.full((2, 2), -np.inf), require=[once(0)])
    assert (result.labels, result.score, result.status) == ([], -np.inf, Status.INFEASIBLE)


def test_infeasible_rules_name_the_clash_and_the_least_violation():
    rules = [once("b"), fixed({0: "a", 2: "a"}), fixed({1: "b"}), once("a")]
    result = constrain(np.zeros((3, 2)), require=rules, classes=["a", "b"])
    assert result.status is Status.INFEASIBLE
    assert result.clash == rules[1:]
    assert len(result.violated) == 1
    assert np.isnan(result.gap)
    assert not result.proven


def test_thirty_rules_on_a_long_sequence_give_a_valid_labelling():
    nodes, table, rules, classes = planted_problem(0, 300)
    result = constrain(nodes, table, require=rules, classes=classes)
    assert result.violated == result.clash == []
    assert all(rule.check(result.labels) for rule in rules)
    assert result.status in (Status.EXACT, Status.MAX_ITER)
    assert result.score <= result.bound + 1e-6
    assert result.alternatives == [(result.labels, result.score)]


def test_a_search_that_finds_nothing_proves_nothing(monkeypatch):
    """Without the searches, the rules hold together, but the status does not say that they cannot."""
    nodes, table, rules, classes = planted_problem(0, 60)
    monkeypatch.setattr(solver, "_solve_with_few_labels", lambda *args: None)
    monkeypatch.setattr(lagrangian, "_beam", lambda *args: [])
    monkeypatch.setattr(solver, "QUICK_SIZE", 1)
    result = constrain(nodes, table, require=rules, classes=classes)
    assert result.status in (Status.EXACT, Status.MAX_ITER)
    assert bool(result.violated) == (not all(rule.check(result.labels) for rule in rules))
    assert result.clash == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": [1.0, 2.0]}, r"scores has shape \(2,\)"),
        ({"scores": [[np.nan, 1.0]]}, "is nan"),
        ({"classes": ["a"]}, "classes has 1 labels, but scores has 2 columns"),
        ({"classes": ["a", "a"]}, "classes has a label twice"),
        ({"tokens": ["x"]}, "tokens has 1 entries for 2 positions"),
        ({"require": "once"}, "require must be a list of rules"),
        ({"require": [once(0, soft=True)]}, "a soft rule"),
        ({"transitions": np.zeros((3, 3))}, "transitions has shape"),
        ({"n_best": 0}, "n_best"),
        ({"require": [one_of(0, ["x"])]}, "reads the tokens"),
    ],
)
def test_bad_input_is_explained(arguments, message):
    settings = {"scores": np.zeros((2, 2)), "require": [once(0)]} | arguments
    with pytest.raises(InvalidInputError, match=message):
        constrain(settings.pop("scores"), **settings)


def test_unknown_fields_are_reported():
    with pytest.warns(UserWarning, match="Did you mean 'ZipCode'"):
        constrain(np.zeros((2, 2)), require=[once("Zipcode")], classes=["ZipCode", "City"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: once(""),
        lambda: once("B-title"),
        lambda: once("a", strength=2.0),
        lambda: once("a", soft=1),
        lambda: count("a", 2, 1),
        lambda: count("a", -1),
        lambda: fixed([1]),
        lambda: fixed({0: None}),
        lambda: one_of("a", "x"),
        lambda: one_of("a", [""]),
    ],
)
def test_invalid_rules(make):
    with pytest.raises(InvalidInputError):
        make()


def test_a_bound_on_the_error_of_probabilities_holds(monkeypatch):
    monkeypatch.setattr(posterior, "MAX_STATES", 2)
    rng = np.random.default_rng(0)
    classes = ["a", "b", "c", "d"]
    automata = Automata([once(name).automaton(classes, 6) for name in classes])
    errors = []
    for size in (60, 120, 10**4):
        monkeypatch.setattr(posterior, "MAX_SIZE", size)
        for _ in range(20):
            chain = Chain(2.0 * rng.normal(size=(6, 4)), rng.normal(size=(1, 4, 4)))
            exact = automata.trellis(chain.alive).marginals(chain.nodes, chain.tables)[1]
            estimate = posterior_of(chain, automata)
            error = np.abs(estimate.marginals() - exact).max()
            assert error <= estimate.error + 1e-10
            errors.append(error)
    assert max(errors[:20]) > 1e-6
    assert max(errors[40:]) < 1e-9
