"""The risk is the mean of the losses, its gradient matches finite differences, for any number of threads."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from tests.oracles.finite_differences import central_differences, relative_error

from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import grid_graph
from intarsia.inference import Status
from intarsia.learning import LBFGS, RiskMinimizer, example
from intarsia.losses import LOSSES, MarginalLoss, SurrogateEM
from intarsia.models import LinearScores


def make_examples(n=3, hidden=True, states=3, seed=0):
    rng = np.random.default_rng(seed)
    examples = []
    for e in range(n):
        graph = grid_graph(2, 3 + e % 2, states)
        u, v = rng.normal(size=(graph.n_variables, 2)), rng.normal(size=(graph.n_factors, 2))
        y = rng.integers(0, states, graph.n_variables)
        if hidden:
            y[rng.random(y.size) < 0.3] = -1
        examples.append(example(LinearScores(graph, u, sparse.csr_array(v) if e == 1 else v), y))
    return examples


@pytest.mark.parametrize(
    ("loss", "inference", "hidden"),
    [
        ("clique_logistic", "tree_reweighted", True),
        ("univariate_logistic", "mean_field", True),
        ("smoothed_classification_error", "belief_propagation", True),
        ("pseudo_likelihood", "tree_reweighted", False),
        ("likelihood", "junction_tree", False),
        (SurrogateEM(), "junction_tree", True),
    ],
    ids=str,
)
def test_gradient_in_the_weights(loss, inference, hidden):
    examples = make_examples(hidden=hidden)
    of_marginals = isinstance(LOSSES.resolve(loss), MarginalLoss)
    gradient = TruncatedGradient(n_iter=4) if of_marginals else "auto"
    learner = RiskMinimizer(loss=loss, gradient=gradient, l2=1.5)
    risk = learner.risk(examples, inference)
    weights = 0.5 * np.random.default_rng(1).normal(size=risk.n_weights)
    expected = central_differences(lambda w: risk(w)[0], weights)
    assert relative_error(risk(weights)[1], expected) < 1e-6


def test_value_is_the_mean_per_labelled_variable():
    """At weights of 0 every marginal is uniform: each labelled variable costs log 3, the penalty is 0."""
    risk = RiskMinimizer(loss="univariate_logistic", l2=100.0).risk(make_examples(), "tree_reweighted")
    assert risk(np.zeros(risk.n_weights))[0] == pytest.approx(np.log(3.0))


def test_l2_stands_beside_the_summed_loss():
    examples = make_examples()
    n = sum(one.n_labelled for one in examples)
    weights = np.random.default_rng(2).normal(size=examples[0].scores.n_weights)
    bare = RiskMinimizer(l2=0.0).risk(examples, "tree_reweighted")(weights)
    penalised = RiskMinimizer(l2=0.3).risk(examples, "tree_reweighted")(weights)
    assert n * (penalised[0] - bare[0]) == pytest.approx(0.15 * weights @ weights)
    np.testing.assert_allclose(n * (penalised[1] - bare[1]), 0.3 * weights, atol=1e-11)


@pytest.mark.parametrize("loss", ["clique_logistic", "contrastive_divergence"])
def test_threads_change_nothing(loss):
    examples = make_examples(n=5, hidden=False)
    weights = np.random.default_rng(2).normal(size=examples[0].scores.n_weights)
    one, two = (
        RiskMinimizer(loss=loss, optimizer="sgd", n_jobs=n).risk(examples, "tree_reweighted")(weights) for n in (1, 2)
    )
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


def test_minimum_does_not_depend_on_the_start():
    """The exact likelihood with an L2 penalty is strictly convex, so that the start has no effect."""
    examples = make_examples(hidden=False)
    learner = RiskMinimizer(loss="likelihood", l2=2.0, optimizer=LBFGS(tol=1e-8))
    first = learner.minimize(examples, "junction_tree")
    second = learner.minimize(examples, "junction_tree", np.ones(first.point.size))
    assert first.status is Status.CONVERGED
    np.testing.assert_allclose(first.point, second.point, atol=1e-6)


def test_warns_when_not_converged():
    learner = RiskMinimizer(optimizer=LBFGS(max_iter=2))
    with pytest.warns(ConvergenceWarning, match="MAX_ITER after 2 iterations"):
        result = learner.minimize(make_examples(), "tree_reweighted")
    assert result.value < result.history["risk"][0]


def test_interrupt_keeps_the_best_weights(monkeypatch):
    from intarsia.learning.risk import Risk

    whole, calls = Risk.__call__, []

    def broken_off(self, weights):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return whole(self, weights)

    monkeypatch.setattr(Risk, "__call__", broken_off)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = RiskMinimizer().minimize(make_examples(), "tree_reweighted")
    assert result.status is Status.INTERRUPTED
    assert result.value < result.history["risk"][0]
    assert result.point.any()


def test_settings_are_cloned_and_nested():
    learner = clone(RiskMinimizer(optimizer=LBFGS(max_iter=5), gradient=TruncatedGradient(n_iter=3)))
    learner.set_params(optimizer__max_iter=9, gradient__n_iter=2)
    assert (learner.optimizer.max_iter, learner.gradient.n_iter) == (9, 2)


def test_bad_input_raises():
    examples = make_examples()
    with pytest.raises(InvalidInputError, match="no examples"):
        RiskMinimizer().minimize([], "tree_reweighted")
    with pytest.raises(InvalidInputError, match="example 3 needs 12 weights, but example 0 needs 24"):
        RiskMinimizer().minimize([*examples, *make_examples(1, states=2)], "tree_reweighted")
    blank = [example(e.scores, np.full(e.scores.graph.n_variables, -1)) for e in examples]
    with pytest.raises(InvalidInputError, match="all labels of the 3 examples are hidden"):
        RiskMinimizer().minimize(blank, "tree_reweighted")
    lonely = [example(e.scores, np.arange(e.scores.graph.n_variables) * 0 - 1) for e in examples[:2]]
    corner = np.full(examples[2].scores.graph.n_variables, -1)
    corner[0] = 1
    lonely.append(example(examples[2].scores, corner))
    with pytest.raises(InvalidInputError, match="CliqueLogistic needs a factor whose variables are all labelled"):
        RiskMinimizer().minimize(lonely, "tree_reweighted")
    assert RiskMinimizer(loss="univariate_logistic").minimize(lonely, "tree_reweighted").n_iter > 0
    with pytest.raises(InvalidInputError, match="LBFGS: max_iter"):
        RiskMinimizer(optimizer=LBFGS(max_iter=-1)).risk(examples, "tree_reweighted")
    with pytest.raises(InvalidInputError, match="l2 must be"):
        RiskMinimizer(l2=-1.0).minimize(examples, "tree_reweighted")
    with pytest.raises(InvalidInputError, match="Did you mean 'clique_logistic'"):
        RiskMinimizer(loss="clique_logistc").minimize(examples, "tree_reweighted")
    with pytest.raises(InvalidInputError, match="'lbfgs'"):
        RiskMinimizer(optimizer="newton").minimize(examples, "tree_reweighted")
    with pytest.raises(NotSupportedError, match="TruncatedGradient cannot differentiate JunctionTree"):
        RiskMinimizer().minimize(examples, "junction_tree")
    with pytest.raises(NotSupportedError, match="hidden"):
        RiskMinimizer(loss="contrastive_divergence").minimize(examples, "tree_reweighted")
