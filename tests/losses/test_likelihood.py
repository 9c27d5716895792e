import gc

import numpy as np
import pytest
from tests.losses.labelled_models import (
    FEASIBLE,
    LOOPY,
    SOME,
    SORTS,
    as_sets,
    check_slopes,
    enumerated,
    learning_model,
    some_labels,
)
from tests.oracles.likelihoods import negative_log_likelihood
from tests.zoo import HARD_ZEROS

from intarsia import BeliefPropagation, MeanField, TreeReweighted, chain_graph, grid_graph, infer
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference import Status
from intarsia.inference.method import Answer
from intarsia.losses import Likelihood, SurrogateEM, clamping, training_labels
from intarsia.losses.clamping import _REDUCTIONS

SURROGATES = {
    "tree_reweighted": TreeReweighted(tol=1e-13, max_iter=5000),
    "belief_propagation": BeliefPropagation(tol=1e-13, max_iter=5000),
    "mean_field": MeanField(tol=1e-13, max_iter=20000),
}


@pytest.mark.parametrize("sort", SORTS)
def test_exact_inference_gives_the_likelihood(sort):
    """Also for EM: hidden labels are summed out exactly, as by enumeration of all completions."""
    for k, name in enumerate(FEASIBLE):
        graph, theta = learning_model(name)
        labels = some_labels(name, sort, seed=k)
        value, gradient = Likelihood(inference="brute_force").value_and_gradient_theta(graph, theta, labels)
        expected = negative_log_likelihood(graph, theta, as_sets(graph, labels), enumerated(name))
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9), name
        assert gradient.shape == theta.shape
        em = SurrogateEM(free="junction_tree", clamped="brute_force")
        assert em.value_and_gradient_theta(graph, theta, labels)[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("name", SOME)
def test_exact_gradient(name, sort):
    graph, theta = learning_model(name)
    labels = some_labels(name, sort, seed=5)
    allowed = as_sets(graph, labels)
    _, gradient = Likelihood(inference="junction_tree").value_and_gradient_theta(graph, theta, labels)
    # Uses the value of the oracle, to detect a fault common to value and gradient.
    check_slopes(lambda t: negative_log_likelihood(graph, t, allowed), theta, gradient, n_directions=1, tol=1e-6)


@pytest.mark.parametrize("sort", ["observed", "mixed"])
@pytest.mark.parametrize("method", SURROGATES)
@pytest.mark.parametrize("name", [*LOOPY, "tree"])
def test_surrogate_gradient_is_that_of_the_surrogate(name, method, sort):
    graph, theta = learning_model(name)
    labels = some_labels(name, sort, seed=2)
    theta = 0.5 * theta  # where belief propagation converges on every model
    loss = Likelihood(inference=SURROGATES[method])
    _, gradient = loss.value_and_gradient_theta(graph, theta, labels)
    check_slopes(lambda t: loss.value_and_gradient_theta(graph, t, labels)[0], theta, gradient, n_directions=2)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("name", [*LOOPY, *sorted(HARD_ZEROS)])
def test_surrogate_em_is_an_upper_bound(name, sort):
    graph, theta = learning_model(name)
    labels = some_labels(name, sort, seed=3)
    loss = SurrogateEM(free=TreeReweighted(max_iter=5000), clamped=MeanField(max_iter=5000))
    assert loss.bound_is == "upper bound"
    value, _ = loss.value_and_gradient_theta(graph, theta, labels)
    assert value >= negative_log_likelihood(graph, theta, as_sets(graph, labels)) - 1e-7


def test_surrogate_em_gradient():
    graph, theta = learning_model("grid_three_states")
    labels = some_labels("grid_three_states", "mixed", seed=1)
    loss = SurrogateEM(free=SURROGATES["tree_reweighted"], clamped=SURROGATES["mean_field"])
    _, gradient = loss.value_and_gradient_theta(graph, theta, labels)
    check_slopes(lambda t: loss.value_and_gradient_theta(graph, t, labels)[0], theta, gradient)


@pytest.mark.parametrize("name", LOOPY)
def test_declared_bounds_hold_without_hidden_labels(name):
    graph, theta = learning_model(name)
    labels = some_labels(name, "observed", seed=4)
    exact = negative_log_likelihood(graph, theta, as_sets(graph, labels))
    upper = Likelihood(inference=TreeReweighted(max_iter=5000))
    lower = Likelihood(inference="mean_field")
    assert (upper.bound_is_when_observed, lower.bound_is_when_observed) == ("upper bound", "lower bound")
    assert upper.value_and_gradient_theta(graph, theta, labels)[0] >= exact - 1e-7
    assert lower.value_and_gradient_theta(graph, theta, labels)[0] <= exact + 1e-7


def test_declared_bounds():
    assert Likelihood(inference="junction_tree").bound_is == "exact"
    assert Likelihood(inference="tree_reweighted").bound_is == "estimate"
    assert Likelihood(inference="belief_propagation").bound_is_when_observed == "estimate"
    assert Likelihood().bound_is_when_observed == "estimate"
    assert Likelihood(inference=TreeReweighted(temperature=0.5)).bound_is_when_observed == "estimate"
    assert SurrogateEM().bound_is == SurrogateEM(clamped="tree").bound_is == "upper bound"
    assert SurrogateEM(free="mean_field", clamped="tree_reweighted").bound_is == "lower bound"
    assert SurrogateEM(free="tree", clamped="junction_tree").bound_is == "exact"
    assert SurrogateEM(clamped=None).bound_is == "estimate"


def test_the_inference_of_the_model_is_the_default():
    graph, theta = learning_model("grid")
    labels = some_labels("grid", "mixed")
    named = Likelihood(inference="mean_field").value_and_gradient_theta(graph, theta, labels)[0]
    given = Likelihood().value_and_gradient_theta(graph, theta, labels, inference="mean_field")[0]
    own = Likelihood(inference="mean_field").value_and_gradient_theta(graph, theta, labels, inference="tree_reweighted")
    em = SurrogateEM(free=None, clamped=None).value_and_gradient_theta(graph, theta, labels, inference=MeanField())
    assert named == given == own[0] == em[0]


def test_hidden_labels_alone_have_gradient_zero():
    graph, theta = learning_model("grid")
    labels = training_labels(graph, np.full(9, -1))
    value, gradient = Likelihood(inference="junction_tree").value_and_gradient_theta(graph, theta, labels)
    assert value == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)


