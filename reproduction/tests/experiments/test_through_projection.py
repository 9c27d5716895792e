"""Experiment on learning through the projection: counted oracle calls, a tiny run, and the stored rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from intarsia.energies import at_most_one
from intarsia.sequences import ChainCRF, energy_fit
from intarsia_reproduction.experiment import load_experiment, run_tasks
from intarsia_reproduction.experiments.projections import through_projection as module

STORED = Path(__file__).parents[3] / "docs" / "results" / "through-projection"


def sequences(n, seed):
    rng = np.random.default_rng(seed)
    words = [[str(rng.integers(9)) for _ in range(5)] for _ in range(n)]
    tags = [["B-x" if word < "3" else "O" for word in sentence] for sentence in words]
    return [[[word] for word in sentence] for sentence in words], tags


def test_tiny_run_of_every_learner_resumes(monkeypatch, tmp_path):
    X, y = sequences(12, 0)
    X_test, y_test = sequences(6, 1)
    monkeypatch.setattr(module, "_references", lambda data, sizes: (X, y, X, y, X_test, y_test, [at_most_one("x")]))
    tasks = [task for task in load_experiment("through-projection", quick=True).tasks if "citations" in task.key]
    findings = run_tasks(tasks, tmp_path)
    assert len(findings) == len(tasks) == 7
    for key, finding in findings.items():
        assert finding.values["from"] <= finding.values["score in per cent"] <= finding.values["to"], key
        assert (finding.values["oracle calls per sequence"] > 0) == (key != "citations-chain")
    again = run_tasks(tasks, tmp_path)  # from the files
    assert {key: finding.values for key, finding in again.items()} == {
        key: finding.values for key, finding in findings.items()
    }


def test_oracle_calls_are_counted_and_the_functions_restored():
    before, calls = energy_fit.project_chains, [0]
    X, y = sequences(10, 0)
    with module.count_oracle_calls(calls):
        ChainCRF(energies=[at_most_one("x")]).fit(X, y)
    assert calls[0] > 0
    assert energy_fit.project_chains is before


@pytest.mark.parametrize("key", [task.key for task in load_experiment("through-projection").tasks])
def test_stored_rows_lie_in_their_intervals(key):
    values = json.loads((STORED / f"{key}.json").read_text())["values"]
    assert values["from"] <= values["score in per cent"] <= values["to"]
