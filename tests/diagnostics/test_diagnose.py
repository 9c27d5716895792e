"""Planted failures are detected, compatible pairs fit, and a diagnosis is available as text, JSON and plot."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.learning.margin_sets import random_triangles

from intarsia import BeliefPropagation, GraphCRF, GridCRF, RiskMinimizer, diagnose
from intarsia.crf import Factors, GraphInstance
from intarsia.datasets.counterexamples import diamond_examples, triangle_examples
from intarsia.diagnostics import diagnose_examples
from intarsia.diagnostics.held_out import difference_of_errors, make_folds, most_frequent, wrong_by_majority
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.learning.margin_example import MarginExample
from intarsia.report.diagnosis_plots import plot_diagnosis
from intarsia.sequences import ChainCRF

PARALLEL = BeliefPropagation(schedule="parallel")


def test_planted_failure_is_detected():
    found = diagnose_examples(diamond_examples(), "structured_perceptron", PARALLEL)
    assert found.verdict == "fails"
    assert found.check("learning curve").values["misled"] > 0
    assert found.check("along the update").values["behind"] == 0.0  # w* = (1, -1) lies behind
    assert found.check("separability").values["exact"] is True
    assert any("lp_relaxation" in reason for reason in found.reasons)


@pytest.mark.parametrize("inference", ["lp_relaxation", "brute_force"])
def test_compatible_pairs_fit_the_diamond(inference):
    found = diagnose_examples(diamond_examples() * 5, "structured_perceptron", inference)
    assert found.verdict == "fits"
    assert found.check("learning curve").values["misled"] == 0


def test_triangle_fits_exact_inference_and_fails_relaxed_inference():
    assert diagnose_examples(triangle_examples() * 5, inference="brute_force").verdict == "fits"
    relaxed = diagnose_examples(triangle_examples(), inference="lp_relaxation")
    assert relaxed.verdict == "fails"
    assert relaxed.check("separability").verdict == "bad"
    assert "exact" in relaxed.reasons[0]


@pytest.mark.parametrize("learner", ["structured_perceptron", "structured_svm"])
def test_noisy_data_do_not_fail_a_compatible_pair(learner):
    found = diagnose_examples(random_triangles(n=8, noise=0.4), learner, "lp_relaxation", n_passes=8)
    assert found.verdict == "uncertain" or found.reasons[0].startswith("held-out error")
    assert "works no better than guessing the most frequent label" in found.check("held-out error").text


def test_uncertain_where_theory_warns_and_the_sample_is_harmless():
    found = diagnose_examples(
        diamond_examples(), "structured_perceptron", "belief_propagation"
    )  # sequential updates do not flip the labels
    assert found.verdict == "uncertain"
    assert found.check("theory").values["level"] == "known to fail"


def test_estimators_that_learn_through_marginals():
    y = [np.repeat([[0, 0, 1, 1]], 3, axis=0), np.repeat([[0, 1, 1, 1]], 3, axis=0)]
    X = [labels[..., None] - 0.5 for labels in y]
    crf = GridCRF()
    found = diagnose(crf, X * 5, y * 5, n_passes=5)
    assert found.verdict == "fits"
    assert found.check("agreement with exact marginals").values["mean error"] < 0.5
    assert not hasattr(crf, "weights_")


def labelled_rings(n, seed, kind="good"):
    """Rings of ten nodes in which neighbours agree, with one noisy feature and a constant."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.repeat((rng.random(5) < 0.4).astype(int), 2)
        features = np.column_stack([labels - 0.5 + 0.5 * rng.normal(size=10), np.ones(10)])
        if kind == "constant features":
            features[:, 0] = 1.0
        X.append((features, [[i, (i + 1) % 10] for i in range(10)]))
        y.append(rng.permutation(labels) if kind == "shuffled labels" else labels)
    return X, y


