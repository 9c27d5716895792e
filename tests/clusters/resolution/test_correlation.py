"""Correlation clustering against enumeration of all partitions and against the integer program over triangles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from intarsia._core.clock import Clock
from intarsia.clusters.resolution import correlation
from intarsia.clusters.resolution.correlation import JoinProblem, cluster_nodes, split_components

NONE = np.empty(0, dtype=np.int64)


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
    monkeypatch.setattr(correlation, "EXACT_NODES", 0)
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
