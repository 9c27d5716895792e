"""Choice of l2: scores against separate fits of every fold, the rules of choice, and `ChainCRF(l2="auto")`."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import KFold

from intarsia import load
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.learning import LBFGS
from intarsia.metrics import segment_scores
from intarsia.sequences import ChainCRF, L2Path, MaximumLikelihood, choose_l2
from intarsia.sequences import regularization_path as module


def noisy_tags(n=40, seed=0):
    """Sequences in which the word shows the tag, with rare words and some wrong tags."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = rng.integers(3, size=rng.integers(2, 7))
        words = [f"{tag}{rng.zipf(1.5) % 50}" for tag in tags]
        tags = np.where(rng.random(tags.size) < 0.1, rng.integers(3, size=tags.size), tags)
        X.append([[f"w={word}", f"first={word[0]}"] for word in words])
        y.append([["O", "B-A", "I-A"][tag] for tag in tags])
    return X, y


X, Y = noisy_tags()
FOLDS = [(np.arange(20, 40), np.arange(20)), (np.arange(20), np.arange(20, 40))]
VALUES = [10.0, 1.0, 0.1]


def separate_fit(l2, train, **settings):
    learner = MaximumLikelihood(optimizer=LBFGS(tol=1e-8))
    return ChainCRF(l2=l2, learner=learner, **settings).fit([X[i] for i in train], [Y[i] for i in train])


@pytest.mark.parametrize("weights", ["auto", "all"])
def test_scores_are_those_of_separate_fits(weights, monkeypatch):
    """The oracle fits every fold from the raw sequences alone, from zero, and knows nothing of the other folds."""
    monkeypatch.setattr(module, "PATH_TOL", 1e-8)
    monkeypatch.setattr(module, "PATIENCE", 10)
    learner = MaximumLikelihood(optimizer=LBFGS(tol=1e-8))
    estimator = ChainCRF(learner=learner, weights=weights, classes=["B-A", "I-A", "O"])
    path = choose_l2(estimator, X, Y, l2_values=VALUES, cv=FOLDS, refit=False)
    assert path.model is None
    assert path.values.tolist() == VALUES
    for row, l2 in zip(path.scores, VALUES, strict=True):
        for score, (train, test) in zip(row, FOLDS, strict=True):
            crf = separate_fit(l2, train, weights=weights, classes=["B-A", "I-A", "O"])
            held_out = [X[i] for i in test], [Y[i] for i in test]
            expected = crf.sequence_log_probability(*held_out).sum() / sum(map(len, held_out[1]))
            # With all pairs, features of the held-out part have weights that stay 0.
            assert score == pytest.approx(expected, abs=1e-5)
    assert path.l2 == VALUES[int(path.mean.argmax())]


@pytest.mark.parametrize("scoring", ["segment_f1", "accuracy", "function"])
def test_scores_of_labels(scoring, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 10)

    def accuracy(y_true, y_pred):
        return float(np.mean([a == b for t, p in zip(y_true, y_pred, strict=True) for a, b in zip(t, p, strict=True)]))

    def f1(y_true, y_pred):
        return segment_scores(y_true, y_pred).f1

    metric = f1 if scoring == "segment_f1" else accuracy
    path = choose_l2(
        ChainCRF(), X, Y, l2_values=VALUES, cv=FOLDS, scoring=metric if scoring == "function" else scoring, refit=False
    )
    for row, l2 in zip(path.scores, VALUES, strict=True):
        for score, (train, test) in zip(row, FOLDS, strict=True):
            predicted = separate_fit(l2, train).predict([X[i] for i in test])
            assert score == pytest.approx(metric([Y[i] for i in test], predicted), abs=0.03)
    assert path.l2 == VALUES[int(path.mean.argmax())]


def test_refit_is_a_fit_with_the_chosen_value():
    estimator = ChainCRF(min_count=2)
    path = choose_l2(estimator, X, Y, cv=3)
    np.testing.assert_array_equal(path.model.weights_, ChainCRF(min_count=2, l2=path.l2).fit(X, Y).weights_)
    assert estimator.l2 is None
    assert not hasattr(estimator, "weights_")


