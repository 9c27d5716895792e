"""Tiny versions of the collective experiments and benchmark rows; times are not asserted."""

from functools import partial

import numpy as np
import pytest
from reproduction.tests.benchmarks.bench_contract import CONTRACT

from intarsia.collective import infer_flows
from intarsia.exceptions import ConvergenceWarning, IntarsiaError, InvalidInputError, MissingDataError
from intarsia_reproduction.benchmarks import bench_collective as bench
from intarsia_reproduction.benchmarks.peers import find_peer
from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments import collective as table
from intarsia_reproduction.models import dual_averaging
from intarsia_reproduction.models.dual_averaging import FlowDualAveraging, FlowDualAveragingConstantBeta
from intarsia_reproduction.workloads.collective_workloads import banded_year, migration, noisy_marginals


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench, "_CELLS", 6)
    monkeypatch.setattr(bench, "_ITERATIONS", 50)
    monkeypatch.setattr(bench, "_YEAR", (5, 4, 5))
    monkeypatch.setattr(bench, "noisy_marginals", lambda: noisy_marginals(3, 4, 200))


def test_rows_without_peers(small, monkeypatch):
    monkeypatch.setattr(bench, "find_peer", lambda name: None)
    lines = []
    rows = bench.bench_collective(repeats=1, report=lines.append)
    assert len(rows) == len(lines) == 3
    for row in rows:
        assert row.keys() >= CONTRACT
        assert row["ours_seconds"] > 0
        assert row["peer_seconds"] is row["ratio"] is row["peer_quality"] is None
    assert rows[1]["ours_gap"] <= 1e-6
    assert rows[2]["ours_gap"] <= 1e-4


def test_every_method_has_the_same_objective_and_gap(monkeypatch, tmp_path):
    monkeypatch.setattr(table, "migration", lambda n_cells, seed: migration(5, 4, seed=seed))
    monkeypatch.setattr(table, "_INSTANCES", range(3))
    monkeypatch.setattr(table, "_peak_memory", lambda n_cells, method_class: 100.0)
    tasks = [task for task in load_experiment("collective", quick=True).tasks if "solver" not in task.key]
    findings = run_tasks(tasks, tmp_path)
    assert [finding.n for finding in findings.values()] == [3] * 8
    for finding in findings.values():
        assert finding.values["objectives apart"] < 1e-5
        assert finding.values["processor s"] >= finding.values["processor s to a gap of 1e-4"] > 0.0
        assert finding.settings["statuses"] == ["CONVERGED"] * 3
        assert finding.settings["gap"] == 1e-6


def test_algorithm_1_has_the_flows_of_the_dual():
    workload = migration(6, 5)
    run = partial(infer_flows, workload.theta, workload.counts, workload.n_walkers)
    ours = run(method=FlowDualAveraging(tol=1e-7, max_iter=50_000))
    np.testing.assert_allclose(ours.walkers, run(method="dual", tol=1e-10).walkers, atol=0.1)


def test_divergence_of_algorithm_1_is_not_called_convergence(monkeypatch):
    workload = migration(25)
    run = partial(infer_flows, workload.theta, workload.counts, workload.n_walkers)
    monkeypatch.setattr(dual_averaging, "BETA", 0.0)
    monkeypatch.setattr(dual_averaging, "_LARGEST_TILT", np.inf)  # the library must notice the rounding errors
    with pytest.warns(ConvergenceWarning):
        result = run(method=FlowDualAveragingConstantBeta(tol=1e-6))
    assert not result.converged
    assert result.objective >= run(method="dual").objective - 1e-3


def test_the_first_gradient_chooses_beta():
    """A constant of 20 diverges on this instance, with walkers that are counted where few can be."""
    workload = migration(100, seed=704)
    run = partial(infer_flows, workload.theta, workload.counts, workload.n_walkers)
    with pytest.warns(ConvergenceWarning):
        assert run(method=FlowDualAveragingConstantBeta(tol=1e-2)).status.name == "STALLED"
    assert run(method=FlowDualAveraging(tol=1e-3, max_iter=5000)).converged


def test_long_rows_have_fewer_instances(monkeypatch, tmp_path):
    assert [table._n_instances(seconds) for seconds in (1.0, 20.0, 21.0, 15.0, 500.0)] == [10, 10, 1, 10, 1]
    monkeypatch.setattr(table, "migration", lambda n_cells, seed: migration(5, 4, seed=seed))
    monkeypatch.setattr(table, "_peak_memory", lambda n_cells, method_class: 100.0)
    monkeypatch.setattr(table, "_LONG", 0.0)
    monkeypatch.setattr(table, "_BUDGET", 0.0)
    monkeypatch.setattr(table, "_MAX_ITER", 2)
    finding = table._run_instances(5, FlowDualAveraging, tmp_path)
    assert finding.n == 1
    assert finding.settings["lower_bounds"] == ["processor s"]
    assert finding.settings["note"] == "gap not reached in 2 iterations on 1 of 1 instances"
    assert finding.settings["gaps"][0] > 1e-6


