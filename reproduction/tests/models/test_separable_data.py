"""Separability of data sets agrees with `algorithmically_separable`; bounds are above test errors."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.datasets.counterexamples import diamond_examples
from intarsia.diagnostics import algorithmically_separable
from intarsia.exceptions import InvalidInputError
from intarsia.graph import chain_graph, from_edges
from intarsia.learning import example
from intarsia.models import LinearScores
from intarsia_reproduction.models.separable_data import data_separability, decide_separability, risk_and_bound


def random_examples(rng, graph, n):
    """Return examples with random features and labels: few are separable, many are not."""
    features = rng.normal(size=(n, graph.n_variables, 2))
    labels = rng.integers(0, 2, size=(n, graph.n_variables))
    return [example(LinearScores(graph, x), y) for x, y in zip(features, labels, strict=True)]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", ["chain", "triangle"])
def test_agrees_with_the_decision_over_the_polytope(shape, n):
    graph = chain_graph(3, 2) if shape == "chain" else from_edges([2, 2, 2], [[0, 1], [1, 2], [0, 2]])
    for seed in range(5):
        examples = random_examples(np.random.default_rng([seed, n]), graph, n)
        result = decide_separability(examples, max_rounds=100)
        assert result.separable == algorithmically_separable(examples).separable


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
