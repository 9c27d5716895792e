"""The experiment with woodcocks on a small generated year; held-out weeks are not used."""

from functools import partial

import numpy as np
import pytest

from intarsia_reproduction.datasets import load_woodcock
from intarsia_reproduction.experiment import run_tasks
from intarsia_reproduction.experiments import birds as experiment
from intarsia_reproduction.experiments.birds import Year, fit_year, load_year, observed_mask, total_variation


@pytest.fixture
def moving(monkeypatch):
    """Return a population that moves along a line of cells, one cell per week; noisy counts are faster to fit."""
    monkeypatch.setattr(experiment, "_RATE", 5.0)
    monkeypatch.setattr(experiment, "_WALKERS", 100.0)
    positions = np.stack([700.0 * np.arange(8.0), np.zeros(8)], axis=1)
    shares = np.exp(-0.5 * (np.arange(8.0)[None, :] - np.arange(0.5, 7.5)[:, None]) ** 2)
    return Year(shares / shares.sum(axis=1, keepdims=True), positions)


def test_the_model_predicts_a_week_better_than_the_baselines(moving):
    observed = observed_mask(7, 1)
    errors = {
        name: total_variation(predict(moving, observed), moving.shares)[~observed].mean()
        for name, predict in {
            "model": partial(experiment._by_model, 10),
            "interpolation": experiment._by_interpolation,
            "nearest": experiment._by_nearest,
            "mean": experiment._by_mean,
        }.items()
    }
    # A moving population is between its two observed positions; interpolation divides it between both.
    assert min(errors, key=errors.get) == "model"
    assert errors["mean"] > errors["interpolation"]


def test_baselines_by_hand():
    year = Year(np.array([[1.0, 0.0], [0.2, 0.8], [0.0, 1.0], [0.5, 0.5]]), np.zeros((2, 2)))
    observed = np.array([True, False, True, True])
    np.testing.assert_allclose(experiment._by_interpolation(year, observed)[1], [0.5, 0.5])
    np.testing.assert_allclose(experiment._by_nearest(year, observed)[1], [1.0, 0.0])
    np.testing.assert_allclose(experiment._by_mean(year, observed)[1], [0.5, 0.5])


def test_held_out_weeks_are_not_used(moving):
    observed = observed_mask(7, 1)
    changed = Year(np.where(observed[:, None], moving.shares, 1 / 8), moving.positions)
    original, after_change = (fit_year(year, observed, max_iter=2).predict() for year in (moving, changed))
    np.testing.assert_array_equal(original, after_change)


def test_rows_and_maps(moving, monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "load_year", lambda coarse, data: moving)
    monkeypatch.setattr(experiment, "_WEEKS_ON_MAP", (1, 3))
    monkeypatch.setattr(
        experiment, "fit_year", lambda year, observed, max_iter, *settings: fit_year(year, observed, 2, *settings)
    )
    monkeypatch.setattr(experiment, "_CANDIDATES", ((5.0, 4), (5.0, 2)))
    birds = experiment.birds(quick=True)
    findings = run_tasks(birds.tasks, tmp_path)
    assert all(0 <= row["ours"] <= 1 for row in birds.rows(findings))
    assert findings["flows"].arrays["walkers"].shape == (2, 8)
    assert len(birds.figures(findings)["birds-flows"].axes) == 3


def test_settings_are_chosen_without_the_held_out_weeks(moving, monkeypatch):
    monkeypatch.setattr(experiment, "_CANDIDATES", ((5.0, 4), (5.0, 2)))
    monkeypatch.setattr(experiment, "_INNER_ITER", 3)
    observed = observed_mask(7, 1)
    changed = Year(np.where(observed[:, None], moving.shares, 1 / 8), moving.positions)
    assert experiment.choose_settings(moving, observed) == experiment.choose_settings(changed, observed)


@pytest.mark.data
def test_merged_cells_contain_all_birds(data):
    year = load_year(8, data)
    assert year.shares.shape == (52, len(year.positions))
    np.testing.assert_allclose(year.shares.sum(axis=1), 1.0)
    cells = load_woodcock(data)
    np.testing.assert_allclose(load_year(1, data).positions, cells.positions)
    east = np.unique(year.positions[:, 0].round(6))
    step = 8 * np.diff(np.unique(cells.positions[:, 0])).min()
    np.testing.assert_allclose(np.diff(east) / step, np.round(np.diff(east) / step), atol=1e-6)
