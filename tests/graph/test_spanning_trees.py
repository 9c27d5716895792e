import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.zoo import FORESTS, ZOO, factors

from intarsia.exceptions import InvalidInputError
from intarsia.graph import batch_graphs, chain_graph, complete_graph, from_edges, grid_graph, reduce_graph, tree_graph
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.spanning_trees import appearance_probabilities, check_appearance, is_valid_appearance

BOUNDED = settings(max_examples=50, deadline=None, derandomize=True)


def distinct(graph, rho):
    """Return the distinct scopes of at least two variables, with their largest weight."""
    result = {}
    for c in range(graph.n_factors):
        scope = frozenset(graph.scope(c).tolist())
        if len(scope) > 1:
            result[scope] = max(result.get(scope, 0.0), float(rho[c]))
    return result


def worst_excess(graph, rho):
    """Return the largest violation of `sum rho_c (|c and T| - 1)+ <= |T| - 1` over all sets T."""
    weights = distinct(graph, rho)
    worst = -math.inf
    for size in range(1, graph.n_variables + 1):
        for chosen in itertools.combinations(range(graph.n_variables), size):
            inside = set(chosen)
            total = math.fsum(w * max(len(c & inside) - 1, 0) for c, w in weights.items())
            worst = max(worst, total - (size - 1))
    return worst


def is_forest(scopes, n_variables):
    parent = list(range(n_variables))

    def find(v):
        while parent[v] != v:
            v = parent[v]
        return v

    for scope in scopes:
        roots = {find(v) for v in scope}
        if len(roots) < len(scope):
            return False
        top = roots.pop()
        for root in roots:
            parent[root] = top
    return True


def enumerated_frequencies(graph):
    """Return the fraction of spanning trees that contain each edge, by enumeration (connected graphs)."""
    edges = [tuple(graph.scope(c).tolist()) for c in range(graph.n_factors)]
    counts, trees = np.zeros(len(edges)), 0
    for subset in itertools.combinations(range(len(edges)), graph.n_variables - 1):
        if is_forest([edges[e] for e in subset], graph.n_variables):
            trees += 1
            counts[list(subset)] += 1
    return counts / trees


def torus(height, width):
    edges = [
        [i * width + j, (i + di) % height * width + (j + dj) % width]
        for i in range(height)
        for j in range(width)
        for di, dj in ((0, 1), (1, 0))
    ]
    return from_edges(2, edges)


@st.composite
def hypergraphs(draw, max_scope=4, max_variables=6):
    n = draw(st.integers(2, max_variables))
    scope = st.lists(st.integers(0, n - 1), min_size=1, max_size=min(n, max_scope), unique=True)
    return factors([2] * n, draw(st.lists(scope, min_size=1, max_size=9)))


@pytest.mark.parametrize(
    "graph",
    [
        complete_graph(5, 2),
        from_edges(2, [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 5], [5, 3], [5, 6]]),
        from_edges(2, grid_graph(3, 3, 2).scope_idx.reshape(-1, 2)),
        torus(3, 3),
    ],
    ids=["complete", "bridges", "grid", "torus"],
)
def test_exact_values_are_the_frequencies_in_all_spanning_trees(graph):
    rho = appearance_probabilities(graph)
    np.testing.assert_allclose(rho, enumerated_frequencies(graph), atol=1e-12)
    assert rho.sum() == pytest.approx(graph.n_variables - 1, abs=1e-10)
    assert is_valid_appearance(graph, rho) is True


def test_bridges_are_exactly_one_and_components_are_independent():
    barbell = from_edges(2, [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 5], [5, 3]])
    graph = batch_graphs([barbell, chain_graph(4, 2), complete_graph(6, 2), chain_graph(1, 2), barbell]).graph
    for limit in (1500, 0):
        rho = appearance_probabilities(graph, exact_limit=limit)
        assert (rho[[3, 7, 8, 9, 25 + 3]] == 1.0).all()
        assert rho.sum() == pytest.approx(5 + 3 + 5 + 0 + 5, abs=1e-10)
    exact = appearance_probabilities(graph)
    np.testing.assert_allclose(exact[[0, 1, 2]], 2 / 3)
    np.testing.assert_allclose(exact[10:25], 1 / 3)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_every_model_of_the_zoo_gets_valid_values(name):
    graph, _ = ZOO[name]()
    for limit in (1500, 0):
        rho = appearance_probabilities(graph, exact_limit=limit)
        assert rho.shape == (graph.n_factors,)
        assert ((rho > 0) & (rho <= 1)).all()
        assert graph.n_variables == 0 or worst_excess(graph, rho) <= 1e-9
        assert is_valid_appearance(graph, rho) is True
    if name in FORESTS:  # after removing variables with one state
        assert (appearance_probabilities(reduce_graph(graph).graph) == 1.0).all()


