"""Strengths of energies are learned on held-out sequences; energies that do not help end at 0."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import ChainCRF
from intarsia.energies import Count, DistanceToSet, Hinge, MeasuredEnergy, Squared, at_most_one, exactly_one
from intarsia.exceptions import InvalidInputError
from intarsia.learning import DoubleLoop
from intarsia.sequences.chain_learner import CHAIN_LEARNERS, MIN_HELD_OUT, hold_out_folds, prepare_fit


def names(n, seed=0, noise=0.8, repeats=0.0):
    """Return sequences with one title, or two in a fraction `repeats`, shown by noisy features."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.zeros(int(rng.integers(3, 8)), dtype=bool)
        labels[rng.choice(labels.size, 2 if rng.random() < repeats else 1, replace=False)] = True
        X.append(np.column_stack([labels + rng.normal(0, noise, labels.size), np.ones(labels.size)]))
        y.append(np.where(labels, "B-title", "O").tolist())
    return X, y


def loss(crf, X, y):
    return -crf.sequence_log_probability(X, y).mean()


def test_useful_energies_are_learned_and_useless_ones_end_at_exactly_0():
    X, y = names(80)
    new, truth = names(300, seed=1)
    never = MeasuredEnergy(Count("O"), Hinge(100.0), title="few O")
    wrong = MeasuredEnergy(Count("B-title"), Squared(2.0), psi=3.0, title="two titles")
    crf = ChainCRF(l2=0.1, energies=[exactly_one("title"), never, wrong]).fit(X, y)
    plain = ChainCRF(l2=0.1).fit(X, y)
    table = crf.strengths_
    assert [row.name for row in table] == ["exactly_one('title')", "few O", "two titles"]
    assert table[0].strength > 0.5
    assert table[0].note == "learned"
    assert table[0].violated_after < table[0].violated_before
    assert table[0].gain > 1.0
    assert [row.strength for row in table[1:]] == [0.0, 0.0]
    assert table[1].note == "0: never violated"
    np.testing.assert_array_equal(crf.strengths(new)[:, 1:], 0.0)
    np.testing.assert_array_equal(crf.weights_, plain.weights_)  # refitted to all sequences
    assert loss(crf, new, truth) < loss(plain, new, truth)
    assert table.n_held_out == 80
    assert "exactly_one('title')" in repr(table)


def test_strengths_are_learned_from_scores_of_models_that_have_not_seen_the_sequences():
    """The fold weights are those of a fit without the fold, and every labelled sequence is in one fold."""
    X, y = names(23)
    y[4] = [None] * len(y[4])
    crf = ChainCRF(l2=0.3)
    prepared = prepare_fit(crf, X, y, None, None, None, None)
    folds = hold_out_folds(crf._resolve_learner(), prepared.examples, None, 0)
    assert len(folds) == 5
    np.testing.assert_array_equal(np.sort(np.concatenate([i for i, _ in folds])), np.delete(np.arange(23), 4))
    for indices, weights in folds:
        rest = np.setdiff1d(np.arange(23), indices)
        alone = ChainCRF(l2=0.3, classes=["B-title", "O"]).fit([X[i] for i in rest], [y[i] for i in rest])
        np.testing.assert_allclose(weights, alone.weights_, atol=1e-3)


def test_large_data_need_one_fold_only():
    X, y = names(5 * MIN_HELD_OUT)
    crf = ChainCRF(l2=0.3)
    learner = CHAIN_LEARNERS.resolve("averaged_perceptron", {"max_iter": 1})
    folds = hold_out_folds(learner, prepare_fit(crf, X, y, None, None, None, None).examples, None, 0)
    assert [indices.size for indices, _ in folds] == [MIN_HELD_OUT]


