"""Minimum cuts compared with enumeration and SciPy's maximum flow, and unsupported models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, maximum_flow
from tests.contracts.asking import ask
from tests.oracles.enumeration import enumerate_model

import intarsia
from intarsia import Status
from intarsia._kernels.graph_arguments import FlowNetwork
from intarsia._kernels.graph_cut import balance_terminals, lay_network
from intarsia.exceptions import NotSupportedError
from intarsia.inference.exact.graph_cut import _network, _Pairwise, balanced_flips


@st.composite
def attractive_models(draw):
    """Generate attractive binary models, with exchanged states of some variables, ties and hard zeros."""
    n = draw(st.integers(1, 7))
    every = [(i, j) for i in range(n) for j in range(n) if i != j]
    edges = draw(st.lists(st.sampled_from(every), unique_by=lambda e: frozenset(e), max_size=9)) if every else []
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    graph = intarsia.from_edges(np.full(n, 2), np.array(edges, dtype=int).reshape(-1, 2))
    whole = draw(st.booleans())
    unary, tables = 2 * rng.standard_normal((n, 2)), 3 * rng.standard_normal((len(edges), 2, 2))
    if whole:
        unary, tables = np.round(unary), np.round(tables)
    lack = np.maximum(tables[:, 0, 1] + tables[:, 1, 0] - tables[:, 0, 0] - tables[:, 1, 1], 0.0)
    tables[:, 0, 0] += np.ceil(lack)
    share = draw(st.sampled_from([0.0, 0.3]))
    off = rng.random((len(edges), 2)) < share
    tables[:, 0, 1][off[:, 0]] = -np.inf
    tables[:, 1, 0][off[:, 1]] = -np.inf
    unary[rng.random((n, 2)) < share / 4] = -np.inf
    turned = rng.random(n) < 0.5 if draw(st.booleans()) else np.zeros(n, bool)
    for v in np.flatnonzero(turned):
        unary[v] = unary[v, ::-1].copy()
        for c, edge in enumerate(edges):
            if v in edge:
                tables[c] = np.flip(tables[c], axis=edge.index(v)).copy()
    return graph, graph.pack(unary, tables)


@given(attractive_models())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_equals_enumeration(model):
    graph, theta = model
    truth = enumerate_model(graph, theta)
    result = ask(graph, theta, "graph_cut", "map")
    if truth.best_score == -np.inf:
        assert result.status is Status.INFEASIBLE
        return
    assert result.status is Status.EXACT
    assert result.score == pytest.approx(truth.best_score, abs=1e-9)
    assert result.upper_bound == pytest.approx(truth.best_score, abs=1e-9)


def ising(height, width, seed, coupling=1.0):
    graph = intarsia.grid_graph(height, width, 2)
    rng = np.random.default_rng(seed)
    strength = coupling * np.abs(rng.standard_normal(graph.n_factors))
    return graph, graph.pack(rng.standard_normal((height * width, 2)), strength[:, None, None] * np.eye(2))


@pytest.mark.parametrize("coupling", [0.2, 1.0, 5.0])
def test_flow_equals_that_of_scipy(coupling):
    """Capacities are integers, as SciPy's maximum flow requires."""
    graph, theta = ising(30, 30, 1, coupling)
    theta = np.round(100 * theta)
    tables = theta[graph.table_ptr[0] :].reshape(-1, 2, 2)
    unary = theta[: 2 * graph.n_variables].reshape(-1, 2)
    n = graph.n_variables
    # Source n, sink n + 1; a variable on the side of the source has state 0, a cut edge costs its weight.
    lean = (unary[:, 0] - unary[:, 1]).astype(int)
    ends, strength = graph.scope_idx.reshape(-1, 2), tables[:, 0, 0].astype(int)
    rows = [np.full(n, n), np.arange(n), ends[:, 0], ends[:, 1]]
    columns = [np.arange(n), np.full(n, n + 1), ends[:, 1], ends[:, 0]]
    values = [np.maximum(lean, 0), np.maximum(-lean, 0), strength, strength]
    arcs = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(n + 2, n + 2), dtype=np.int32
    )
    cut = maximum_flow(arcs.tocsr(), n, n + 1).flow_value
    best = unary.max(axis=1).sum() + strength.sum() - cut
    result = intarsia.infer(graph, theta, "graph_cut", "map")
    assert result.score == best


def test_large_grid_agrees_with_the_relaxation():
    graph, theta = ising(20, 20, 3)
    result = intarsia.infer(graph, theta, "graph_cut", "map")
    relaxed = intarsia.infer(graph, theta, "lp_relaxation", "map")
    assert relaxed.status is Status.EXACT  # attractive binary models have a tight relaxation
    assert result.score == pytest.approx(relaxed.upper_bound, rel=1e-9)


def test_bound_at_the_time_limit():
    graph, theta = ising(20, 20, 3)
    best = intarsia.infer(graph, theta, "graph_cut", "map").score
    result = ask(graph, theta, "graph_cut", "map", time_limit=1e-9)
    assert result.status is Status.TIME_LIMIT
    assert result.score <= best + 1e-9
    assert best - 1e-9 <= result.upper_bound < np.inf


