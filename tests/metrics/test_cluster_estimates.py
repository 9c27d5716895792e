"""Intervals of clustering scores: sums over entities against the plain scores, coverage of the intervals."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.metrics import clustering_intervals, clustering_scores, estimate_scores, records_to_label

MEASURES = ("pairwise", "b_cubed", "muc", "ceaf_e", "ceaf_m", "lea")


def planted(rng, n_entities=300):
    """True entities of 1 to 6 records, and a prediction that splits some and merges others."""
    sizes = rng.integers(1, 7, n_entities)
    true = np.repeat(np.arange(n_entities), sizes)
    predicted = true.copy()
    split = rng.random(len(true)) < 0.1
    predicted[split] = n_entities + np.arange(split.sum())
    merged = rng.permutation(n_entities)[: n_entities // 5]
    partner = {int(a): int(b) for a, b in zip(merged[::2], merged[1::2], strict=True)}
    return true, np.array([partner.get(int(label), int(label)) for label in predicted])


def test_values_equal_the_plain_scores():
    rng = np.random.default_rng(0)
    for _ in range(5):
        true, predicted = planted(rng, 60)
        scores, intervals = clustering_scores(true, predicted), clustering_intervals(true, predicted, n_bootstrap=50)
        for name in MEASURES:
            agreement, interval = getattr(scores, name), getattr(intervals, name)
            assert interval.precision.value == pytest.approx(agreement.precision)
            assert interval.recall.value == pytest.approx(agreement.recall)
            assert interval.f1.value == pytest.approx(agreement.f1)
            assert interval.f1.low <= interval.f1.value + 1e-9
            assert interval.f1.high >= interval.f1.value - 1e-9


def test_estimates_from_all_entities_equal_the_plain_scores():
    true, predicted = planted(np.random.default_rng(1), 80)
    entities = [np.flatnonzero(true == label).tolist() for label in np.unique(true)]
    estimate = estimate_scores(dict(enumerate(predicted.tolist())), entities, sampling="entities")
    scores = clustering_scores(true, predicted)
    for name in ("pairwise", "b_cubed"):
        assert getattr(estimate, name).precision.value == pytest.approx(getattr(scores, name).precision)
        assert getattr(estimate, name).recall.value == pytest.approx(getattr(scores, name).recall)
    assert estimate.muc is None


def test_estimates_from_all_records_equal_the_plain_scores():
    """Every record is drawn once, so each entity is there as often as it has records, and counts once in all."""
    true, predicted = planted(np.random.default_rng(1), 80)
    entities = [np.flatnonzero(true == label).tolist() for label in true]
    assert len({len(entity) for entity in entities}) > 1
    prediction = dict(enumerate(predicted.tolist()))
    scores = clustering_scores(true, predicted)
    for settings in ({}, {"weights": [1.0 / len(entity) for entity in entities]}):
        estimate = estimate_scores(prediction, entities, **settings)
        for name in ("pairwise", "b_cubed"):
            assert getattr(estimate, name).precision.value == pytest.approx(getattr(scores, name).precision)
            assert getattr(estimate, name).recall.value == pytest.approx(getattr(scores, name).recall)


@pytest.mark.parametrize("way", ["records", "entities", "weights"])
def test_intervals_of_samples_contain_the_value(way):
    """Over 200 samples of 60 entities, the 90 % intervals contain the true value about as often as they say."""
    rng = np.random.default_rng(2)
    true, predicted = planted(rng, 800)
    scores = clustering_scores(true, predicted)
    prediction = dict(enumerate(predicted.tolist()))
    records = {int(label): np.flatnonzero(true == label).tolist() for label in np.unique(true)}
    n_covered = {"pairwise": 0, "b_cubed": 0}
    for seed in range(200):
        weights = None
        if way == "records":
            sample = [records[int(true[k])] for k in rng.integers(0, len(true), 60)]
        elif way == "entities":
            sample = [records[int(k)] for k in rng.choice(800, 60, replace=False)]
        else:
            draws = records_to_label(prediction, 60, random_state=seed)
            chance = dict(_chances(prediction))
            sample = [records[int(true[record])] for record, _ in draws]
            weights = [1.0 / sum(chance[record] for record in entity) for entity in sample]
        sampling = "records" if way == "weights" else way
        estimate = estimate_scores(prediction, sample, sampling=sampling, weights=weights, level=0.9)
        for name in n_covered:
            interval = getattr(estimate, name).f1
            n_covered[name] += interval.low <= getattr(scores, name).f1 <= interval.high
    # Linearisation is a little too narrow for 60 entities; 3 standard errors of 200 trials are 6 %.
    assert all(0.8 <= n / 200 <= 0.97 for n in n_covered.values()), n_covered


def _chances(prediction):
    """Probability of every record, by its definition."""
    sizes = {}
    for label in prediction.values():
        sizes[label] = sizes.get(label, 0) + 1
    total = sum(sizes[label] for label in prediction.values())
    return [(r, 0.5 * sizes[label] / total + 0.5 / len(prediction)) for r, label in prediction.items()]


def test_bootstrap_interval_narrows_with_more_entities():
    rng = np.random.default_rng(3)
    widths = []
    for n in (100, 1600):
        interval = clustering_intervals(*planted(rng, n), n_bootstrap=300).b_cubed.f1
        widths.append(interval.high - interval.low)
    assert 2.5 < widths[0] / widths[1] < 6.5  # about the square root of 16


def test_wrong_input_is_named():
    with pytest.raises(InvalidInputError, match="Pass two sequences"):
        clustering_intervals({1: 1}, {1: 1})
    with pytest.raises(InvalidInputError, match="expected at least 2"):
        estimate_scores({1: 1}, [[1]])
    with pytest.raises(InvalidInputError, match=r"sample\[1\] has record 9"):
        estimate_scores({1: 1}, [[1], [9]])
    with pytest.raises(InvalidInputError, match=r"sample\[0\] is empty"):
        estimate_scores({1: 1}, [[], [1]])
    with pytest.raises(InvalidInputError, match=r"sample\[0\] has a record twice"):
        estimate_scores({1: 1}, [[1, 1], [1]])
    with pytest.raises(InvalidInputError, match="weights has shape"):
        estimate_scores({1: 1, 2: 1}, [[1], [2]], weights=[1.0])
    with pytest.raises(InvalidInputError, match="level"):
        clustering_intervals([1], [1], level=1.5)
    with pytest.raises(InvalidInputError, match="predicted is empty"):
        records_to_label({}, 2)
