"""Sampled, conditioned and forecast routes against enumeration of all walks; intervals and learned noise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom, poisson

import intarsia
from intarsia import CollectiveChain
from intarsia.collective import ExactNoise, GaussianNoise, PoissonNoise, make_moves, moves_within
from intarsia.collective.intervals import simulate_population
from intarsia.exceptions import InvalidInputError, NotSupportedError

COUNTS = np.array([[50.0, 30, 20], [30, 40, 30], [np.nan, np.nan, np.nan], [10, 30, 60]])
LINE = make_moves([[1, 1, 0], [0, 1, 1], [1, 0, 1]], {"leave": 1.0 - np.eye(3)})
CASES = {
    "dense": {},
    "sparse": {"moves": LINE},
    "seasons": {"moves": LINE, "seasons": ["a", "b", "b"]},
    "tree": {"parents": [-1, 0, 0, 1]},
}


def fitted(case: str, **settings) -> CollectiveChain:
    return CollectiveChain(n_walkers=100.0, tol=1e-4, **CASES[case], **settings).fit(COUNTS)


def enumerated(model: CollectiveChain) -> tuple[np.ndarray, np.ndarray]:
    """Return all walks and their probabilities given the counts, from the tilted scores alone."""
    messages, oracle = model.infer()._require()
    parents = oracle.tables.parent_of_step
    dense = []
    for table in oracle.tables.theta:
        if oracle.tables.ptr is None:
            dense.append(table)
        else:
            full = np.full((3, 3), -np.inf)
            full[oracle.tables.rows(), oracle.tables.idx] = table
            dense.append(full)
    walks = np.array(list(itertools.product(range(3), repeat=4)))
    score = np.array([sum(messages.scores[t, cell] for t, cell in enumerate(walk)) for walk in walks])
    for t in range(1, 4):
        score += dense[oracle.tables.table_of_step[t - 1]][walks[:, parents[t]], walks[:, t]]
    weight = np.exp(score - score.max())
    return walks, weight / weight.sum()


@pytest.mark.parametrize("case", CASES)
def test_enumerated_walks_have_the_inferred_marginals(case):
    model = fitted(case)
    walks, probability = enumerated(model)
    for t in range(4):
        np.testing.assert_allclose(np.bincount(walks[:, t], probability, 3), model.predict_marginals()[t], atol=1e-10)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("through", [None, {0: 0, 3: [1, 2]}, {-1: 2}])
def test_sampled_routes_have_the_enumerated_frequencies(case, through):
    model = fitted(case)
    walks, probability = enumerated(model)
    allowed = np.ones(len(walks), dtype=bool)
    for step, cells in (through or {}).items():
        allowed &= np.isin(walks[:, step], cells)
    passing = float(probability[allowed].sum())
    probability = probability * allowed / passing
    n = 20_000
    routes = model.sample_routes(n, through=through, random_state=1)
    code = np.array([27, 9, 3, 1])
    frequency = np.bincount(routes @ code, minlength=81)[walks @ code] / n
    assert not frequency[probability == 0].any()
    deviation = np.abs(frequency - probability) / np.sqrt(np.maximum(probability * (1 - probability), 1e-9) / n)
    assert deviation[probability > 1e-4].max() < 4.5
    if through is not None:
        assert model.passing_probability(through) == pytest.approx(passing, rel=1e-8)
        expected = np.stack([np.bincount(walks[:, t], probability, 3) for t in range(4)])
        np.testing.assert_allclose(model.predict_given(through), expected, atol=1e-10)


def test_sampling_is_repeatable_and_uses_new_counts():
    model = fitted("dense")
    np.testing.assert_array_equal(model.sample_routes(5, random_state=3), model.sample_routes(5, random_state=3))
    counts = np.tile([0.0, 0.0, 100.0], (4, 1))
    exact = CollectiveChain(noise="exact", n_walkers=100.0, learn="nothing").fit(counts)
    assert (exact.sample_routes(4, random_state=0) == 2).all()
    assert model.sample_routes(0).shape == (0, 4)
    assert (model.sample_routes(200, 1e4 * counts / 100.0, random_state=0) == 2).mean() > 0.9


def test_impossible_routes():
    model = fitted("sparse")
    assert model.passing_probability({0: 0, 1: 2}) == 0.0
    with pytest.raises(
        InvalidInputError, match=r"CollectiveChain.sample_routes: no possible route passes \{0: 0, 1: 2\}"
    ):
        model.sample_routes(1, through={0: 0, 1: 2})
    for through, message in (
        ({9: 0}, "through: step"),
        ({0: 5}, r"through\[0\] is 5; expected a cell from 0 to 2"),
        ({0: []}, r"through\[0\] is \[\]"),
        ({0: "a"}, r"through\[0\] is 'a'"),
        ([1], "Pass a dict from step to cell"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.sample_routes(1, through=through)


# ---------------------------------------------------------------- forecasts


@pytest.mark.parametrize("case", ["dense", "sparse", "seasons"])
def test_forecast_sums_over_all_walks(case):
    model = fitted(case)
    seasons = np.array([0, 1, 1]) if case == "seasons" else np.zeros(3, dtype=int)
    tables = [model.moves_.matrix(np.exp(logs)).toarray() for logs in model.log_probabilities_]
    expected = np.zeros((4, 3))
    for walk in itertools.product(range(3), repeat=4):
        probability = float(walk[0] == 1)
        for t in range(3):
            probability *= tables[seasons[t]][walk[t], walk[t + 1]]
        for t in range(4):
            expected[t, walk[t]] += probability
    np.testing.assert_allclose(model.forecast(1, 0, 3), expected, atol=1e-12)
    crowd = np.array([10.0, 0.0, 5.0])
    parts = 10 * model.forecast(0, 1, 2) + 5 * model.forecast(2, 1, 2)
    np.testing.assert_allclose(model.forecast(crowd, 1, 2), parts, atol=1e-10)
    assert model.forecast(2, 0, 0).tolist() == [[0.0, 0.0, 1.0]]
    n = 20_000
    routes = model.sample_forecast(1, 0, 3, n, random_state=0)
    frequency = np.stack([np.bincount(routes[:, t], minlength=3) / n for t in range(4)])
    np.testing.assert_allclose(frequency, expected, atol=4.5 * 0.5 / np.sqrt(n))


def test_forecast_past_the_end_needs_seasons():
    assert fitted("dense").forecast(0, 3, 10).shape == (11, 3)
    model = fitted("seasons")
    with pytest.raises(
        InvalidInputError, match="the forecast ends at week 5, but the seasons of the fit end at week 3"
    ):
        model.forecast(0, 3, 2)
    forecast = model.forecast(0, 3, 2, seasons=["a", "b"])
    np.testing.assert_allclose(forecast, model.forecast(0, 0, 2))
    for arguments, message in (
        ({"seasons": ["a"]}, "seasons has 1 labels for 2 weeks"),
        ({"seasons": ["a", "c"]}, "season 'c' was not in the fit"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.forecast(0, 3, 2, **arguments)
    for start in (3, -1, [1.0, 2.0], [0.0, 0.0, 0.0], [1.0, -1.0, 0.0]):
        with pytest.raises(InvalidInputError, match=r"CollectiveChain.forecast: start"):
            model.forecast(start, 0, 2)


# ---------------------------------------------------------------- noise


def simulate(seed: int, n_walkers: int, noise, n_steps: int = 6) -> tuple[CollectiveChain, np.ndarray, np.ndarray]:
    """Return a model of known moves, the flows of a simulated population, and its counts."""
    moves = moves_within(np.arange(4.0)[:, None], 1.0, ["stay", "axis_0"])
    rng = np.random.default_rng(seed)
    seed_model = CollectiveChain(moves, n_walkers=n_walkers, learn="nothing", noise="exact")
    uniform = np.full((n_steps, 4), np.nan)
    uniform[0] = n_walkers * np.array([0.4, 0.3, 0.2, 0.1])
    messages, oracle = seed_model.fit(uniform).infer()._require()
    walkers, flow = simulate_population(oracle, messages, n_walkers, 2, rng)
    return seed_model, oracle.tables.matrix(flow.astype(float)), noise.sample(walkers.astype(float), rng)


def test_rate_of_complete_poisson_counts_is_the_exact_maximum():
    """If all cells are counted, the likelihood is proportional to rate^sum(y) exp(-rate N T)."""
    _, _, counts = simulate(0, 300, PoissonNoise(0.3))
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
        _, _, counts = simulate(seed, 2000, noise)
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
    _, _, counts = simulate(0, 300, PoissonNoise(0.3))
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


# ---------------------------------------------------------------- intervals


def test_intervals_cover_simulated_flows():
    inside, widths = [], []
    for seed in range(5):
        model, flow, counts = simulate(seed, 400, PoissonNoise(1.0))
        model = model.set_params(noise="poisson").fit(counts)
        interval = model.flow_interval(2, level=0.9, n_draws=25, refit=False, random_state=seed)
        true, low, high = (np.asarray(matrix.todense()) if hasattr(matrix, "todense") else matrix
                           for matrix in (flow, interval.low, interval.high))  # fmt: skip
        possible = model.moves_.matrix(np.ones(model.moves_.idx.size)).toarray() > 0
        inside.append(((true >= low - 1e-9) & (true <= high + 1e-9))[possible])
        widths.append((high - low)[possible])
    coverage = float(np.mean(inside))
    assert 0.8 < coverage < 1.0
    assert np.mean(widths) < 60


def test_intervals_contain_the_estimate_and_grow_with_the_level():
    model = fitted("dense")
    narrow, wide = (
        model.flow_interval(-1, level=level, n_draws=30, refit=False, random_state=0) for level in (0.5, 0.95)
    )
    np.testing.assert_allclose(narrow.estimate, model.flows(2))
    assert (wide.low <= narrow.low + 1e-12).all()
    assert (wide.high >= narrow.high - 1e-12).all()
    assert (narrow.low <= narrow.estimate).all()
    assert (narrow.low >= 0.0).all()
    for arguments, message in (
        ({"step": 3}, "step is 3, but moves start at steps 0..2"),
        ({"step": 0, "level": 1.0}, "level"),
        ({"step": 0, "n_draws": 1}, "n_draws"),
    ):
        with pytest.raises(InvalidInputError, match=f"CollectiveChain.flow_interval: {message}"):
            model.flow_interval(**arguments)
    # Walkers that cannot move are known exactly.
    still = CollectiveChain(make_moves(np.eye(2)), noise="exact", learn="nothing").fit([[9.0, 1.0], [9.0, 1.0]])
    assert still.flow_interval(0, n_draws=5).level == 0.9


def test_refitting_includes_the_uncertainty_of_the_moves():
    moves = moves_within(np.arange(3.0)[:, None], 1.0, ["stay", "axis_0"])
    model = CollectiveChain(moves, n_walkers=100.0, tol=1e-3).fit(COUNTS[[0, 1, 3]])
    fixed, refitted = (model.flow_interval(0, n_draws=12, refit=refit, random_state=0) for refit in (False, True))
    widths = [(interval.high - interval.low).sum() for interval in (fixed, refitted)]
    assert widths[1] > widths[0]