PAIRS = [
    GraphCRF(learner=RiskMinimizer(l2=0.1)),
    GraphCRF(learner="structured_svm", inference="lp_relaxation"),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("crf", PAIRS)
def test_what_is_learned_fits(crf, seed):
    found = diagnose(crf, *labelled_rings(20, seed))
    assert found.verdict == "fits"
    values = found.check("held-out error").values
    assert values["model"] < values["majority"]
    assert values["minus majority, high"] < 0.0


# The best labelling does not depend on the length of the weights, so that l2 does not spoil a margin learner.
SPOILED = [
    *((crf, kind) for crf in PAIRS for kind in ("shuffled labels", "constant features")),
    (GraphCRF(learner=RiskMinimizer(l2=1e8)), "l2"),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("crf", "kind"), SPOILED)
def test_what_is_no_better_than_the_majority_does_not_fit(crf, kind, seed):
    found = diagnose(crf, *labelled_rings(20, seed, kind))
    assert found.verdict == ("uncertain" if kind == "shuffled labels" and "as far as" in found.reasons[0] else "fails")
    if kind == "l2":  # tiny weights may still be better than the majority, but the independent model is better
        assert found.check("held-out error").values["minus independent, low"] > 0.0
    else:
        assert "works no better than guessing the most frequent label" in found.reasons[0]


def test_a_single_example_cannot_be_held_out():
    found = diagnose(PAIRS[0], *labelled_rings(1, 0))
    assert found.verdict == "uncertain"
    assert "single labelled example" in found.reasons[0]


def test_held_out_errors_are_those_of_separate_fits():
    """The majority and the independent model by hand and by scikit-learn, on the folds of the check."""
    X, y = labelled_rings(12, 4)
    found = diagnose(PAIRS[0], X, y, random_state=3).check("held-out error")
    folds = make_folds(len(X), 3)
    assert np.concatenate([test for _, test in folds]).size == len(X)
    for train, test in folds:
        assert not set(train) & set(test)
        labels = np.concatenate([y[i] for i in train])
        majority = np.bincount(labels).argmax()
        regression = LogisticRegression(C=10.0, fit_intercept=False).fit(
            np.concatenate([X[i][0] for i in train]), labels
        )
        for i in test:
            assert found.arrays["majority"][i] == (y[i] != majority).sum()
            assert abs(found.arrays["independent"][i] - (regression.predict(X[i][0]) != y[i]).sum()) <= 1
            assert found.arrays["labelled"][i] == 10


def test_interval_of_differences_covers_the_truth():
    """Of 95 % intervals for 12 examples with 20 dependent labels each, about 95 % contain the true difference."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(2000):
        rates = np.clip(rng.normal(0.3, 0.1, size=12), 0.0, 1.0)
        first, second = rng.binomial(20, rates), rng.binomial(20, np.clip(rates + 0.1, 0.0, 1.0))
        _, low, high = difference_of_errors(first, second, np.full(12, 20.0))
        inside += low <= -0.1 <= high
    assert 0.93 < inside / 2000 < 0.97


def test_majority_is_that_of_each_type():
    graph = GraphInstance(
        {"a": np.ones((3, 1)), "b": np.ones((2, 1))}, factors={"ab": Factors([[0, 0]], types=("a", "b"))}
    )
    crf = GraphCRF(classes={"a": [0, 1], "b": [0, 1]})
    items = [
        MarginExample(example)
        for example in crf.examples([graph] * 2, [{"a": [1, 1, 0], "b": [0, 0]}, {"a": [1, -1, -1], "b": [0, 1]}])
    ]
    labels = most_frequent(items)
    assert sorted(labels.values()) == [0, 1]
    assert [wrong_by_majority(item, labels) for item in items] == [1.0, 1.0]


def test_diagnosis_as_json_text_and_plot(tmp_path):
    found = diagnose_examples(diamond_examples(), "structured_perceptron", PARALLEL, n_passes=4)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert {"verdict", "reasons", "checks"} <= set(document)
    assert [one["name"] for one in document["checks"]][:2] == ["theory", "learning curve"]
    assert str(found).splitlines()[0].endswith("fails.")
    figure = plot_diagnosis(found)
    assert "fails" in figure.get_suptitle()
    assert len(figure.axes[1].lines) == 2


def test_invalid_arguments_raise():
    with pytest.raises(NotSupportedError, match="ChainCRF without energies infers exactly"):
        diagnose(ChainCRF(), [[["a"]]], [["x"]])
    with pytest.raises(InvalidInputError, match="n_passes"):
        diagnose_examples(diamond_examples(), n_passes=0)
    with pytest.raises(NotSupportedError, match="Gibbs does not compute"):
        diagnose_examples(diamond_examples(), inference="gibbs")
