"""Separability of data sets agrees with `algorithmically_separable`; bounds are above test errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intarsia.datasets.counterexamples import diamond_examples
from intarsia.diagnostics import algorithmically_separable
from intarsia.exceptions import InvalidInputError
from intarsia.graph import chain_graph, from_edges
from intarsia.learning import example
from intarsia.models import LinearScores
from intarsia_reproduction.models import separable_data as module
from intarsia_reproduction.models.separable_data import data_separability, decide_separability, risk_and_bound


def random_examples(rng, graph, n):
    """Return examples with random features and labels: few are separable, many are not."""
    features = rng.normal(size=(n, graph.n_variables, 2))
    labels = rng.integers(0, 2, size=(n, graph.n_variables))
    return [example(LinearScores(graph, x), y) for x, y in zip(features, labels, strict=True)]


@pytest.fixture(autouse=True)
def few_passes(monkeypatch):
    """Let the perceptron give up early on data that are not separable, which saves time."""
    monkeypatch.setattr(module, "_N_PASSES", 10)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", ["chain", "triangle"])
def test_agrees_with_the_decision_over_the_polytope(shape, n):
    graph = chain_graph(3, 2) if shape == "chain" else from_edges([2, 2, 2], [[0, 1], [1, 2], [0, 2]])
    for seed in range(5):
        examples = random_examples(np.random.default_rng([seed, n]), graph, n)
        result = decide_separability(examples, max_rounds=100)
        assert result.separable == algorithmically_separable(examples).separable


@pytest.mark.parametrize("n", [2, 5])
def test_the_linear_programs_agree_without_the_perceptron(n, monkeypatch):
    monkeypatch.setattr(module, "_N_PASSES", 0)
    for seed in range(5):
        examples = random_examples(np.random.default_rng([seed, n]), chain_graph(3, 2), n)
        result = decide_separability(examples, max_rounds=100)
        assert result.separable == algorithmically_separable(examples).separable
        assert result.n_rounds > 0


def test_the_weights_of_the_perceptron_label_every_example_without_ties():
    examples = random_examples(np.random.default_rng(0), chain_graph(3, 2), 2)
    result = decide_separability(examples)
    assert result.separable
    assert result.n_passes > 1
    for item in map(module.MarginExample, examples):
        best = [item.theta(result.weights) @ item.source.scores.graph.statistics(np.array(labels))
                for labels in itertools.product((0, 1), repeat=3)]  # fmt: skip
        truth = item.theta(result.weights) @ item.source.scores.graph.statistics(item.labels)
        assert np.sum(np.array(best) >= truth - 1e-9) == 1


def test_a_decision_stops_at_its_time_limit():
    examples = random_examples(np.random.default_rng(0), chain_graph(3, 2), 20)
    assert decide_separability(examples).separable is False
    result = decide_separability(examples, time_limit=0.0)
    assert result.separable is None
    assert result.n_rounds == 0


def test_fixed_scores_are_refused():
    with pytest.raises(InvalidInputError, match="example 0 has hidden labels or fixed scores"):
        decide_separability(diamond_examples(0.1))


@pytest.mark.data
def test_two_horses_are_separable(data):
    finding = data_separability("horses", 2, data)
    assert finding.values == {"": 1.0}
    assert finding.settings["wrong examples of the last weights"] == 0


@pytest.mark.data
@pytest.mark.parametrize("name", ["words", "snakes"])
def test_bound_is_above_the_test_error(name, data):
    finding = risk_and_bound(name, 3, 5, data)
    assert 0.0 <= finding.values["test error"] <= 1.0 <= finding.values["bound of Theorem 2"]
    assert finding.settings["note"] == "the bound is vacuous"
