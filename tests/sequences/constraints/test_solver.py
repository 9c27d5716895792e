"""The best labellings under rules agree with enumeration, also by relaxation; clashes are minimal."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sequences.constraints.rule_zoo import Enumeration, planted_problem, random_chain, random_rule

from intarsia.sequences import count, exactly_once, fixed, once
from intarsia.sequences.constraints.lagrangian import decompose, path_score
from intarsia.sequences.constraints.solver import (
    QUICK_SIZE,
    Chain,
    _solve_with_few_labels,
    find_clash,
    highest_through,
    least_violation,
    solve,
)
from intarsia.sequences.constraints.trellis import Automata


@pytest.fixture(scope="module")
def enumeration():
    return Enumeration()


@pytest.fixture(scope="module")
def pool():
    rng = np.random.default_rng(7)
    return [random_rule(rng) for _ in range(60)]


def problem(rng, pool, enumeration, n_rules):
    classes, tokens, nodes, table = random_chain(rng)
    rules = [pool[i] for i in rng.choice(len(pool), n_rules, replace=False)]
    automata = Automata([rule.automaton(classes, len(nodes), tokens) for rule in rules])
    plain = enumeration.scores(nodes, table)
    scores = plain.copy()
    for rule in rules:
        scores = np.where(enumeration.accepted(rule, classes, tokens), scores, -np.inf)
    return Chain(nodes, table[None]), rules, automata, classes, tokens, plain, scores


@pytest.mark.parametrize("n_best", [1, 3])
def test_best_labellings_of_random_chains(enumeration, pool, n_best):
    rng = np.random.default_rng(n_best)
    for _ in range(2000):
        chain, rules, automata, *_, scores = problem(rng, pool, enumeration, int(rng.integers(1, 6)))
        solution = solve(chain, automata, n_best)
        best = np.sort(scores[scores > -np.inf])[::-1][:n_best]
        assert solution.proven
        assert len(solution.scores) == len(best), rules
        np.testing.assert_allclose(solution.scores, best, atol=1e-10)
        length, k = chain.nodes.shape
        np.testing.assert_allclose(scores[solution.paths @ (k ** np.arange(length - 1, -1, -1))], best, atol=1e-10)


def test_clashing_rules_are_minimal_and_the_least_violation_is_the_lowest(enumeration, pool):
    rng = np.random.default_rng(5)
    n_infeasible = 0
    while n_infeasible < 300:
        chain, rules, automata, classes, tokens, plain, scores = problem(rng, pool, enumeration, 4)
        if (scores > -np.inf).any() or not (plain > -np.inf).any():
            continue
        n_infeasible += 1
        solution = solve(chain, automata)
        assert solution.proven
        assert not len(solution.paths)
        clash = find_clash(chain, automata, solution.active)
        allowed = [enumeration.accepted(rules[i], classes, tokens) & (plain > -np.inf) for i in clash]
        assert not np.all(allowed, axis=0).any()
        for i in range(len(clash)):
            rest = [mask for j, mask in enumerate(allowed) if j != i]
            assert not rest or np.all(rest, axis=0).any()
        penalties = Automata([rule.penalty_automaton(classes, len(tokens), tokens) for rule in rules])
        least = least_violation(chain, penalties)
        total = sum(enumeration.violations(rule, classes, tokens) for rule in rules)
        total = np.where(plain > -np.inf, total, np.inf)
        expected = np.where(total == total.min(), plain, -np.inf).max()
        index = int(least.paths[0] @ (len(classes) ** np.arange(len(tokens) - 1, -1, -1)))
        assert total[index] == total.min()
        assert plain[index] == pytest.approx(expected, abs=1e-9)


def test_relaxation_gives_a_bound_and_an_accepted_labelling(enumeration, pool):
    rng = np.random.default_rng(8)
    n_tight = n_feasible = 0
    for _ in range(300):
        chain, _, automata, *_, scores = problem(rng, pool, enumeration, 3)
        relaxation = decompose(chain.nodes, chain.tables, automata, 1)  # one group for each automaton
        best = scores.max()
        assert relaxation.bound >= best - 1e-9
        assert relaxation.score <= best + 1e-9
        if best > -np.inf:
            n_feasible += 1
            n_tight += relaxation.bound - relaxation.score < 1e-6
            assert relaxation.score > -np.inf
    assert n_tight > 0.5 * n_feasible


def test_search_with_few_labels_finds_an_accepted_labelling_if_there_is_one(enumeration, pool):
    rng = np.random.default_rng(11)
    n_feasible = 0
    while n_feasible < 300:
        chain, _, automata, *_, scores = problem(rng, pool, enumeration, 4)
        solution = _solve_with_few_labels(chain, automata, 10**6)
        if scores.max() == -np.inf:
            assert solution is None
            continue
        n_feasible += 1
        length, k = chain.nodes.shape
        assert scores[int(solution.paths[0] @ (k ** np.arange(length - 1, -1, -1)))] == pytest.approx(
            solution.scores[0], abs=1e-9
        )


@pytest.mark.parametrize("seed", range(4))
def test_search_with_few_labels_finds_labellings_under_many_rules(seed):
    nodes, table, rules, classes = planted_problem(seed, 200)
    chain = Chain(nodes, table[None])
    automata = Automata([rule.automaton(classes, len(nodes)) for rule in rules])
    solution = _solve_with_few_labels(chain, automata, QUICK_SIZE)
    path = [classes[y] for y in solution.paths[0]]
    assert all(rule.check(path) for rule in rules)
    assert solution.scores[0] == pytest.approx(path_score(nodes, table[None], solution.paths[0]))
    assert solution.scores[0] > 0.8 * chain.best(1)[1][0]


def test_many_rules_are_solved_or_have_a_gap():
    rng = np.random.default_rng(0)
    k, length = 24, 60
    classes = [f"f{i}" for i in range(k)]
    automata = Automata([once(name).automaton(classes, length) for name in classes])
    chain = Chain(rng.normal(size=(length, k)), rng.normal(size=(1, k, k)))
    solution = solve(chain, automata, max_size=2 * 10**5)
    assert not solution.proven
    assert solution.scores[0] <= solution.bound < chain.best(1)[1][0]
    path = [classes[y] for y in solution.paths[0]]
    assert all(once(name).check(path) for name in classes)


def test_highest_score_through_each_label(enumeration, pool):
    rng = np.random.default_rng(9)
    chain, *_, plain, _ = problem(rng, pool, enumeration, 1)
    length, k = chain.nodes.shape
    y = enumeration.labellings(k, length)
    expected = [[plain[y[:, t] == c].max() for c in range(k)] for t in range(length)]
    np.testing.assert_allclose(highest_through(chain), expected)


def test_rules_that_contradict_each_other_are_named():
    classes = ["a", "b"]
    rules = [once("b"), exactly_once("a"), count("a", maximum=0)]
    automata = Automata([rule.automaton(classes, 3) for rule in rules])
    chain = Chain(np.zeros((3, 2)), np.zeros((1, 2, 2)))
    solution = solve(chain, automata)
    assert not len(solution.paths)
    assert find_clash(chain, automata, range(len(rules))) == [1, 2]
    assert find_clash(Chain(np.full((3, 2), -np.inf), chain.tables), automata, [0]) == []


def test_long_sequences():
    rng = np.random.default_rng(0)
    n = 100_000
    classes = ["a", "b", "c"]
    chain = Chain(rng.normal(size=(n, 3)), rng.normal(size=(1, 3, 3)))
    rules = [count("a", 0, 2), exactly_once("b"), fixed({5: "c"})]
    solution = solve(chain, Automata([rule.automaton(classes, n) for rule in rules]))
    path = np.array(classes)[solution.paths[0]].tolist()
    assert solution.proven
    assert all(rule.check(path) for rule in rules)
