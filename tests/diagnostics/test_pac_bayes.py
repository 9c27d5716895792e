"""PAC-Bayes bound: the first term is compared with enumeration, the others with hand calculations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.learning.margin_sets import features, labellings, random_triangles
from tests.oracles.local_polytope import write_out

from intarsia.datasets.counterexamples import diamond_examples, triangle_examples
from intarsia.diagnostics import pac_bayes_bound
from intarsia.exceptions import InvalidInputError, NotSupportedError


def statistics(graph, y):
    """Return the columns of the local polytope at a labelling."""
    nodes = [np.eye(k)[state] for k, state in zip(graph.n_states, y, strict=True)]
    tables = [np.outer(nodes[a], nodes[b]).reshape(-1) for a, b in (graph.scope(c) for c in range(graph.n_factors))]
    return np.concatenate([*nodes, *tables])


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_empirical_term_lies_between_labellings_and_the_polytope(scale):
    data = random_triangles(n=4, noise=0.2)
    weights = np.random.default_rng(1).normal(size=8)
    found = pac_bayes_bound(data, weights=weights, scales=[scale])
    losses = []
    for one in data:
        scores, y = one.scores, one.labels.y
        graph = scores.graph
        every = labellings(graph)
        values = [scale * features(scores, z) @ weights for z in every]
        assert write_out(graph, scores.theta(scale * weights)).value == pytest.approx(max(values))  # not fractional
        best = statistics(graph, every[int(np.argmax(values))])
        close = [
            max(values) - v <= np.abs(best - statistics(graph, z)).sum() for z, v in zip(every, values, strict=True)
        ]
        losses.append(max((z != y).mean() for z, near in zip(every, close, strict=True) if near))
    assert found.empirical_at_least == pytest.approx(np.mean(losses))
    assert found.empirical >= found.empirical_at_least - 1e-9


def test_complexity_by_hand():
    data = random_triangles(n=10)
    found = pac_bayes_bound(data, weights=np.full(8, 0.1), scales=[1.0], delta=0.1)
    longest = max(1.0, max(np.linalg.norm(one.scores.node_features, axis=1).max() for one in data))
    strength = (longest * 0.1 * math.sqrt(8)) ** 2
    inside = strength * math.log(2 * 18 * 10 / strength) + math.log(10 / 0.1)
    assert found.complexity == pytest.approx(math.sqrt(inside / 18) + strength / 10)
    assert found.n_indicators == 18
    assert found.bound == found.empirical + found.complexity


def test_scale_with_the_smallest_bound_is_used():
    data = random_triangles(n=10)
    weights = np.random.default_rng(1).normal(size=8)
    scales = [0.01, 0.3, 1.0, 30.0]
    each = [pac_bayes_bound(data, weights=weights, scales=[scale]).bound for scale in scales]
    assert pac_bayes_bound(data, weights=weights, scales=scales).bound == pytest.approx(min(each))


def test_refusals():
    data = random_triangles(n=3)
    with pytest.raises(InvalidInputError, match="not fitted"):
        pac_bayes_bound(data)
    with pytest.raises(InvalidInputError, match="weights have shape"):
        pac_bayes_bound(data, weights=np.ones(3))
    with pytest.raises(InvalidInputError, match="delta"):
        pac_bayes_bound(data, weights=np.ones(8), delta=0.0)
    with pytest.raises(InvalidInputError, match="single example"):
        pac_bayes_bound(data[:1], weights=np.ones(8))
    with pytest.raises(InvalidInputError, match="scales is empty"):
        pac_bayes_bound(data, weights=np.ones(8), scales=[])
    with pytest.raises(NotSupportedError, match="hidden labels"):
        pac_bayes_bound(triangle_examples(), weights=np.ones(3))
    with pytest.raises(NotSupportedError, match="fixed scores"):
        pac_bayes_bound(diamond_examples(), weights=np.ones(2))
