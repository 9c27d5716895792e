"""Temperature of chain models: likelihood by a grid of temperatures, unchanged labels, files and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia import ChainCRF
from intarsia.energies import at_most_one
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.metrics import calibration_error
from intarsia.metrics.segments import find_segments


def sentences(n, seed, noise=0.5):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = rng.choice(["B-x", "I-x", "O"], size=int(rng.integers(1, 7))).tolist()
        X.append([[f"w{c if rng.random() > noise else rng.integers(3)}", f"id{rng.integers(400)}"] for c in labels])
        y.append(labels)
    return X, y


@pytest.fixture(scope="module")
def overfitted():
    return ChainCRF(l2=1e-3).fit(*sentences(60, 0))


def test_temperature_maximises_the_likelihood(overfitted, tmp_path):
    X, y = sentences(100, 1)
    crf = ChainCRF(l2=1e-3).fit(*sentences(60, 0))
    before, weights = crf.predict(X), crf.weights_
    assert crf.calibrate(X, y) is crf
    assert crf.temperature_ > 1.5  # the model is too certain
    for labels, expected in zip(crf.predict(X), before, strict=True):
        assert labels.tolist() == expected.tolist()

    def likelihood(temperature):
        crf.weights_ = weights / temperature
        return crf.sequence_log_probability(X, y).sum()

    best = likelihood(crf.temperature_)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert likelihood(crf.temperature_ * factor) < best
    crf.weights_ = weights / crf.temperature_
    crf.save(tmp_path / "model.npz")
    loaded = intarsia.load(tmp_path / "model.npz")
    assert loaded.temperature_ == crf.temperature_
    np.testing.assert_array_equal(loaded.weights_, crf.weights_)


def test_calibration_lowers_the_error_on_other_sequences():
    crf, (X, y) = ChainCRF(l2=1e-3).fit(*sentences(60, 0)), sentences(400, 2)
    before = {unit: crf.reliability_curve(X, y, unit=unit).error for unit in ("tokens", "segments", "sequences")}
    crf.calibrate(*sentences(200, 1))
    for unit, error in before.items():
        assert crf.reliability_curve(X, y, unit=unit).error < 0.5 * error
    crf.calibrate(*sentences(200, 1))
    again = crf.temperature_
    crf.calibrate(*sentences(200, 1))
    assert crf.temperature_ == pytest.approx(again, rel=1e-4)
    crf.fit(*sentences(60, 0))
    assert crf.temperature_ == 1.0


def test_curve_of_tokens_and_segments_counts_every_prediction(overfitted):
    X, y = sentences(50, 3)
    tokens = overfitted.reliability_curve(X, y)
    assert tokens.count.sum() == sum(map(len, y))
    predicted, marginals = overfitted.predict(X), overfitted.predict_marginals(X)
    index = {label: c for c, label in enumerate(overfitted.classes_)}
    correct = [a == b for true, labels in zip(y, predicted, strict=True) for a, b in zip(true, labels, strict=True)]
    confidence = [
        row[index[b]] for m, labels in zip(marginals, predicted, strict=True) for row, b in zip(m, labels, strict=True)
    ]
    assert tokens.error == pytest.approx(calibration_error(correct, np.minimum(confidence, 1.0)))
    segments = overfitted.reliability_curve(X, y, unit="segments")
    assert segments.count.sum() == sum(len(find_segments(labels.tolist())) for labels in predicted)
    assert overfitted.reliability_curve(X, y, unit="sequences").count.sum() == 50


def test_hidden_labels_are_not_counted(overfitted):
    X, y = sentences(5, 3)
    hidden = [[None, *labels[1:]] for labels in y]
    assert overfitted.reliability_curve(X, hidden).count.sum() == sum(map(len, y)) - 5


def test_no_maximum_warns():
    X, y = sentences(60, 0, noise=0.0)
    crf = ChainCRF(l2=10.0).fit(X, y)
    perfect = [i for i, labels in enumerate(crf.predict(X)) if labels.tolist() == y[i]]
    with pytest.warns(ConvergenceWarning, match="the likelihood has no maximum"):
        crf.calibrate([X[i] for i in perfect], [y[i] for i in perfect])
    assert crf.temperature_ == 1.0


def test_sequences_with_unknown_labels_are_left_out():
    X, y = sentences(60, 1)
    crf, other = ChainCRF(l2=1e-3).fit(*sentences(60, 0)), ChainCRF(l2=1e-3).fit(*sentences(60, 0))
    crf.calibrate([*X, X[0]], [*y, ["z"] * len(X[0])])
    assert crf.temperature_ == pytest.approx(other.calibrate(X, y).temperature_)


def test_refusals():
    X, y = sentences(40, 0)
    crf = ChainCRF(l2=0.1).fit(X, y)
    weights = crf.weights_
    with pytest.raises(InvalidInputError, match=r"ChainCRF.calibrate: all labels are hidden"):
        crf.calibrate(X, [[None] * len(labels) for labels in y])
    with pytest.raises(InvalidInputError, match="all labels are hidden"):
        crf.calibrate([], [])
    with pytest.raises(InvalidInputError, match="or not in `classes_`"):
        crf.calibrate(X[:1], [["z"] * len(X[0])])
    with pytest.raises(InvalidInputError, match="unit='words'"):
        crf.reliability_curve(X, y, unit="words")
    assert crf.weights_ is weights
    with pytest.raises(NotSupportedError, match="freeze_weights=True"):
        ChainCRF(l2=0.1, energies=at_most_one("x")).fit(X, y).calibrate(X, y)
    legal = [[label.replace("I", "B") for label in labels] for labels in y]
    bio = ChainCRF(l2=0.1, scheme="bio", classes=["B-x", "I-x", "O"]).fit(X, legal)
    with pytest.raises(InvalidInputError, match="has probability 0"):
        bio.calibrate([X[0]], [["I-x"] * len(X[0])])
