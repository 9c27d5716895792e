"""The experiment with woodcocks on a small generated year; held-out weeks are not used."""

import numpy as np
import pytest

from intarsia_reproduction.datasets import load_woodcock
from intarsia_reproduction.experiment import run_tasks
from intarsia_reproduction.experiments import birds as experiment
from intarsia_reproduction.experiments.birds import Year, fit_year, load_year, observed_mask, total_variation


@pytest.fixture
def moving(monkeypatch):
    """Return a population that moves along a line of cells, one cell per week; noisy counts are faster to fit."""
    monkeypatch.setattr(experiment, "_CANDIDATES", ((5.0, 4), (5.0, 2)))
    monkeypatch.setattr(experiment, "_WALKERS", 100.0)
    positions = np.stack([700.0 * np.arange(8.0), np.zeros(8)], axis=1)
    shares = np.exp(-0.5 * (np.arange(8.0)[None, :] - np.arange(0.5, 7.5)[:, None]) ** 2)
    return Year(shares / shares.sum(axis=1, keepdims=True), positions)


def test_the_model_predicts_a_week_better_than_the_baselines(moving):
    observed = observed_mask(7, 1)
    errors = {
        name: total_variation(predict(moving, observed), moving.shares)[~observed].mean()
        for name, predict in {
            "model": lambda year, observed: fit_year(year, observed, 10, 5.0, 4).predict_marginals(),
            "interpolation": experiment._by_interpolation,
            "square roots": experiment._by_square_roots,
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
    # The square roots are 1/2 and 1/2 in week 1, and unchanged where a week is observed.
    np.testing.assert_allclose(experiment._by_square_roots(year, observed), [[1, 0], [0.5, 0.5], [0, 1], [0.5, 0.5]])
    np.testing.assert_allclose(experiment._by_nearest(year, observed)[1], [1.0, 0.0])
    np.testing.assert_allclose(experiment._by_mean(year, observed)[1], [0.5, 0.5])


def test_held_out_weeks_are_not_used(moving):
    observed = observed_mask(7, 1)
    changed = Year(np.where(observed[:, None], moving.shares, 1 / 8), moving.positions)
    original, after_change = (fit_year(year, observed, 2, 5.0, 4).predict() for year in (moving, changed))
    np.testing.assert_array_equal(original, after_change)


def test_a_prior_with_a_large_weight_is_returned(moving):
    observed = observed_mask(7, 1)
    prior = experiment._by_square_roots(moving, observed)
    light, heavy = (
        total_variation(fit_year(moving, observed, 5, 5.0, 4, prior, weight).predict_marginals(), prior)
        for weight in (0.1, 1000.0)
    )
    assert heavy[~observed].max() < 0.01 < light[~observed].mean()


def test_rows_and_maps(moving, monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "load_year", lambda coarse, data: moving)
    monkeypatch.setattr(experiment, "_WEEKS_ON_MAP", (1, 3))
    monkeypatch.setattr(
        experiment, "fit_year", lambda year, observed, max_iter, *settings: fit_year(year, observed, 2, *settings)
    )
    birds = experiment.birds(quick=True)
    findings = run_tasks(birds.tasks, tmp_path)
    assert all(-1 <= row["ours"] <= 1 for row in birds.rows(findings))
    assert findings["flows"].arrays["walkers"].shape == (2, 8)
    assert len(birds.figures(findings)["birds-flows"].axes) == 3
    values = findings["blend"].values
    gain = findings["interpolation"].values["every second week"] - values["every second week"]
    assert values["gain over interpolation, every second week"] == pytest.approx(gain)
    assert values["gain over interpolation, every second week, low"] <= gain + 1e-12


def test_independent_errors_of_maps_have_an_autocorrelation_of_minus_two_thirds(tmp_path):
    noise = np.random.default_rng(0).normal(size=(52, 500))
    year = Year(np.linspace(0, 1, 52)[:, None] + noise, np.zeros((500, 2)))
    value = experiment._smoothness(lambda: year, tmp_path).values["autocorrelation"]
    assert value == pytest.approx(-2 / 3, abs=0.03)


def test_settings_are_chosen_without_the_held_out_weeks(moving):
    observed = observed_mask(7, 1)
    changed = Year(np.where(observed[:, None], moving.shares, 1 / 8), moving.positions)
    original, after_change = (experiment.choose_settings(year, observed, 3) for year in (moving, changed))
    assert original == after_change
    assert original["rate"] == 5.0


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
