"""Conformal thresholds by definition, guarantees by simulation, and drift that is flagged."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from intarsia import GraphCRF, GridCRF
from intarsia.exceptions import ExchangeabilityWarning, InvalidInputError
from intarsia.metrics import (
    ConformalLabels,
    check_exchangeability,
    conformal_p_values,
    conformal_quantile,
)


@pytest.mark.parametrize("n", [1, 8, 9, 10, 19, 99, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2, 0.5, 0.999])
def test_quantile_is_the_smallest_score_with_enough_ranks(n, alpha):
    """By definition: the smallest value such that a new score, which has each rank equally often, is not above it."""
    scores = np.random.default_rng(n).random(n)
    threshold = conformal_quantile(scores, alpha)
    candidates = [*np.sort(scores).tolist(), np.inf]
    enough = [value for rank, value in enumerate(candidates, 1) if rank / (n + 1) >= 1 - alpha - 1e-12]
    assert threshold == min(enough)


def test_p_values_are_ranks_and_agree_with_the_quantile():
    rng = np.random.default_rng(0)
    calibration, scores = rng.random(50), rng.random(200)
    p_values = conformal_p_values(calibration, scores)
    np.testing.assert_allclose(p_values, [(1 + (calibration >= s).sum()) / 51 for s in scores])
    for alpha in (0.1, 0.25):
        np.testing.assert_array_equal(scores <= conformal_quantile(calibration, alpha), p_values > alpha)


def dependent_instances(rng, n, k=3):
    """Return instances of different lengths whose positions depend on each other, with too certain marginals."""
    marginals, y = [], []
    for _ in range(n):
        length, noise = int(rng.integers(1, 12)), rng.exponential()
        labels = np.repeat(rng.integers(k), length)
        scores = 2.0 * np.eye(k)[labels] + noise * rng.normal(size=(1, k)) + 0.3 * rng.normal(size=(length, k))
        weights = np.exp(2 * scores)
        marginals.append(weights / weights.sum(axis=1, keepdims=True))
        y.append(labels)
    return marginals, y


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("guarantee", ["instance", "position"])
def test_coverage_holds_on_average(alpha, guarantee):
    """500 independent calibration sets of 39 instances; the mean coverage is within 4 standard errors of its bounds."""
    rng, coverages = np.random.default_rng(5), []
    for _ in range(500):
        sets = ConformalLabels(alpha=alpha, guarantee=guarantee)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sets.conformalize(*dependent_instances(rng, 39))
        coverages.append(sets.coverage(*dependent_instances(rng, 40)))
    error = 4 * np.std(coverages) / np.sqrt(len(coverages))
    slack = 1 / 40 if guarantee == "instance" else 2 / 40
    assert 1 - alpha - error <= np.mean(coverages) <= 1 - alpha + slack + error


def test_positions_treated_as_independent_would_not_be_covered():
    """The naive threshold over pooled positions misses the guarantee for instances."""
    rng = np.random.default_rng(5)
    marginals, y = dependent_instances(rng, 2000)
    pooled = np.concatenate([1 - m[np.arange(len(t)), t] for m, t in zip(marginals, y, strict=True)])
    sets = ConformalLabels(alpha=0.1).conformalize(marginals, y)
    assert conformal_quantile(pooled, 0.1) < sets.threshold_


def test_coverage_counts_what_predict_set_returns():
    rng = np.random.default_rng(1)
    marginals, y = dependent_instances(rng, 80)
    for guarantee in ("instance", "position"):
        for allow_empty in (True, False):
            sets = ConformalLabels(alpha=0.3, guarantee=guarantee, allow_empty=allow_empty)
            sets.conformalize(marginals[:40], y[:40])
            predicted = sets.predict_set(marginals[40:])
            hits = [[c in s for c, s in zip(t, row, strict=True)] for t, row in zip(y[40:], predicted, strict=True)]
            expected = np.mean([all(row) if guarantee == "instance" else np.mean(row) for row in hits])
            assert sets.coverage(marginals[40:], y[40:]) == pytest.approx(expected)
            if not allow_empty:
                assert all(s for row in predicted for s in row)


def test_drift_is_flagged_and_exchangeable_data_are_not():
    rng = np.random.default_rng(2)
    marginals, y = dependent_instances(rng, 200)
    sets = ConformalLabels(alpha=0.1).conformalize(marginals, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sets.predict_mask(dependent_instances(rng, 200)[0])
    drifted = [0.5 * m + 0.5 / 3 for m in dependent_instances(rng, 200)[0]]
    with pytest.warns(ExchangeabilityWarning, match="differ from the calibration instances"):
        sets.predict_mask(drifted)


def test_p_value_of_the_check_is_uniform_for_exchangeable_scores():
    rng = np.random.default_rng(3)
    p_values = [check_exchangeability(rng.random(60), rng.random(40)).p_value for _ in range(400)]
    assert np.mean(np.array(p_values) < 0.1) < 0.15
    assert stats.kstest(p_values, "uniform").statistic < 0.15


def test_pixels_of_grid_crf():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(30):
        labels = (rng.random((4, 5)) < 0.5).astype(int)
        X.append(np.stack([labels + rng.normal(size=labels.shape), np.ones(labels.shape)], axis=-1))
        y.append(labels)
    crf = GridCRF().fit(X[:10], y[:10])
    sets = ConformalLabels(crf, alpha=0.2, guarantee="position").conformalize(X[10:20], y[10:20])
    masks = sets.predict_mask(X[20:])
    assert masks[0].shape == (4, 5, 2)
    coverage = np.mean([np.take_along_axis(m, t[..., None], -1).mean() for m, t in zip(masks, y[20:], strict=True)])
    assert sets.coverage(X[20:], y[20:]) == pytest.approx(coverage)
    assert sets.predict_set(X[20:])[0][3][4] <= {0, 1}


def test_nodes_of_graph_crf():
    rng = np.random.default_rng(0)
    X, y = [], []
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    for _ in range(30):
        labels = rng.integers(2, size=4)
        X.append((np.column_stack([labels + rng.normal(size=4), np.ones(4)]), edges))
        y.append(np.where(labels == 1, "yes", "no").tolist())
    crf = GraphCRF().fit(X[:10], y[:10])
    sets = ConformalLabels(crf, alpha=0.2).conformalize(X[10:20], y[10:20])
    assert all(len(row) == 4 and set().union(*row) <= {"yes", "no"} for row in sets.predict_set(X[20:]))


def test_hidden_and_unknown_labels():
    marginals = [np.array([[0.9, 0.1], [0.2, 0.8]])] * 4
    y = [["a", None], ["a", "b"], [None, None], ["z", "b"]]
    sets = ConformalLabels(alpha=0.5, classes=["a", "b"]).conformalize(marginals, y)
    np.testing.assert_allclose(sets.scores_, [0.1, 0.2, np.inf])
    assert sets.coverage(marginals[:1], [["z", None]]) == 0.0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: ConformalLabels(alpha=0.0).conformalize([[0.5, 0.5]], [0]), "alpha"),
        (lambda: ConformalLabels(guarantee="all").conformalize([[0.5, 0.5]], [0]), "guarantee='all'"),
        (lambda: ConformalLabels().conformalize([], []), "no calibration instance is labelled"),
        (lambda: ConformalLabels().conformalize([[0.5, 0.5]], []), "X has 1 instances, but y has 0"),
        (lambda: ConformalLabels().conformalize([[0.5, 0.5]], [[0, 1]]), r"y\[0\] has shape \(2,\)"),
        (lambda: ConformalLabels().conformalize([[5.0, 0.5]], [0]), "array .* of probabilities"),
        (lambda: ConformalLabels().predict_set([[0.5, 0.5]]), "Call conformalize"),
        (lambda: ConformalLabels(classes=["a"]).conformalize([[0.5, 0.5]], ["a"]), "1 classes, but 2 marginals"),
        (lambda: conformal_quantile([np.nan], 0.1), "without NaN"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(InvalidInputError, match=match):
        call()


def test_too_few_instances_warn_and_give_all_labels():
    with pytest.warns(UserWarning, match="at least 9 instances"):
        sets = ConformalLabels(alpha=0.1).conformalize([[0.9, 0.1]] * 8, [0] * 8)
    assert sets.predict_set([[0.9, 0.1]]) == [frozenset({0, 1})]
    assert ConformalLabels(alpha=0.1).conformalize([[0.9, 0.1]] * 9, [0] * 9).threshold_ == pytest.approx(0.1)
