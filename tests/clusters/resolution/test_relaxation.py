"""Cycle inequalities against all-pairs shortest paths, growing programs against programs solved at once, pooling."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression, linprog
from scipy.sparse import coo_array, csgraph

from intarsia._core.clock import Clock
from intarsia._core.highs import GrowingProgram
from intarsia._kernels.isotonic import pool_violators
from intarsia.clusters.resolution.relaxation import CycleRows, relax


def random_pairs(rng, n, density=1.0):
    pairs = np.column_stack(np.triu_indices(n, 1))
    return pairs[rng.random(len(pairs)) < density]


@pytest.mark.parametrize("density", [1.0, 0.4, 0.1])
@pytest.mark.parametrize("seed", range(10))
def test_violated_rows_are_shortest_paths(seed, density):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 12, density)
    x = np.clip(rng.random(len(pairs)) * 1.6 - 0.3, 0.0, 1.0)
    rows = CycleRows(pairs, 12)
    upper, matrix = rows.add_violated(x)
    length = 1.0 - x
    graph = coo_array((length + 1e-12, (pairs[:, 0], pairs[:, 1])), shape=(12, 12)).tocsr()
    distance = csgraph.floyd_warshall(graph, directed=False)[pairs[:, 0], pairs[:, 1]]
    is_violated = length > distance + 1e-6
    dense = matrix.toarray()
    assert len(upper) == is_violated.sum()
    assert sorted(np.argmin(dense, axis=1)) == np.flatnonzero(is_violated).tolist()
    for row, right in zip(dense, upper, strict=True):
        path = row > 0
        assert right == path.sum() - 1
        assert length[path].sum() == pytest.approx(distance[np.argmin(row)], abs=1e-9)
        degree = np.bincount(pairs[row != 0].ravel(), minlength=12)
        assert set(degree) <= {0, 2}  # a cycle
    np.testing.assert_array_equal(rows.matrix.toarray(), dense)


@pytest.mark.parametrize("seed", range(10))
def test_relaxation_equals_the_linear_program_with_all_triangles(seed):
    rng = np.random.default_rng(seed)
    n = 8
    pairs, weights = random_pairs(rng, n), rng.normal(size=n * (n - 1) // 2)
    number = {tuple(pair): e for e, pair in enumerate(pairs.tolist())}
    triangles = []
    for a, b, c in combinations(range(n), 3):
        edges = [number[a, b], number[a, c], number[b, c]]
        for k in range(3):
            row = np.zeros(len(pairs))
            row[edges] = 1.0
            row[edges[k]] = -1.0
            triangles.append(row)
    best = -linprog(-weights, A_ub=np.array(triangles), b_ub=np.ones(len(triangles)), bounds=(0, 1)).fun
    relaxed = relax(pairs, weights, n, -np.inf, Clock())
    assert relaxed.bound == pytest.approx(best, abs=1e-7)
    # The bound is the Lagrangian: separating a pair with a positive residual costs at least that much.
    joined = relaxed.residual > 1e-9
    for e in np.flatnonzero(joined)[:5]:
        apart = linprog(
            -weights, A_ub=np.array(triangles), b_ub=np.ones(len(triangles)),
            bounds=[(0, 0) if k == e else (0, 1) for k in range(len(pairs))],
        )  # fmt: skip
        assert -apart.fun <= relaxed.bound - relaxed.residual[e] + 1e-7


def test_growing_program_keeps_the_time_limit():
    program = GrowingProgram(np.ones(3))
    assert program.solve(Clock(0.0)).x is None
    assert program.solve(Clock(60.0)).x.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("seed", range(20))
def test_pooling_is_isotonic_regression(seed):
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 6, 30).astype(float)
    successes = rng.integers(0, trials + 1).astype(float)
    blocks = np.vstack([successes, trials, np.ones(30)])
    n_blocks = pool_violators(blocks)
    successes_of, trials_of, counts = blocks[:, :n_blocks]
    rate = np.repeat(successes_of / trials_of, counts.astype(int))
    np.testing.assert_allclose(rate, isotonic_regression(successes / trials, weights=trials).x, atol=1e-12)
    assert (np.diff(successes_of / trials_of) > 0).all()
