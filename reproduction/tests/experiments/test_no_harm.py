"""Experiment on learned energies: its counts and test, the stored results, and a small run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from intarsia.metrics import segment_scores
from intarsia_reproduction.experiment import load_experiment
from intarsia_reproduction.experiments import no_harm as module

STORED = Path(__file__).parents[3] / "docs" / "results" / "no-harm"


def test_counts_agree_with_conlleval():
    truth = [["B-a", "I-a", "O", "B-b"], ["B-b", "B-b", "I-b"]]
    labels = [["B-a", "I-a", "O", "B-a"], ["B-b", "I-b", "I-b"]]
    counts = np.array([module.segment_counts(*pair) for pair in zip(truth, labels, strict=True)], dtype=float)
    assert module._f1(counts) == pytest.approx(100.0 * segment_scores(truth, labels).f1)


def test_randomization_test_is_valid_without_a_difference():
    rng = np.random.default_rng(0)
    p_values = []
    for seed in range(200):
        a, b = (np.column_stack([rng.binomial(5, 0.8, 30), np.full(30, 5), np.full(30, 5)]) for _ in range(2))
        p_values.append(module.p_value_of_difference(a.astype(float), b.astype(float), seed))
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / 200)


def test_small_run_resumes_split_by_split(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    words = [[str(rng.integers(9)) for _ in range(5)] for _ in range(80)]
    tags = [["x" if word < "4" else "y" for word in sentence] for sentence in words]
    monkeypatch.setattr(module, "read_sequences", lambda key, data: (words, tags))
    first = module._run("cora", None, (30, 30, 2), tmp_path / "a.npz")
    again = module._run("cora", None, (30, 30, 2), tmp_path / "a.npz")
    assert first.values == again.values
    assert first.values["splits worse"] == 0.0
    assert abs(first.values["gain"]) < 5.0
    assert first.values[module._SIMPLE] < 0.0  # every sentence has several segments of each field


@pytest.mark.parametrize("key", [task.key for task in load_experiment("no-harm").tasks if not task.separate])
def test_stored_results_show_no_harm(key):
    values = json.loads((STORED / f"{key}.json").read_text())["values"]
    assert values["gain"] >= 0.0
    assert values["splits worse"] == 0.0
