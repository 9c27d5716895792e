"""Baselines of the tables against enumeration, iteration and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from intarsia.clusters import dense_pair_features
from intarsia.metrics.pixels import error_rate
from intarsia.sequences import ChainCRF
from intarsia_reproduction.experiments.ocr import _in_tenth
from intarsia_reproduction.models.baselines import (
    add_boosted_scores,
    best_antecedents,
    boost_pixels,
    neighbourhood,
    propagate_labels,
    smooth_and_threshold,
    user_effects,
    user_log_odds,
)
from intarsia_reproduction.models.image_fits import Pictures
from intarsia_reproduction.models.mention_features import Passage
from intarsia_reproduction.models.word_energies import look_up


def test_propagated_labels_are_means_of_neighbours():
    rng = np.random.default_rng(0)
    edges = np.array([pair for pair in itertools.combinations(range(12), 2) if rng.random() < 0.3])
    edges = edges[~(edges == 11).any(axis=1)]  # the last node has no neighbours
    values = rng.random((12, 2))
    values[4:] = np.nan
    filled = propagate_labels(edges, values, np.array([0.25, 0.75]))
    np.testing.assert_array_equal(filled[:4], values[:4])
    np.testing.assert_allclose(filled[11], [0.25, 0.75])
    for node in range(4, 11):
        neighbours = [b if a == node else a for a, b in edges.tolist() if node in (a, b)]
        if neighbours:
            np.testing.assert_allclose(filled[node], filled[neighbours].mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("score", [user_log_odds, user_effects])
def test_users_who_distrust_have_high_scores(score):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 20, (600, 2))
    distrust = rng.random(600) < np.where(pairs[:, 0] < 5, 0.8, 0.05)  # the first five users distrust
    new_pairs = np.column_stack([np.arange(20), np.full(20, 7)])
    scores = score(pairs, 1.0 - distrust, 20, new_pairs)
    assert scores[:5].min() > scores[5:].max()


def test_each_mention_joins_its_best_antecedent():
    def passage(same):
        same = np.asarray(same, dtype=float)
        values = np.stack([same, np.ones_like(same)], axis=-1)
        return Passage("a", dense_pair_features(values), np.array([0, 0, 1, 1]))

    truth = np.kron(np.eye(2), np.ones((2, 2)))
    learn = [passage(truth)] * 20
    assert best_antecedents(learn, [passage(truth)])[0].tolist() == [0, 0, 2, 2]
    assert best_antecedents(learn, [passage(np.zeros((4, 4)))])[0].tolist() == [0, 1, 2, 3]
    chain = np.zeros((4, 4))
    chain[[0, 1, 1, 3], [1, 0, 3, 1]] = 1.0  # mention 3 joins mention 1, which joined mention 0
    assert best_antecedents(learn, [passage(chain)])[0].tolist() == [0, 0, 2, 0]


def test_boosting_labels_pixels_by_their_features_and_skips_hidden_labels():
    rng = np.random.default_rng(0)
    features = [rng.random((12, 10, 2)) for _ in range(6)]
    labels = [(x[..., 0] > 0.5).astype(np.int64) for x in features]
    labels[0][:3] = -1
    train, test = Pictures(features[:4], labels[:4]), Pictures(features[4:], labels[4:])
    finding = boost_pixels(train, test, n_pixels=10**6, max_iter=20)
    assert finding.settings["pixels"] == 4 * 120 - 30
    assert finding.n == 240
    assert finding.values["test error"] < 0.05
    assert boost_pixels(train, test, n_pixels=100, max_iter=2).settings["pixels"] < 150


def stripes(n, seed):
    """Return noisy pictures of stripes of eight rows: single pixels say little, their neighbours much."""
    rng = np.random.default_rng(seed)
    labels = [np.repeat(rng.integers(0, 2, size=(4, 1)), 8, axis=0) * np.ones((1, 24), np.int64) for _ in range(n)]
    return Pictures([np.stack([np.ones(y.shape), y + rng.normal(0, 0.8, y.shape)], axis=-1) for y in labels], labels)


def test_smoothing_chooses_its_filter_on_training_pictures():
    """The chosen filter and threshold have the lowest training error among all, by a second loop over them."""
    train, test = stripes(8, 0), stripes(8, 1)
    finding = smooth_and_threshold(train, test)
    note = finding.settings["note"]
    assert note.startswith("Gaussian")
    sigma, threshold = (float(word) for word in note.removeprefix("Gaussian, sigma ").split(", threshold "))

    def errors(pictures, width, level):
        smoothed = [gaussian_filter(x[..., 1], width) > level for x in pictures.features]
        return [int((x != y).sum()) for x, y in zip(smoothed, pictures.labels, strict=True)]

    assert finding.arrays["picture_errors"].tolist() == [[n, 32 * 24] for n in errors(test, sigma, threshold)]
    assert finding.values["train error"] == pytest.approx(sum(errors(train, sigma, threshold)) / (8 * 32 * 24))
    widths, levels = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0), np.linspace(0.4, 0.6, 41)
    lowest = min(sum(errors(train, width, level)) for width in widths for level in levels)
    assert sum(errors(train, sigma, threshold)) == lowest
    assert finding.values["test error"] < 0.15


def test_boosting_of_neighbours_beats_boosting_of_single_pixels():
    train, test = stripes(8, 0), stripes(8, 1)
    single = boost_pixels(train, test, n_pixels=5000, max_iter=20)
    patches = boost_pixels(train, test, n_pixels=5000, max_iter=20, expand=neighbourhood)
    assert patches.values["test error"] < 0.7 * single.values["test error"]


def test_look_up_returns_the_word_of_highest_probability():
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, int(rng.integers(2, 5))) for _ in range(60)]
    X = [np.eye(3)[word] + rng.normal(0, 0.8, (word.size, 3)) for word in y]
    crf = ChainCRF(l2=0.2).fit(X, y)
    every_word = [word for n in (2, 3) for word in itertools.product(range(3), repeat=n)]
    predicted, best = look_up(crf, X, every_word), crf.predict(X)
    for word, expected in zip(predicted, best, strict=True):  # a look-up among all words is MAP inference
        assert word.tolist() == expected.tolist()
    few = [(0, 1), (2, 2, 1), (7, 7)]  # a word with an unknown letter is never the answer
    for x, word, expected in zip(X, look_up(crf, X, few), best, strict=True):
        assert word.tolist() == {2: [0, 1], 3: [2, 2, 1]}.get(len(x), expected.tolist())


def test_tenths_divide_the_distinct_words():
    words = [np.array(word) for word in itertools.product(range(3), repeat=3)] * 2
    tenths = np.array([_in_tenth(words, i) for i in range(10)])
    assert (tenths.sum(axis=0) == 1).all()
    np.testing.assert_array_equal(tenths[:, :27], tenths[:, 27:])  # copies of a word are in the same tenth


def test_boosted_scores_of_training_images_come_from_other_images():
    """Random labels cannot be predicted: scores from other images say nothing, scores of the same image would."""
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(12, 12, 3)).astype(np.float32) for _ in range(4)]
    labels = [rng.integers(0, 2, size=(12, 12)) for _ in range(4)]
    pictures = Pictures(features, labels)
    train, test = add_boosted_scores(pictures, pictures, n_pixels=1000, max_iter=50)
    assert train.features[0].shape == (12, 12, 5)
    np.testing.assert_array_equal(train.features[1][..., :3], features[1])
    errors = [error_rate([image[..., 3:] for image in extended.features], labels) for extended in (train, test)]
    assert errors[0] > 0.4
    assert errors[1] < 0.2
