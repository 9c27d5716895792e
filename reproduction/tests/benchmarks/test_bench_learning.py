"""Rows of the benchmark on small models; the measured seconds are not checked."""

import numpy as np
import pytest
from reproduction.tests.benchmarks.bench_contract import check

from intarsia_reproduction.benchmarks import bench_learning as bench
from intarsia_reproduction.benchmarks.peers import find_peer


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench, "_AUTHOR", (4, 5))
    monkeypatch.setattr(bench, "_PGMAX_SIZE", (5, 4))
    monkeypatch.setattr(bench, "_WANTED", {2: 3.0, 3: 5.0})
    monkeypatch.setattr(bench, "_LARGE", (6, 6, 3, 4))
    monkeypatch.setattr(bench, "_AT_LEAST", 0.0)


def test_without_peers_their_columns_are_none(small, monkeypatch):
    monkeypatch.setattr(bench, "find_peer", lambda name: None)
    measured = {"seconds": 1.0, "first": 3, "loading": 1, "again": 2, "process": 5}
    measured |= {"one": 3.0, "two": 2.0, "difference": 0.0}
    monkeypatch.setattr(bench, "in_fresh_process", lambda code: measured)
    lines = []
    rows = bench.bench_learning(repeats=1, report=lines.append)
    check(rows)
    assert lines
    assert len(rows) == 1 + 2 * 2 + 3 * 3 + 1 + 1
    for row in rows:
        if row["peer"] == "PGMax differentiated by JAX":
            assert row["peer_seconds"] is row["peer_quality"] is None
        if row.get("quality_is") == bench._GRADIENT_ERROR:
            assert row["ours_quality"] < 1e-7
        if row.get("quality_is") == bench._MEMORY_IS:
            assert (row["ours_quality"], row["ours_again_bytes"], row["ours_process_bytes"]) == (3, 2, 5)
            assert row["ours_loading_bytes"] == 1
    assert rows[-1]["ratio"] == 1.5


def test_error_of_a_wrong_gradient_is_measured():
    problem = bench._Labelled.of(5, 4, 3)
    right = problem.gradient("belief_propagation").gradient
    wrong = right.copy()
    wrong[7] += 0.1
    error = problem.error_of(wrong, "belief_propagation", "forward_backward")
    # Four random directions estimate the size of an error within a small factor.
    expected = 0.1 / np.linalg.norm(wrong)
    assert expected / 5 < error < expected * 5


@pytest.mark.slow
@pytest.mark.skipif(find_peer("pgmax") is None, reason="PGMax is not installed; see reproduction/README.md")
def test_gradient_of_pgmax_is_correct_for_its_schedule(small):
    speed, memory = bench._compare_with_pgmax(3, 1, lambda line: None)
    check([speed, memory])
    assert speed["peer_quality"] < 1e-5  # an independent program, in single precision
    assert speed["ours_quality"] < 1e-7
    assert memory["peer_process_bytes"] > memory["peer_quality"] > memory["peer_again_bytes"] >= 0


@pytest.mark.slow
def test_memory_and_workers_are_measured_in_fresh_processes(small, monkeypatch):
    monkeypatch.setattr(bench, "find_peer", lambda name: None)
    monkeypatch.setattr(bench, "_BATCH", (2, 4, 4))
    rows = [bench._memory(60, 60, 3, 40, goal=""), bench._two_workers(1)]
    check(rows)
    stack = 41 * 8 * 3 * 4 * 60 * 59  # sweeps x bytes x states x messages
    assert rows[0]["ours_process_bytes"] > rows[0]["ours_quality"] > rows[0]["ours_again_bytes"] > stack
    assert rows[0]["ours_quality"] > rows[0]["ours_loading_bytes"] + stack
    assert rows[0]["ours_again_bytes"] < 2 * stack
    assert rows[1]["ours_quality"] == 0.0
