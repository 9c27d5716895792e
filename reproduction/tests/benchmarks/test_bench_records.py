"""Rows of the benchmark on few records; the measured seconds are not checked."""

import pytest
from reproduction.tests.benchmarks.bench_contract import check

from intarsia_reproduction.benchmarks import bench_records as bench


def test_rows(monkeypatch):
    monkeypatch.setattr(bench, "_FEW", 200)
    monkeypatch.setattr(bench, "_MANY", 400)
    lines = []
    few, many = bench.bench_records(repeats=1, report=lines.append)
    check([few, many])
    assert len(lines) == 5
    assert few["peer"] == "engine='memory'"
    assert few["ours_quality"] == pytest.approx(few["peer_quality"])
    assert many["peer"] is None
    assert many["ours_quality"] > 0.9
    assert many["n_records"] > 300
