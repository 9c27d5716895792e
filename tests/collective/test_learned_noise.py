"""The learned rate of the noise: exact maxima, simulated populations, files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, poisson

import intarsia
from intarsia import CollectiveChain
from intarsia.collective import ExactNoise, GaussianNoise, PoissonNoise, make_moves, moves_within
from intarsia.exceptions import InvalidInputError, NotSupportedError

COUNTS = np.array([[50.0, 30, 20], [30, 40, 30], [np.nan, np.nan, np.nan], [10, 30, 60]])


def simulate(seed: int, n_walkers: int, noise) -> np.ndarray:
    """Return counts of six steps of walkers on four cells who stay or move by one cell, each with equal probability."""
    rng = np.random.default_rng(seed)
    reach = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) <= 1
    walkers = [rng.multinomial(n_walkers, [0.4, 0.3, 0.2, 0.1])]
    for _ in range(5):
        walkers.append(sum(rng.multinomial(n, row / row.sum()) for n, row in zip(walkers[-1], reach, strict=True)))
    expected = noise.rate * np.array(walkers)
    return (rng.normal(expected, noise.sigma) if hasattr(noise, "sigma") else rng.poisson(expected)).astype(float)


def test_rate_of_complete_poisson_counts_is_the_exact_maximum():
    """If all cells are counted, the likelihood is proportional to rate^sum(y) exp(-rate N T)."""
    counts = simulate(0, 300, PoissonNoise(0.3))
    model = CollectiveChain(n_walkers=300, noise="poisson", learn="nothing", learn_noise=True).fit(counts)
    assert model.noise_.rate == pytest.approx(counts.sum() / (300 * len(counts)), rel=1e-6)


def test_rate_with_hidden_cells_is_close_to_the_exact_maximum():
    """Two cells, two steps, walkers that cannot move: the likelihood is a sum over the numbers of walkers."""
    n_walkers, moves = 200, make_moves(np.eye(2))
    counts = np.array([[40.0, np.nan], [np.nan, 24.0]])
    model = CollectiveChain(
        moves, n_walkers=n_walkers, noise="poisson", learn="nothing", learn_noise=True, tol=1e-9,
        smoothing=1e-6, max_iter=2000,
    ).fit(counts)  # fmt: skip
    share = model.initial_[0]
    n = np.arange(n_walkers + 1)
    rates = np.linspace(0.05, 0.8, 3001)
    first, second = poisson.pmf(40, rates[:, None] * n), poisson.pmf(24, rates[:, None] * (n_walkers - n))
    likelihood = (binom.pmf(n, n_walkers, share) * first * second).sum(axis=1)
    assert model.noise_.rate == pytest.approx(rates[likelihood.argmax()], rel=0.02)


@pytest.mark.parametrize("noise", [PoissonNoise(0.3), GaussianNoise(2.0, 0.3)])
def test_learned_rates_cover_the_truth(noise):
    rates = []
    for seed in range(4):
        counts = simulate(seed, 2000, noise)
        counts[np.random.default_rng(seed).random(counts.shape) < 0.2] = np.nan
        start = noise.__class__(**{**noise.get_params(), "rate": 1.0})
        moves = moves_within(np.arange(4.0)[:, None], 1.0, ["stay", "axis_0"])
        model = CollectiveChain(moves, n_walkers=2000, noise=start, learn_noise=True, tol=1e-4).fit(counts)
        rates.append(model.noise_.rate)
        assert (np.diff(model.history_["objective"]) <= 1e-6 * abs(model.objective_)).all()
    rates = np.array(rates)
    assert abs(rates.mean() - 0.3) < 3 * rates.std(ddof=1) / np.sqrt(len(rates)) + 0.003
    assert rates.std() < 0.02


def test_learned_rate_is_saved_and_used(tmp_path):
    counts = simulate(0, 300, PoissonNoise(0.3))
    model = CollectiveChain(n_walkers=300, learn_noise=True, tol=1e-3).fit(counts)
    model.save(tmp_path / "walkers.npz")
    loaded = intarsia.load(tmp_path / "walkers.npz")
    assert loaded.noise_.rate == model.noise_.rate != 1.0
    assert model.noise == "poisson"
    np.testing.assert_allclose(loaded.predict(), model.predict(), rtol=1e-4)
    assert loaded.score(counts) == pytest.approx(model.score(counts), rel=1e-6)
    fixed = CollectiveChain(n_walkers=300, noise=PoissonNoise(model.noise_.rate), tol=1e-3).fit(counts)
    assert fixed.score(counts) == pytest.approx(model.score(counts), abs=0.02)


def test_invalid_noise_settings():
    with pytest.raises(InvalidInputError, match="learn_noise=True needs n_walkers"):
        CollectiveChain(learn_noise=True).fit(COUNTS)
    with pytest.raises(NotSupportedError, match="ExactNoise has no rate to learn"):
        CollectiveChain(learn_noise=True, n_walkers=3.0, noise=ExactNoise()).fit([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(InvalidInputError, match="the rate of the noise became 0"):
        CollectiveChain(learn_noise=True, n_walkers=3.0).fit([[0.0, 0.0], [0.0, 0.0]])
