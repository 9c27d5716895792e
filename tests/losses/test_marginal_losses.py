"""Losses of marginals against their definitions in plain Python, and their gradients against finite differences."""

import itertools
import math

import numpy as np
import pytest
from tests.losses.labelled_models import (
    FEASIBLE,
    SOME,
    SORTS,
    as_sets,
    check_slopes,
    learning_model,
    some_labels,
    weighted,
)
from tests.zoo import factors

from intarsia import chain_graph, grid_graph
from intarsia.exceptions import InvalidInputError
from intarsia.losses import (
    CliqueLogistic,
    CliqueQuadratic,
    SmoothedClassificationError,
    UnivariateLogistic,
    UnivariateQuadratic,
    training_labels,
)

LOSSES = [
    UnivariateLogistic(), CliqueLogistic(), UnivariateQuadratic(), CliqueQuadratic(),
    SmoothedClassificationError(alpha=3.0),
]  # fmt: skip
NAMES = [type(loss).__name__ for loss in LOSSES]


def interior_point(graph, seed=3):
    """Marginals that need not be consistent, all well above zero."""
    mu = np.random.default_rng(seed).uniform(0.5, 1.5, graph.n_theta)
    for v in range(graph.n_variables):
        graph.variable(mu, v)[:] /= graph.variable(mu, v).sum()
    for c in range(graph.n_factors):
        graph.table(mu, c)[...] /= graph.table(mu, c).sum()
    return mu


def by_definition(loss, graph, mu, allowed, weights=None):
    """Sum over all terms, entry by entry."""
    hidden = [1 < len(states) == k for states, k in zip(allowed, graph.n_states.tolist(), strict=True)]
    weights = np.ones(graph.n_variables) if weights is None else weights
    if loss.uses_factors:
        scopes = [tuple(graph.scope(c).tolist()) for c in range(graph.n_factors)]
        tables = [graph.factor_table(mu, c) for c in range(graph.n_factors)]
    else:
        scopes = [(v,) for v in range(graph.n_variables)]
        tables = [graph.variable(mu, v) for v in range(graph.n_variables)]
    total = 0.0
    for scope, table in zip(scopes, tables, strict=True):
        if any(hidden[v] for v in scope):
            continue
        right, wrong = [], []
        for states in itertools.product(*(range(k) for k in table.shape)):
            inside = all(x in allowed[v] for x, v in zip(states, scope, strict=True))
            (right if inside else wrong).append(float(table[states]))
        if "Logistic" in type(loss).__name__:
            term = -math.log(sum(right))
        elif "Quadratic" in type(loss).__name__:
            term = (1.0 - sum(right)) ** 2 + sum(m * m for m in wrong)
        else:
            term = 1.0 / (1.0 + math.exp(-loss.alpha * (max(wrong) - max(right)))) if wrong else 0.0
        total += term * (np.mean([weights[v] for v in scope]) if scope else 1.0)
    return total


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_value_is_the_definition(loss, sort):
    for k, name in enumerate(FEASIBLE):
        graph, _ = learning_model(name)
        labels, mu = some_labels(name, sort, seed=k), interior_point(graph)
        value, gradient = loss.value_and_gradient(graph, mu, labels)
        assert value == pytest.approx(by_definition(loss, graph, mu, as_sets(graph, labels)), rel=1e-12, abs=1e-12)
        assert gradient.shape == mu.shape
        heavy = weighted(graph, labels, seed=k)
        expected = by_definition(loss, graph, mu, as_sets(graph, labels), heavy.weights)
        assert loss.value_and_gradient(graph, mu, heavy)[0] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_gradient_is_that_of_the_value(loss, sort):
    for k, name in enumerate([*SOME, "unary_factors_twice"]):
        graph, _ = learning_model(name)
        labels, mu = some_labels(name, sort, seed=k), interior_point(graph)
        for y in (labels, weighted(graph, labels, seed=k)):
            _, gradient = loss.value_and_gradient(graph, mu, y)
            check_slopes(lambda m, g=graph, y=y: loss.value_and_gradient(g, m, y)[0], mu, gradient, tol=1e-7)


def test_only_clique_losses_read_factors():
    graph, _ = learning_model("grid")
    split = int(graph.variable_ptr[-1])
    for loss in LOSSES:
        _, gradient = loss.value_and_gradient(graph, interior_point(graph), some_labels("grid", "observed"))
        assert gradient[:split].any() != loss.uses_factors
        assert gradient[split:].any() == loss.uses_factors


@pytest.mark.parametrize("loss", [UnivariateLogistic(), CliqueLogistic()], ids=["univariate", "clique"])
def test_a_marginal_of_zero_is_clipped(loss):
    graph = chain_graph(2, 2)
    mu = graph.pack([[1.0, 0.0], [1.0, 0.0]], [[[1.0, 0.0], [0.0, 0.0]]])
    value, gradient = loss.value_and_gradient(graph, mu, training_labels(graph, [1, 1]))
    n_terms = 1 if loss.uses_factors else 2
    assert value == pytest.approx(n_terms * 300 * math.log(10))
    assert gradient.min() == pytest.approx(-1e300)


def test_classification_error_counts_in_the_limit():
    graph = grid_graph(3, 3, 4)
    mu = interior_point(graph)
    y = np.random.default_rng(0).integers(0, 4, 9)
    y[:4] = mu[:36].reshape(9, 4).argmax(axis=1)[:4]
    errors = int((mu[:36].reshape(9, 4).argmax(axis=1) != y).sum())
    value, _ = SmoothedClassificationError(alpha=1e6).value_and_gradient(graph, mu, training_labels(graph, y))
    assert value == pytest.approx(errors, abs=1e-6)


def test_classification_error_at_ties_gives_the_gradient_to_the_first():
    graph = factors([3], [])
    loss = SmoothedClassificationError(alpha=4.0)
    value, gradient = loss.value_and_gradient(graph, np.full(3, 1 / 3), training_labels(graph, [1]))
    assert value == 0.5
    assert gradient.tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_bad_input_is_refused(loss):
    graph = chain_graph(2, 2)
    labels, mu = training_labels(graph, [0, 1]), graph.zeros()
    with pytest.raises(InvalidInputError, match=r"mu has shape \(7,\), but this graph needs \(8,\)"):
        loss.value_and_gradient(graph, mu[1:], labels)
    shared = chain_graph(3, 2, shared=True)
    with pytest.raises(InvalidInputError, match=r"needs a full table for each factor, but 2 factors have 1 tables"):
        loss.value_and_gradient(shared, shared.zeros(), training_labels(shared, [0, 0, 0]))


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf, np.nan, "steep"])
def test_alpha_is_checked_at_use(alpha):
    graph = chain_graph(2, 2)
    with pytest.raises(InvalidInputError, match="SmoothedClassificationError: alpha must be a number in"):
        SmoothedClassificationError(alpha=alpha).value_and_gradient(
            graph, graph.zeros(), training_labels(graph, [0, 0])
        )