@BOUNDED
@given(hypergraphs(), st.integers(0, 3))
def test_sampled_values_are_valid(graph, seed):
    rho = appearance_probabilities(graph, random_state=seed, exact_limit=0)
    assert ((rho > 0) & (rho <= 1)).all()
    assert worst_excess(graph, rho) <= 1e-9
    assert is_valid_appearance(graph, rho) is True
    np.testing.assert_array_equal(rho, appearance_probabilities(graph, random_state=seed, exact_limit=0))


@BOUNDED
@given(hypergraphs(), st.data())
def test_validity_agrees_with_trying_every_set(graph, data):
    level = data.draw(st.floats(0.1, 1.0))
    rho = np.array([level * data.draw(st.floats(0.3, 1.0)) for _ in range(graph.n_factors)])
    excess = worst_excess(graph, rho)
    if abs(excess) > 1e-7 or excess == 0:
        assert is_valid_appearance(graph, rho) is bool(excess <= 0)


@BOUNDED
@given(hypergraphs(max_variables=5), st.data())
def test_entropy_bound_holds_for_our_values(graph, data):
    """H~(mu) >= H(mu), Domke2013 Eq. 16, on distributions from spread out to nearly deterministic."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    p = rng.dirichlet(np.full(2**graph.n_variables, data.draw(st.sampled_from([0.02, 0.2, 1.0]))))
    rho = appearance_probabilities(graph, exact_limit=data.draw(st.sampled_from([0, 100])))
    assert multi_information_gap(graph, rho, p) >= -1e-10


def multi_information_gap(graph, rho, p):
    """H~ - H = I(mu) - sum of rho_c I(mu_c) for a joint distribution p over binary variables."""
    n = graph.n_variables
    joint = p.reshape((2,) * n)

    def entropy(keep):
        marginal = joint.sum(axis=tuple(v for v in range(n) if v not in keep)).reshape(-1)
        positive = marginal[marginal > 0]
        return -float(positive @ np.log(positive))

    single = [entropy({v}) for v in range(n)]
    total = sum(single) - entropy(set(range(n)))
    return total - sum(w * (sum(single[v] for v in c) - entropy(c)) for c, w in distinct(graph, rho).items())


def test_sets_inside_T_are_not_enough_above_scope_two():
    """Two triples that share a pair: rho = 3/4 satisfies the count of factors *inside* T, yet breaks the bound."""
    graph = factors([2] * 4, [(0, 1, 2), (0, 1, 3)])
    rho = np.full(2, 0.75)
    for size in range(1, 5):
        for chosen in itertools.combinations(range(4), size):
            assert sum(2 * 0.75 for c in ({0, 1, 2}, {0, 1, 3}) if c <= set(chosen)) <= size - 1
    p = np.zeros((2, 2, 2, 2))
    p[0, 0] = p[1, 1] = 1 / 8  # variables 0 and 1 equal, 2 and 3 free
    assert multi_information_gap(graph, rho, p.reshape(-1)) < -0.3
    assert is_valid_appearance(graph, rho) is False
    assert is_valid_appearance(graph, 0.5) is True


def test_validity_is_sharp():
    for n in (3, 6, 40):
        graph = complete_graph(n, 2)
        assert is_valid_appearance(graph, 2 / n) is True
        assert is_valid_appearance(graph, 2 / n + 1e-6) is False
    cycle_of_triples = factors([2] * 6, [(0, 1, 2), (2, 3, 4), (4, 5, 0)])
    assert is_valid_appearance(cycle_of_triples, 2 / 3) is True
    assert is_valid_appearance(cycle_of_triples, 2 / 3 + 1e-6) is False
    one_bad_part = batch_graphs([chain_graph(5, 2), complete_graph(3, 2), complete_graph(4, 2)]).graph
    rho = np.concatenate([np.ones(4), np.full(3, 2 / 3), np.full(6, 0.5)])
    assert is_valid_appearance(one_bad_part, rho) is True
    rho[-1] += 1e-6
    assert is_valid_appearance(one_bad_part, rho) is False


def test_too_much_work_returns_none():
    graph = torus(20, 20)
    assert is_valid_appearance(graph, 399 / 800, max_work=10) is None


@pytest.mark.parametrize(("connectivity", "value"), [(4, 0.5), (8, 0.25)])
def test_plain_grids_have_constant_values(connectivity, value):
    for shape in ((2, 2), (2, 7), (5, 4), (40, 60)):
        graph = grid_graph(*shape, 2, connectivity=connectivity)
        assert (appearance_probabilities(graph) == value).all()
        assert is_valid_appearance(graph, value) is True
    # Also with the edges in another order and direction.
    graph = grid_graph(4, 5, 2, connectivity=connectivity)
    edges = np.random.default_rng(0).permutation(graph.scope_idx.reshape(-1, 2))[:, ::-1]
    mixed = FactorGraph(graph.n_states, graph.scope_ptr, edges.reshape(-1), grid_shape=(4, 5))
    assert (appearance_probabilities(mixed) == value).all()


def test_other_graphs_are_not_mistaken_for_grids():
    assert (appearance_probabilities(grid_graph(1, 9, 2)) == 1.0).all()
    wrapped = torus(4, 4)
    graph = FactorGraph(wrapped.n_states, wrapped.scope_ptr, wrapped.scope_idx, grid_shape=(4, 4))
    rho = appearance_probabilities(graph)
    np.testing.assert_allclose(rho, 15 / 32)
    assert is_valid_appearance(graph, 0.5) is False
    # As many edges as the grid, but one of them differs.
    grid = grid_graph(3, 3, 2)
    edges = grid.scope_idx.copy()
    edges[:2] = (0, 8)
    moved = FactorGraph(grid.n_states, grid.scope_ptr, edges, grid_shape=(3, 3))
    assert np.ptp(appearance_probabilities(moved)) > 0.01
    eight = grid_graph(3, 3, 2, connectivity=8)
    assert is_valid_appearance(eight, 0.5) is False


def test_large_sparse_graph_is_covered_and_tight():
    edges = grid_graph(120, 120, 2).scope_idx.reshape(-1, 2)
    graph = from_edges(2, edges)
    rho = appearance_probabilities(graph)
    assert rho.sum() == pytest.approx(graph.n_variables - 1)
    assert rho.min() > 0.3


def test_dense_graph_averages_orders():
    graph = complete_graph(40, 2)
    rho = appearance_probabilities(graph, exact_limit=10, min_forests=200)
    assert rho.sum() == pytest.approx(39)
    assert rho.min() > 0.5 * 2 / 40
    assert is_valid_appearance(graph, rho) is True


def test_triples_that_all_share_a_pair():
    graph = factors([2] * 52, [(0, 1, k) for k in range(2, 52)])
    rho = appearance_probabilities(graph)
    assert rho.sum() == pytest.approx(1.0)
    assert is_valid_appearance(graph, rho) is True


def test_degenerate_factors():
    graph = factors([2, 3], [(0,), (0,), (0, 1), (1, 0), ()])
    np.testing.assert_array_equal(appearance_probabilities(graph), np.ones(5))
    assert is_valid_appearance(graph, 1.0) is True
    assert appearance_probabilities(factors([2, 2], [])).shape == (0,)
    assert is_valid_appearance(factors([2, 2], []), []) is True
    assert (appearance_probabilities(tree_graph([-1, 0, 1, -1], 2)) == 1.0).all()


def test_bad_values_are_refused():
    graph = chain_graph(4, 2)
    with pytest.raises(InvalidInputError, match=r"^rho has shape \(2,\), but this graph has 3 factors\. Pass one"):
        check_appearance(graph, [0.5, 0.5])
    for bad, shown in ((0.0, "0.0"), (1.5, "1.5"), (-0.1, "-0.1"), (np.nan, "nan"), (np.inf, "inf")):
        with pytest.raises(InvalidInputError, match=rf"^rho\[1\] is {shown}, but an appearance .* \(0, 1\]\. Use"):
            is_valid_appearance(graph, [1.0, bad, 1.0])
    with pytest.raises(InvalidInputError, match="rho: expected numbers"):
        check_appearance(graph, "many")
    with pytest.raises(InvalidInputError, match="min_forests must be an integer"):
        appearance_probabilities(graph, min_forests=0)
    given_values = np.full(3, 0.5)
    assert check_appearance(graph, given_values).flags.writeable