def test_base_is_the_score_without_a_cut():
    """The upper bound is base minus flow; without edges there is no flow, and base is the best score."""
    unary = np.array([[1.0, 3.0], [2.0, -np.inf], [-np.inf, 4.0], [5.0, 5.0]])
    model = _Pairwise(unary, np.empty((0, 2), int), np.empty((0, 2, 2)), np.empty(0, int))
    assert _network(model)[0] == pytest.approx(3 + 2 + 4 + 5)


def cut_scores(score, network, n):
    """Return the score of every labelling according to a network: that of state 0 everywhere minus the cut arcs."""
    tail = np.repeat(np.arange(n), np.diff(network.arc_ptr.astype(int)))
    labellings = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    is_cut = (labellings[:, tail] == 0) & (labellings[:, network.head] == 1)
    return score - labellings @ network.terminal - is_cut @ network.capacity


@pytest.mark.parametrize("n_sweeps", [1, 2, 5])
def test_network_scores_every_labelling_before_and_after_balancing(n_sweeps):
    graph = intarsia.graph.complete_graph(5, 2)
    rng = np.random.default_rng(n_sweeps)
    unary, tables = rng.standard_normal((5, 2)), rng.standard_normal((10, 2, 2))
    tables[:, 0, 0] += 4 + np.abs(tables).sum(axis=(1, 2))
    labellings = (np.arange(2**5)[:, None] >> np.arange(5)) & 1
    truth = graph.score(graph.pack(unary, tables), labellings)
    arc_ptr, next_arc, head, reverse = (np.empty(size, np.uint32) for size in (6, 5, 20, 20))
    network = FlowNetwork(arc_ptr, head, reverse, np.empty(20), np.empty(5))
    score = lay_network(unary, graph.scope_idx.reshape(-1, 2), tables, next_arc, network)
    np.testing.assert_allclose(cut_scores(score, network, 5), truth, atol=1e-12)
    to_sink = balance_terminals(network, n_sweeps)
    np.testing.assert_allclose(cut_scores(score, network, 5), truth, atol=1e-12)
    assert network.capacity.min() >= 0.0
    assert to_sink == pytest.approx(np.maximum(-network.terminal, 0.0).sum())
    assert score + to_sink >= truth.max() - 1e-12


def test_error_for_frustrated_cycles_names_a_factor():
    graph = intarsia.graph.complete_graph(3, 2)
    differ = [[0.0, 1.0], [1.0, 0.0]]
    with pytest.raises(NotSupportedError) as caught:
        intarsia.infer(graph, graph.pack(tables=[differ] * 3), "graph_cut", "map")
    assert "factor 0 over [0, 1]" in str(caught.value)
    assert "integer_program" in str(caught.value)
    # An even number of repulsive factors is allowed.
    agree = [[1.0, 0.0], [0.0, 1.0]]
    assert intarsia.infer(graph, graph.pack(tables=[differ, differ, agree]), "graph_cut", "map").score == 3.0


def test_more_states_and_larger_factors_raise():
    graph = intarsia.chain_graph(2, 3)
    with pytest.raises(NotSupportedError, match="needs binary variables"):
        intarsia.infer(graph, graph.zeros(), "graph_cut", "map")
    graph = intarsia.FactorGraph([2, 2, 2], [0, 3], [0, 1, 2])
    with pytest.raises(NotSupportedError, match="at most 2 variables"):
        intarsia.infer(graph, graph.zeros(), "graph_cut", "map")
    # A third state is allowed if evidence removes it.
    graph = intarsia.from_edges([2, 2, 3], [[0, 1], [1, 2]])
    assert intarsia.infer(graph, graph.zeros(), "graph_cut", "map", evidence={2: 1}).status is Status.EXACT


def test_potts_and_shared_tables():
    graph = intarsia.grid_graph(4, 4, 2, shared=True, kind="potts")
    theta = graph.pack(np.random.default_rng(5).standard_normal((16, 2)), [0.7, 0.4])
    best = intarsia.infer(graph, theta, "brute_force", "map").score
    assert intarsia.infer(graph, theta, "graph_cut", "map").score == pytest.approx(best)


@pytest.mark.parametrize("seed", range(40))
def test_flips_agree_with_components_of_two_copies(seed):
    """Join every node to its copy by negative edges: a node and its copy meet exactly if there is a contradiction."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 12)), int(rng.integers(0, 16))
    edges = rng.integers(0, n, (m, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    planted = rng.random(n) < 0.5
    signs = np.where(planted[edges[:, 0]] == planted[edges[:, 1]], 1.0, -1.0) * (rng.random(len(edges)) < 0.9)
    if seed % 2:
        signs *= np.where(rng.random(len(edges)) < 0.2, -1.0, 1.0)
    links = np.zeros((2 * n, 2 * n))
    for (a, b), sign in zip(edges, signs, strict=True):
        for copy in (0, n):
            links[a + copy, b + (copy if sign > 0 else n - copy)] += sign != 0
    label = connected_components(links, directed=False)[1]
    meets = label[:n] == label[n:]
    flips, bad_edge = balanced_flips(n, edges, signs)
    if meets.any():
        assert bad_edge == np.flatnonzero((signs < 0) & meets[edges[:, 0]])[0]
    else:
        assert bad_edge is None
        np.testing.assert_array_equal(flips, label[:n] > label[n:])
