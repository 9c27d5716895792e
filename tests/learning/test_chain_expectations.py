"""Expectations on chains against enumeration, an independent optimizer and finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import minimize

from intarsia.learning.expectations import (
    LabelExpectation,
    MeasuredExpectation,
    PosteriorRegularization,
    label_count,
    label_given,
    label_proportion,
)
from intarsia.learning.expectations.corpus import bind_expectations
from intarsia.learning.expectations.generalized_expectation import GeneralizedExpectationRisk
from intarsia.learning.expectations.projection import project
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
        label_count("B", at_most=0.4, per_example=False, distance="absolute", strength=1.5),
        label_count("A", at_least=0.5, per_example=True, strength=4.0),
    ]


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("edges", [False, True])
def test_moments_and_covariances_equal_enumeration(labelled, edges):
    corpus, inputs, weights = tiny_corpus(1, labelled=labelled, edges=edges)
    direction = np.random.default_rng(2).normal(size=corpus.positions.n_states)
    for clamped in (False, True):
        result = corpus.moments(weights, direction, clamped=clamped)
        start, log_partition, marginals = 0, 0.0, []
        for indicators, scores, agrees, weight in enumerate_corpus(inputs, weights):
            tilted = scores - indicators @ direction[start : start + indicators.shape[1]]
            tilted = np.where(agrees | (not clamped), tilted, -np.inf)
            log_z = np.logaddexp.reduce(tilted)
            log_partition += weight * log_z
            marginals.append(np.exp(tilted - log_z) @ indicators)
            start += indicators.shape[1]
        assert result.log_partition == pytest.approx(log_partition, rel=1e-12)
        np.testing.assert_allclose(result.marginals, np.concatenate(marginals), atol=1e-12)
    # The derivative of the expected features along the direction, by differences of the exact moments.
    h = 1e-5
    difference = corpus.moments(weights, -h * direction).statistics - corpus.moments(weights, h * direction).statistics
    np.testing.assert_allclose(corpus.covariance(weights, direction), difference / (2 * h), atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("labelled", [False, True])
def test_projection_equals_an_optimizer_over_explicit_distributions(seed, labelled):
    corpus, inputs, weights = tiny_corpus(seed, labelled=labelled)
    bound = bind_expectations(expectations(), corpus.positions)
    projection = project(corpus, weights, bound, tol=1e-10, max_iter=1000)
    sequences = enumerate_corpus(inputs, weights)
    supports = [np.flatnonzero(agrees) for _, _, agrees, _ in sequences]
    sizes = np.cumsum([0, *(support.size for support in supports)])
    n, kinks = int(sizes[-1]), np.flatnonzero(["<=" in name for name in bound.names])
    scores = np.concatenate([values[support] for (_, values, _, _), support in zip(sequences, supports, strict=True)])
    weight = np.repeat([item[3] for item in sequences], np.diff(sizes))
    indicators = block_diag(*[item[0][support] for item, support in zip(sequences, supports, strict=True)])
    matrix = np.asarray(bound.weighted.toarray() @ indicators.T)  # measurements of explicit distributions
    smooth = np.setdiff1d(np.arange(len(bound.names)), kinks)

    def objective(point):
        q, slack = point[:n], point[n:]
        value = float(weight @ (q * (np.log(q) - scores))) + float(bound.psi[kinks] @ slack)
        return value + independent_penalty(matrix @ q, bound, smooth)

    def gradient(point):
        q = point[:n]
        slopes = slopes_of_penalty(matrix @ q, bound, smooth)
        return np.concatenate([weight * (np.log(q) - scores + 1.0) + slopes @ matrix, bound.psi[kinks]])

    totals = np.zeros((len(sequences), n + kinks.size))
    for i in range(len(sequences)):
        totals[i, sizes[i] : sizes[i + 1]] = 1.0
    above = np.hstack([-matrix[kinks], np.eye(kinks.size)])
    start = np.concatenate([np.repeat(1.0 / np.diff(sizes), np.diff(sizes)), np.ones(kinks.size)])
    best = minimize(
        objective, start, jac=gradient, method="SLSQP", bounds=[(1e-13, 1.0)] * n + [(0.0, None)] * kinks.size,
        constraints=[
            {"type": "eq", "fun": lambda x: totals @ x - 1.0, "jac": lambda x: totals},
            {"type": "ineq", "fun": lambda x: above @ x + bound.high[kinks], "jac": lambda x: above},
        ],
        options={"ftol": 1e-13, "maxiter": 2000},
    )  # fmt: skip
    assert best.success
    assert projection.value == pytest.approx(best.fun, abs=1e-6)
    np.testing.assert_allclose(projection.moments.marginals, best.x[:n] @ indicators, atol=1e-4)
    assert objective_of_projection(projection, bound) == pytest.approx(projection.value, abs=1e-7)  # no duality gap


def independent_penalty(values, bound, terms=None):
    """Return the sum of the penalties by the formulas of the documentation."""
    total = 0.0
    for j in range(len(bound.names)) if terms is None else terms:
        name, value, psi, low, high = bound.names[j], values[j], bound.psi[j], bound.low[j], bound.high[j]
        if name.startswith("label_proportion"):
            total += psi * (low * np.log(low / value) + value - low)
        elif "count" in name and "<=" in name:
            total += psi * max(0.0, value - high)
        elif ">=" in name:
            total += psi * 0.5 * max(0.0, low - value) ** 2
        else:
            total += psi * 0.5 * (value - low) ** 2
    return total


def slopes_of_penalty(values, bound, terms):
    """Return the derivatives of the penalties of some terms by central differences; 0 for others."""
    slopes, h = np.zeros(values.size), 1e-6
    for j in terms:
        step = h * np.eye(values.size)[j]
        slopes[j] = (
            independent_penalty(values + step, bound, [j]) - independent_penalty(values - step, bound, [j])
        ) / (2 * h)
    return slopes


def objective_of_projection(projection, bound):
    values = bound.values(projection.moments.marginals)
    entropy_part = -float(projection.multipliers @ values) - projection.moments.log_partition
    return entropy_part + independent_penalty(values, bound)


def test_projection_equals_bethe_dual_on_the_joint_graph():
    from intarsia import infer
    from intarsia.energies import Count, Hinge, MeasuredEnergy
    from intarsia.graph import chain_graph

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 2))]
    crf = ChainCRF(classes=LABELS, ends=False)
    inputs = prepare_fit(crf, X, None, None, None, LABELS, None, every_pair=True, expected_labels=LABELS)
    corpus = ChainCorpus(inputs)
    weights = rng.normal(size=corpus.n_weights)
    bound = bind_expectations([label_count("A", at_most=1.0, strength=np.inf)], corpus.positions)
    projection = project(corpus, weights, bound)
    graph = chain_graph(6, 3, shared=True)
    theta = np.concatenate([(X[0] @ weights[:6].reshape(2, 3)).reshape(-1), weights[6:]])
    result = infer(graph, theta, "bethe_dual", energy=MeasuredEnergy(Count(0), Hinge(1.0), psi=np.inf))
    np.testing.assert_allclose(projection.moments.marginals, result.mu[:18], atol=1e-6)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("edges", [False, True])
def test_gradient_of_generalized_expectation_equals_finite_differences(labelled, edges):
    corpus, _, weights = tiny_corpus(3, labelled=labelled, edges=edges)
    smooth = [expectation for expectation in expectations() if expectation.distance != "absolute"]
    risk = GeneralizedExpectationRisk(corpus, bind_expectations(smooth, corpus.positions), 0.3)
    gradient = risk(weights)[1]
    h = 1e-6
    numeric = [(risk(weights + h * unit)[0] - risk(weights - h * unit)[0]) / (2 * h) for unit in np.eye(weights.size)]
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)


def easy_data(seed=0, n=30):
    rng = np.random.default_rng(seed)
    y = [rng.choice(["NAME", "O"], int(rng.integers(2, 8)), p=[0.3, 0.7]).tolist() for _ in range(n)]
    X = [[[f"{label}{rng.integers(3)}", f"noise{rng.integers(2)}"] for label in labels] for labels in y]
    return X, y


def test_rounds_of_posterior_regularization_never_increase_the_objective():
    X, y = easy_data()
    names = [label_given("NAME0", {"NAME": 0.95}), label_given("O1", {"O": 0.9}, distance="absolute"),
             label_count("NAME", at_least=0.5, strength=np.inf, per_example=False)]  # fmt: skip
    em = PosteriorRegularization(algorithm="em", tol=1e-4)
    crf = ChainCRF(l2=0.1, classes=["NAME", "O"]).fit(X, [y[0], *[None] * 29], expectations=names, method=em)
    assert (np.diff(crf.history_["risk"]) <= 1e-9).all()
    assert crf.history_["risk"][-1] < 0.7 * crf.history_["risk"][0]
    assert len(crf.history_["risk"]) == crf.n_iter_ + 1


def test_both_algorithms_of_posterior_regularization_reach_one_minimum():
    X, y = easy_data(7, 12)
    names = [label_given("NAME0", {"NAME": 0.95}), label_count("NAME", at_most=1, per_example=True)]
    crf = ChainCRF(l2=0.5, classes=["NAME", "O"])
    fits = [
        crf.fit(X, [y[0], *[None] * 11], expectations=names, method=PosteriorRegularization(algorithm=name, **settings))
        and (crf.risk_, crf.weights_)
        for name, settings in (("em", {"tol": 1e-9, "max_iter": 3000}), ("lbfgs", {}))
    ]
    assert fits[1][0] == pytest.approx(fits[0][0], rel=1e-4)
    np.testing.assert_allclose(fits[1][1], fits[0][1], atol=0.02)


@pytest.mark.parametrize("method", ["posterior_regularization", "generalized_expectation"])
def test_a_labelled_word_spreads_to_words_in_its_company(method):
    X, y = easy_data()
    X = [
        [[*features, f"{label}-shape"] for features, label in zip(*pair, strict=True)]
        for pair in zip(X, y, strict=True)
    ]
    words = [label_given("NAME0", {"NAME": 0.95}), label_given("O0", {"O": 0.95})]
    crf = ChainCRF(l2=0.1).fit(X, expectations=words, method=method)
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


def test_hard_constraints_hold_in_each_sequence():
    X, _ = easy_data(2, 10)
    crf = ChainCRF(l2=1.0, classes=["NAME", "O"]).fit(X, expectations=label_count("NAME", at_least=1, strength=np.inf))
    assert len(crf.expectations_) == 10
    assert all(row.projected >= 1.0 - 1e-5 for row in crf.expectations_)


def test_user_measurement_reaches_its_target():
    X, _ = easy_data(3, 5)
    coefficients = [np.tile([1.0, 0.0], (len(sequence), 1)) for sequence in X]
    length = MeasuredExpectation(coefficients, 4.0, strength=np.inf, name="names")
    crf = ChainCRF(classes=["NAME", "O"]).fit(X, expectations=[length])
    assert crf.expectations_[0].projected == pytest.approx(4.0, abs=1e-5)


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
    assert crf.expectations_[0].projected == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("method", ["posterior_regularization", "generalized_expectation"])
def test_words_that_occur_only_at_known_labels(method):
    X, y = easy_data(8, 10)
    X[0][0] = ["only-here"]
    y[0][0] = "NAME"
    known = [y[0], *[None] * 9]
    words = [label_given("only-here", {"NAME": 0.9}), label_given("O0", {"O": 0.9})]
    crf = ChainCRF(classes=["NAME", "O"]).fit(X, known, expectations=words, method=method)
    assert crf.predict(X)[0][0] == "NAME"
    if method == "posterior_regularization":  # the first expectation has no effect
        other = ChainCRF(classes=["NAME", "O"]).fit(X, known, expectations=words[1:], method=method)
        np.testing.assert_allclose(crf.weights_, other.weights_, atol=1e-6)
