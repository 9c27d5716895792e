"""The experiment with simulated intervals for flows."""

import numpy as np

from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments.walkers import flow_intervals as module


def test_intervals_contain_most_simulated_flows():
    inside = module.covered_flows(0, 500, 20, learn=False)
    assert inside.shape == (16,)
    assert inside.mean() > 0.6


def test_rows_have_intervals_over_populations(monkeypatch, tmp_path):
    def covered(seed, n_walkers, n_draws, learn, refit):
        return np.array([1.0, 3.0]), np.zeros(2), np.array([2.0, 3.0 if seed == 0 or refit else 2.6])

    monkeypatch.setattr(module, "flows_and_intervals", covered)
    experiment = load_experiment("flow-intervals", quick=True)
    findings = run_tasks(experiment.tasks, tmp_path)
    values = findings["coverage"].values
    assert len(values) == 12
    assert values["known moves, 200 walkers, half a walker wider"] == 1.0
    assert values["known moves, 200 walkers"] == 0.75
    assert values["known moves, 200 walkers, low"] < 0.75 < values["known moves, 200 walkers, high"]
    assert findings["refit"].values["learned moves fitted again, 500 walkers"] == 1.0
    assert all(row["ours"] is not None for row in experiment.rows(findings))
