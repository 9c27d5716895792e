"""Sets of complete labellings against enumeration, their coverage, and drift that is flagged."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from intarsia import ChainCRF
from intarsia.exceptions import ExchangeabilityWarning, InvalidInputError
from intarsia.metrics import ConformalLabels
from intarsia.sequences import ConformalParses


def sentences(n, seed, hints=0.7, length=4):
    rng = np.random.default_rng(seed)
    y = [rng.choice(["a", "b", "c"], size=int(rng.integers(1, length + 1))).tolist() for _ in range(n)]
    X = [[[c if rng.random() < hints else "?"] for c in labels] for labels in y]
    return X, y


@pytest.fixture(scope="module")
def crf():
    return ChainCRF(l2=0.1).fit(*sentences(100, 0))


def all_labellings(crf, x):
    """Return every labelling and its probability, the most probable first."""
    labellings = [list(labels) for labels in itertools.product(crf.classes_.tolist(), repeat=len(x))]
    log_p = crf.sequence_log_probability([x] * len(labellings), labellings)
    order = np.argsort(-log_p, kind="stable")
    return [(labellings[i], float(np.exp(log_p[i]))) for i in order]


def test_sets_are_the_best_labellings_until_the_mass_is_reached(crf):
    parses = ConformalParses(crf, alpha=0.1).conformalize(*sentences(100, 1))
    X, _ = sentences(30, 2)
    for x, members in zip(X, parses.predict_set(X), strict=True):
        before, expected = 0.0, []
        for _, probability in all_labellings(crf, x):
            if before > parses.threshold_:
                break
            expected.append(probability)
            before += probability
        np.testing.assert_allclose([p for _, p in members], expected, atol=1e-9)


def test_scores_are_the_mass_before_the_truth(crf):
    X, y = sentences(60, 3)
    parses = ConformalParses(crf).conformalize(X, y)
    for x, labels, score in zip(X, y, parses.scores_, strict=True):
        ranked = all_labellings(crf, x)
        rank = next(r for r, (other, _) in enumerate(ranked) if other == labels)
        # Labellings of equal probability may be in another order, so ranks are compared by their probability.
        low = sum(p for _, p in ranked if p > ranked[rank][1] * (1 + 1e-9))
        high = sum(p for _, p in ranked if p > ranked[rank][1] * (1 - 1e-9)) - ranked[rank][1]
        assert low - 1e-9 <= score <= high + 1e-9


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_coverage_holds_on_average(crf, alpha):
    exact, simple, labels = [], [], []
    for seed in range(40):
        calibration, new = sentences(59, 100 + seed), sentences(60, 1000 + seed)
        randomised = ConformalParses(crf, alpha=alpha, random_state=np.random.default_rng(seed))
        exact.append(randomised.conformalize(*calibration).coverage(*new))
        simple.append(ConformalParses(crf, alpha=alpha).conformalize(*calibration).coverage(*new))
        labels.append(ConformalLabels(crf, alpha=alpha).conformalize(*calibration).coverage(*new))
    for coverages in (exact, labels):
        error = 4 * np.std(coverages) / np.sqrt(40)
        assert 1 - alpha - error <= np.mean(coverages) <= 1 - alpha + 1 / 60 + error
    assert np.mean(simple) >= 1 - alpha - 4 * np.std(simple) / np.sqrt(40)


def test_drift_is_flagged(crf):
    parses = ConformalParses(crf, alpha=0.2).conformalize(*sentences(100, 1))
    labels = ConformalLabels(crf, alpha=0.2).conformalize(*sentences(100, 1))
    drifted = sentences(100, 2, hints=0.1)
    with pytest.warns(ExchangeabilityWarning, match="Calibrate with"):
        parses.predict_set(drifted[0])
    with pytest.warns(ExchangeabilityWarning, match="Calibrate with"):
        labels.predict_set(drifted[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parses.predict_set(sentences(100, 3)[0])
        labels.predict_set(sentences(100, 3)[0])
    # Without labels only the certainty is compared; the coverage is indeed lost where the scores say so.
    assert labels.coverage(*drifted) < 0.8 - 0.1


def test_sets_with_members_that_are_not_listed(crf):
    X, y = sentences(100, 1)
    with pytest.warns(UserWarning, match="are not among the 1 best"):
        parses = ConformalParses(crf, alpha=0.05, max_labellings=1).conformalize(X, y)
    assert 1.0 < parses.threshold_ < np.inf
    assert [len(members) for members in parses.predict_set(X[:5])] == [1] * 5
    for x, labels, is_member in zip(X, y, parses.contains(X, y), strict=True):
        log_p = crf.sequence_log_probability([x], [labels])[0]
        is_best = crf.predict([x])[0].tolist() == labels
        assert is_member == (is_best or 1.0 - log_p <= parses.threshold_)
    coverages = []
    for seed in range(40):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parses.conformalize(*sentences(59, 100 + seed))
        coverages.append(parses.coverage(*sentences(60, 1000 + seed)))
    error = 4 * np.std(coverages) / np.sqrt(40)
    assert 0.95 - error <= np.mean(coverages) <= 0.95 + 1 / 60 + error
    with pytest.warns(UserWarning, match="too few for alpha=0.1"):
        ConformalParses(crf, alpha=0.1).conformalize(*sentences(5, 1))


def test_refusals(crf):
    X, y = sentences(20, 1)
    with pytest.raises(InvalidInputError, match="Call conformalize"):
        ConformalParses(crf).predict_set(X)
    with pytest.raises(InvalidInputError, match="there is no calibration sequence"):
        ConformalParses(crf).conformalize([], [])
    with pytest.raises(InvalidInputError, match="X has 20 sequences, but y has 1"):
        ConformalParses(crf).conformalize(X, y[:1])
    with pytest.raises(InvalidInputError, match=r"y\[0\] has 9 labels"):
        ConformalParses(crf).conformalize(X[:1], [["a"] * 9])
    parses = ConformalParses(crf, alpha=0.2).conformalize(X, y)
    assert parses.predict_set([]) == []
    assert parses.predict_set([[]]) == [[([], 1.0)]]
    assert parses.coverage([X[0]], [["z"] * len(X[0])]) == 0.0
