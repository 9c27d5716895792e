"""Conversion to results: marginals of single factors, temperature 0, bounds of labellings, pickling."""

import pickle
import warnings

import numpy as np
import pytest
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ZOO, random_theta

import intarsia
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError, TimeLimitError, TooLargeError


def test_single_factors_use_theta_at_the_time_of_the_call():
    graph = intarsia.chain_graph(3, 2, shared=True)
    theta = graph.pack(variables=[[0, 2.0], [0, 0], [0, 0]])
    result = intarsia.infer(graph, theta, "tree")
    theta[:] = 0
    np.testing.assert_allclose(result.factor_marginals(0).sum(axis=1), result.marginals(0), atol=1e-12)


def test_single_factors_use_the_warm_start():
    graph = intarsia.grid_graph(3, 3, 2, shared=True, kind="potts")
    biased = intarsia.infer(graph, graph.pack(variables=[[0, 1.0]] * 9, tables=[2.0, 2.0]), "mean_field")
    result = intarsia.infer(graph, graph.pack(tables=[2.0, 2.0]), "mean_field", warm_start=biased)
    assert result.marginals(0)[1] > 0.9
    np.testing.assert_allclose(result.factor_marginals(0).sum(axis=1), result.marginals(0), atol=1e-6)


@pytest.mark.parametrize("method", ["gibbs", "mean_field"])
def test_single_factors_use_the_generator_state(method):
    graph = intarsia.grid_graph(2, 3, 2, shared=True)
    theta = random_theta(graph, 3)
    settings = {"random_start": True} if method == "mean_field" else {"max_iter": 200}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = intarsia.infer(graph, theta, method, random_state=np.random.default_rng(5), **settings)
        for c in range(graph.n_factors):
            first = int(graph.scope(c)[0])
            np.testing.assert_allclose(result.factor_marginals(c).sum(axis=1), result.marginals(first), atol=1e-6)


def test_single_factors_of_a_labelling_need_no_second_run():
    graph, theta = ZOO["potts"]()
    result = intarsia.infer(graph, theta, "junction_tree", task="map")
    for c in range(graph.n_factors):
        expected = np.zeros(graph.factor_shape(c))
        expected[tuple(result.assignment[graph.scope(c)])] = 1.0
        np.testing.assert_array_equal(result.factor_marginals(c), expected)


@pytest.mark.parametrize("factor", [-1, 5])
def test_unknown_factor_raises(factor):
    graph, theta = ZOO["chain"]()
    with pytest.raises(InvalidInputError, match=rf"factor {factor} does not exist. Pass an index in 0\.\.3"):
        intarsia.infer(graph, theta, "tree").factor_marginals(factor)


def test_results_can_be_pickled():
    graph, theta = ZOO["potts"]()
    result = pickle.loads(pickle.dumps(intarsia.infer(graph, theta, "belief_propagation")))
    np.testing.assert_allclose(result.factor_marginals(0).sum(axis=1), result.marginals(0), atol=1e-7)


@pytest.mark.parametrize("method", ["brute_force", "tree", "junction_tree", "belief_propagation", "tree_reweighted"])
def test_temperature_zero(method):
    graph, theta = ZOO["chain"]()
    best = enumerate_model(graph, theta).best_score
    result = intarsia.infer(graph, theta, method, temperature=0)
    assert result.log_partition == pytest.approx(best)
    assert result.lower_bound == pytest.approx(best)
    np.testing.assert_array_equal(result.mu, graph.statistics(result.assignment))
    with pytest.raises(NotSupportedError, match=r"n_samples|does not support"):
        intarsia.infer(graph, theta, method, temperature=0, n_samples=3)
    with pytest.raises(InvalidInputError, match="task='map' is temperature 0, got temperature=1"):
        intarsia.infer(graph, theta, method, task="map", temperature=1.0)


@pytest.mark.parametrize("temperature", [1e-309, 5e-324])
@pytest.mark.parametrize("method", ["brute_force", "tree", "belief_propagation", "mean_field", "gibbs"])
def test_temperature_too_small_for_the_scores_raises(method, temperature):
    graph = intarsia.chain_graph(2, 2)
    with pytest.raises(InvalidInputError, match="is too small for these scores"):
        intarsia.infer(graph, graph.pack(tables=[[[1.0, 0], [0.9, 0.9]]]), method, temperature=temperature)


@pytest.mark.parametrize("value", [1e308, -1e308])
def test_scores_whose_sums_overflow_raise(value):
    graph = intarsia.chain_graph(2, 2)
    with pytest.raises(InvalidInputError, match=r"theta\[0\] .*Scores must be finite"):
        intarsia.infer(graph, np.full(graph.n_theta, value), "tree")


def test_rounding_by_beliefs_has_no_upper_bound():
    graph = intarsia.chain_graph(2, 2)
    theta = graph.pack(tables=[[[0, 1], [1, 0]]])
    result = intarsia.infer(graph, theta, "belief_propagation", task="map", rounding="beliefs")
    assert result.score == 0.0
    assert result.upper_bound == np.inf


@pytest.mark.parametrize("name", ["grid", "potts", "three_way_factor", "tree"])
@pytest.mark.parametrize("method", ["brute_force", "junction_tree", "belief_propagation", "mean_field"])
def test_assignment_of_marginals_is_the_most_probable_state_of_each_variable(name, method):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, method)
    assert result.assignment.tolist() == [int(result.marginals(v).argmax()) for v in range(graph.n_variables)]


def test_enumeration_respects_the_time_limit():
    graph = intarsia.chain_graph(22, 2)
    with pytest.raises(TimeLimitError, match=r"of 4194304 assignments were visited in time_limit=0\.01 s"):
        intarsia.infer(graph, graph.zeros(), "brute_force", time_limit=0.01)
    wide = intarsia.chain_graph(70, 2)
    with pytest.raises(TooLargeError, match="do not fit in memory"):
        intarsia.infer(wide, wide.zeros(), "brute_force", max_assignments=1e30)


def test_integral_floats_are_accepted_as_integers():
    graph, theta = ZOO["chain"]()
    result = intarsia.infer(graph, theta, "tree", n_samples=2.0, n_best=2.0)
    assert result.samples.shape == (2, 5)
    assert intarsia.infer(graph, theta, "belief_propagation", max_iter=10.0).converged


def test_mismatched_warm_starts_raise():
    ring = intarsia.from_edges(2, [[0, 1], [1, 2], [2, 0]])
    theta = random_theta(ring, 1)
    earlier = intarsia.infer(ring, theta, "belief_propagation", evidence={0: 0})
    with pytest.raises(InvalidInputError, match="other evidence"):
        intarsia.infer(ring, theta, "belief_propagation", evidence={1: 0}, warm_start=earlier)
    with pytest.raises(InvalidInputError, match="warm_start must be an earlier result"):
        intarsia.infer(ring, theta, "belief_propagation", warm_start=3)
