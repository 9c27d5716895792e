import numpy as np
import pytest
from tests.losses.labelled_models import FEASIBLE, SORTS, as_sets, enumerated, learning_model, some_labels
from tests.oracles.likelihoods import negative_log_likelihood

from intarsia import chain_graph
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.losses import SaddlePoint, training_labels


@pytest.mark.parametrize("sort", SORTS)
def test_best_score_minus_best_allowed_score(sort):
    for k, name in enumerate(FEASIBLE):
        graph, theta = learning_model(name)
        labels = some_labels(name, sort, seed=k)
        allowed, truth = as_sets(graph, labels), enumerated(name)
        inside = [all(x in s for x, s in zip(y, allowed, strict=True)) for y in truth.labellings.tolist()]
        expected = truth.best_score - truth.scores[np.array(inside)].max()
        value, gradient = SaddlePoint(inference="brute_force").value_and_gradient_theta(graph, theta, labels)
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-9), name
        assert np.isin(gradient, (-1.0, 0.0, 1.0)).all()
        # Piecewise linear without a constant: the gradient gives the value.
        finite = np.isfinite(theta)
        assert float(theta[finite] @ gradient[finite]) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("method", ["icm", "tree_reweighted", "junction_tree"])
def test_lower_bound_whatever_labelling_is_found(method):
    loss = SaddlePoint(inference=method)
    assert loss.bound_is_when_observed == "lower bound"
    assert loss.bound_is == "estimate"
    for name in ("grid", "complete", "three_way_factor", "unequal_state_counts"):
        graph, theta = learning_model(name)
        labels = some_labels(name, "observed", seed=1)
        value, _ = loss.value_and_gradient_theta(graph, theta, labels, random_state=0)
        assert value <= negative_log_likelihood(graph, theta, as_sets(graph, labels)) + 1e-9


def test_methods_without_map_are_refused():
    graph = chain_graph(2, 2)
    with pytest.raises(
        NotSupportedError, match=r"SaddlePoint needs the best labelling, which Gibbs does not compute.*icm"
    ):
        SaddlePoint().value_and_gradient_theta(graph, graph.zeros(), training_labels(graph, [0, 0]), inference="gibbs")


@pytest.mark.parametrize("y", [[1, 0], [[False, True], [True, False]]])
def test_impossible_labels_are_refused(y):
    graph = chain_graph(2, 2)
    theta = graph.pack(tables=[[[0.0, 0.0], [-np.inf, 0.0]]])
    with pytest.raises(InvalidInputError, match="SaddlePoint: theta gives the labels a score of -inf"):
        SaddlePoint().value_and_gradient_theta(graph, theta, training_labels(graph, y))
