import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.zoo import ZOO, factors, random_theta

from intarsia.graph import chain_graph, from_edges, grid_graph, reduce_graph
from intarsia.graph.reduction import in_normal_form

BOUNDED = settings(max_examples=50, deadline=None, derandomize=True)


def check_reduction(graph, theta, evidence):
    """Check all properties of a reduction, on every completion of the evidence."""
    reduction = reduce_graph(graph, evidence)
    small = reduction.graph
    # The reduced graph is in normal form.
    scopes = [frozenset(small.scope(c).tolist()) for c in range(small.n_factors)]
    assert all(len(scope) >= 2 for scope in scopes)
    assert len(set(scopes)) == len(scopes)
    assert small.n_variables == 0 or small.n_states.min() >= 2
    assert in_normal_form(small)
    # Scores agree.
    lowered, constant = reduction.lower(theta), reduction.constant(theta)
    every = list(itertools.product(*(range(k) for k in small.n_states)))
    labellings = np.array(every, dtype=int).reshape(len(every), small.n_variables)
    full = reduction.raise_labelling(labellings)
    assert len(np.unique(full, axis=0)) == len(labellings)
    for v, state in evidence.items():
        assert (full[:, graph.variable_index(v)] == state).all()
    np.testing.assert_allclose(
        graph.score(theta, full), small.score(lowered, labellings) + constant, rtol=1e-11, atol=1e-11
    )
    np.testing.assert_array_equal(reduction.lower_labelling(full), labellings)
    # Statistics are mapped back correctly, and the two directions are adjoint.
    for y, raised in list(zip(labellings, full, strict=True))[:8]:
        np.testing.assert_allclose(reduction.raise_mu(small.statistics(y)), graph.statistics(raised), atol=1e-12)
    rng = np.random.default_rng(0)
    direction, gradient = rng.standard_normal(graph.n_theta), rng.standard_normal(small.n_theta)
    assert reduction.lower(direction) @ gradient == pytest.approx(direction @ reduction.pull_back(gradient), abs=1e-9)
    zero = reduction.raise_mu(np.zeros(small.n_theta))
    np.testing.assert_allclose(reduction.raise_mu(gradient) - zero, reduction.pull_back(gradient), atol=1e-12)
    # Every factor is accounted for.
    for c, target in enumerate(reduction.factor_of.tolist()):
        free = [int(v) for v in graph.scope(c) if reduction.states[v] < 0]
        if len(free) < 2:
            assert target == -1
        else:
            assert {int(reduction.free_variables[v]) for v in small.scope(target)} == set(free)
    return reduction


def finite(theta):
    return np.where(np.isfinite(theta), theta, -3.0)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_zoo_without_evidence(name):
    graph, theta = ZOO[name]()
    check_reduction(graph, finite(theta), {})


@pytest.mark.parametrize("name", sorted(set(ZOO) - {"no_variables"}))
@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_zoo_with_evidence(name, share):
    graph, theta = ZOO[name]()
    rng = np.random.default_rng(1)
    chosen = rng.permutation(graph.n_variables)[: max(1, round(share * graph.n_variables))]
    check_reduction(graph, finite(theta), {int(v): int(rng.integers(graph.n_states[v])) for v in chosen})


@BOUNDED
@given(st.data())
def test_random_models(data):
    n = data.draw(st.integers(1, 5))
    n_states = data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    scope = st.lists(st.integers(0, n - 1), max_size=min(n, 4), unique=True)
    graph = factors(n_states, data.draw(st.lists(scope, max_size=8)))
    observed = data.draw(st.sets(st.integers(0, n - 1)))
    evidence = {v: data.draw(st.integers(0, n_states[v] - 1)) for v in observed}
    check_reduction(graph, random_theta(graph, data.draw(st.integers(0, 10**6))), evidence)


def test_a_graph_in_normal_form_is_returned_unchanged():
    graph = grid_graph(3, 3, 2)
    reduction = reduce_graph(graph)
    assert reduction.graph is graph
    assert reduction.is_identity
    theta = random_theta(graph, 0)
    assert reduction.lower(theta) is theta
    assert reduction.constant(theta) == 0.0