def test_path_ends_where_weaker_values_do_not_help():
    path = choose_l2(ChainCRF(), X, Y, cv=KFold(4), refit=False)
    best = int(path.mean.argmax())
    assert 0 < best < len(module.DEFAULT_VALUES) - 3
    assert len(path.values) == best + 1 + module.PATIENCE
    assert (path.mean[best + 1 :] < path.mean[best]).all()


def test_one_standard_error_chooses_the_strongest_value_that_is_close():
    # Means -4, -2.1, -2, -3; the standard error of the best is 0.5.
    scores = np.array([[-4.0, -4.0], [-2.1, -2.1], [-1.5, -2.5], [-3.0, -3.0]])
    path = L2Path(0.0, np.array([8.0, 4.0, 2.0, 1.0]), scores, "log_likelihood")
    np.testing.assert_allclose(path.standard_error, [0, 0, 0.5, 0])
    assert module._choice(path, "best") == 2.0
    assert module._choice(path, "one_standard_error") == 4.0
    strong = choose_l2(ChainCRF(), X, Y, cv=4, rule="one_standard_error", refit=False)
    assert strong.l2 >= choose_l2(ChainCRF(), X, Y, cv=4, refit=False).l2


def test_auto_in_fit(tmp_path):
    crf = ChainCRF(l2="auto", random_state=0).fit(X, Y)
    path = choose_l2(ChainCRF(), X, Y)
    assert crf.l2_ == path.l2 == crf.l2_path_.l2
    np.testing.assert_array_equal(crf.l2_path_.scores, path.scores)
    np.testing.assert_array_equal(crf.weights_, path.model.weights_)
    assert set(crf.l2_path_.table) == {"l2", "mean", "standard_error"}
    assert "chosen" in str(crf.l2_path_)
    crf.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert (again.l2, again.l2_) == ("auto", crf.l2_)
    np.testing.assert_array_equal(again.l2_path_.scores, crf.l2_path_.scores)
    plain = ChainCRF(l2=0.5).fit(X, Y)
    assert (plain.l2_, plain.l2_path_) == (0.5, None)
    plain.save(tmp_path / "plain.npz")
    assert load(tmp_path / "plain.npz").l2_path_ is None
    assert ChainCRF(learner="averaged_perceptron").fit(X, Y).l2_ is None


def test_auto_through_the_learner_with_hidden_labels_and_l1():
    hidden = [[None if i % 7 == 3 else tag for i, tag in enumerate(tags)] for tags in Y]
    crf = ChainCRF(learner=MaximumLikelihood(l2="auto", l1=0.05)).fit(X, hidden)
    assert crf.l2_ == crf.l2_path_.l2 > 0
    assert np.count_nonzero(crf.weights_) < crf.weights_.size


def test_empty_sequences_and_few_sequences():
    assert ChainCRF(l2="auto").fit([*X, []], [*Y, []]).l2_ == ChainCRF(l2="auto").fit(X, Y).l2_
    assert ChainCRF(l2="auto").fit(X[:3], Y[:3]).l2_path_.scores.shape[1] == 3
    folds = [(np.array([0, 1, 2]), np.array([3, 4]))]
    path = choose_l2(ChainCRF(), [[], *X], [[], *Y], cv=folds, refit=False)
    assert path.scores.shape[1] == 1


def test_warm_start_and_frozen_weights_keep_the_path():
    from intarsia.energies import at_most_one

    crf = ChainCRF(l2="auto", energies=[at_most_one("B-A")]).fit(X, Y)
    path, weights = crf.l2_path_, crf.weights_
    crf.fit(X, Y, freeze_weights=True)
    assert crf.l2_path_ is path
    np.testing.assert_array_equal(crf.weights_, weights)
    warm = ChainCRF(l2="auto", warm_start=True).fit(X, Y)
    assert warm.fit(X[:20], Y[:20]).l2_path_.scores.shape[1] == 5


