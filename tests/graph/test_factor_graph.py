import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ZOO, factors

from intarsia.graph import FactorGraph, FactorKind, chain_graph, from_edges, grid_graph
from intarsia.graph.factor_kinds import parametric_statistic

ARRAYS = (
    "n_states", "scope_ptr", "scope_idx", "table_of_factor", "table_kind", "table_truncation", "variable_ptr",
    "table_ptr",
)  # fmt: skip


def test_layout_is_variables_then_tables():
    graph = factors([2, 3, 4], [(0, 1), (2, 1), (1,), ()])
    assert graph.variable_ptr.tolist() == [0, 2, 5, 9]
    assert graph.table_ptr.tolist() == [9, 15, 27, 30, 31]
    assert (graph.n_variables, graph.n_factors, graph.n_tables, graph.n_theta, graph.max_scope) == (3, 4, 4, 31, 2)
    assert graph.factor_shape(1) == (4, 3)
    assert graph.scope(1).tolist() == [2, 1]
    theta = np.arange(31.0)
    assert graph.variable(theta, 1).tolist() == [2, 3, 4]
    assert graph.variable(theta, -1).tolist() == [5, 6, 7, 8]
    np.testing.assert_array_equal(graph.table(theta, 1), np.arange(15.0, 27).reshape(4, 3))
    assert graph.table(theta, 3).shape == ()
    graph.table(theta, 0)[1, 2] = -1  # a view
    assert theta[9 + 5] == -1


def test_pairs_by_variable_lists_every_position_once():
    graph = factors([2, 2, 2, 2], [(2, 0), (0, 1, 2), (1,), ()])
    ptr, pairs = graph.pairs_by_variable
    assert ptr.tolist() == [0, 2, 4, 6, 6]
    assert [graph.scope_idx[p] for p in pairs] == [0, 0, 1, 1, 2, 2]
    assert graph.factor_of_pair[pairs].tolist() == [0, 1, 1, 2, 0, 1]


@pytest.mark.parametrize("name", sorted(ZOO))
def test_scores_agree_with_enumeration_and_with_statistics(name):
    graph, theta = ZOO[name]()
    truth = enumerate_model(graph, theta)
    np.testing.assert_allclose(graph.score(theta, truth.labellings), truth.scores, rtol=1e-12, atol=1e-12)
    finite = np.where(np.isfinite(theta), theta, 0.0)
    for y, score in list(zip(truth.labellings, truth.scores, strict=True))[::7]:
        statistics = graph.statistics(y)
        assert finite @ statistics == pytest.approx(score, rel=1e-12, abs=1e-10)
        by_parts = sum(graph.variable(theta, v)[y[v]] for v in range(graph.n_variables))
        by_parts += sum(graph.factor_table(theta, c)[tuple(y[graph.scope(c)])] for c in range(graph.n_factors))
        assert by_parts == pytest.approx(score, rel=1e-12, abs=1e-10)
    some = truth.labellings[:3]
    np.testing.assert_allclose(graph.statistics(some), sum((graph.statistics(y) for y in some), graph.zeros()))


def test_batches_keep_their_shape():
    graph, theta = ZOO["grid"]()
    labels = np.random.default_rng(0).integers(0, 2, (4, 3, 9))
    scores = graph.score(theta, labels)
    assert scores.shape == (4, 3)
    assert scores[2, 1] == pytest.approx(graph.score(theta, labels[2, 1]))
    assert isinstance(graph.score(theta, labels[0, 0]), float)
    assert graph.score(theta, np.empty((0, 9), int)).shape == (0,)
    assert not graph.statistics(np.empty((0, 9), int)).any()


def test_impossible_scores_are_minus_infinity_not_nan():
    graph = chain_graph(2, 2, kind="potts")
    assert graph.score(graph.pack(tables=[-np.inf]), [0, 0]) == -np.inf
    assert graph.score(graph.pack(tables=[-np.inf]), [0, 1]) == 0.0
    np.testing.assert_array_equal(graph.factor_table(graph.pack(tables=[-np.inf]), 0), [[-np.inf, 0], [0, -np.inf]])