def test_reduced_graph_is_cached_until_the_labels_are_deleted():
    graph, theta = learning_model("grid")
    labels = some_labels("grid", "mixed")
    loss = Likelihood(inference="junction_tree")
    first = loss.value_and_gradient_theta(graph, theta, labels)[0]
    assert labels in _REDUCTIONS
    assert loss.value_and_gradient_theta(graph, theta, labels)[0] == first
    twin = grid_graph(3, 3, 2)  # an equal graph, but another object: the labels match, the cache entry does not
    assert loss.value_and_gradient_theta(twin, theta, labels)[0] == pytest.approx(first)
    before = len(_REDUCTIONS), _REDUCTIONS.n_bytes
    assert before[1] > 0
    del labels
    gc.collect()
    assert len(_REDUCTIONS) < before[0]
    assert _REDUCTIONS.n_bytes < before[1]


def test_nothing_is_cached_beyond_the_limit(monkeypatch):
    monkeypatch.setattr(clamping, "MAX_BYTES", 0)
    graph, theta = learning_model("grid")
    labels = some_labels("grid", "mixed")
    loss = Likelihood(inference="junction_tree")
    first = loss.value_and_gradient_theta(graph, theta, labels)[0]
    assert labels not in _REDUCTIONS
    assert loss.value_and_gradient_theta(graph, theta, labels)[0] == first


class Interrupted(MeanField):
    def run(self, problem):
        return Answer(Status.INTERRUPTED, mu=np.full(problem.graph.n_theta, 0.5), log_partition=1.0)


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
def test_an_interrupted_inference_gives_no_gradient():
    graph, theta = learning_model("grid")
    with pytest.raises(KeyboardInterrupt):
        Likelihood(inference=Interrupted()).value_and_gradient_theta(graph, theta, some_labels("grid", "observed"))


@pytest.mark.parametrize("name", ["grid", "unequal_state_counts", "three_way_factor", "same_scope_twice"])
def test_rho_is_restricted_to_the_clamped_graph(name):
    """Evidence is another way to the clamped model, which restricts rho by itself."""
    graph, theta = learning_model(name)
    method = TreeReweighted(rho=np.random.default_rng(0).uniform(0.3, 0.6, graph.n_factors), tol=1e-12)
    labels = some_labels(name, "hidden", seed=1)
    assert 0 < labels.observed.sum() < graph.n_variables
    known = {int(v): int(labels.y[v]) for v in np.flatnonzero(labels.observed)}
    expected = infer(graph, theta, method).log_partition - infer(graph, theta, method, evidence=known).log_partition
    value, _ = Likelihood(inference=method).value_and_gradient_theta(graph, theta, labels)
    assert value == pytest.approx(expected, abs=1e-9)
    wrong = TreeReweighted(rho=np.full(graph.n_factors + 1, 0.5))
    with pytest.raises(InvalidInputError, match=f"the graph has {graph.n_factors} factors"):
        Likelihood(inference=wrong).value_and_gradient_theta(graph, theta, labels)


def test_methods_without_log_z_are_refused():
    graph = chain_graph(2, 2)
    labels = training_labels(graph, [0, 1])
    for loss in (Likelihood(inference="gibbs"), SurrogateEM(clamped="icm"), SurrogateEM(free=None)):
        with pytest.raises(
            NotSupportedError, match=r"needs log Z and its marginals, which (Gibbs|ICM) does not compute.*tree"
        ):
            loss.value_and_gradient_theta(graph, graph.zeros(), labels, inference="gibbs")


@pytest.mark.parametrize("y", [[1, 0, 0], [1, 0, -1], [[False, True], [True, False], [True, True]]])
def test_impossible_labels_are_refused(y):
    graph = chain_graph(3, 2)
    theta = graph.pack(tables=np.tile([[0.0, 0.0], [-np.inf, 0.0]], (2, 1, 1)))
    for loss in (Likelihood(inference="tree"), SurrogateEM()):
        with pytest.raises(InvalidInputError, match=r"theta gives the labels a score of -inf\. Correct the labels"):
            loss.value_and_gradient_theta(graph, theta, training_labels(graph, y))


def test_weights_are_refused_and_alternatives_listed():
    graph = chain_graph(2, 2)
    with pytest.raises(NotSupportedError, match=r"Likelihood is not a sum.*univariate_logistic.*pseudo_likelihood"):
        Likelihood().value_and_gradient_theta(graph, graph.zeros(), training_labels(graph, [0, 1], [1.0, 1.0]))


def test_temperature_is_part_of_the_surrogate():
    graph, theta = learning_model("chain")
    labels = some_labels("chain", "observed")
    value, _ = Likelihood(inference="tree").value_and_gradient_theta(graph, theta, labels)
    hot = TreeReweighted(temperature=2.0)
    expected = infer(graph, theta, hot).log_partition - graph.score(theta, labels.y)
    assert Likelihood(inference=hot).value_and_gradient_theta(graph, theta, labels)[0] == pytest.approx(expected)
    assert value != pytest.approx(expected)
