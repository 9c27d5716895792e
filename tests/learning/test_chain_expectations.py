"""Expectations on chains against enumeration and finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intarsia.learning.expectations import (
    LabelExpectation,
    MeasuredExpectation,
    label_count,
    label_given,
    label_proportion,
)
from intarsia.learning.expectations.generalized_expectation import GeneralizedExpectationRisk, bind_expectations
from intarsia.sequences import ChainCRF
from intarsia.sequences.chain_learner import prepare_fit
from intarsia.sequences.expectation_fit import ChainCorpus

LABELS = ["A", "B", "C"]


def tiny_corpus(seed=0, *, labelled=False, edges=False, forbidden=None):
    """Return three short sequences as a corpus, its prepared input and random weights."""
    rng = np.random.default_rng(seed)
    lengths = [3, 2, 1]
    X = [[[f"w{rng.integers(3)}"] for _ in range(n)] for n in lengths]
    X[0][0] = ["w0"]
    y = [[None] * n for n in lengths]
    if labelled:
        y[0][1], y[1][0] = "B", "C"
    crf = ChainCRF(classes=LABELS, forbidden=forbidden)
    edge_features = [rng.normal(size=(n - 1, 2)) for n in lengths] if edges else None
    weight = np.array([1.0, 2.0, 0.5])
    inputs = prepare_fit(crf, X, y, edge_features, weight, LABELS, None, every_pair=True, expected_labels=LABELS)
    corpus = ChainCorpus(inputs)
    return corpus, inputs, rng.normal(size=corpus.n_weights)


def enumerate_corpus(inputs, weights):
    """Return for each sequence: allowed labellings as node indicators (m, T * k), their scores and their weight."""
    from intarsia.inference.chains.chain_inference import path_scores
    from intarsia.sequences.chain_data import ChainScores

    examples = inputs.examples
    scores = ChainScores(examples.data, examples.layout, examples.constraints)
    possible = examples.truth.possible(3)
    sequences = []
    for s in range(len(examples)):
        batch = scores.batch(weights, s, s + 1)
        first, last = examples.data.ptr[s], examples.data.ptr[s + 1]
        paths = np.array(list(itertools.product(range(3), repeat=int(last - first))))
        values = np.array([path_scores(batch, path)[0] for path in paths])
        agrees = np.array([possible[np.arange(first, last), path].all() for path in paths])
        indicators = np.eye(3)[paths].reshape(len(paths), -1)
        sequences.append((indicators, values, agrees, examples.truth.weight[s]))
    return sequences


def expectations():
    return [
        label_proportion({"A": 0.6, "B": 0.1}, strength=2.0),
        label_given("w0", {"C": 0.7}, distance="squared", strength=30.0),
        label_count("B", at_most=0.4, per_example=False, strength=1.5),
        label_count("A", at_least=0.5, per_example=True, strength=4.0),
    ]


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("edges", [False, True])
def test_moments_and_covariances_equal_enumeration(labelled, edges):
    corpus, inputs, weights = tiny_corpus(1, labelled=labelled, edges=edges)
    for clamped in (False, True):
        result = corpus.moments(weights, clamped=clamped)
        log_partition, marginals = 0.0, []
        for indicators, scores, agrees, weight in enumerate_corpus(inputs, weights):
            possible = np.where(agrees | (not clamped), scores, -np.inf)
            log_z = np.logaddexp.reduce(possible)
            log_partition += weight * log_z
            marginals.append(np.exp(possible - log_z) @ indicators)
        assert result.log_partition == pytest.approx(log_partition, rel=1e-12)
        np.testing.assert_allclose(result.marginals, np.concatenate(marginals), atol=1e-12)
    # The covariances are the derivatives in the weights of the weighted sum of the probabilities.
    direction = np.random.default_rng(2).normal(size=corpus.positions.n_states)
    scaled = np.repeat(corpus.positions.weight[corpus.positions.example], 3) * direction
    h = 1e-5
    numeric = [
        scaled @ (corpus.moments(weights + h * unit).marginals - corpus.moments(weights - h * unit).marginals) / (2 * h)
        for unit in np.eye(weights.size)
    ]
    np.testing.assert_allclose(corpus.covariance(weights, direction), numeric, atol=1e-8)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("edges", [False, True])
def test_gradient_of_generalized_expectation_equals_finite_differences(labelled, edges):
    corpus, _, weights = tiny_corpus(3, labelled=labelled, edges=edges)
    risk = GeneralizedExpectationRisk(corpus, bind_expectations(expectations(), corpus.positions), 0.3)
    gradient = risk(weights)[1]
    h = 1e-6
    numeric = [(risk(weights + h * unit)[0] - risk(weights - h * unit)[0]) / (2 * h) for unit in np.eye(weights.size)]
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)


def easy_data(seed=0, n=30):
    rng = np.random.default_rng(seed)
    y = [rng.choice(["NAME", "O"], int(rng.integers(2, 8)), p=[0.3, 0.7]).tolist() for _ in range(n)]
    X = [[[f"{label}{rng.integers(3)}", f"noise{rng.integers(2)}"] for label in labels] for labels in y]
    return X, y


def test_a_labelled_word_spreads_to_words_in_its_company():
    X, y = easy_data()
    X = [
        [[*features, f"{label}-shape"] for features, label in zip(*pair, strict=True)]
        for pair in zip(X, y, strict=True)
    ]
    words = [label_given("NAME0", {"NAME": 0.95}), label_given("O0", {"O": 0.95})]
    crf = ChainCRF(l2=0.1).fit(X, expectations=words)
    assert crf.classes_.tolist() == ["NAME", "O"]
    assert np.mean(np.concatenate(crf.predict(X)) == np.concatenate(y)) > 0.95
    for row in crf.expectations_[:2]:
        assert row.model == pytest.approx(row.low, abs=0.15)


def test_proportions_of_bags_identify_the_labels():
    X, y = easy_data(1, 40)
    bags = [
        label_proportion({"NAME": float(np.mean([label == "NAME" for i in bag for label in y[i]]))}, examples=bag)
        for bag in (list(range(k, k + 4)) for k in range(0, 40, 4))
    ]
    crf = ChainCRF(l2=0.05, classes=["NAME", "O"])
    crf.fit(X, expectations=[*bags, label_given("NAME1", {"NAME": 0.9})])
    assert np.mean(np.concatenate(crf.predict(X)) == np.concatenate(y)) > 0.9


def test_user_measurement_reaches_its_target():
    X, _ = easy_data(3, 5)
    coefficients = [np.tile([1.0, 0.0], (len(sequence), 1)) for sequence in X]
    length = MeasuredExpectation(coefficients, 4.0, strength=1e6, name="names")
    crf = ChainCRF(classes=["NAME", "O"]).fit(X, expectations=[length])
    assert crf.expectations_[0].model == pytest.approx(4.0, abs=1e-3)


def test_sample_weight_equals_repetition():
    X, y = easy_data(4, 6)
    words = [label_given("NAME0", {"NAME": 0.9}), label_proportion({"NAME": 0.3}, distance="squared")]
    known = [y[0], *[None] * 5]
    weighted = ChainCRF(classes=["NAME", "O"]).fit(X, known, sample_weight=[2, 1, 1, 1, 1, 1], expectations=words)
    repeated = ChainCRF(classes=["NAME", "O"]).fit([X[0], *X], [y[0], *known], expectations=words)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-4)


def test_threads_do_not_change_the_result():
    X, _ = easy_data(5, 40)
    words = [label_given("NAME0", {"NAME": 0.9})]
    one, two = (ChainCRF(classes=["NAME", "O"], n_jobs=n).fit(X, expectations=words).weights_ for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_proportions_of_rounded_figures_are_scaled():
    X, _ = easy_data(6, 5)
    crf = ChainCRF().fit(X, expectations=LabelExpectation({"NAME": 0.3335, "O": 0.667}, distance="kl", strength=100))
    assert crf.expectations_[0].model == pytest.approx(1 / 3, abs=0.01)


def test_words_that_occur_only_at_known_labels():
    X, y = easy_data(8, 10)
    X[0][0] = ["only-here"]
    y[0][0] = "NAME"
    known = [y[0], *[None] * 9]
    words = [label_given("only-here", {"NAME": 0.9}), label_given("O0", {"O": 0.9})]
    crf = ChainCRF(classes=["NAME", "O"]).fit(X, known, expectations=words)
    assert crf.predict(X)[0][0] == "NAME"
