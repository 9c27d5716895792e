"""Dual of penalized MAP: bounds and labellings against enumeration, and models with many penalties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from intarsia import ChainCRF
from intarsia.energies import (
    Absolute,
    Count,
    DistanceToSet,
    Hinge,
    MeasuredEnergy,
    SoftInterval,
    Squared,
    Transitions,
    at_most_one,
)
from intarsia.energies.segments import forbidden_together, implies
from intarsia.exceptions import NotSupportedError
from intarsia.graph import chain_graph
from intarsia.sequences import not_together
from intarsia.sequences.constraints.lagrangian import path_score
from intarsia.sequences.constraints.penalized import EnergyPenalties
from intarsia.sequences.constraints.soft_dual import ascend_dual, possible_labels
from intarsia.sequences.constraints.solver import Chain

NAMES = ["a", "b", "c"]
ENERGIES = [
    at_most_one("a", width=0.0),
    at_most_one("b", width=1.0),
    implies("a", "b", width=0.0),
    forbidden_together("b", "c", width=0.5),
    MeasuredEnergy(Count("c"), Hinge(2.0, side="below")),
    MeasuredEnergy(Count("a") - 2.0 * Count("b"), Absolute(0.5)),
    MeasuredEnergy(Count("b"), Squared(1.0)),
    MeasuredEnergy(Count("a") + Count("c"), SoftInterval(1.0, 2.0)),
    MeasuredEnergy(Transitions("a", "b"), Hinge(0.0)),
]


def draw_problem(seed):
    """Return a chain, energies, their weights and the penalized score of every labelling, by enumeration."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(2, 6))
    nodes, table = rng.normal(size=(length, 3)), rng.normal(size=(1, 3, 3))
    if seed % 3 == 0:
        table[0, 0, 1] = -np.inf
    energies = [ENERGIES[i] for i in rng.choice(len(ENERGIES), 4, replace=False)]
    psi = rng.exponential(size=4) * (rng.random(4) < 0.9)
    graph = chain_graph(length, 3)
    bound = [energy.bind(graph, NAMES) for energy in energies]
    scores = {}
    for y in itertools.product(range(3), repeat=length):
        score = nodes[np.arange(length), list(y)].sum() + sum(table[0, a, b] for a, b in itertools.pairwise(y))
        statistics = graph.statistics(list(y))
        scores[y] = score - sum(w * energy.value(statistics) for w, energy in zip(psi, bound, strict=True))
    return Chain(nodes, table), energies, psi, scores


@pytest.mark.parametrize("seed", range(120))
def test_bound_and_labelling_against_enumeration(seed):
    chain, energies, psi, scores = draw_problem(seed)
    penalties = EnergyPenalties(energies, NAMES)
    weights = psi[penalties.counts.member_of]
    best = max(scores.values())
    answer = ascend_dual(chain, penalties.counts, weights)
    assert answer.score == pytest.approx(scores[tuple(answer.path.tolist())], abs=1e-9)
    assert answer.score <= best + 1e-9 <= answer.bound + 2e-9
    if answer.proven:
        assert answer.score == pytest.approx(best, abs=1e-8)
    is_possible = possible_labels(chain, penalties.counts, weights, answer)
    winner = max(scores, key=scores.get)
    assert is_possible[np.arange(len(winner)), list(winner)].all()
    solution = penalties.solve(chain, psi)
    assert solution.proven
    assert solution.scores[0] == pytest.approx(best, abs=1e-8)
    assert solution.bound >= best - 1e-8
    assert scores[tuple(solution.paths[0].tolist())] == pytest.approx(best, abs=1e-8)


def test_the_bound_is_close_to_that_of_a_linear_program():
    """With hinges alone the lowest bound is a linear program in the multipliers, with a row for each labelling."""
    hinges = [ENERGIES[i] for i in (0, 2, 4, 8)]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        chain, psi = Chain(rng.normal(size=(4, 3)), rng.normal(size=(1, 3, 3))), 2.0 * rng.exponential(size=4)
        counts = EnergyPenalties(hinges, NAMES).counts
        paths = np.array(list(itertools.product(range(3), repeat=4)))
        scores = [path_score(chain.nodes, chain.tables, path) for path in paths]
        z = np.array([counts.values(path) for path in paths])
        sign = np.array([1.0, 1.0, -1.0, 1.0])  # the third hinge is below its limit
        rows = np.column_stack([-np.ones(len(paths)), -z * sign])
        cost = np.concatenate([[1.0], sign * counts.functions.shift])
        limits = [(None, None), *((0.0, weight) for weight in psi)]
        program = linprog(cost, A_ub=rows, b_ub=-np.array(scores), bounds=limits)
        answer = ascend_dual(chain, counts, psi)
        assert program.fun - 1e-8 <= answer.bound <= program.fun + 0.02


def test_the_bound_of_few_steps_is_valid():
    for seed in range(40):
        chain, energies, psi, scores = draw_problem(seed)
        counts = EnergyPenalties(energies, NAMES).counts
        answers = [ascend_dual(chain, counts, psi[counts.member_of], max_iter=n) for n in (1, 3, 100)]
        assert all(answer.bound >= max(scores.values()) - 1e-9 for answer in answers)
        assert answers[0].bound >= answers[1].bound >= answers[2].bound
        assert answers[0].n_iter == 1


