import numpy as np
import pytest
from tests.losses.labelled_models import (
    FEASIBLE,
    SORTS,
    as_sets,
    check_slopes,
    enumerated,
    learning_model,
    some_labels,
    weighted,
)
from tests.oracles.likelihoods import negative_log_likelihood, piecewise_negative_log_likelihood

from intarsia import chain_graph
from intarsia.exceptions import InvalidInputError
from intarsia.losses import PiecewiseLikelihood, training_labels

LOSS = PiecewiseLikelihood()


@pytest.mark.parametrize("sort", SORTS)
def test_pieces_are_independent(sort):
    for k, name in enumerate(FEASIBLE):
        graph, theta = learning_model(name)
        labels = some_labels(name, sort, seed=k)
        allowed = as_sets(graph, labels)
        value, gradient = LOSS.value_and_gradient_theta(graph, theta, labels)
        expected = piecewise_negative_log_likelihood(graph, theta, allowed)
        assert value == pytest.approx(expected, rel=1e-10, abs=1e-10), name
        check_slopes(
            lambda t, g=graph, a=allowed: piecewise_negative_log_likelihood(g, t, a),
            theta, gradient, n_directions=1, tol=1e-6,
        )  # fmt: skip


def test_upper_bound_when_all_is_observed():
    assert LOSS.bound_is_when_observed == "upper bound"
    for k, name in enumerate(FEASIBLE):
        graph, theta = learning_model(name)
        labels = some_labels(name, "observed", seed=k)
        value, _ = LOSS.value_and_gradient_theta(graph, theta, labels)
        assert value >= negative_log_likelihood(graph, theta, as_sets(graph, labels), enumerated(name)) - 1e-9, name


def test_weights():
    graph, theta = learning_model("three_way_factor")
    labels = some_labels("three_way_factor", "mixed", seed=1)
    heavy = weighted(graph, labels)
    value, gradient = LOSS.value_and_gradient_theta(graph, theta, heavy)
    expected = piecewise_negative_log_likelihood(graph, theta, as_sets(graph, labels), heavy.weights)
    assert value == pytest.approx(expected)
    check_slopes(lambda t: LOSS.value_and_gradient_theta(graph, t, heavy)[0], theta, gradient)


def test_impossible_pieces():
    graph = chain_graph(3, 2)
    theta = graph.zeros()
    graph.table(theta, 0)[...] = -np.inf
    with pytest.raises(InvalidInputError, match="PiecewiseLikelihood: theta gives the labels a score of -inf"):
        LOSS.value_and_gradient_theta(graph, theta, training_labels(graph, [0, 0, 0]))
    # An impossible piece has no effect if it is excluded.
    value, gradient = LOSS.value_and_gradient_theta(graph, theta, training_labels(graph, [-1, 0, 0]))
    assert value == pytest.approx(2 * np.log(2) + np.log(4))
    assert np.isfinite(gradient).all()
