"""Rows of the benchmark on small models; the measured seconds are not checked."""

import numpy as np
import pytest
from reproduction.tests.benchmarks.bench_contract import check

from intarsia.exceptions import MissingDataError
from intarsia.inference import infer
from intarsia_reproduction.benchmarks import bench_map as bench
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.workloads.map_workloads import attractive_grid, relaxation, tsukuba, tsukuba_energy
from intarsia_reproduction.workloads.workloads import grid_workload, inference_workload


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench, "_AT_LEAST", 0.0)
    monkeypatch.setattr(bench, "_LARGE", (4, 5, 3))
    monkeypatch.setattr(bench, "_MEMORY_SIDES", (4, 6))
    monkeypatch.setattr(bench, "inference_workload", lambda name: grid_workload(name, 4, 4, 3, seed=1))
    monkeypatch.setattr(bench, "attractive_grid", lambda: attractive_grid(4, 5))


def absent():
    raise MissingDataError("not there")


def test_without_peers_and_data(small, monkeypatch):
    monkeypatch.setattr(bench, "find_peer", lambda name: None)
    monkeypatch.setattr(bench, "in_fresh_process", lambda code: {"seconds": 1.0, "share": 2.0})
    monkeypatch.setattr(bench, "tsukuba", absent)
    lines = []
    rows = bench.bench_map(repeats=1, report=lines.append)
    check(rows)
    assert "omitted: not there" in lines
    assert len(rows) == 2 * 3 + 1 + 1 + 1 + 1 + 1
    for row in rows:
        if row["peer"] and ("PDLP" in row["peer"] or "PyMaxflow" in row["peer"]):
            assert row["peer_seconds"] is row["peer_quality"] is None
        if row.get("quality_is") == bench._DISTANCE:
            assert -1e-9 <= row["ours_quality"] <= 3e-3
    large = next(row for row in rows if row["workload"].startswith("4x5, 3 labels"))
    assert large["peer_finished"]
    assert large["optimum_is"] == "by HiGHS"


def test_solver_that_exceeds_its_time_limit_is_reported(small, monkeypatch):
    monkeypatch.setattr(bench, "_HIGHS_LIMIT", 1e-9)
    row = bench._large(grid_workload("large", 5, 5, 4, seed=2), 1)
    check([row])
    assert not row["peer_finished"]
    assert row["optimum_is"].startswith("our bound at a residual of")


def test_stereo_row_has_energies():
    graph, theta = attractive_grid(3, 4).model()
    row = bench._stereo(graph, theta)
    check([row])
    assert row["ours_energy"] >= row["ours_bound"]
    assert row["ours_quality"] == pytest.approx(0.0, abs=1e-9)  # attractive: the relaxation is tight


def test_program_is_the_relaxation():
    graph, theta = grid_workload("grid", 3, 3, 3, seed=3).model()
    polytope, program = relaxation(graph, theta)
    solution = bench.solve_directly(program)[1]
    expected = infer(graph, theta, "lp_relaxation", "map").upper_bound
    assert program.cost @ solution.x == pytest.approx(expected)
    assert polytope.bound(solution.dual) == pytest.approx(expected)


def test_workload_follows_its_recipe():
    grid = attractive_grid()
    assert grid.unary.shape == (10_000, 2)
    assert grid.coupling.shape == (19_800,)
    assert grid.coupling.min() >= 0
    # Drawn again by the documented recipe: seed 402, unary scores before couplings.
    rng = np.random.default_rng(402)
    np.testing.assert_array_equal(grid.unary, rng.standard_normal((10_000, 2)))
    np.testing.assert_array_equal(grid.coupling, np.abs(rng.standard_normal(19_800)))
    assert inference_workload("w4_grid").pair.shape == (1740, 5, 5)


def test_stereo_scores_are_costs_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("intarsia_reproduction.workloads.map_workloads._TSUKUBA", (2, 3, 2))
    cost = np.arange(12).reshape(6, 2)  # pixel = column * 2 + row
    file = tmp_path / "tsukuba_potts_alahari.npz"
    np.savez(file, unary=cost)
    monkeypatch.setattr("intarsia_reproduction.workloads.map_workloads.require", lambda name, data: [file])
    graph, theta = tsukuba()
    labels = np.array([[0, 1, 0], [0, 0, 0]])
    energy = sum(cost[column * 2 + row, labels[row, column]] for row in range(2) for column in range(3)) + 20 * 3
    assert tsukuba_energy(graph.score(theta, labels.reshape(-1))) == energy


@pytest.mark.skipif(find_peer("pymaxflow") is None, reason="PyMaxflow is not installed; see reproduction/README.md")
def test_pymaxflow_has_the_same_best_labelling(small):
    row = bench._compare_with_maxflow(1)
    check([row])
    assert row["peer_quality"] == pytest.approx(row["ours_quality"], rel=1e-12)
    assert row["peer_seconds"] > row["peer_flow_seconds"] > 0


@pytest.mark.skipif(find_peer("pdlp") is None, reason="PDLP is not installed; see reproduction/README.md")
def test_pdlp_has_the_same_optimum(small):
    rows = bench._compare_with_solvers(grid_workload("grid", 4, 4, 3, seed=1), 1)
    check(rows)
    for row in rows:
        if row["peer"].startswith("PDLP at a"):
            assert -1e-9 <= row["peer_quality"] < 1e-3  # an independent program; its tolerance is not that of the bound
        if row["peer"].startswith("PDLP at the"):
            assert row["peer_quality"] <= float(row["workload"].split()[-1])