def test_memory_is_that_of_a_fresh_process():
    assert 20.0 < table._peak_memory(5, FlowDualAveraging) < 2000.0


def test_the_time_limit_is_an_environment_variable(monkeypatch):
    monkeypatch.setenv(bench.TIME_LIMIT, "12.5")
    assert bench.time_limit() == 12.5
    for bad in ("soon", "0"):
        monkeypatch.setenv(bench.TIME_LIMIT, bad)
        with pytest.raises(InvalidInputError, match=bench.TIME_LIMIT):
            bench.time_limit()
    monkeypatch.delenv(bench.TIME_LIMIT)
    assert bench.time_limit() == 1800.0


def test_rows_of_an_unfinished_solver_are_lower_bounds(monkeypatch, tmp_path):
    experiment = load_experiment("collective", quick=True)
    monkeypatch.setattr(table, "migration", lambda n_cells, seed: migration(5, 4))
    answers = iter(
        [
            {"finished": False, "processor_seconds": 60.0, "seconds": 61.0, "objective": None, "status": "user_limit"},
            IntarsiaError("no memory"),
        ]
    )

    def ask(workload, limit, gap, solver):
        assert (limit, gap, solver) == (60.0, 1e-6, "clarabel")
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(table, "ask_interior_point", ask)
    finding = table._run_solver(25, "clarabel", 1e-6, 1, True, tmp_path)
    assert finding.values == {"processor s": 60.0}
    assert finding.settings["note"] == "was stopped after 61 s: a lower bound"
    assert finding.settings["lower_bounds"] == ["processor s"]
    assert "ended without an answer" in table._run_solver(25, "clarabel", 1e-6, 1, True, tmp_path).settings["note"]
    assert experiment.figures({"s225-solver": finding})


def test_the_solver_is_asked_only_if_its_environment_exists(monkeypatch, tmp_path):
    monkeypatch.setattr(table, "ask_interior_point", lambda workload, limit, gap, solver: None)
    with pytest.raises(MissingDataError, match="setup_peers"):
        table._run_solver(5, "clarabel", 1e-6, 1, True, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(find_peer("clarabel") is None, reason="Clarabel is not set up; see reproduction/README.md")
@pytest.mark.parametrize(
    ("solver", "gap", "distance"), [("clarabel", 1e-6, 1e-6), ("ecos", 1e-6, 1e-6), ("scs", 1e-4, 1e-3)]
)
def test_conic_solvers_have_the_same_objective(solver, gap, distance, monkeypatch, tmp_path):
    monkeypatch.setattr(table, "migration", lambda n_cells, seed: migration(6, 4, seed=seed))
    finding = table._run_solver(6, solver, gap, 2, True, tmp_path)
    assert finding.n == 2
    assert finding.values["objectives apart"] < distance
    assert finding.values["iterations"] > 1
    assert finding.values["peak MB"] > 10


@pytest.mark.slow
@pytest.mark.skipif(find_peer("mbi") is None, reason="mbi is not set up; see reproduction/README.md")
def test_mbi_has_the_same_errors(small, monkeypatch):
    monkeypatch.setattr(bench, "_ITERATIONS", 1000)
    row = bench._compare_with_mbi(noisy_marginals(3, 4, 200), 1)
    assert row["ours_quality"] == pytest.approx(row["peer_quality"], rel=1e-2)


def test_workloads_are_identical_to_those_of_the_peers():
    """Compare sums and entries with those of the generators of the published timings."""
    workload = migration(50)
    assert (workload.counts.sum(), workload.counts[3, 7], workload.n_walkers) == (19831.0, 35.0, 1000.0)
    marginals = noisy_marginals()
    assert marginals.counts[2, 5] == pytest.approx(294.3597115676496, rel=1e-14)
    assert marginals.flow_counts[8, 49, 49] == pytest.approx(-10.197299751730483, rel=1e-14)


def test_moves_of_a_year_stay_in_their_band():
    year = banded_year(3, 6, 20)
    rows, columns = year.theta.nonzero()
    assert np.abs(rows - columns).max() <= 3 * 6
    leaving = year.moves.matrix(np.exp(year.theta.data)).sum(axis=1)
    np.testing.assert_allclose(leaving, 1.0)
