import numpy as np
import pytest
from hypothesis import given, settings
from tests.inference.exact_checks import check_against_enumeration, check_samples
from tests.random_models import random_models
from tests.zoo import FORESTS, ZOO

import intarsia
from intarsia.exceptions import NotSupportedError, TimeLimitError


@pytest.mark.parametrize("name", sorted(FORESTS))
def test_agrees_with_plain_enumeration(name):
    check_against_enumeration(*ZOO[name](), "tree")


@pytest.mark.parametrize(
    "name", ["tree", "three_way_tree", "truncated_quadratic", "one_state_variables", "shared_chain"]
)
def test_evidence_and_temperature(name):
    graph, theta = ZOO[name]()
    check_against_enumeration(graph, theta, "tree", evidence={1: 1, 3 % graph.n_variables: 0}, temperature=0.5)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(random_models(forest=True))
def test_random_forests(model):
    check_against_enumeration(*model, "tree")


def test_evidence_can_make_a_forest():
    graph, theta = ZOO["hard_zeros"]()  # a 5-cycle
    check_against_enumeration(graph, theta, "tree", evidence={2: 1})


@pytest.mark.parametrize("name", sorted(set(ZOO) - FORESTS - {"infeasible_variable"}))
def test_cycles_raise(name):
    graph, theta = ZOO[name]()
    with pytest.raises(NotSupportedError, match=r"Tree: the factor graph has a cycle .* Use 'junction_tree'"):
        intarsia.infer(graph, theta, "tree")


@pytest.mark.parametrize("name", ["tree", "hard_zeros_three_way", "hard_implications"])
def test_samples(name):
    check_samples(*ZOO[name](), "tree")


def test_entries_over_the_full_range_of_doubles():
    """Sums of exp(-700) and 1 along a chain: linear arithmetic would lose the small terms, which evidence selects."""
    graph = intarsia.chain_graph(6, 3)
    rng = np.random.default_rng(0)
    theta = rng.choice([0.0, -345.0, -690.0], graph.n_theta)
    check_against_enumeration(graph, theta, "tree")
    impossible_but_for_tiny = graph.pack(
        tables=np.where(np.eye(3, dtype=bool), -690.0, -np.inf)[None].repeat(5, axis=0)
    )
    check_against_enumeration(graph, impossible_but_for_tiny, "tree")


def test_long_chain_agrees_with_matrix_products():
    """Compare a million binary variables with repeated squares of the transfer matrix in the log domain."""
    n = 2**20 + 1
    graph = intarsia.chain_graph(n, 2, shared=True)
    table = np.array([[0.3, -0.2], [0.1, 0.4]])
    theta = graph.pack(tables=table)
    power, scale = np.exp(table), 0.0
    for _ in range(20):
        power = power @ power
        scale = 2 * scale + np.log(power.max())
        power /= power.max()
    result = intarsia.infer(graph, theta, "tree", n_samples=1, random_state=0)
    assert result.log_partition == pytest.approx(scale + np.log(power.sum()), rel=1e-11)
    value, vector = np.linalg.eig(np.exp(table))
    other, covector = np.linalg.eig(np.exp(table).T)
    stationary = vector[:, value.argmax()] * covector[:, other.argmax()]
    np.testing.assert_allclose(result.marginals(n // 2), stationary / stationary.sum(), atol=1e-11)
    assert result.samples[0].mean() == pytest.approx(stationary[1] / stationary.sum(), abs=5e-3)
    best = intarsia.infer(graph, theta, "tree", task="map", n_best=2)
    assert best.score == pytest.approx(0.4 * (n - 1))
    assert (best.assignment == 1).all()
    assert best.best_scores[1] < best.score


def test_batch_of_stars_and_wide_hub():
    """A hub with many leaves needs the log domain, as the ranges of the leaves add up."""
    graph = intarsia.graph.star_graph(3000, 2)
    rng = np.random.default_rng(1)
    theta = rng.standard_normal(graph.n_theta)
    leaf = np.logaddexp.reduce(
        theta[2 : 2 + 6000].reshape(3000, 1, 2) + theta[6002:].reshape(3000, 2, 2),
        axis=2,
    )
    hub = theta[:2] + leaf.sum(axis=0)
    result = intarsia.infer(graph, theta, "tree")
    assert result.log_partition == pytest.approx(np.logaddexp.reduce(hub), rel=1e-12)
    np.testing.assert_allclose(result.marginals(0), np.exp(hub - np.logaddexp.reduce(hub)), atol=1e-9)


def test_all_labellings_once_in_descending_order():
    graph, theta = ZOO["tied_tree"]()
    result = intarsia.infer(graph, theta, "tree", task="map", n_best=1000)
    assert result.best.shape == (81, 4)
    assert len({tuple(y) for y in result.best.tolist()}) == 81
    assert (np.diff(result.best_scores) <= 0).all()


def test_time_limit_is_reported():
    graph = intarsia.chain_graph(1000, 2)
    with pytest.raises(TimeLimitError, match=r"Tree: not finished at time_limit=1e-09 s.*Raise time_limit"):
        intarsia.infer(graph, graph.zeros(), "tree", time_limit=1e-9)
