"""Calibration of scores: the monotone fit against scikit-learn, agreement on data with planted entities, labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from intarsia.clusters import resolve
from intarsia.clusters.resolution.calibration import best_for_both, fit_monotone, indirect_evidence
from intarsia.exceptions import InvalidInputError
from intarsia.metrics import clustering_scores


def planted(rng, n_entities=150, size=5, shift=0.0):
    """Pairs whose true log odds are known, with scores that are shifted and three times too large."""
    n = n_entities * size
    entity = np.arange(n) // size
    random_pairs = rng.integers(0, n, (6 * n, 2))
    true_pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, min(n, i + size)) if entity[i] == entity[j]])
    pairs = np.sort(np.concatenate([random_pairs, true_pairs]), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    same = entity[pairs[:, 0]] == entity[pairs[:, 1]]
    evidence = rng.normal(np.where(same, 1.5, -1.5), 1.2)
    return entity, pairs, 3.0 * evidence + shift


def pairwise_f1(labels, truth):
    together = lambda values: (np.unique(values, return_counts=True)[1].astype(float) ** 2).sum() - len(values)  # noqa: E731
    both = together(np.asarray(labels) * (truth.max() + 1) + truth)
    return 2 * both / (together(labels) + together(truth))


def test_monotone_fit_equals_isotonic_regression():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 2, 400).round(1)
    is_match = rng.random(400) < 1 / (1 + np.exp(-scores))
    points, odds = fit_monotone(scores, is_match)
    expected = IsotonicRegression().fit(scores, is_match).predict(points)
    # Half a match and half a non-match per block: compare where blocks are large.
    middle = (expected > 0.1) & (expected < 0.9)
    assert np.abs(1 / (1 + np.exp(-odds[middle])) - expected[middle]).max() < 0.1
    assert (np.diff(odds) >= 0).all()


def test_indirect_evidence_equals_a_loop():
    rng = np.random.default_rng(1)
    n = 12
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.5])
    odds, labels, absent = rng.normal(0, 2, len(pairs)), rng.integers(0, 4, n), -0.25
    weight = {(int(a), int(b)): w for (a, b), w in zip(pairs, odds, strict=True)}
    evidence, has_evidence, _ = indirect_evidence(pairs, odds, labels, absent)
    for row, (a, b) in enumerate(pairs):
        total, n_compared = 0.0, 0
        for record, other in ((a, b), (b, a)):
            members = [k for k in range(n) if labels[k] == labels[other] and k not in (record, other)]
            compared = [k for k in members if (min(record, k), max(record, k)) in weight]
            if compared:
                scores = [weight[(min(record, k), max(record, k))] for k in compared]
                total += sum(scores) + absent * (len(members) - len(compared))
                n_compared += len(compared)
        assert evidence[row] == pytest.approx(total)
        assert has_evidence[row] == (n_compared > 0)


@pytest.mark.parametrize("shift", [-6.0, 0.0, 6.0])
def test_agreement_corrects_a_shift_of_the_scores(shift):
    truth, pairs, scores = planted(np.random.default_rng(2), shift=shift)
    edges = {"id1": pairs[:, 0], "id2": pairs[:, 1], "log_odds": scores}
    as_given, calibrated = resolve(edges), resolve(edges, calibrate="auto")
    assert calibrated.calibration.method == "agreement"
    assert pairwise_f1(calibrated.labels, truth) >= 0.97
    if shift:
        assert pairwise_f1(calibrated.labels, truth) > pairwise_f1(as_given.labels, truth)


def test_labels_calibrate():
    truth, pairs, scores = planted(np.random.default_rng(3), shift=6.0)
    edges = {"id1": pairs[:, 0], "id2": pairs[:, 1], "log_odds": scores}
    chosen = np.random.default_rng(0).choice(len(pairs), 400, replace=False)
    same = truth[pairs[chosen, 0]] == truth[pairs[chosen, 1]]
    labels = {"id1": pairs[chosen, 0], "id2": pairs[chosen, 1], "match": same}
    resolution = resolve(edges, calibrate=labels)
    assert resolution.calibration.method == "labels"
    assert pairwise_f1(resolution.labels, truth) > pairwise_f1(resolve(edges, calibrate=None).labels, truth)
    few = {name: values[:6] for name, values in labels.items()}
    with pytest.raises(InvalidInputError, match="expected at least 5 of each"):
        resolve(edges, calibrate=few)


def test_too_little_evidence_leaves_the_scores():
    resolution = resolve({"id1": ["a", "b"], "id2": ["b", "c"], "log_odds": [1.0, -1.0]}, calibrate="auto")
    assert resolution.calibration.method == "none"
    assert resolution.score == 1.0


def two_tables(rng, shift, n=600, fraction=0.6):
    """Pairs of two tables with one partner for a fraction of the records; scores are shifted log odds."""
    has_partner = rng.random(n) < fraction
    left, right = np.repeat(np.arange(n), 8), rng.integers(0, n, 8 * n)
    keys = np.unique(np.concatenate([left * n + right, np.flatnonzero(has_partner) * (n + 1)]))
    left, right = keys // n, keys % n
    is_true = (left == right) & has_partner[left]
    scores = rng.normal(np.where(is_true, 4.0, -4.0), 2.5) + shift
    edges = {"id1": [f"l{k:04d}" for k in left], "id2": [f"r{k:04d}" for k in right], "log_odds": scores}
    source = {f"{side}{k:04d}": side for side in "lr" for k in range(n)}
    return edges, source, has_partner


@pytest.mark.parametrize("shift", [-4.0, 4.0, 8.0])
def test_competition_corrects_a_shift_between_two_tables(shift):
    edges, source, has_partner = two_tables(np.random.default_rng(4), shift)

    def f1(resolution):
        entity = dict(zip(resolution.table["id"], resolution.table["entity"], strict=True))
        correct = sum(entity.get(f"l{k:04d}") == entity.get(f"r{k:04d}", "") for k in np.flatnonzero(has_partner))
        n_linked = len(entity) - len(set(entity.values()))
        return 2 * correct / (n_linked + has_partner.sum())

    as_given, calibrated = (
        resolve(edges, calibrate=None, source=source),
        resolve(edges, calibrate="competition", source=source),
    )
    assert calibrated.calibration.method == "competition"
    assert f1(calibrated) > f1(as_given) + 0.05


def test_best_for_both_equals_a_loop():
    rng = np.random.default_rng(5)
    source = rng.integers(0, 3, 20)
    pairs = np.array([(i, j) for i in range(20) for j in range(i + 1, 20) if rng.random() < 0.4])
    scores = rng.normal(size=len(pairs))
    expected = []
    for (i, j), score in zip(pairs, scores, strict=True):
        rivals = [
            other
            for (a, b), other in zip(pairs, scores, strict=True)
            if (a in (i, j) and source[b] == source[j if a == i else i])
            or (b in (i, j) and source[a] == source[j if b == i else i])
        ]
        expected.append(source[i] != source[j] and score >= max(rivals))
    assert best_for_both(pairs, scores, source).tolist() == expected


def dense_blocks(scale, separation=4.0):
    """Pairs in blocks of 40 records, whose scores are `scale` times their true log odds."""
    rng = np.random.default_rng(3)
    n, size = 4000, 40
    entity = rng.integers(0, 10, n) + 10 * (np.arange(n) // size)
    first, second = np.triu_indices(size, 1)
    pairs = np.concatenate([np.column_stack([first, second]) + start for start in range(0, n, size)])
    same = entity[pairs[:, 0]] == entity[pairs[:, 1]]
    # Log likelihood ratios of two normal distributions with opposite means and twice that variance, and the prior.
    log_odds = rng.normal(np.where(same, separation, -separation), np.sqrt(2 * separation))
    log_odds += np.log(same.mean() / (1 - same.mean()))
    table = {"id1": pairs[:, 0].tolist(), "id2": pairs[:, 1].tolist(), "log_odds": (scale * log_odds).tolist()}
    return table, entity


@pytest.mark.parametrize(
    ("separation", "reason"), [(4.0, "predict the agreement"), (2.0, "disagree too much with each other")]
)
def test_true_log_odds_are_left_as_they_are(separation, reason):
    table, entity = dense_blocks(1.0, separation)
    resolution, as_given = resolve(table, calibrate="auto"), resolve(table)
    assert resolution.calibration.method == "none"
    assert reason in resolution.calibration.description
    scores = [clustering_scores(entity, result.labels).pairwise.f1 for result in (resolution, as_given)]
    assert scores[0] > scores[1] - 0.01


def test_overconfident_scores_are_calibrated():
    table, _ = dense_blocks(8.0)
    assert resolve(table, calibrate="auto").calibration.method == "agreement"
    assert resolve(table).calibration.method == "none"  # by default
