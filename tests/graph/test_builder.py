import numpy as np
import pytest
from tests.oracles.enumeration import enumerate_model

from intarsia.exceptions import InvalidInputError
from intarsia.graph import GraphBuilder


def test_names_scores_and_scopes():
    builder = GraphBuilder()
    assert builder.variable("rain", 2, scores=[0.5, -0.5]) == "rain"
    builder.variable("wet", 3)
    assert builder.factor(["wet", "rain"], np.arange(6.0).reshape(3, 2)) == 0
    assert builder.factor(["rain"], [10.0, 20.0]) == 1
    assert builder.factor([], 7.0) == 2
    graph, theta = builder.build()
    assert graph.names == ("rain", "wet")
    assert graph.scope(0).tolist() == [1, 0]
    for rain in range(2):
        for wet in range(3):
            expected = [0.5, -0.5][rain] + (2 * wet + rain) + [10, 20][rain] + 7
            assert graph.score(theta, [rain, wet]) == expected


def test_shared_and_parametric_factors():
    builder = GraphBuilder()
    for name in "abcd":
        builder.variable(name, 3)
    first = builder.factor(["a", "b"], np.eye(3))
    builder.factor(["b", "c"], share_with=first)
    potts = builder.factor(["c", "d"], 2.0, kind="potts")
    builder.factor(["a", "d"], share_with=potts)
    builder.factor(["a", "c"], [1.5], kind="truncated_linear", truncation=1.0)
    builder.factor(["b", "d"], kind="potts")
    graph, theta = builder.build()
    assert (graph.n_factors, graph.n_tables) == (6, 4)
    truth = enumerate_model(graph, theta)
    np.testing.assert_allclose(graph.score(theta, truth.labellings), truth.scores)
    assert graph.score(theta, [0, 0, 0, 0]) == 1 + 1 + 2 + 2
    assert graph.score(theta, [0, 1, 2, 1]) == -1.5


def test_empty_builder():
    graph, theta = GraphBuilder().build()
    assert (graph.n_variables, theta.size) == (0, 0)


def test_a_call_that_raises_changes_nothing():
    builder = GraphBuilder()
    builder.variable("a", 2)
    builder.variable("b", 2)
    refused = [
        lambda: builder.variable("a", 2),
        lambda: builder.variable("c", 2, [1.0]),
        lambda: builder.factor(["a", "b"], [1.0]),
        lambda: builder.factor(["a", "b"], np.eye(2), kind="pots"),
        lambda: builder.factor(["a", "b"], share_with=0),
        lambda: builder.factor(["a", "x"], np.eye(2)),
    ]
    for call in refused:
        with pytest.raises(InvalidInputError):
            call()
    assert builder.factor(["a", "b"], np.eye(2)) == 0
    graph, _ = builder.build()
    assert (graph.n_variables, graph.n_factors) == (2, 1)


def test_scores_are_copied():
    scores = np.eye(2)
    builder = GraphBuilder()
    builder.variable("a", 2)
    builder.variable("b", 2)
    builder.factor(["a", "b"], scores)
    _, theta = builder.build()
    theta[:] = 5
    np.testing.assert_array_equal(scores, np.eye(2))