def test_hundreds_of_energies_on_a_long_sequence_are_fast_and_bounded():
    rng = np.random.default_rng(0)
    k, length = 12, 120
    names = [f"{prefix}-{kind}" for kind in "pqrstu" for prefix in "BI"]
    energies = [
        make(a, b, width=0.0) for a, b in itertools.permutations("pqrstu", 2) for make in (implies, forbidden_together)
    ] + [at_most_one(kind, width=0.0) for kind in "pqrstu"]
    psi = rng.exponential(size=len(energies))
    chain = Chain(2.0 * rng.normal(size=(length, k)), rng.normal(size=(1, k, k)))
    answer = ascend_dual(chain, EnergyPenalties(energies, names).counts, psi)
    assert answer.score > ascend_dual(chain, EnergyPenalties(energies, names).counts, psi, max_iter=1).score
    assert answer.score <= answer.bound < np.inf


def test_a_chain_without_a_labelling_has_no_answer():
    chain = Chain(np.zeros((2, 3)), np.full((1, 3, 3), -np.inf))
    penalties = EnergyPenalties([ENERGIES[0]], NAMES)
    solution = penalties.solve(chain, np.ones(1))
    assert solution.paths.shape == (0, 2)
    assert solution.proven


def test_penalties_of_positions_use_automata():
    from intarsia.energies import StartsAfter

    energy = MeasuredEnergy(StartsAfter("a", "b"), Hinge(1.0))
    penalties = EnergyPenalties([energy], NAMES)
    assert penalties.counts is None
    with pytest.raises(NotSupportedError, match="automata"):
        penalties.solve(Chain(np.zeros((2, 3)), np.zeros((1, 3, 3))), np.ones(1))
    assert len(penalties.automata(3, np.ones(1))) == 1


def test_a_model_with_penalties_predicts_the_best_penalized_labelling():
    rng = np.random.default_rng(0)
    y = [rng.choice(NAMES, int(rng.integers(2, 6))).tolist() for _ in range(40)]
    X = [[[f"{label}?{rng.random() < 0.6}"] for label in labels] for labels in y]
    energies = [at_most_one("a", strength=2.0, width=0.0), implies("b", "c", strength=1.0, width=0.0)]
    crf = ChainCRF(classes=NAMES, energies=energies, decode="penalized_map").fit(X, y)
    plain = ChainCRF(classes=NAMES).fit(X, y)
    for x, labels in zip(X, crf.predict(X), strict=True):
        labellings = [list(names) for names in itertools.product(NAMES, repeat=len(x))]
        graph = chain_graph(len(x), 3)
        bound = [energy.bind(graph, NAMES) for energy in energies]
        scores = plain.sequence_log_probability([x] * len(labellings), labellings) - [
            sum(energy.value(graph.statistics([NAMES.index(name) for name in names])) for energy in bound)
            for names in labellings
        ]
        assert scores[labellings.index(labels.tolist())] == pytest.approx(scores.max(), abs=1e-8)


@pytest.mark.parametrize("cap", [None, 3.0])
@pytest.mark.parametrize("extra", ["nothing", "penalty", "rule"])
def test_the_distance_to_a_set_is_minimized_exactly(cap, extra):
    rng = np.random.default_rng(1)
    y = [rng.choice(NAMES, int(rng.integers(2, 6))).tolist() for _ in range(40)]
    X = [[[f"{label}?{rng.random() < 0.6}"] for label in labels] for labels in y]
    words = DistanceToSet([["a", "b", "c"], ["c", "c", "c"], ["b", "a", "a", "b"], ["a", "a"]], strength=0.8, cap=cap)
    energies = [at_most_one("a", strength=2.0, width=0.0), words] if extra == "penalty" else [words]
    crf = ChainCRF(classes=NAMES, energies=energies, decode="penalized_map").fit(X, y)
    rules = [not_together("a", "c")] if extra == "rule" else []
    crf.set_params(require=rules or None)
    plain = ChainCRF(classes=NAMES).fit(X, y)
    for x, labels in zip(X, crf.predict(X), strict=True):
        labellings = [list(names) for names in itertools.product(NAMES, repeat=len(x))]
        labellings = [names for names in labellings if all(rule.check(names) for rule in rules)]
        graph = chain_graph(len(x), 3)
        bound = [energy.bind(graph, NAMES) for energy in energies]
        scores = plain.sequence_log_probability([x] * len(labellings), labellings) - [
            sum(energy.value(graph.statistics([NAMES.index(name) for name in names])) for energy in bound)
            for names in labellings
        ]
        assert scores[labellings.index(labels.tolist())] == pytest.approx(scores.max(), abs=1e-8)


def test_a_cap_leaves_unknown_words_to_the_chain():
    rng = np.random.default_rng(0)
    words = ["cat", "dog"]
    letters = sorted(set("".join(words)))
    y = [list(words[i]) for i in rng.integers(0, 2, 60)]
    X = [np.eye(6)[[letters.index(letter) for letter in word]] + 0.1 * rng.normal(size=(3, 6)) for word in y]
    far, near = (np.eye(6)[[letters.index(letter) for letter in word]] for word in ("tac", "cot"))
    readings = []
    for cap in (None, 3.0):
        crf = ChainCRF(l2=1.0, energies=[DistanceToSet(words, strength=50.0, cap=cap)], decode="penalized_map")
        crf.fit([x[:, :6] for x in X], y)
        readings.append(["".join(labels) for labels in crf.predict([far, near])])
    plain = ["".join(labels) for labels in ChainCRF(l2=1.0).fit(X, y).predict([far, near])]
    assert set(readings[0]) <= set(words)
    assert all(reading in (*words, free) for reading, free in zip(readings[1], plain, strict=True))


def test_two_sets_are_not_supported():
    X, y = [[["u"], ["v"]]] * 4, [["a", "b"]] * 4
    sets = [DistanceToSet(["ab"], strength=1.0), DistanceToSet(["ba"], strength=1.0)]
    crf = ChainCRF(classes=NAMES, energies=sets, decode="penalized_map").fit(X, y)
    with pytest.raises(NotSupportedError, match="one DistanceToSet"):
        crf.predict(X)
