import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.enumeration import enumerate_model
from tests.zoo import HARD_ZEROS, INFEASIBLE, ZOO, factors

import intarsia
from intarsia._core.clock import Clock
from intarsia.inference.sampling.feasible import find_feasible, has_hard_zeros


def search(graph, theta, seed=0, **limits):
    return find_feasible(graph, theta, np.random.default_rng(seed), **limits)


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("name", sorted(HARD_ZEROS))
def test_finds_a_feasible_labelling(name, random):
    graph, theta = ZOO[name]()
    assert has_hard_zeros(graph, theta)
    result = search(graph, theta, random=random)
    assert np.isfinite(graph.score(theta, result.labelling))
    assert not result.infeasible


@pytest.mark.parametrize("name", sorted(INFEASIBLE))
def test_proves_infeasibility(name):
    result = search(*ZOO[name]())
    assert result.labelling is None
    assert result.infeasible


@st.composite
def hard_models(draw):
    n = draw(st.integers(2, 6))
    n_states = draw(st.lists(st.integers(2, 3), min_size=n, max_size=n))
    scopes = draw(
        st.lists(
            st.lists(st.integers(0, n - 1), min_size=2, max_size=min(n, 3), unique=True),
            min_size=1, max_size=8, unique_by=lambda s: tuple(sorted(s)),
        )
    )  # fmt: skip
    graph = factors(n_states, scopes)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    theta = rng.standard_normal(graph.n_theta)
    theta[rng.random(graph.n_theta) < draw(st.sampled_from([0.1, 0.3, 0.5, 0.7]))] = -np.inf
    return graph, theta


@settings(max_examples=150, deadline=None, derandomize=True)
@given(hard_models())
def test_agrees_with_enumeration(model):
    graph, theta = model
    truth = enumerate_model(graph, theta)
    result = search(graph, theta)
    if truth.log_partition == -np.inf:
        assert result.infeasible
        assert result.labelling is None
        return
    assert np.isfinite(graph.score(theta, result.labelling))


def clique_colouring(n, k):
    """Return n variables that must all differ, with k colours; feasible exactly if n <= k."""
    graph = intarsia.graph.complete_graph(n, k)
    table = np.where(np.eye(k, dtype=bool), -np.inf, 0.0)
    return graph, graph.pack(tables=np.tile(table, (graph.n_factors, 1, 1)))


def test_proof_needs_search():
    """Arc consistency alone does not detect that four colours are too few for five variables."""
    result = search(*clique_colouring(5, 4))
    assert result.infeasible
    assert result.n_nodes > 0
    graph, theta = clique_colouring(5, 5)
    assert sorted(search(graph, theta).labelling.tolist()) == list(range(5))


def test_limits_are_respected_without_a_proof():
    """A pigeonhole problem that is too hard for backtracking."""
    graph, theta = clique_colouring(14, 13)
    result = search(graph, theta, max_nodes=2000)
    assert result.labelling is None
    assert not result.infeasible
    assert result.n_nodes <= 2000
    clock = Clock(1e-9)
    assert search(graph, theta, clock=clock).n_nodes < 2000


def test_methods_report_that_the_search_reached_its_limit():
    graph, theta = clique_colouring(14, 13)
    with pytest.raises(intarsia.exceptions.TooLargeError, match=r"Gibbs: no assignment of finite score.*junction_tree"):
        intarsia.infer(graph, theta, "gibbs", time_limit=0.01)
    with pytest.warns(intarsia.exceptions.ConvergenceWarning):
        result = intarsia.infer(graph, theta, "icm", task="map", time_limit=0.01)
    assert result.score == -np.inf
    assert result.status is intarsia.Status.STALLED
    with pytest.warns(intarsia.exceptions.ConvergenceWarning):
        result = intarsia.infer(graph, theta, "mean_field", time_limit=0.01)
    assert result.log_partition == -np.inf
    assert result.log_partition_is == "lower bound"
    assert "-inf" in result.note
    assert not np.isnan(result.mu).any()


def test_potts_weight_of_minus_infinity():
    graph = intarsia.grid_graph(4, 4, 2, kind="potts")
    theta = graph.pack(tables=np.full(graph.n_factors, -np.inf))
    y = search(graph, theta).labelling.reshape(4, 4)
    assert (y[1:] != y[:-1]).all()
    assert (y[:, 1:] != y[:, :-1]).all()


def test_prefers_high_unary_scores():
    graph, theta = ZOO["hard_implications"]()
    theta[: graph.variable_ptr[-1]] = np.tile([0.0, 1.0], 5)
    np.testing.assert_array_equal(search(graph, theta).labelling, np.ones(5))


def test_random_searches_differ():
    graph, theta = clique_colouring(4, 6)
    result = {tuple(search(graph, theta, seed, random=True).labelling.tolist()) for seed in range(10)}
    assert len(result) > 5


def test_large_graph():
    graph = intarsia.grid_graph(150, 150, 3)
    table = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)
    theta = graph.pack(tables=np.tile(table, (graph.n_factors, 1, 1)))
    assert np.isfinite(graph.score(theta, search(graph, theta).labelling))
