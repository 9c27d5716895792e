"""Correlation clustering against enumeration of all partitions and against the integer program over triangles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from intarsia._core.clock import Clock
from intarsia.clusters.resolution import correlation
from intarsia.clusters.resolution.correlation import cluster_nodes
from intarsia.clusters.resolution.join_problem import JoinProblem, split_components

NONE = np.empty(0, dtype=np.int64)


def set_exact_nodes(monkeypatch, n):
    """Solve no problem of more than n nodes by enumeration."""
    monkeypatch.setattr(correlation, "EXACT_NODES", n)
    monkeypatch.setattr(correlation, "_EXACT_NODES_LATE", min(n, correlation._EXACT_NODES_LATE))


def all_partitions(n):
    """Label vectors of all partitions of n nodes, as rows."""
    rows = np.zeros((1, 1), dtype=np.int64)
    for _ in range(1, n):
        n_labels = rows.max(axis=1) + 2
        repeated = np.repeat(rows, n_labels, axis=0)
        last = np.concatenate([np.arange(k) for k in n_labels])
        rows = np.column_stack([repeated, last])
    return rows


PARTITIONS = {n: all_partitions(n) for n in range(2, 9)}


def random_problem(rng, n, *, constrained=True):
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    pairs = pairs[rng.random(len(pairs)) < rng.choice([0.4, 0.8, 1.0])]
    absent = float(rng.choice([0.0, -0.3]))
    weight = rng.normal(0, 2, len(pairs)).round(2) - absent
    source, source_ptr, max_size = NONE, NONE, n
    if constrained and rng.random() < 0.3:
        weight[rng.random(len(pairs)) < 0.15] = -np.inf
    if constrained and rng.random() < 0.3:
        source, source_ptr = rng.integers(0, 5, n), np.arange(n + 1)
    if constrained and rng.random() < 0.2:
        max_size = int(rng.integers(2, n + 1))
    return JoinProblem(pairs.reshape(-1, 2), weight, np.ones(n, dtype=np.int64), source_ptr, source, absent, max_size)


def is_allowed(problem, labels):
    if np.bincount(labels).max() > problem.max_size:
        return False
    return not problem.source.size or len({*zip(labels, problem.source, strict=True)}) == problem.n_nodes


def best_score(problem):
    return max(problem.score(labels) for labels in PARTITIONS[problem.n_nodes] if is_allowed(problem, labels))


def integer_program_score(problem):
    """Best score by an integer program with all triangle inequalities, solved by SciPy."""
    n = problem.n_nodes
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    column = {pair: k for k, pair in enumerate(pairs)}
    weight = np.full(len(pairs), problem.absent)
    for (i, j), w in zip(problem.ends, problem.weight, strict=True):
        weight[column[(int(i), int(j))]] += w if np.isfinite(w) else -1e4
    rows = []
    for i in range(n):
        for j in range(i + 1, n):
            for k in range(j + 1, n):
                columns = [column[(i, j)], column[(j, k)], column[(i, k)]]
                for odd in range(3):
                    row = np.zeros(len(pairs))
                    row[columns] = 1.0
                    row[columns[odd]] = -1.0
                    rows.append(row)
    answer = milp(
        -weight, integrality=np.ones(len(pairs)), bounds=Bounds(0, 1),
        constraints=LinearConstraint(np.array(rows), -np.inf, 1.0), options={"mip_rel_gap": 0.0},
    )  # fmt: skip
    return -answer.fun


def test_exact_solution_equals_enumeration():
    rng = np.random.default_rng(0)
    for _ in range(200):
        problem = random_problem(rng, int(rng.integers(2, 9)))
        solution = cluster_nodes(problem, Clock())
        assert solution.score == pytest.approx(best_score(problem), abs=1e-9)
        assert solution.bound == solution.score == pytest.approx(problem.score(solution.labels), abs=1e-9)
        assert is_allowed(problem, solution.labels)


def test_search_and_bounds_on_small_graphs(monkeypatch):
    """Without the exact method, the bound is never below the best score, and nearly all answers are optimal."""
    set_exact_nodes(monkeypatch, 0)
    rng = np.random.default_rng(1)
    n_optimal = n_unproven = 0
    for _ in range(300):
        problem = random_problem(rng, int(rng.integers(3, 9)))
        best = best_score(problem)
        solution = cluster_nodes(problem, Clock(20.0))
        assert is_allowed(problem, solution.labels)
        assert problem.score(solution.labels) == pytest.approx(solution.score, abs=1e-7)
        assert solution.bound >= best - 1e-7
        n_optimal += solution.score >= best - 1e-7
        n_unproven += (
            solution.bound - solution.score > 1e-6 and problem.max_size == problem.n_nodes and not problem.source.size
        )
    assert n_optimal >= 295
    assert n_unproven == 0


def test_larger_graphs_equal_the_integer_program():
    rng = np.random.default_rng(2)
    for _ in range(8):
        problem = random_problem(rng, 14, constrained=False)
        best = integer_program_score(problem)
        solution = cluster_nodes(problem, Clock(20.0))
        assert solution.bound >= best - 1e-6
        assert solution.score == pytest.approx(best, abs=1e-6)
        assert solution.bound == pytest.approx(best, abs=1e-5)


def test_bound_and_score_of_a_larger_graph_are_consistent():
    rng = np.random.default_rng(3)
    n = 300
    entity = np.arange(n) // 5
    ends = np.unique(np.sort(rng.integers(0, n, (1200, 2)), axis=1), axis=0)
    true_pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, min(n, i + 5)) if entity[i] == entity[j]])
    ends = np.unique(np.concatenate([ends[ends[:, 0] < ends[:, 1]], true_pairs]), axis=0)
    sign = np.where(entity[ends[:, 0]] == entity[ends[:, 1]], 1.0, -1.0)
    for absent in (0.0, -0.2):
        weight = rng.normal(2.0 * sign, 2.0) - absent
        problem = JoinProblem(ends, weight, np.ones(n, dtype=np.int64), NONE, NONE, absent, n)
        solution = cluster_nodes(problem, Clock(10.0))
        assert problem.score(solution.labels) == pytest.approx(solution.score)
        assert solution.score <= solution.bound <= 1.02 * solution.score
        assert solution.score >= problem.score(entity)  # at least as good as the planted clustering


def test_time_limit_keeps_a_valid_bound():
    rng = np.random.default_rng(4)
    problem = random_problem(rng, 60, constrained=False)
    slow, quick = cluster_nodes(problem, Clock(30.0)), cluster_nodes(problem, Clock(0.0))
    assert quick.score <= slow.score + 1e-9
    assert quick.bound >= slow.score - 1e-9


def test_components_are_those_of_the_positive_edges():
    ends = np.array([[0, 3], [1, 2], [2, 4], [3, 4]])
    problem = JoinProblem(ends, np.array([1.0, 2.0, -1.0, -2.0]), np.ones(5, dtype=np.int64), NONE, NONE, 0.0, 5)
    parts = split_components(problem)
    groups = [
        sorted(parts.order[parts.node_ptr[k] : parts.node_ptr[k + 1]].tolist()) for k in range(len(parts.node_ptr) - 1)
    ]
    assert groups == [[0, 3], [1, 2], [4]]
    assert parts.part(1).ends.tolist() == [[0, 1]]
    assert parts.part(1).weight.tolist() == [2.0]


def with_sizes(rng, n):
    """Random problem whose nodes are one to three records, some with sources, with a largest size."""
    problem = random_problem(rng, n, constrained=False)
    size = rng.integers(1, 4, n)
    source_ptr, source = NONE, NONE
    if rng.random() < 0.5:
        n_sources = rng.integers(0, 3, n)
        source_ptr = np.concatenate([[0], np.cumsum(n_sources)])
        source = np.concatenate([rng.choice(6, k, replace=False) for k in n_sources]).astype(np.int64)
    weight = np.where(rng.random(len(problem.weight)) < 0.1, -np.inf, problem.weight)
    max_size = int(rng.integers(3, size.sum() + 4))
    return JoinProblem(problem.ends, weight, size, source_ptr, source, problem.absent, max_size)


def is_allowed_with_sizes(problem, labels):
    sizes = np.bincount(labels, problem.size)
    n_nodes = np.bincount(labels)
    if ((sizes > problem.max_size) & (n_nodes > 1)).any():
        return False
    if not problem.source.size:
        return True
    owner = labels[np.repeat(np.arange(problem.n_nodes), np.diff(problem.source_ptr))]
    return len({*zip(owner.tolist(), problem.source.tolist(), strict=True)}) == len(owner)


@pytest.mark.parametrize("exact_nodes", [12, 0])
def test_nodes_of_several_records_with_sources_and_a_largest_size(monkeypatch, exact_nodes):
    set_exact_nodes(monkeypatch, exact_nodes)
    rng = np.random.default_rng(7)
    for _ in range(120):
        problem = with_sizes(rng, int(rng.integers(2, 8)))
        allowed = [labels for labels in PARTITIONS[problem.n_nodes] if is_allowed_with_sizes(problem, labels)]
        best = max(problem.score(labels) for labels in allowed)
        solution = cluster_nodes(problem, Clock(20.0))
        assert is_allowed_with_sizes(problem, solution.labels)
        assert solution.score <= best + 1e-7 <= solution.bound + 2e-7
        if exact_nodes:
            assert solution.score == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("exact_nodes", [12, 0])
def test_tiny_huge_and_zero_weights(monkeypatch, scale, exact_nodes):
    set_exact_nodes(monkeypatch, exact_nodes)
    rng = np.random.default_rng(8)
    for _ in range(40):
        problem = random_problem(rng, 7)
        weight = np.where(rng.random(len(problem.weight)) < 0.3, 0.0, problem.weight * scale)
        problem = JoinProblem(
            problem.ends, weight, problem.size, problem.source_ptr, problem.source, problem.absent, problem.max_size
        )
        best = best_score(problem)
        solution = cluster_nodes(problem, Clock(20.0))
        tolerance = 1e-9 * max(1.0, abs(best))
        assert solution.score <= best + tolerance
        assert solution.bound >= best - tolerance
        if exact_nodes:
            assert solution.score == pytest.approx(best, abs=tolerance)


def test_one_node_no_edges_and_disconnected_graphs(monkeypatch):
    no_edges = np.empty((0, 2), dtype=np.int64)
    for n in (1, 2, 15):
        solution = cluster_nodes(
            JoinProblem(no_edges, np.empty(0), np.ones(n, dtype=np.int64), NONE, NONE, -0.1, n), Clock()
        )
        assert solution.score == solution.bound == 0.0
        assert len(set(solution.labels.tolist())) == n
    rng = np.random.default_rng(9)
    parts = [random_problem(rng, 7, constrained=False) for _ in range(3)]
    ends = np.concatenate([part.ends + 7 * k for k, part in enumerate(parts)])
    weight = np.concatenate([part.weight + part.absent for part in parts])
    best = sum(
        max(
            JoinProblem(part.ends, part.weight + part.absent, part.size, NONE, NONE, 0.0, 7).score(labels)
            for labels in PARTITIONS[7]
        )
        for part in parts
    )
    for exact_nodes in (12, 0):
        set_exact_nodes(monkeypatch, exact_nodes)
        together = JoinProblem(ends, weight, np.ones(21, dtype=np.int64), NONE, NONE, 0.0, 21)
        solution = cluster_nodes(together, Clock(20.0))
        assert solution.score == pytest.approx(best)
        assert solution.bound == pytest.approx(best)


def test_bound_of_sparse_graphs_counts_absent_pairs_between_clusters(monkeypatch):
    """Two groups of five joined by one edge: only the 24 pairs without a score speak against joining them."""
    monkeypatch.setattr(correlation, "_EXPLICIT_PAIRS", 0)
    monkeypatch.setattr(correlation, "_decided", lambda *arguments: None)
    monkeypatch.setattr(correlation, "relax", lambda *arguments: None)
    rng = np.random.default_rng(10)
    n = 400
    inside = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if i // 5 == j // 5])
    bridges = np.unique(np.sort(rng.integers(0, n, (120, 2)), axis=1), axis=0)
    bridges = bridges[bridges[:, 0] // 5 != bridges[:, 1] // 5]
    ends = np.concatenate([inside, bridges])
    weight = np.concatenate([np.full(len(inside), 3.0), np.full(len(bridges), 1.5)]) + 0.2
    problem = JoinProblem(ends, weight, np.ones(n, dtype=np.int64), NONE, NONE, -0.2, n)
    solution = cluster_nodes(problem, Clock(20.0))
    assert solution.score >= problem.score(np.arange(n) // 5)
    assert solution.score <= solution.bound <= 1.005 * solution.score


@pytest.mark.slow
def test_giant_component_has_a_gap_below_two_percent_in_a_minute():
    rng = np.random.default_rng(1)
    n = 20_000
    ends = np.sort(rng.integers(0, n, (3 * n, 2)), axis=1)
    inside = np.array([(i, j) for i in range(n) for j in range(i + 1, min(n, i + 5)) if i // 5 == j // 5])
    ends = np.unique(np.concatenate([ends[ends[:, 0] != ends[:, 1]], inside]), axis=0)
    same = ends[:, 0] // 5 == ends[:, 1] // 5
    odds = rng.normal(np.where(same, 2.0, -2.0), 2.0)
    problem = JoinProblem(ends, odds + 0.1, np.ones(n, dtype=np.int64), NONE, NONE, -0.1, n)
    assert len(split_components(problem).node_ptr) < 0.05 * n
    clock = Clock(60.0)
    solution = cluster_nodes(problem, clock)
    assert clock.seconds < 75.0
    assert solution.score <= solution.bound <= 1.02 * solution.score


def test_without_proof_the_clustering_is_the_same_and_the_bound_infinite():
    rng = np.random.default_rng(4)
    n = 30
    ends = np.column_stack(np.triu_indices(n, 1))
    problem = JoinProblem(ends, rng.normal(size=len(ends)), np.ones(n, dtype=np.int64), NONE, NONE, 0.0, n)
    quick = cluster_nodes(problem, Clock(20.0), prove=False)
    assert quick.bound == np.inf
    assert quick.score == pytest.approx(problem.score(quick.labels))
    assert quick.score <= cluster_nodes(problem, Clock(1.0)).bound
