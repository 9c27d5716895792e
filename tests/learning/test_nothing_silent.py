"""Input and settings that are ambiguous raise an error or have an effect, instead of being misread silently."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from intarsia import BetheRDA, ChainCRF, GraphCRF, GridCRF, RiskMinimizer
from intarsia.energies import Count, MeasuredEnergy, Squared, at_most_one
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.gradients import TruncatedGradient
from intarsia.learning import DoublyStochastic

QUICK = RiskMinimizer(l2=1.0, gradient=TruncatedGradient(n_iter=2))
X = [[["sun"], ["rain", "wet"], ["rain"]], [["rain"], ["sun"]], [["sun"], ["sun"], ["rain"]]] * 3
Y = [["good", "bad", "bad"], ["bad", "good"], ["good", "good", "bad"]] * 3


# ---------------------------------------------------------------- score


def images(rng):
    y = [rng.integers(2, size=(3, 3)) for _ in range(4)]
    return [labels[..., None] - 0.5 + rng.normal(0, 0.1, (3, 3, 1)) for labels in y], y


def graphs(rng):
    y = [rng.integers(2, size=4) for _ in range(4)]
    return [(labels[:, None] - 0.5 + rng.normal(0, 0.1, (4, 1)), [[0, 1], [1, 2], [2, 3]]) for labels in y], y


def fitted(kind):
    """A fitted model, its data, and a label that it has not seen."""
    rng = np.random.default_rng(0)
    if kind == "chain":
        return ChainCRF().fit(X, Y), X, [np.array(labels, dtype=object) for labels in Y], "ugly"
    made = images(rng) if kind == "grid" else graphs(rng)
    model = (GridCRF if kind == "grid" else GraphCRF)(learner=QUICK).fit(*made)
    return model, *made, 7


@pytest.mark.parametrize("kind", ["chain", "grid", "graph"])
def test_a_label_not_seen_in_fit_counts_as_wrong(kind):
    model, data, y, unseen = fitted(kind)
    changed = [np.array(labels) for labels in y]
    changed[0].reshape(-1)[0] = unseen
    predicted = model.predict(data)
    right = sum(int((one == labels).sum()) for one, labels in zip(predicted, changed, strict=True))
    total = sum(labels.size for labels in changed)
    assert model.score(data, changed) == pytest.approx(right / total, abs=1e-12)
    assert model.score(data, changed) == pytest.approx(model.score(data, y) - 1.0 / total, abs=1e-12)


def test_a_set_with_one_unseen_label_is_wrong_and_one_of_several_is_not_counted():
    crf = ChainCRF().fit(X, Y)
    data = [X[0]]
    assert crf.score(data, [["good", "bad", frozenset({"ugly"})]]) == pytest.approx(2 / 3)
    assert crf.score(data, [["good", "bad", frozenset({"ugly", "bad"})]]) == 1.0
    assert crf.score(data, [["ugly", None, None]]) == 0.0


def test_labels_of_another_kind_are_still_refused_in_score():
    with pytest.raises(InvalidInputError, match=r"y\[0\]\[0\] is 0, but the classes are \['bad', 'good'\]"):
        ChainCRF().fit(X, Y).score(X[:1], [[0, 1, 1]])


def test_cross_validation_with_a_rare_label():
    y = [list(labels) for labels in Y]
    y[0][0] = "rare"  # in one fold only
    scores = cross_val_score(ChainCRF(), X, y, cv=3)
    assert np.isfinite(scores).all()
    search = GridSearchCV(ChainCRF(), {"min_count": [1000, 1]}, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_ == {"min_count": 1}  # rather than the first candidate, which has no features


# ---------------------------------------------------------------- labels and sequences


BAD_LABELS = {
    "NaN": (["good", float("nan"), "bad"], r"ChainCRF.fit: y\[0\]\[1\] is NaN"),
    "mixed": (["good", 3, "bad"], r"y\[0\]\[1\] is 3, an integer, but y\[0\]\[0\] is 'good', a string"),
    "mixed sequences": ([1, 0, 0], r"y\[1\]\[0\] is 'bad', a string, but y\[0\]\[0\] is 1, an integer"),
}


@pytest.mark.parametrize("name", list(BAD_LABELS))
def test_labels_that_numpy_would_make_alike_are_refused(name):
    first, message = BAD_LABELS[name]
    with pytest.raises(InvalidInputError, match=message):
        ChainCRF().fit(X, [first, *Y[1:]])


def test_one_sequence_in_the_place_of_many_is_refused(tmp_path):
    crf = ChainCRF().fit(X, Y)
    crf.save(tmp_path / "crf.npz")
    for model in (crf, ChainCRF.load(tmp_path / "crf.npz")):
        for call in (model.predict, model.predict_marginals, lambda one, crf=model: crf.score(one, [["good", "bad"]])):
            with pytest.raises(InvalidInputError, match=r"X\[0\]\[0\] is the string 'sun'.* pass \[X\]"):
                call([["sun"], ["rain", "wet"]])
        assert model.predict([[["sun"], ["rain", "wet"]]])[0].tolist() == ["good", "bad"]
    with pytest.raises(InvalidInputError, match=r"If X is a single sequence, pass \[X\]\."):
        ChainCRF().fit(X[0], [Y[0]])
    with pytest.raises(InvalidInputError, match=r"If X is a single sequence, pass \[X\] and \[y\]\."):
        ChainCRF().fit(X[0], Y[0])


def test_tokens_may_be_plain_strings():
    words = [[token[0] for token in sequence] for sequence in X]
    crf = ChainCRF().fit(words, Y)
    assert [one.tolist() for one in crf.predict(words)] == Y
    assert crf.predict([[["sun"], ["rain"]]])[0].tolist() == ["good", "bad"]  # equivalent to a list of one feature
    assert ChainCRF().fit(X, Y).predict([[], []])[0].size == 0


# ---------------------------------------------------------------- settings changed after the fit


def energetic_chain(**more):
    few = DoublyStochastic(max_iter=1)
    return ChainCRF(energies=at_most_one("bad"), energy_learner=few, **more).fit(X, Y)


CHANGES = {
    "added": (lambda: ChainCRF().fit(X, Y), {"energies": [at_most_one("bad")]}, "energies"),
    "other": (energetic_chain, {"energies": [at_most_one("good")]}, "energies"),
    "taken away": (energetic_chain, {"energies": None}, "energies"),
    "in place": (energetic_chain, {"energies__psi": 5.0}, "energies"),
    "psi": (energetic_chain, {"psi": "linear"}, "psi"),
    "forbidden": (lambda: ChainCRF().fit(X, Y), {"forbidden": [("good", "bad")]}, "forbidden"),
    "scheme": (lambda: ChainCRF().fit(X, Y), {"scheme": "bio"}, "scheme"),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_settings_of_the_model_that_change_after_fit_are_refused(name):
    make, change, setting = CHANGES[name]
    crf = make()
    before = {key: copy.deepcopy(value) for key, value in crf.get_params(deep=False).items()}
    crf.set_params(**change)
    for call in (crf.predict, crf.predict_marginals, crf.sample, lambda data: crf.score(data, Y)):
        with pytest.raises(InvalidInputError, match=rf"ChainCRF\.\w+: {setting} was changed after fit"):
            call(X)
    crf.set_params(**before).predict(X)  # unchanged


def test_energies_of_a_graph_that_change_after_fit_are_refused():
    data, y = graphs(np.random.default_rng(0))
    crf = GraphCRF(learner=QUICK).fit(data, y)
    crf.set_params(energies=MeasuredEnergy(Count(1), Squared(2.0)))
    with pytest.raises(
        InvalidInputError, match=r"GraphCRF.predict: energies was changed after fit.*freeze_weights=True"
    ):
        crf.predict(data)
    assert crf.fit(data, y, freeze_weights=True).predict(data)[0].shape == (4,)


def test_copies_are_not_taken_for_changes():
    crf = energetic_chain()
    for model in (copy.deepcopy(crf), pickle.loads(pickle.dumps(crf))):
        np.testing.assert_array_equal(np.concatenate(model.predict(X)), np.concatenate(crf.predict(X)))


def test_a_change_of_scheme_is_used_by_a_warm_start():
    tags = [["B-x", "I-x"], ["O", "B-x"], ["O", "I-x"]]
    tokens = [[["a"], ["b"]], [["c"], ["a"]], [["c"], ["b"]]]
    crf = ChainCRF(warm_start=True).fit(tokens, tags)
    crf.set_params(scheme="bio").fit(tokens[:2], tags[:2])
    assert crf.constraints_.any


@pytest.mark.parametrize("kind", ["chain", "graph"])
def test_inference_that_changes_after_fit_is_used(kind):
    one = MeasuredEnergy(Count("bad" if kind == "chain" else 1), Squared(1.0), strength=3.0)
    if kind == "chain":
        data = X
        crf = ChainCRF(energies=one, projection=BetheRDA(max_iter=2000), energy_learner=DoublyStochastic(max_iter=0))
        crf.fit(X, Y)
    else:
        data, y = graphs(np.random.default_rng(0))
        crf = GraphCRF(learner=QUICK, energies=one, energy_learner=None, projection=BetheRDA(max_iter=2000)).fit(
            data, y
        )
    far = np.concatenate(crf.predict_marginals(data))
    crf.set_params(projection=BetheRDA(max_iter=1))
    with pytest.warns(ConvergenceWarning) as caught:
        near = np.concatenate(crf.predict_marginals(data))
    assert np.abs(near - far).max() > 1e-3
    message = str(caught[0].message)
    n = len(data)
    assert f"of {n} {'sequences' if kind == 'chain' else 'graphs'}" in message
    assert "against tol=0.001 after 1 iterations" in message
    assert "projection=BetheRDA(max_iter=10)" in message
    assert len(caught) == 1