def test_equal_scopes_with_transposed_axes_are_merged():
    graph = factors([2, 3, 4], [(0, 1, 2), (2, 0, 1), (1, 0), (0, 1)])
    reduction = check_reduction(graph, random_theta(graph, 1), {})
    assert reduction.graph.n_factors == 2
    check_reduction(graph, random_theta(graph, 2), {2: 3})  # all four factors join the same pair


def test_evidence_can_make_scopes_equal():
    graph = factors([2] * 4, [(0, 1, 2), (1, 0, 3), (0, 1)])
    reduction = check_reduction(graph, random_theta(graph, 3), {2: 1, 3: 0})
    assert reduction.graph.n_factors == 1
    assert reduction.factor_of.tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", ["potts", "truncated_linear", "truncated_quadratic"])
def test_parametric_factor_with_one_end_or_both_observed(kind):
    graph = from_edges([4] * 3, [[0, 1], [1, 2]], kind=kind, truncation=2.0)
    theta = random_theta(graph, 4)
    for evidence in ({0: 3}, {1: 2}, {0: 0, 1: 3}, {0: 1, 1: 1, 2: 2}):
        check_reduction(graph, theta, evidence)
    twin = from_edges([4] * 2, [[0, 1], [1, 0]], kind=kind, truncation=2.0)
    assert check_reduction(twin, random_theta(twin, 5), {}).graph.table_kind.tolist() == [0]


def test_tables_of_unchanged_factors_remain_shared():
    graph = chain_graph(7, 3, shared=True)
    reduction = check_reduction(graph, random_theta(graph, 6), {2: 1})
    assert (reduction.graph.n_factors, reduction.graph.n_tables) == (4, 1)
    grid = grid_graph(3, 3, 2, shared=True, kind="potts")
    assert check_reduction(grid, random_theta(grid, 7), {4: 1}).graph.n_tables == 2
    triples = factors([2] * 5, [(0, 1, 2), (1, 2, 3), (2, 3, 4)], table_of_factor=[0, 0, 0])
    assert check_reduction(triples, random_theta(triples, 8), {0: 1}).graph.n_tables == 2


def test_all_observed_leaves_a_constant():
    graph, theta = ZOO["potts"]()
    y = [0, 1, 2, 3, 0, 1, 2, 3]
    reduction = check_reduction(graph, theta, dict(enumerate(y)))
    assert reduction.graph.n_variables == 0
    assert reduction.constant(theta) == pytest.approx(graph.score(theta, y))


def test_impossible_evidence_is_minus_infinity_and_never_nan():
    graph = chain_graph(3, 2)
    theta = graph.pack(tables=[[[0.0, -np.inf], [1.0, 0.0]]] * 2)
    assert reduce_graph(graph, {0: 0, 1: 1}).constant(theta) == -np.inf
    lowered = reduce_graph(graph, {0: 0}).lower(theta)
    assert lowered[:2].tolist() == [0.0, -np.inf]
    potts = chain_graph(2, 3, kind="potts")
    lowered = reduce_graph(potts, {0: 1}).lower(potts.pack(tables=[-np.inf]))
    assert lowered.tolist() == [0.0, -np.inf, 0.0]


def test_names_of_free_variables_are_kept():
    from intarsia.graph import GraphBuilder

    builder = GraphBuilder()
    for name in "abc":
        builder.variable(name, 2)
    builder.factor(["a", "b"], np.ones((2, 2)))
    builder.factor(["b", "c"], np.ones((2, 2)))
    graph, _ = builder.build()
    reduction = reduce_graph(graph, {"a": 1})
    assert reduction.graph.names == ("b", "c")


def test_many_pieces_of_evidence():
    graph = grid_graph(60, 60, 2)
    theta = random_theta(graph, 9)
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, graph.n_variables)
    evidence = {int(v): int(y[v]) for v in rng.choice(graph.n_variables, 400, replace=False)}
    reduction = reduce_graph(graph, evidence)
    small = reduction.graph.score(reduction.lower(theta), reduction.lower_labelling(y))
    assert small + reduction.constant(theta) == pytest.approx(graph.score(theta, y))
