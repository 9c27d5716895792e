"""Rows of the benchmark on small models; the measured seconds are not checked."""

import numpy as np
import pytest
from reproduction.tests.benchmarks.bench_contract import CONTRACT

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import ConsensusADMM
from intarsia_reproduction.benchmarks import bench_softlogic as bench
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.workloads.softlogic_workloads import clause_model

SMALL = clause_model(60, 240, seed=7)


def test_without_peers(monkeypatch):
    monkeypatch.setattr(bench, "find_peer", lambda name: None)
    monkeypatch.setattr(bench, "hinge_workload", lambda name: SMALL)
    monkeypatch.setattr(
        bench, "in_fresh_process", lambda code: {"seconds": 2.0, "bytes": 150.0, "iterations": 100, "terms": 1000}
    )
    monkeypatch.setattr(bench, "psl_rows", lambda repeats, log: [{"workload": f"{repeats} of PSL"}])
    lines = []
    *rows, compare_with_psl = bench.bench_softlogic(repeats=1, report=lines.append)
    assert compare_with_psl == {"workload": "1 of PSL"}
    assert len(rows) == 4
    assert lines[0] == "w5_small"
    for row in rows:
        assert row.keys() >= CONTRACT
        assert row["ours_seconds"] > 0
    assert [row["peer_seconds"] for row in rows[:3]] == [None] * 3
    assert all(0.0 <= row["ours_quality"] <= 1e-3 + 1e-9 for row in rows[:3])
    assert rows[3]["nanoseconds_per_hinge_and_iteration"] == pytest.approx([2e4, 2e4])


@pytest.mark.skipif(find_peer("conic") is None, reason="OSQP and SCS are not installed")
def test_peers_reach_the_same_optimum():
    rows = bench._compare_with_solvers(SMALL, 1, lambda line: None)
    assert [row["peer"] for row in rows] == ["OSQP", "SCS"]
    for row in rows:
        assert row["peer_finished"]
        assert -1e-9 <= row["peer_quality"] <= 1e-3
        assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["ours_seconds"])


@pytest.mark.skipif(find_peer("conic") is None, reason="OSQP and SCS are not installed")
def test_peer_that_exceeds_its_time_limit_is_reported(monkeypatch):
    monkeypatch.setenv(bench.TIME_LIMIT, "1e-9")
    rows = bench._compare_with_solvers(SMALL, 1, lambda line: None)
    assert all(row["peer"].endswith("stopped before it was as close") for row in rows)


def test_bound_is_valid_and_equals_that_of_the_solver():
    result = ConsensusADMM(tol=1e-6).solve(SMALL)
    bound = bench.proven_bound(SMALL, result.state)
    assert bound == pytest.approx(result.lower_bound, rel=1e-6)
    rng = np.random.default_rng(0)
    assert all(SMALL.objective(rng.random(60)) >= bound for _ in range(20))


def test_time_limit_must_be_a_number(monkeypatch):
    monkeypatch.setenv(bench.TIME_LIMIT, "long")
    with pytest.raises(InvalidInputError, match="INTARSIA_CONIC_SECONDS='long'"):
        bench.time_limit()
