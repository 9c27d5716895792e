"""Connected components and the best threshold, compared with a separate search for every threshold."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from intarsia.clusters.components import best_threshold, connected_components
from intarsia.exceptions import InvalidInputError
from intarsia.metrics import clustering_scores


def test_components():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 50, (30, 2))
    found = connected_components(50, pairs)
    graph = nx.Graph()
    graph.add_nodes_from(range(50))
    graph.add_edges_from(pairs.tolist())
    assert {frozenset(np.flatnonzero(found == k).tolist()) for k in range(found.max() + 1)} == {
        frozenset(part) for part in nx.connected_components(graph)
    }
    firsts = [int(np.flatnonzero(found == k)[0]) for k in range(found.max() + 1)]
    assert firsts == sorted(firsts)
    assert connected_components(0, np.empty((0, 2), int)).tolist() == []
    with pytest.raises(InvalidInputError, match="has record 3, but there are 3 records"):
        connected_components(3, [[0, 3]])


@pytest.mark.parametrize("metric", ["b_cubed", "pairwise"])
@pytest.mark.parametrize("seed", range(8))
def test_best_threshold(metric, seed):
    """Compare with every threshold separately, with some hidden clusters and some equal scores."""
    rng = np.random.default_rng(seed)
    n = 25
    clusters = rng.integers(-1, 8, n)
    pairs = np.column_stack(np.triu_indices(n, 1))[rng.random(n * (n - 1) // 2) < 0.4]
    same = clusters[pairs[:, 0]] == clusters[pairs[:, 1]]
    scores = np.round(rng.random(len(pairs)) + 0.6 * same, 1)
    tried = {
        t: getattr(clustering_scores(clusters, connected_components(n, pairs, scores, t)), metric).f1
        for t in [np.inf, *np.unique(scores)]
    }
    threshold, f1 = best_threshold(n, pairs, scores, clusters, metric)
    assert f1 == pytest.approx(max(tried.values()))
    assert tried[threshold] == pytest.approx(f1)


def test_nothing_to_link():
    assert best_threshold(3, np.empty((0, 2), int), [], [0, 1, 2])[0] == np.inf
    assert best_threshold(2, [[0, 1]], [0.9], [0, 1]) == (np.inf, 1.0)
    with pytest.raises(InvalidInputError, match="1 NaN"):
        best_threshold(2, [[0, 1]], [np.nan], [0, 1])
    with pytest.raises(InvalidInputError, match="metric='muc' is not known"):
        best_threshold(2, [[0, 1]], [0.5], [0, 1], "muc")
