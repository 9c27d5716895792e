"""`CollectiveChain`: hard EM decreases the objective, recovers the parameters, fills gaps, follows scikit-learn."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from intarsia._files.saved_model import load
from intarsia.collective import CollectiveChain, FlowDual, GaussianNoise, PoissonNoise, make_moves, moves_within
from intarsia.collective.moves import fit_weights
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.inference import Status


def walk(moves, weights, n_walkers, n_steps, seed=0, first=None):
    """Numbers of walkers of a simulated population, and the moves they made."""
    rng = np.random.default_rng(seed)
    p = moves.matrix(np.exp(moves.log_softmax(moves.features @ weights))).toarray()
    n = np.zeros((n_steps, moves.n_cells))
    n[0] = rng.multinomial(n_walkers, np.full(moves.n_cells, 1 / moves.n_cells) if first is None else first)
    for t in range(1, n_steps):
        for i in range(moves.n_cells):
            n[t] += rng.multinomial(int(n[t - 1, i]), p[i] / p[i].sum())
    return n


LINE = moves_within(np.arange(6.0)[:, None], 2.0, ["stay", "axis_0"])


def test_m_step_equals_a_general_optimiser():
    rng = np.random.default_rng(1)
    flows = rng.gamma(1.0, size=LINE.idx.size)
    found = fit_weights(LINE, flows, np.zeros(2), 0.5)

    def loss(w):
        p = np.exp(LINE.features @ w)
        total = np.array([p[a:b].sum() for a, b in zip(LINE.ptr[:-1], LINE.ptr[1:], strict=True)])
        return -(flows * np.log(p / total[LINE.rows])).sum() + 0.25 * (w @ w)

    best = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    np.testing.assert_allclose(found, best.x, atol=1e-5)


def test_drift_of_a_population_is_recovered():
    truth = np.array([0.5, 1.5])
    first = np.array([0.7, 0.2, 0.1, 0, 0, 0])
    counts = np.random.default_rng(2).poisson(walk(LINE, truth, 20_000, 6, first=first)).astype(float)
    model = CollectiveChain(LINE, tol=1e-7, max_iter=200).fit(counts)
    np.testing.assert_allclose(model.weights_[0], truth, atol=0.25)
    assert (np.diff(model.history_["objective"]) <= 1e-6 * model.n_walkers_).all()
    assert model.status_ is Status.CONVERGED
    np.testing.assert_allclose(np.exp(LINE.matrix(model.log_probabilities_[0]).toarray()).sum(), 6 + 36 - LINE.idx.size)
    np.testing.assert_allclose(model.flows(0).sum(), model.n_walkers_)
    np.testing.assert_allclose(model.predict_marginals().sum(axis=1), 1.0)


def test_learned_table_decreases_the_objective_and_is_a_distribution():
    counts = walk(LINE, np.array([1.0, 1.0]), 500, 5)
    model = CollectiveChain(noise=GaussianNoise(5.0), tol=1e-3).fit(counts)
    assert model.weights_.shape == (1, 0)
    np.testing.assert_allclose(np.exp(model.log_probabilities_).reshape(6, 6).sum(axis=1), 1.0)
    assert (np.diff(model.history_["objective"]) <= 1e-6 * 500).all()


def test_seasons_have_their_own_weights():
    there, back = np.array([0.0, 3.0]), np.array([0.0, -3.0])
    out = walk(LINE, there, 5_000, 4, first=[1, 0, 0, 0, 0, 0])
    home = walk(LINE, back, 5_000, 4, first=out[-1] / 5_000)
    counts = np.concatenate([out, home[1:]])
    model = CollectiveChain(LINE, seasons=["spring"] * 3 + ["autumn"] * 3, n_walkers=5_000, tol=1e-4).fit(counts)
    weight = dict(zip(model.seasons_.tolist(), model.weights_[:, 1], strict=True))
    assert weight["spring"] > 1.0
    assert weight["autumn"] < -1.0


def test_missing_steps_are_filled_better_than_by_the_mean():
    truth = walk(LINE, np.array([1.0, 1.0]), 3_000, 7, first=[0.8, 0.2, 0, 0, 0, 0])
    seen, held_out = truth.copy(), np.full_like(truth, np.nan)
    seen[3], held_out[3] = np.nan, truth[3]
    model = CollectiveChain(LINE, n_walkers=3_000, tol=1e-4).fit(seen)
    walkers = model.predict(seen)
    assert np.abs(walkers[3] - truth[3]).sum() < 0.5 * np.abs(np.nanmean(seen, axis=0) - truth[3]).sum()
    # the mean log-likelihood of Poisson counts, written out
    rate = walkers[3]
    expected = np.mean(
        [y * np.log(m) - m - np.log(np.arange(1, y + 1)).sum() for y, m in zip(truth[3], rate, strict=True)]
    )
    assert model.score(seen, held_out) == pytest.approx(expected, rel=1e-9)
    assert model.score(seen, held_out) < model.score(seen)


def test_learn_nothing_is_inference_only():
    counts = walk(LINE, np.array([1.0, 0.0]), 100, 4)
    model = CollectiveChain(LINE, learn="nothing").fit(counts)
    np.testing.assert_allclose(np.exp(model.log_probabilities_[0]), 1.0 / np.diff(LINE.ptr)[LINE.rows])


def test_settings_and_clone():
    model = CollectiveChain(LINE, noise=PoissonNoise(0.5))
    model.set_params(noise__rate=2.0, l2=0.1)
    again = clone(model)
    assert (again.noise.rate, again.l2) == (2.0, 0.1)
    with pytest.raises(NotFittedError):
        model.predict([[1.0] * 6])


def test_warm_start_continues():
    counts = walk(LINE, np.array([0.5, 1.5]), 2_000, 5, first=[1, 0, 0, 0, 0, 0])
    model = CollectiveChain(LINE, warm_start=True, tol=0.0, max_iter=2)
    with pytest.warns(ConvergenceWarning, match=r"CollectiveChain\.fit"):
        model.fit(counts)
    before = model.objective_
    with pytest.warns(ConvergenceWarning):
        model.fit(counts)
    assert model.objective_ < before
    assert model.history_["objective"][0] == pytest.approx(before, rel=1e-6)


def test_interruption_keeps_the_last_complete_iteration(monkeypatch):
    from intarsia.collective import collective_chain

    real, calls = collective_chain.infer_flows, []

    def interrupted(*arguments, **settings):
        calls.append(1)
        result = real(*arguments, **settings)
        if len(calls) == 3:
            object.__setattr__(result, "status", Status.INTERRUPTED)
        return result

    monkeypatch.setattr(collective_chain, "infer_flows", interrupted)
    model = CollectiveChain(LINE, tol=0.0).fit(walk(LINE, np.array([0.5, 1.5]), 2_000, 5))
    assert (model.status_, model.n_iter_) == (Status.INTERRUPTED, 1)


@pytest.mark.parametrize(
    ("settings", "counts", "message"),
    [
        ({"moves": LINE}, np.ones((3, 5)), "5 cells, but moves have 6"),
        ({"moves": np.eye(3)}, np.ones((3, 3)), "moves must be a Moves object"),
        ({"learn": "weights"}, np.ones((3, 3)), "no features"),
        ({"learn": "wights"}, np.ones((3, 3)), "Did you mean 'weights'"),
        ({"seasons": [0, 1]}, np.ones((2, 3)), "seasons has shape"),
        ({"inference": "newton"}, np.ones((2, 3)), "'newton' is not known"),
        ({"inference": FlowDual(tol=-1.0)}, np.ones((2, 3)), "tol"),
        ({"smoothing": 0.0}, np.ones((2, 3)), "smoothing"),
        ({}, -np.ones((2, 3)), "at least 0"),
    ],
)
def test_invalid_input(settings, counts, message):
    with pytest.raises(InvalidInputError, match=message):
        CollectiveChain(**settings).fit(counts)


def test_inference_by_name_or_settings_is_used(tmp_path):
    counts = walk(LINE, np.array([0.5, 1.5]), 2_000, 5)
    by_name, by_settings, by_default = (
        CollectiveChain(LINE, tol=1e-3, inference=inference).fit(counts)
        for inference in ("dual", FlowDual(tol=1e-8), None)
    )
    np.testing.assert_array_equal(by_name.weights_, by_settings.weights_)
    assert by_default.result_.residual <= 1e-7
    with pytest.warns(ConvergenceWarning, match="residual"):
        CollectiveChain(LINE, learn="nothing", inference=FlowDual(max_iter=1, tol=1e-12)).fit(counts)
    by_settings.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").inference.tol == 1e-8


def test_held_out_counts_are_checked():
    model = CollectiveChain(make_moves(np.ones((2, 2))), tol=1e-3).fit([[3.0, 5.0], [4.0, 4.0]])
    with pytest.raises(InvalidInputError, match="y has shape"):
        model.score([[3.0, 5.0], [4.0, 4.0]], [[3.0, 5.0]])
    with pytest.raises(InvalidInputError, match="all counts are NaN"):
        model.score([[3.0, 5.0], [4.0, 4.0]], [[np.nan] * 2] * 2)
