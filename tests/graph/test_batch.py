import numpy as np
import pytest
from tests.zoo import ZOO, random_theta

from intarsia.graph import batch_graphs, chain_graph, grid_graph


def members():
    return [
        ZOO[name]() for name in ("three_way_factor", "potts", "one_node", "unary_factors_twice", "truncated_linear")
    ]


def test_pack_and_unpack_are_inverse():
    graphs, thetas = zip(*members(), strict=True)
    batch = batch_graphs(graphs)
    theta = batch.pack(thetas)
    assert theta.shape == (batch.graph.n_theta,)
    for back, original in zip(batch.unpack(theta), thetas, strict=True):
        np.testing.assert_array_equal(back, original)


def test_scores_and_statistics_add_up():
    graphs, thetas = zip(*members(), strict=True)
    batch = batch_graphs(graphs)
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, graph.n_states) for graph in graphs]
    y = np.concatenate(parts)
    total = sum(graph.score(theta, part) for graph, theta, part in zip(graphs, thetas, parts, strict=True))
    assert batch.graph.score(batch.pack(thetas), y) == pytest.approx(total)
    for result, graph, part in zip(batch.unpack(batch.graph.statistics(y)), graphs, parts, strict=True):
        np.testing.assert_array_equal(result, graph.statistics(part))
    for result, part in zip(batch.unpack_labelling(np.stack([y, y])), parts, strict=True):
        np.testing.assert_array_equal(result, np.stack([part, part]))


def test_shared_tables_are_summed():
    graphs = [chain_graph(n, 3, shared=True) for n in (2, 5, 3)]
    batch = batch_graphs(graphs, share_tables=True)
    assert (batch.graph.n_tables, batch.graph.n_factors) == (1, 7)
    table = np.random.default_rng(1).standard_normal(9)
    thetas = [np.concatenate([random_theta(g, k)[:-9], table]) for k, g in enumerate(graphs)]
    parts = [np.arange(g.n_variables) % 3 for g in graphs]
    total = sum(g.score(t, y) for g, t, y in zip(graphs, thetas, parts, strict=True))
    assert batch.graph.score(batch.pack(thetas), np.concatenate(parts)) == pytest.approx(total)
    blocks = batch.unpack_variables(batch.pack(thetas))
    for block, theta in zip(blocks, thetas, strict=True):
        np.testing.assert_array_equal(block, theta[:-9])


def test_one_member():
    graph = grid_graph(2, 2, 2)
    batch = batch_graphs([graph])
    theta = random_theta(graph, 2)
    np.testing.assert_array_equal(batch.pack([theta]), theta)
    np.testing.assert_array_equal(batch.graph.scope_idx, graph.scope_idx)
