"""Files of chain models: weights of 0 take no room, and the loaded model predicts as before."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia import ChainCRF
from intarsia.energies import LinearPsi, at_most_one
from intarsia.sequences import load_tagger


def _sparse_model(n_features: int, weights: str, **settings) -> tuple[ChainCRF, list]:
    """Model with many rare features, whose weights are 0 except for a few."""
    rng = np.random.default_rng(0)
    y = [rng.choice(["B-x", "I-x", "O"], 6).tolist() for _ in range(n_features // 6)]
    X = [
        [[f"tag={tag}" if rng.random() < 0.8 else "none", f"rare feature {rng.integers(n_features)}"] for tag in tags]
        for tags in y
    ]
    return ChainCRF(weights=weights, **settings).fit(X, y), X


def _assert_same_predictions(model, crf, X):
    for a, b in zip(model.predict(X), crf.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(model.predict_marginals(X), crf.predict_marginals(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weights", ["all", "observed"])
def test_the_file_of_an_l1_model_is_as_large_as_its_weights_that_are_not_zero(tmp_path, weights):
    crf, X = _sparse_model(3000, weights, l1=2.0, l2=0.01)
    n_weights = np.count_nonzero(crf.state_weights_)
    assert 0 < n_weights < 0.05 * crf.state_weights_.size
    crf.save(tmp_path / "l1.npz")
    dense, _ = _sparse_model(3000, weights, l2=1.0)
    dense.save(tmp_path / "l2.npz")
    sizes = [(tmp_path / name).stat().st_size for name in ("l1.npz", "l2.npz")]
    assert sizes[0] < 0.2 * sizes[1]
    back = intarsia.load(tmp_path / "l1.npz")
    assert np.count_nonzero(back.weights_[: back.layout_.n_states]) == back.layout_.n_states == n_weights
    full = {name: row for name, row in zip(crf.vocabulary_, crf.state_weights_, strict=True) if row.any()}
    assert back.vocabulary_ == list(full)
    np.testing.assert_array_equal(back.state_weights_, list(full.values()))
    np.testing.assert_array_equal(back.transitions_, crf.transitions_)
    for model in (back, load_tagger(tmp_path / "l1.npz")):
        _assert_same_predictions(model, crf, X)
    back.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "l1.npz").read_bytes()


def test_a_model_without_weights_of_features(tmp_path):
    crf, X = _sparse_model(60, "all", l1=1e6)
    assert not crf.state_weights_.any()
    crf.save(tmp_path / "model.npz")
    for model in (intarsia.load(tmp_path / "model.npz"), load_tagger(tmp_path / "model.npz")):
        _assert_same_predictions(model, crf, X)


def test_columns_of_arrays_stay(tmp_path):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 30)) for _ in range(40)]
    y = [(x[:, 3] > 0).astype(int) for x in X]
    crf = ChainCRF(l1=20.0).fit(X, y)
    assert 2 * np.count_nonzero(crf.state_weights_) < crf.state_weights_.size
    crf.save(tmp_path / "model.npz")
    back = intarsia.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.state_weights_, crf.state_weights_)
    for model in (back, load_tagger(tmp_path / "model.npz")):
        _assert_same_predictions(model, crf, X)


@pytest.mark.parametrize("psi", ["constant", LinearPsi()])
def test_energies_of_a_model_with_zeros(tmp_path, psi):
    crf, X = _sparse_model(120, "all", l1=2.0, l2=0.01, energies=at_most_one("x"), psi=psi)
    crf.save(tmp_path / "model.npz")
    back = intarsia.load(tmp_path / "model.npz")
    np.testing.assert_allclose(back.strengths(X[:4]), crf.strengths(X[:4]), atol=1e-12)
    for a, b in zip(back.predict_marginals(X[:4]), crf.predict_marginals(X[:4]), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)