@pytest.mark.parametrize("kind", list(FactorKind)[1:4])
def test_parametric_statistics_follow_their_definition(kind):
    expected = {
        FactorKind.POTTS: lambda gap: float(gap == 0),
        FactorKind.TRUNCATED_LINEAR: lambda gap: -min(gap, 2.5),
        FactorKind.TRUNCATED_QUADRATIC: lambda gap: -min(gap * gap, 2.5),
    }[kind]
    table = parametric_statistic(int(kind), 2.5, 5)
    graph = from_edges([5, 5], [[0, 1]], kind=kind.name.lower(), truncation=2.5)
    for a, b in itertools.product(range(5), repeat=2):
        assert table[a, b] == expected(abs(a - b))
        assert graph.score(graph.pack(tables=[3.0]), [a, b]) == 3.0 * expected(abs(a - b))


def test_shared_tables_add_up():
    graph = chain_graph(5, 2, shared=True)
    assert graph.shares_tables
    assert graph.table(graph.statistics([0, 0, 1, 1, 1]), 0).tolist() == [[1, 1], [0, 2]]
    assert graph.first_factor_of_table.tolist() == [0]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.data())
def test_score_is_theta_times_statistics(data):
    n = data.draw(st.integers(1, 5))
    n_states = data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    scope = st.lists(st.integers(0, n - 1), max_size=min(n, 4), unique=True)
    graph = factors(n_states, data.draw(st.lists(scope, max_size=6)))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    theta = rng.standard_normal(graph.n_theta)
    labels = rng.integers(0, n_states, (5, n))
    for y in labels:
        assert graph.score(theta, y) == pytest.approx(theta @ graph.statistics(y))
    assert graph.score(theta, labels).sum() == pytest.approx(theta @ graph.statistics(labels))


def test_graph_arrays_are_read_only_and_the_users_arrays_are_unchanged():
    given_arrays = {
        "n_states": np.array([2, 2, 2]),
        "scope_ptr": np.array([0, 2, 4]),
        "scope_idx": np.array([0, 1, 1, 2]),
        "table_of_factor": np.array([0, 1]),
        "table_kind": np.array([0, 1]),
        "table_truncation": np.array([np.inf, np.inf]),
    }
    copies = {name: array.copy() for name, array in given_arrays.items()}
    graph = FactorGraph(**given_arrays)
    for name in ARRAYS:
        assert not getattr(graph, name).flags.writeable, name
    for name, array in given_arrays.items():
        assert array.flags.writeable, name
        np.testing.assert_array_equal(array, copies[name])
        array[:] = 99  # later changes do not affect the graph
        np.testing.assert_array_equal(getattr(graph, name), copies[name])


def test_views_passed_by_the_user_are_copied():
    edges = np.array([[0, 1], [1, 2]])
    graph = from_edges(2, edges)
    assert edges.flags.writeable
    edges[0] = 7
    assert graph.scope(0).tolist() == [0, 1]
    base = np.array([0, 1, 1, 2, 5, 5])
    graph = FactorGraph([2, 2, 2], [0, 2, 4], base[:4])
    base[:] = 9
    assert graph.scope_idx.tolist() == [0, 1, 1, 2]


def test_theta_and_labels_are_not_changed():
    graph, theta = ZOO["grid"]()
    y = np.zeros(9, dtype=np.int32)
    before = theta.copy()
    graph.score(theta, y)
    np.testing.assert_array_equal(theta, before)
    assert theta.flags.writeable
    assert y.flags.writeable


def test_pack_takes_shaped_and_flat_scores():
    graph = factors([2, 3], [(0, 1)])
    theta = graph.pack(variables=[1, 2, 3, 4, 5], tables=np.arange(6.0).reshape(1, 2, 3))
    assert theta.tolist() == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
    assert not graph.pack().any()


def test_names_and_locations():
    graph = FactorGraph([2, 3], [0, 2], [0, 1], names=["rain", "wet"])
    assert graph.variable_index("wet") == 1
    assert graph.variable(np.arange(11.0), "wet").tolist() == [2, 3, 4]
    assert graph.locate(3) == "variable 1 'wet', state 1"
    assert graph.locate(10) == "table 0, states (1, 2)"
    assert chain_graph(2, 2, kind="potts").locate(4) == "table 0, weight"


def test_repr():
    assert repr(grid_graph(2, 2, 3, shared=True)) == (
        "FactorGraph(4 variables with 3 states, 4 factors of scope <= 2, 2 tables, grid 2x2)"
    )
    assert repr(factors([2, 5], [])) == "FactorGraph(2 variables with 2..5 states, 0 factors of scope <= 0)"
    assert repr(factors([], [])) == "FactorGraph(0 variables with no states, 0 factors of scope <= 0)"
