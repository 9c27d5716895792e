"""`intarsia bench torch`: its inputs, and its rows without any peer."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.softlogic import ConsensusADMM
from intarsia_reproduction.benchmarks import bench_torch
from intarsia_reproduction.benchmarks.measurement import check_row

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("power", [1, 2])
def test_hinge_model_is_feasible_and_not_trivial(power):
    mrf, observed, values = bench_torch._hinge_model(power)
    assert values.shape == (16, len(observed))
    result = ConsensusADMM().solve(mrf)
    assert result.converged
    assert result.objective > 0.1


def test_rows_without_peers(monkeypatch, tmp_path):
    monkeypatch.setenv("INTARSIA_PEERS", str(tmp_path))
    monkeypatch.setattr(bench_torch, "_LENGTH", 4)
    n_threads = torch.get_num_threads()
    for measure, n_rows in ((bench_torch._chain, 2), (bench_torch._hinges, 2)):
        rows = measure(1)
        assert len(rows) == n_rows
        for row in rows:
            check_row(row)
            assert row["ours_seconds"] > 0
            assert row["ratio"] is None
    assert torch.get_num_threads() == n_threads


@pytest.mark.data
def test_sentences_are_padded_numbers():
    data = bench_torch._sentences()
    assert data["words"].shape == data["tags"].shape == (512, data["lengths"].max())
    assert data["words"].max() <= bench_torch._N_WORDS
    outside = np.arange(data["words"].shape[1]) >= data["lengths"][:, None]
    assert not data["tags"][outside].any()
