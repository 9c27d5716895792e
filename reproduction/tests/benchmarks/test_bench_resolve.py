"""Rows of the benchmark on few records; the measured seconds are not checked."""

import duckdb
import pytest
from reproduction.tests.benchmarks.bench_contract import check

from intarsia_reproduction.benchmarks import bench_resolve as bench
from intarsia_reproduction.workloads.cluster_workloads import write_many_pairs


def test_rows_without_dedupe(monkeypatch):
    monkeypatch.setattr(bench, "_RECORDS", ((80, False), (90, True)))
    monkeypatch.setattr(bench, "_GIANT", 200)
    monkeypatch.setattr(bench, "_MANY", 300)
    monkeypatch.setattr(bench, "find_peer", lambda name: None)
    lines = []
    rows = bench.bench_resolve(repeats=1, report=lines.append)
    check(rows)
    assert len(rows) == 6
    assert len(lines) == 4
    for beside_dedupe, beside_components in (rows[:2], rows[2:4]):
        assert beside_dedupe["peer_seconds"] is None
        assert beside_components["peer_seconds"] > 0
        assert 0.7 < beside_dedupe["ours_quality"] <= 1.0
    assert rows[4]["ours_quality"] < 0.05
    assert rows[5]["ours_quality"] == 0.0


def test_many_pairs(tmp_path):
    write_many_pairs(tmp_path / "pairs.parquet", 1000, 0)
    n, n_left = duckdb.sql(f"select count(*), count(distinct unique_id_l) from '{tmp_path}/pairs.parquet'").fetchall()[
        0
    ]
    assert n == pytest.approx(5000, rel=0.1)
    assert n_left > 900
