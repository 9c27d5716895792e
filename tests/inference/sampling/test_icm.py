import numpy as np
import pytest
from hypothesis import given, settings
from tests.oracles.enumeration import enumerate_model
from tests.random_models import random_models
from tests.zoo import HARD_ZEROS, INFEASIBLE, ZOO

import intarsia
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.inference.sampling.icm import ICM, climb

FEASIBLE = [name for name in ZOO if name not in INFEASIBLE]


def check_local_maximum(graph, theta, y):
    """Check that no change of a single variable improves the score."""
    score = graph.score(theta, y)
    for v in range(graph.n_variables):
        for x in range(int(graph.n_states[v])):
            flipped = np.array(y)
            flipped[v] = x
            assert graph.score(theta, flipped) <= score + 1e-9 * max(1, abs(score))


@pytest.mark.parametrize("n_restarts", [0, 3])
@pytest.mark.parametrize("name", FEASIBLE)
def test_local_maximum(name, n_restarts):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "icm", task="map", n_restarts=n_restarts, random_state=1)
    truth = enumerate_model(graph, theta)
    assert result.converged
    assert result.residual == 0
    assert result.score == result.lower_bound <= truth.best_score + 1e-9
    assert result.upper_bound == (np.inf if graph.n_variables else result.score)
    assert np.isfinite(result.score)
    check_local_maximum(graph, theta, result.assignment)


@pytest.mark.parametrize("name", sorted(INFEASIBLE))
def test_infeasible(name):
    graph, theta = ZOO[name]()
    result = intarsia.infer(graph, theta, "icm", task="map")
    assert result.status is intarsia.Status.INFEASIBLE
    assert result.assignment is None


def test_restarts_never_hurt_and_are_reproducible():
    graph = intarsia.grid_graph(5, 5, 3)
    theta = np.random.default_rng(3).standard_normal(graph.n_theta)
    alone = intarsia.infer(graph, theta, "icm", task="map")
    many, again = (intarsia.infer(graph, theta, "icm", task="map", n_restarts=30, random_state=0) for _ in range(2))
    assert many.score > alone.score
    np.testing.assert_array_equal(many.assignment, again.assignment)


def test_improves_an_earlier_result():
    graph, theta = ZOO["grid_three_states"]()
    marginals = intarsia.infer(graph, theta, "brute_force")
    polished = intarsia.infer(graph, theta, "icm", task="map", warm_start=marginals)
    assert polished.score >= graph.score(theta, marginals.assignment)
    check_local_maximum(graph, theta, polished.assignment)
    best = intarsia.infer(graph, theta, "brute_force", task="map")
    same = intarsia.infer(graph, theta, "icm", task="map", warm_start=best)
    np.testing.assert_array_equal(same.assignment, best.assignment)
    assert same.n_iter == 1


@pytest.mark.parametrize("name", sorted(HARD_ZEROS))
def test_hard_zeros(name):
    graph, theta = ZOO[name]()
    assert np.isfinite(intarsia.infer(graph, theta, "icm", task="map").score)


def test_ties_do_not_change():
    graph, theta = ZOO["uniform"]()
    result = intarsia.infer(graph, theta, "icm", task="map")
    assert result.n_iter == 1
    assert (result.assignment == 0).all()


def test_evidence():
    graph, theta = ZOO["three_way_factor"]()
    result = intarsia.infer(graph, theta, "icm", task="map", evidence={1: 2})
    assert result.assignment[1] == 2


def test_invalid_arguments_raise():
    graph, theta = ZOO["grid"]()
    with pytest.raises(NotSupportedError, match="ICM does not support task='marginals'"):
        intarsia.infer(graph, theta, "icm")
    with pytest.raises(InvalidInputError, match="ICM: max_iter"):
        intarsia.infer(graph, theta, ICM(max_iter=0), task="map")
    with pytest.raises(InvalidInputError, match="ICM: n_restarts"):
        intarsia.infer(graph, theta, ICM(n_restarts=-1), task="map")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_models())
def test_random_models(model):
    graph, theta = model
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta, "icm", task="map", n_restarts=1, random_state=0)
    if truth.log_partition == -np.inf:
        assert result.status is intarsia.Status.INFEASIBLE
        return
    assert result.converged
    assert np.isfinite(result.score)
    assert result.score <= truth.best_score + 1e-9 * max(1, abs(truth.best_score))
    check_local_maximum(graph, theta, result.assignment)


@pytest.mark.parametrize("name", [name for name in FEASIBLE if name not in HARD_ZEROS])
def test_climb_improves_in_place_up_to_a_local_maximum(name):
    graph, theta = ZOO[name]()
    rng = np.random.default_rng(4)
    possible = [np.flatnonzero(np.isfinite(graph.variable(theta, v))) for v in range(graph.n_variables)]
    y = np.array([rng.choice(states) for states in possible], dtype=np.int64)
    before = graph.score(theta, y)
    climb(graph, theta, y)
    assert graph.score(theta, y) >= before
    check_local_maximum(graph, theta, y)


def test_time_limit_ends_the_restarts_and_the_status_says_so():
    graph, theta = ZOO["grid"]()
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        result = intarsia.infer(graph, theta, "icm", task="map", n_restarts=10**6, time_limit=0.1, random_state=0)
    assert result.status is intarsia.Status.TIME_LIMIT
    assert result.seconds < 5.0
    check_local_maximum(graph, theta, result.assignment)