def test_labels_that_energies_contradict_leave_the_plain_chain():
    X, y = names(60, repeats=0.5)
    new, _ = names(30, seed=1, repeats=0.5)
    no_title = MeasuredEnergy(Count("B-title"), Hinge(0.0), psi=5.0)
    crf = ChainCRF(l2=0.1, energies=[no_title]).fit(X, y)
    plain = ChainCRF(l2=0.1).fit(X, y)
    assert crf.strengths_[0].strength == 0.0
    for ours, theirs in zip(crf.predict_marginals(new), plain.predict_marginals(new), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_fixed_strength_is_one_argument():
    X, y = names(40)
    crf = ChainCRF(l2=0.1, energies=[at_most_one("title", strength=100.0), DistanceToSet([["O"]], strength=0.0)])
    crf.fit(X, y)
    np.testing.assert_array_equal(crf.strengths(X), np.tile([100.0, 0.0], (40, 1)))
    assert [row.note for row in crf.strengths_] == ["fixed", "fixed"]
    mixed = ChainCRF(l2=0.1, energies=[2.0 * at_most_one("title", strength=50.0), exactly_one("title")]).fit(X, y)
    assert mixed.strengths_[0][:2] == ("at_most_one('title')", 100.0)
    assert mixed.strengths_[1].note != "fixed"
    with pytest.raises(InvalidInputError, match="MeasuredEnergy: strength must be"):
        ChainCRF(energies=[at_most_one("title", strength=-1.0)]).fit(X, y)


def test_changed_energies_are_refused_until_the_next_fit():
    X, y = names(30)
    crf = ChainCRF(l2=0.1, energies=[at_most_one("title")]).fit(X, y)
    crf.set_params(energies=[at_most_one("title", strength=5.0)])
    with pytest.raises(InvalidInputError, match="energies was changed after fit"):
        crf.predict(X)
    assert crf.fit(X, y, freeze_weights=True).strengths(X)[0, 0] == 5.0


def test_table_of_strengths_is_saved(tmp_path):
    X, y = names(60)
    crf = ChainCRF(l2=0.1, energies=[exactly_one("title"), at_most_one("title", strength=1.0)]).fit(X, y)
    crf.save(tmp_path / "model.npz")
    loaded = ChainCRF.load(tmp_path / "model.npz")
    assert list(loaded.strengths_) == list(crf.strengths_)
    np.testing.assert_array_equal(loaded.strengths(X), crf.strengths(X))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_sequences(n):
    X, y = names(n)
    crf = ChainCRF(l2=0.1, classes=["B-title", "O"], energies=[exactly_one("title")]).fit(X, y)
    assert len(crf.predict(X)) == n
    if n == 1:
        assert crf.strengths_[0].note == "0: no sequence to hold out"
    assert (crf.strengths(X) >= 0.0).all()


def test_the_seed_determines_the_result():
    X, y = names(60)
    tables = [
        list(ChainCRF(l2=0.1, energies=[exactly_one("title")], random_state=seed).fit(X, y).strengths_)
        for seed in (None, 0, 1)
    ]
    assert tables[0] == tables[1] != tables[2]


def test_the_prior_bounds_a_strength():
    X, y = names(60)
    weak, strong = (
        ChainCRF(l2=0.1, energies=[exactly_one("title")], energy_learner=DoubleLoop(l1=l1)).fit(X, y).strengths_[0]
        for l1 in (0.0, 2.0)
    )
    assert 0.0 <= strong.strength < weak.strength


def test_no_harm_over_splits():
    """Small version of the experiment `no-harm`: held-out loss over splits and energies of which some are useless."""
    gains = []
    for seed in range(8):
        X, y = names(40, seed=seed, repeats=0.1)
        new, truth = names(200, seed=100 + seed, repeats=0.1)
        plain = ChainCRF(l2=0.1).fit(X, y)
        crf = ChainCRF(l2=0.1, energies=[at_most_one("title"), exactly_one("title"), at_most_one("O")]).fit(X, y)
        gains.append(loss(plain, new, truth) - loss(crf, new, truth))
    assert np.mean(gains) > 0.0
    assert min(gains) > -0.01
