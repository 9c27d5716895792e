"""The experiment with simulated intervals for flows."""

import numpy as np

from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments.walkers import flow_intervals as module


def test_intervals_contain_most_simulated_flows():
    inside = module.covered_flows(0, 500, 20, learn=False)
    assert inside.shape == (16,)
    assert inside.mean() > 0.6


def test_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "covered_flows", lambda *settings: np.array([True, False]))
    experiment = load_experiment("flow-intervals", quick=True)
    rows = experiment.rows(run_tasks(experiment.tasks, tmp_path))
    assert [row["ours"] for row in rows] == [0.5] * 3
