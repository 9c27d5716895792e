"""Readers of words that may be missing from the dictionary: thresholds by enumeration, and energies by theirs."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.sequences import ChainCRF
from intarsia_reproduction.models.unknown_words import (
    LOOK_UP_PSI,
    FoldResults,
    Readings,
    Rule,
    best_cap,
    learn_rules,
    read_words,
)
from intarsia_reproduction.models.word_energies import WordPieces

WORDS = [(0, 1, 2), (2, 1, 0), (1, 1, 1), (0, 2), (2, 2), (0, 1)]


def draw_words(seed, n, noise=0.8):
    rng = np.random.default_rng(seed)
    y = [np.array(WORDS[i]) for i in rng.integers(0, len(WORDS), n)]
    return [np.eye(3)[word] + noise * rng.standard_normal((len(word), 3)) for word in y], y


@pytest.mark.parametrize("by_letter", [False, True])
def test_the_cap_is_the_best_of_all_thresholds(by_letter):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 6, 30)
    excess = np.where(rng.random(30) < 0.1, np.inf, rng.integers(0, 8, 30).astype(float))
    readings = Readings(excess, lengths, rng.integers(0, lengths + 1), rng.integers(0, lengths + 1))
    weight = rng.random(30)
    cap, value = best_cap(readings, weight, by_letter)
    totals = [
        weight @ readings.right(Rule(1.0, 1.0, by_letter, threshold))
        for threshold in np.concatenate([np.arange(-0.03, 9.0, 0.013), [1e9]])
    ]
    assert value == pytest.approx(max(totals))
    assert weight @ readings.right(Rule(1.0, 1.0, by_letter, cap)) == pytest.approx(value)


def test_the_excess_with_a_large_weight_is_minus_the_log_probability_of_the_best_word():
    X, y = draw_words(0, 60)
    crf = ChainCRF(l2=0.5).fit(X, y)
    words = [(0, 1, 2), (2, 1, 0), (0, 2)]
    excess = WordPieces(crf, X, words).read(LOOK_UP_PSI)[1]
    for x, value in zip(X, excess.tolist(), strict=True):
        candidates = [np.array(word) for word in words if len(word) == len(x)]
        assert value == pytest.approx(-max(crf.sequence_log_probability([x] * len(candidates), candidates)), abs=1e-8)


def test_without_transitions_letters_are_read_one_by_one():
    X, y = draw_words(0, 60)
    crf = ChainCRF(l2=0.5, ends=False).fit(X, y)
    free = WordPieces(crf, X, WORDS, transition_scale=0.0).read_freely()
    for x, letters in zip(X, free, strict=True):
        np.testing.assert_array_equal(letters, (x @ crf.state_weights_).argmax(axis=1))


def test_descents_from_many_starts_reach_the_minimum_over_words():
    X, y = draw_words(3, 80, noise=1.5)
    pieces = WordPieces(ChainCRF(l2=0.5).fit(X, y), X, WORDS)
    exact = np.concatenate(pieces.predict(3.0))
    agreement = [(np.concatenate(pieces.descend(3.0, 4, n)) == exact).mean() for n in (1, 300)]
    assert agreement[0] < agreement[1] == 1.0


def test_a_learned_cap_reads_both_kinds_of_words():
    X, y = draw_words(0, 600, noise=0.6)
    candidates = {"look-up": [Rule(LOOK_UP_PSI)], "cap": [Rule(2.0), Rule(5.0, 0.5)]}
    rules = learn_rules(X, y, candidates, lambda X, y: ChainCRF(l2=0.5, classes=[0, 1, 2]).fit(X, y))
    assert set(rules) == {"look-up", "cap"}
    X_new, y_new = draw_words(9, 300, noise=0.6)
    crf = ChainCRF(l2=0.5).fit(X, y)
    for rule in rules.values():
        readings = read_words(crf, X_new, y_new, WORDS[:-1], rule)
        n_right = readings.right(rule).sum()
        assert 0.0 < rule.cap < np.inf
        assert n_right >= max(readings.known_right.sum(), readings.free_right.sum()) - 20


def test_folds_are_computed_once_and_resumed(tmp_path):
    calls = []

    def compute(i):
        calls.append(i)
        return np.full((2, 2), float(i)), {"fold": i}

    checkpoint = tmp_path / "checkpoint.npz"
    folds = FoldResults(compute)
    folds.run(2, checkpoint)
    counts, settings = FoldResults(compute).run(3, checkpoint)
    assert calls == [0, 1, 2]
    assert counts[:, 0, 0].tolist() == [0.0, 1.0, 2.0]
    assert settings == [{"fold": 0}, {"fold": 1}, {"fold": 2}]
