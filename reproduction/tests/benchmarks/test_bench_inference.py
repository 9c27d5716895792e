"""Rows of the benchmark on small models; the measured seconds are not checked."""

import math

import pytest
from reproduction.tests.benchmarks.bench_contract import check

from intarsia_reproduction.benchmarks import bench_inference as bench
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.workloads.workloads import grid_workload


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench, "inference_workload", lambda name: grid_workload(name, 6, 5, 3, seed=1))
    monkeypatch.setattr(bench, "_memory", list)
    monkeypatch.setattr(bench, "_start_up", lambda repeats: [])
    monkeypatch.setattr(bench, "_AT_LEAST", 0.0)


def test_without_peers_their_columns_are_none(small, monkeypatch):
    monkeypatch.setattr(bench, "find_peer", lambda name: None)
    lines = []
    rows = bench.bench_inference(repeats=1, report=lines.append)
    check(rows)
    assert lines
    for row in rows:
        if row["peer"] in ("PGMax", "libDAI (quoted, scaled)"):
            assert row["peer_seconds"] is row["peer_quality"] is None


@pytest.mark.slow
@pytest.mark.skipif(find_peer("pgmax") is None, reason="PGMax is not installed; see reproduction/README.md")
def test_pgmax_finds_the_same_marginals(small):
    rows = bench.bench_inference(repeats=1)
    check(rows)
    pgmax_rows = [row for row in rows if row["peer"] == "PGMax"]
    assert len(pgmax_rows) == 4
    for row in pgmax_rows:
        assert row["peer_quality"] < 1e-5  # an independent program, in single precision
        assert row["ours_quality"] <= row["peer_quality"]


@pytest.mark.slow
def test_memory_and_start_up_are_measured_in_fresh_processes(monkeypatch):
    monkeypatch.setattr(bench, "_MEMORY_CODE", bench._MEMORY_CODE.replace("1000, 1000", "30, 30"))
    monkeypatch.setattr(bench, "_FIRST_CALLS", ("mean_field",))
    rows = [*bench._memory(), *bench._start_up(repeats=1)]
    check(rows)
    assert all(math.isfinite(row["ours_seconds"]) for row in rows)
    assert rows[0]["ours_quality"] > rows[0]["theta_bytes"]
