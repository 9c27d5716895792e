import networkx as nx
import numpy as np
import pytest

from intarsia.graph import (
    chain_graph,
    complete_graph,
    from_edges,
    from_networkx,
    grid_graph,
    reduce_graph,
    star_graph,
    tree_graph,
)


def edges(graph):
    return [tuple(graph.scope(c).tolist()) for c in range(graph.n_factors)]


def test_chain():
    graph = chain_graph(4, 3)
    assert edges(graph) == [(0, 1), (1, 2), (2, 3)]
    assert graph.n_states.tolist() == [3] * 4
    assert chain_graph(4, 3, shared=True).n_tables == 1
    assert [chain_graph(n, 2).n_factors for n in (0, 1, 2)] == [0, 0, 1]
    assert reduce_graph(chain_graph(3, 1)).graph.n_variables == 0


def test_tree_and_forest():
    graph = tree_graph([-1, 0, 0, -1, 3, 1], [2, 3, 2, 2, 4, 2])
    assert edges(graph) == [(0, 1), (0, 2), (3, 4), (1, 5)]
    assert graph.factor_shape(0) == (2, 3)
    assert tree_graph([], 2).n_variables == 0
    long = tree_graph(np.arange(5000) - 1, 2)  # deeper than any recursion
    assert long.n_factors == 4999


def test_star_and_complete():
    assert edges(star_graph(3, 2)) == [(0, 1), (0, 2), (0, 3)]
    assert edges(complete_graph(4, 2)) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert complete_graph(0, 2).n_variables == 0
    assert star_graph(0, 2).n_variables == 1


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 5), (5, 1), (2, 2), (3, 4)])
@pytest.mark.parametrize("connectivity", [4, 8])
def test_grid_edges_are_the_neighbours(height, width, connectivity):
    graph = grid_graph(height, width, 2, connectivity=connectivity)
    at = {(i, j): i * width + j for i in range(height) for j in range(width)}
    expected = set()
    for a in at:
        for b in at:
            down, right = abs(a[0] - b[0]), abs(a[1] - b[1])
            if (down + right if connectivity == 4 else max(down, right)) == 1:
                expected.add(frozenset((at[a], at[b])))
    result = edges(graph)
    assert {frozenset(edge) for edge in result} == expected
    assert len(result) == len(expected)
    assert all(a < b for a, b in result)
    assert graph.grid_shape == (height, width)


def test_grid_tables_by_direction():
    graph = grid_graph(3, 4, 2, connectivity=8, shared=True)
    assert graph.n_tables == 4
    steps = [{b - a for c, (a, b) in enumerate(edges(graph)) if graph.table_of_factor[c] == t} for t in range(4)]
    assert steps == [{1}, {4}, {5}, {3}]  # right, down, down-right, down-left
    assert grid_graph(1, 4, 2, shared=True).n_tables == 1


def test_edge_list():
    graph = from_edges(2, [[3, 1], [0, 3]], n_variables=6)
    assert (graph.n_variables, edges(graph)) == (6, [(3, 1), (0, 3)])
    assert from_edges([2, 3], []).n_factors == 0
    assert from_edges(2, [], shared=True).n_tables == 0
    assert from_edges(2, np.empty((0, 2))).n_variables == 0


def test_parametric_shapes_have_one_weight():
    graph = grid_graph(2, 3, 4, kind="truncated_linear", truncation=2.0)
    assert graph.n_theta == 6 * 4 + 7
    assert (graph.table_truncation == 2.0).all()


def test_networkx():
    source = nx.Graph()
    source.add_nodes_from(["c", "a", "b"])
    source.add_edges_from([("a", "b"), ("c", "a")])
    graph = from_networkx(source, {"a": 2, "b": 3, "c": 4})
    assert graph.names == ("c", "a", "b")
    assert graph.n_states.tolist() == [4, 2, 3]
    assert {frozenset(edge) for edge in edges(graph)} == {frozenset((1, 2)), frozenset((0, 1))}
    assert from_networkx(nx.Graph()).n_variables == 0
    assert from_networkx(nx.MultiGraph([(0, 1), (0, 1)])).n_factors == 2


def test_shapes_declared_in_normal_form_are_in_normal_form():
    from intarsia.graph.reduction import _duplicate_scopes

    for graph in (chain_graph(5, 2), grid_graph(3, 4, 2), grid_graph(3, 4, 2, connectivity=8)):
        assert _duplicate_scopes(graph.scope_ptr, graph.scope_idx).size == 0
