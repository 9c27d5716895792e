"""Inference under automata agrees with the enumeration of all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sequences.constraints.rule_zoo import Enumeration, random_chain, random_rule

from intarsia.sequences.constraints.trellis import Automata

N_CHAINS = 10_000


@pytest.fixture(scope="module")
def enumeration():
    return Enumeration()


@pytest.fixture(scope="module")
def pool():
    rng = np.random.default_rng(7)
    return [random_rule(rng) for _ in range(60)]


def test_best_labellings_sums_and_marginals_of_random_chains(enumeration, pool):
    rng = np.random.default_rng(0)
    n_infeasible = 0
    for _ in range(N_CHAINS):
        classes, tokens, nodes, table = random_chain(rng)
        rules = [pool[i] for i in rng.choice(len(pool), int(rng.integers(1, 4)), replace=False)]
        length, k = nodes.shape
        trellis = Automata([rule.automaton(classes, length, tokens) for rule in rules]).trellis(nodes > -np.inf)
        labellings, scores = enumeration.labellings(k, length), enumeration.scores(nodes, table)
        for rule in rules:
            scores = np.where(enumeration.accepted(rule, classes, tokens), scores, -np.inf)
        tables = table[None]
        order = np.argsort(-scores, kind="stable")
        n = int((scores > -np.inf).sum())
        n_infeasible += n == 0
        paths, values = trellis.best(nodes, tables, 5)
        assert len(values) == min(5, n), (rules, classes, nodes)
        np.testing.assert_allclose(values, scores[order[: len(values)]], atol=1e-10)
        index = paths @ (k ** np.arange(length - 1, -1, -1))
        np.testing.assert_allclose(scores[index], values, atol=1e-10)
        assert len(set(index.tolist())) == len(index)
        weights = np.exp(scores)
        log_partition, marginals, steps = trellis.marginals(nodes, tables, 1)
        assert trellis.log_partition(nodes, tables) == log_partition
        if n == 0:
            assert log_partition == -np.inf
            assert not marginals.any()
            continue
        np.testing.assert_allclose(log_partition, np.log(weights.sum()), atol=1e-10)
        weights /= weights.sum()
        expected = weights @ (labellings[:, :, None] == np.arange(k)).reshape(-1, length * k)
        np.testing.assert_allclose(marginals, expected.reshape(length, k), atol=1e-10)
        joint = np.zeros(k * k)
        pairs = labellings[:, :-1] * k + labellings[:, 1:]
        np.add.at(joint, pairs.ravel(), np.repeat(weights, length - 1))
        np.testing.assert_allclose(steps[0].ravel(), joint, atol=1e-10)
    assert 500 < n_infeasible < 6000


def test_penalties_of_random_chains(enumeration, pool):
    rng = np.random.default_rng(1)
    for _ in range(2000):
        classes, tokens, nodes, table = random_chain(rng)
        rules = [pool[i] for i in rng.choice(len(pool), int(rng.integers(1, 4)), replace=False)]
        length = len(nodes)
        psi = rng.exponential(size=len(rules))
        automata = [
            rule.penalty_automaton(classes, length, tokens).scaled(p) for rule, p in zip(rules, psi, strict=True)
        ]
        scores = enumeration.scores(nodes, table)
        for rule, p in zip(rules, psi, strict=True):
            scores = scores - p * enumeration.violations(rule, classes, tokens)
        trellis = Automata(automata).trellis(nodes > -np.inf)
        values = trellis.best(nodes, table[None], 3)[1]
        order = np.sort(scores[scores > -np.inf])[::-1][:3]
        assert len(values) == len(order)
        # A minimum that no sequence of this length can reach is charged up to the length.
        np.testing.assert_allclose(np.diff(values), np.diff(order), atol=1e-10)


def test_samples_follow_the_probabilities(enumeration, pool):
    rng = np.random.default_rng(2)
    n_tests = 0
    while n_tests < 10:
        classes, tokens, nodes, table = random_chain(rng)
        rules = [pool[i] for i in rng.choice(len(pool), 2, replace=False)]
        length, k = nodes.shape
        scores = enumeration.scores(nodes, table)
        for rule in rules:
            scores = np.where(enumeration.accepted(rule, classes, tokens), scores, -np.inf)
        trellis = Automata([rule.automaton(classes, length, tokens) for rule in rules]).trellis(nodes > -np.inf)
        draws = trellis.sample(nodes, table[None], 4000, rng)
        if not (scores > -np.inf).any():
            assert (draws == -1).all()
            continue
        n_tests += 1
        p = np.exp(scores - scores.max())
        p /= p.sum()
        counts = np.bincount(draws @ (k ** np.arange(length - 1, -1, -1)), minlength=p.size)
        assert counts[p == 0].sum() == 0
        assert np.abs(counts / 4000 - p).max() < 5 * np.sqrt(0.25 / 4000)


def test_tables_per_step_and_large_scores():
    rng = np.random.default_rng(3)
    from intarsia.sequences import once

    enumeration = Enumeration()
    classes, tokens = ["a", "b", "c"], [""] * 5
    nodes, tables = rng.normal(size=(5, 3)), rng.normal(size=(4, 3, 3))
    for scale in (1.0, 1e3, 1e5):
        y = enumeration.labellings(3, 5)
        scores = scale * (nodes[np.arange(5), y].sum(axis=1) + sum(tables[t, y[:, t], y[:, t + 1]] for t in range(4)))
        scores = np.where(enumeration.accepted(once("a"), classes, tokens), scores, -np.inf)
        trellis = Automata([once("a").automaton(classes, 5)]).trellis(np.ones((5, 3), bool))
        _, values = trellis.best(scale * nodes, scale * tables, 3)
        np.testing.assert_allclose(values, np.sort(scores)[::-1][:3], rtol=1e-12)
        log_partition, marginals, steps = trellis.marginals(scale * nodes, scale * tables, 4)
        weights = np.exp(scores - scores.max())
        np.testing.assert_allclose(log_partition, scores.max() + np.log(weights.sum()), rtol=1e-12)
        weights /= weights.sum()
        joint = np.array([[[weights[(y[:, t] == a) & (y[:, t + 1] == b)].sum() for b in range(3)] for a in range(3)]
                          for t in range(4)])  # fmt: skip
        np.testing.assert_allclose(steps, joint, atol=1e-8)
        np.testing.assert_allclose(marginals[1:], joint.sum(axis=1), atol=1e-8)


def test_a_trellis_that_is_too_large_is_not_built():
    from intarsia.sequences import once

    classes = [f"f{i}" for i in range(30)]
    automata = [once(name).automaton(classes, 40) for name in classes]
    assert Automata(automata).trellis(np.ones((40, 30), bool), 10**6) is None


def test_states_that_no_longer_matter_are_merged():
    from intarsia.sequences import once

    classes = [f"f{i}" for i in range(30)]
    alive = np.eye(30, dtype=bool)  # each field is possible at a single position
    trellis = Automata([once(name).automaton(classes, 30) for name in classes]).trellis(alive, 10**6)
    assert np.diff(trellis.layers.ptr).max() == 1