def test_invalid_arguments_are_refused():
    crf = ChainCRF()
    cases = [
        ({"l2_values": []}, "l2_values has shape"),
        ({"l2_values": [1.0, 0.0]}, r"l2_values\[1\] must be a number in \(0, inf\)"),
        ({"l2_values": ["a"]}, "l2_values"),
        ({"cv": 1}, r"cv must be an integer in \[2, inf\]"),
        ({"cv": "five"}, "cv is of type str"),
        ({"cv": []}, "cv has no fold"),
        ({"cv": [([0, 1], [99])]}, "fold 0 of cv is not a pair of indices"),
        ({"cv": np.zeros(3)}, "fold 0 of cv is not a pair of indices"),
        ({"cv": [([], [1])]}, "training sequences of fold 0 have no label"),
        ({"scoring": "f2"}, "scoring"),
        ({"scoring": lambda true, pred: np.nan}, "scoring returned nan"),
        ({"rule": "worst"}, "rule"),
    ]
    for arguments, message in cases:
        with pytest.raises(InvalidInputError, match=message) as error:
            choose_l2(crf, X, Y, **arguments)
        assert str(error.value).startswith("choose_l2: ")
    with pytest.raises(InvalidInputError, match=r"^ChainCRF.fit: l2 cannot be chosen from a single sequence"):
        ChainCRF(l2="auto").fit(X[:1], Y[:1])
    with pytest.raises(NotSupportedError, match="AveragedPerceptron has no L2 regularization"):
        choose_l2(ChainCRF(learner="averaged_perceptron"), X, Y)
    with pytest.raises(
        InvalidInputError,
        match=r"^ChainCRF.fit: MaximumLikelihood: l2 must be a number in \[0, inf\) or 'auto', got 'automatic'",
    ):
        ChainCRF(l2="automatic").fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"l2='auto' needs ChainCRF\.fit"):
        ChainCRF(l2="auto", learner=MaximumLikelihood(optimizer="adam")).partial_fit(X, Y, ["B-A", "I-A", "O"])


_THREADS_DURING_A_PATH = """
import numpy as np
from threadpoolctl import threadpool_info

from intarsia.sequences import ChainCRF, regularization_path

def score(*args, original=regularization_path._score):
    print(args[2].size, *(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"))
    return original(*args)

regularization_path._score = score
rng = np.random.default_rng(0)
X = [[[f"word={rng.integers(30_000)}", f"next={rng.integers(30_000)}"] for _ in range(10)] for _ in range(2000)]
y = [["abcd"[int(token[0][-1]) % 4] for token in x] for x in X]
regularization_path.choose_l2(ChainCRF(), X, y, l2_values=[10.0, 1.0], cv=2, refit=False)
"""


def test_linear_algebra_has_one_thread_along_the_path_also_with_many_weights():
    """Threads that wait for each other took ten times as long as the fit: SciPy's BLAS was loaded within the limit."""
    env = {**os.environ, "OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "4"}
    call = [sys.executable, "-c", _THREADS_DURING_A_PATH]
    run = subprocess.run(call, env=env, capture_output=True, text=True, check=True)
    lines = [list(map(int, line.split())) for line in run.stdout.splitlines()]
    assert len(lines) == 4
    for n_weights, *n_threads in lines:
        assert n_weights > 10_000
        assert set(n_threads) == {1}


@pytest.mark.parametrize("seed", range(3))
def test_work_of_a_path_is_bounded(seed, monkeypatch):
    n_evaluations = []

    def minimize(*args, original=LBFGS.minimize, **settings):
        minimum = original(*args, **settings)
        n_evaluations.append(minimum.history["evaluations"][-1])
        return minimum

    monkeypatch.setattr(LBFGS, "minimize", minimize)
    choose_l2(ChainCRF(), *noisy_tags(n=60, seed=seed), refit=False)
    assert max(n_evaluations) <= 60
    monkeypatch.setattr(module, "PATH_MAX_ITER", 3)
    with pytest.warns(ConvergenceWarning, match="fits along the path of l2 ended at the limit of 3 iterations"):
        choose_l2(ChainCRF(), *noisy_tags(n=60, seed=seed), refit=False)
