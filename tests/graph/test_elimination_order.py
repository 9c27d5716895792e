import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from tests.random_models import random_models
from tests.zoo import factors

from intarsia.graph import complete_graph, from_edges, grid_graph, star_graph
from intarsia.graph.elimination_order import _compiled_search, _python_search, forest_order, search_order


def simulate(graph, order):
    """Eliminate variables with Python sets; return the sum of message sizes and log2 of the largest bucket."""
    around = {v: set() for v in range(graph.n_variables)}
    for c in range(graph.n_factors):
        for u, w in itertools.permutations(graph.scope(c).tolist(), 2):
            around[u].add(w)
    cells, widest = 0, 1
    for v in order.tolist():
        others = around.pop(v)
        message = int(np.prod([graph.n_states[u] for u in others], dtype=float))
        cells += message
        widest = max(widest, message * int(graph.n_states[v]))
        for u in others:
            around[u] |= others - {u}
            around[u].discard(v)
    return cells, np.log2(widest)


def largest_factor(graph):
    return max((int(np.prod(graph.factor_shape(c))) for c in range(graph.n_factors)), default=1)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(random_models(forest=True))
def test_forest_order_makes_no_table_larger_than_the_factors(model):
    graph, _ = model
    order = forest_order(graph)
    assert sorted(order.tolist()) == list(range(graph.n_variables))
    assert simulate(graph, order)[1] <= max(np.log2(largest_factor(graph)), np.log2(graph.n_states.max())) + 1e-9


def test_cycle_has_no_forest_order():
    assert forest_order(from_edges(2, [[0, 1], [1, 2], [2, 0], [2, 3]])) is None
    assert forest_order(factors([2] * 4, [(0, 1, 2), (1, 2, 3)])) is None  # two shared variables are a cycle
    assert forest_order(factors([2] * 5, [(0, 1, 2), (2, 3, 4)])) is not None


@settings(max_examples=50, deadline=None, derandomize=True)
@given(random_models())
def test_sizes_are_those_of_the_order(model):
    graph, _ = model
    for ordering in ("best", "min_fill", "min_degree"):
        result = search_order(graph, ordering)
        assert result.complete
        assert sorted(result.order.tolist()) == list(range(graph.n_variables))
        cells, width = simulate(graph, result.order)
        assert result.n_cells == pytest.approx(cells)
        assert result.log2_width == pytest.approx(width)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(random_models())
def test_searches_in_python_and_compiled_agree(model):
    """Both implement the same rule, so without random tie-breaks they return the same order."""
    graph, _ = model
    graph = factors([4] * graph.n_variables, [tuple(graph.scope(c).tolist()) for c in range(graph.n_factors)])
    for by_fill in (False, True):
        ours, theirs = (make(graph)(by_fill, False, np.inf, np.inf) for make in (_python_search, _compiled_search))
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:3] == theirs[1:3]


@pytest.mark.parametrize(
    ("graph", "log2_width"),
    [
        (star_graph(50, 2), 2.0),
        (complete_graph(7, 2), 7.0),
        (grid_graph(5, 20, 2), 6.0),
        (from_edges(2, [[i, (i + 1) % 30] for i in range(30)]), 3.0),
        (from_edges([2, 8, 2, 8], [[0, 1], [1, 2], [2, 3], [3, 0]]), 5.0),  # eliminate the small variables first
    ],
)
def test_known_widths(graph, log2_width):
    assert search_order(graph).log2_width == pytest.approx(log2_width)


def test_larger_grid_matches_simulation():
    graph = grid_graph(12, 12, 2)
    best = search_order(graph)
    assert simulate(graph, best.order) == (pytest.approx(best.n_cells), pytest.approx(best.log2_width))
    for ordering in ("min_fill", "min_degree"):
        assert best.n_cells <= search_order(graph, ordering, n_restarts=0).n_cells


def test_limits_end_the_search():
    result = search_order(grid_graph(100, 100, 2), max_cells=1e6)
    assert not result.complete
    assert result.n_cells > 1e6


def test_hub_with_a_hundred_thousand_leaves():
    result = search_order(star_graph(100_000, 2))
    assert result.complete
    assert result.n_cells == pytest.approx(200_001)
