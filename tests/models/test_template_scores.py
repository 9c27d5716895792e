"""Scores of typed graphs against loops over variables and factors, their adjoint against finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse
from tests.oracles.finite_differences import central_differences, relative_error

from intarsia.exceptions import InvalidInputError
from intarsia.graph import grid_graph
from intarsia.models import LinearScores, Templates, TemplateScores, template_graph

N_VARIABLES = {"a": 3, "b": 2}
SCOPES = {"aa": np.array([[0, 1], [2, 1]]), "bab": np.array([[1, 0, 0]]), "b": np.array([[0], [1]])}
KINDS = {"aa": ("a", "a"), "bab": ("b", "a", "b"), "b": ("b",)}


def make(symmetric=(), seed=0):
    rng = np.random.default_rng(seed)
    templates = Templates({"a": 3, "b": 2}, {"a": 4, "b": 1}, KINDS, {"aa": 2, "bab": 3, "b": 1}, frozenset(symmetric))
    node = {kind: rng.normal(size=(n, templates.n_features[kind])) for kind, n in N_VARIABLES.items()}
    factor = {name: rng.normal(size=(len(s), templates.n_factor_features[name])) for name, s in SCOPES.items()}
    return templates, node, factor


@pytest.mark.parametrize("symmetric", [(), ("aa",)])
def test_theta_is_the_loop_over_variables_and_factors(symmetric):
    templates, node, factor = make(symmetric)
    graph = template_graph(templates, N_VARIABLES, SCOPES)
    scores = TemplateScores(templates, graph, node, factor)
    weights = np.random.default_rng(1).normal(size=templates.n_weights)
    theta = scores.theta(weights)
    F, G = templates.unpack(weights)
    first = {"a": 0, "b": 3}
    for kind, n in N_VARIABLES.items():
        for i in range(n):
            np.testing.assert_allclose(graph.variable(theta, first[kind] + i), F[kind] @ node[kind][i])
    c = 0
    for name, kinds in KINDS.items():
        for row, scope in enumerate(SCOPES[name]):
            assert graph.scope(c).tolist() == [first[k] + v for k, v in zip(kinds, scope, strict=True)]
            table = graph.table(theta, c)
            joint = itertools.product(*(range(templates.n_states[k]) for k in kinds))
            for g, states in zip(G[name], joint, strict=True):
                assert table[states] == pytest.approx(float(g @ factor[name][row]))
            c += 1
    assert c == graph.n_factors
    if symmetric:
        np.testing.assert_array_equal(graph.table(theta, 0), graph.table(theta, 0).T)
        assert templates.n_weights == make()[0].n_weights - 3 * 2  # 6 pairs instead of 9, with 2 features


@pytest.mark.parametrize("symmetric", [(), ("aa",)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_pull_back_is_the_derivative(symmetric, kind):
    templates, node, factor = make(symmetric)
    graph = template_graph(templates, N_VARIABLES, SCOPES)
    scores = TemplateScores(
        templates, graph, {k: kind(u) for k, u in node.items()}, {k: kind(v) for k, v in factor.items()}
    )
    rng = np.random.default_rng(2)
    direction, weights = rng.normal(size=graph.n_theta), rng.normal(size=templates.n_weights)
    expected = central_differences(lambda w: float(np.sin(scores.theta(w)) @ direction), weights)
    assert relative_error(scores.pull_back(np.cos(scores.theta(weights)) * direction), expected) < 1e-8


def test_three_way_symmetry_is_under_every_exchange():
    templates = Templates({"a": 3}, {"a": 1}, {"t": ("a", "a", "a")}, {"t": 1}, frozenset({"t"}))
    assert templates.n_weights == 3 + 10  # multisets of 3 out of 3 states
    table = templates.unpack(np.arange(13.0))[1]["t"].reshape(3, 3, 3)
    for order in itertools.permutations(range(3)):
        np.testing.assert_array_equal(table, table.transpose(order))
    assert np.unique(table).size == 10


def test_one_type_on_a_grid_is_linear_scores():
    graph = grid_graph(3, 4, 2)
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(12, 3)), rng.normal(size=(17, 2))
    templates = Templates({"pixel": 2}, {"pixel": 3}, {"edge": ("pixel", "pixel")}, {"edge": 2})
    plain, typed = LinearScores(graph, u, v), TemplateScores(templates, graph, {"pixel": u}, {"edge": v})
    weights = rng.normal(size=plain.n_weights)
    np.testing.assert_array_equal(typed.theta(weights), plain.theta(weights))
    alone = typed.without_factors()
    np.testing.assert_array_equal(alone.theta(weights[:6]), plain.theta(weights)[:24])
    assert alone.graph.n_factors == 0


def test_single_precision_is_kept_and_products_are_double():
    graph = grid_graph(3, 4, 2)
    u = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    scores = LinearScores(graph, u)
    assert scores.node_features.dtype == np.float32
    assert np.shares_memory(scores.node_features, u)
    assert LinearScores(graph, sparse.csr_array(u)).node_features.dtype == np.float32
    assert LinearScores(graph, u.astype(np.float16)).node_features.dtype == np.float32
    weights = np.random.default_rng(1).normal(size=scores.n_weights)
    double = LinearScores(graph, u.astype(np.float64))
    gradient = np.random.default_rng(2).normal(size=graph.n_theta)
    np.testing.assert_array_equal(scores.theta(weights), double.theta(weights))
    np.testing.assert_allclose(scores.pull_back(gradient), double.pull_back(gradient), rtol=1e-14)


def test_types_may_be_missing():
    templates, node, factor = make()
    scopes = {"aa": SCOPES["aa"]}
    graph = template_graph(templates, {"a": 3}, scopes)
    scores = TemplateScores(templates, graph, {"a": node["a"]}, {"aa": factor["aa"]})
    gradient = templates.unpack(scores.pull_back(np.ones(graph.n_theta)))
    assert gradient[0]["a"].any()
    assert not gradient[0]["b"].any()
    assert not gradient[1]["bab"].any()


def test_invalid_input():
    templates, node, factor = make()
    graph = template_graph(templates, N_VARIABLES, SCOPES)
    with pytest.raises(InvalidInputError, match="symmetric contains 'bab', but it joins"):
        make(symmetric=("bab",))
    with pytest.raises(InvalidInputError, match="symmetric contains 'c', but the factors are"):
        make(symmetric=("c",))
    with pytest.raises(InvalidInputError, match="'a' has 1 features, but the templates need 4"):
        TemplateScores(templates, graph, node | {"a": np.ones((3, 1))}, factor)
    # 3 x 3 + 2 x 2 for variables, 2 x 9 + 12 + 2 x 2 for factors; three more of type a add 9.
    with pytest.raises(InvalidInputError, match="yield 56 scores, but the graph has 47"):
        TemplateScores(templates, graph, node | {"a": np.ones((6, 4))}, factor)
    with pytest.raises(InvalidInputError, match=r"features of 'aa'\[1\] contains inf"):
        TemplateScores(templates, graph, node, factor | {"aa": [[0.0, 1.0], [2.0, np.inf]]})
    with pytest.raises(InvalidInputError, match="sparse matrix of dtype complex128"):
        TemplateScores(templates, graph, node | {"a": sparse.csr_array(np.ones((3, 4), complex))}, factor)
    scores = TemplateScores(templates, graph, node, factor)
    with pytest.raises(InvalidInputError, match="2 matrices, but there are weights of a, b, aa, bab, b"):
        scores.join(np.ones((3, 4)), np.ones((2, 1)))
