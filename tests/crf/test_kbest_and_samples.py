"""The k best labellings and samples of GridCRF and GraphCRF, against all labellings of small models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError

from intarsia import BetheMirrorDescent, GraphCRF, GridCRF, RiskMinimizer, grid_graph
from intarsia.crf import Factors, GraphInstance
from intarsia.energies import Count, MeasuredEnergy, Squared
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.models import LinearScores

EXACT = RiskMinimizer(loss="likelihood", l2=1.0)


def pictures():
    rng = np.random.default_rng(0)
    y = [np.repeat([[0, 1, 1]], 2, axis=0), np.repeat([[0, 0, 1]], 2, axis=0)]
    return [labels[..., None] - 0.5 + rng.normal(size=(2, 3, 1)) for labels in y], [5 + labels for labels in y]


def enumerated(crf, image):
    """Return all labellings of a 2 x 3 image and their log-probabilities, from the weights."""
    graph = grid_graph(2, 3, 2)
    theta = LinearScores(graph, image.reshape(-1, 1), np.repeat(np.eye(2), [4, 3], axis=0)).theta(crf.weights_)
    labellings = np.array(list(itertools.product(range(2), repeat=6)))
    values = np.array([graph.score(theta, states) for states in labellings])
    return 5 + labellings.reshape(-1, 2, 3), values - logsumexp(values)


@pytest.mark.parametrize("inference", ["junction_tree", "brute_force"])
def test_the_best_labellings_are_those_of_enumeration(inference):
    X, y = pictures()
    crf = GridCRF(inference=inference, learner=EXACT).fit(X, y)
    for image, result in zip(X, crf.predict_kbest(X, 7), strict=True):
        labellings, values = enumerated(crf, image)
        order = np.argsort(-values)[:7]
        np.testing.assert_allclose([value for _, value in result], values[order], atol=1e-9)
        for (labels, _), i in zip(result, order, strict=True):
            np.testing.assert_array_equal(labels, labellings[i])
    assert len(crf.predict_kbest(X[:1], 1000)[0]) == 64
    assert np.exp([value for _, value in crf.predict_kbest(X[:1], 64)[0]]).sum() == pytest.approx(1.0)


def test_samples_have_the_probabilities_of_enumeration():
    X, y = pictures()
    crf = GridCRF(inference="junction_tree", learner=EXACT).fit(X, y)
    n = 20_000
    for image, drawn in zip(X, crf.sample(X, n, random_state=0), strict=True):
        assert drawn.shape == (n, 2, 3)
        chances = np.exp(enumerated(crf, image)[1])
        counts = np.bincount((drawn.reshape(n, 6) - 5) @ 2 ** np.arange(6)[::-1], minlength=64)
        assert (np.abs(counts - n * chances) < 5.0 * np.sqrt(n * chances) + 5.0).all()
    first, again, other = (crf.sample(X, 5, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert any((a != b).any() for a, b in zip(first, other, strict=True))
    twice = crf.sample([X[0], X[0]], 50, random_state=1)
    assert (twice[0] != twice[1]).any()  # different examples have different samples
    rng = np.random.default_rng(3)
    assert (np.array(crf.sample(X, 20, rng)) != np.array(crf.sample(X, 20, rng))).any()
    assert crf.set_params(inference="gibbs").sample(X, 4, 0)[0].shape == (4, 2, 3)


def test_labels_by_type():
    rng = np.random.default_rng(0)
    X, y = [], []
    for topic in ("a", "b") * 5:
        words = rng.normal(size=(3, 1)) + (topic == "b")
        factors = {"about": Factors([[i, 0] for i in range(3)], types=("word", "topic"))}
        X.append(GraphInstance({"word": words, "topic": np.ones((1, 1))}, factors=factors))
        y.append({"word": np.where(words[:, 0] > 0.5, "up", "down"), "topic": [topic]})
    crf = GraphCRF(inference="tree", learner=EXACT).fit(X, y)
    best = crf.predict_kbest(X[:1], 16)[0]
    assert len({(*labels["word"], *labels["topic"]) for labels, _ in best}) == 16
    marginal = sum(np.exp(value) * (labels["topic"] == "a") for labels, value in best)
    np.testing.assert_allclose(marginal, crf.predict_marginals(X[:1])[0]["topic"][:, 0], atol=1e-9)
    drawn = crf.sample(X[:1], 9, random_state=0)[0]
    assert (drawn["word"].shape, drawn["topic"].shape) == ((9, 3), (9, 1))
    assert set(drawn["word"].ravel()) <= {"up", "down"}


def test_best_labellings_and_samples_with_energies_match_the_marginals():
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(3, 2)), [[0, 1], [1, 2]]) for _ in range(6)]
    y = [rng.permutation(["one", "none", "none"]) for _ in X]
    energy = MeasuredEnergy(Count("one"), Squared(1.0), psi=2.0)
    crf = GraphCRF(
        inference="tree",
        learner=EXACT,
        energies=energy,
        energy_learner=None,
        projection=BetheMirrorDescent(max_iter=300),
    ).fit(X, y)
    best = crf.predict_kbest(X[:1], 8)[0]
    marginals = sum(np.exp(value) * (labels[:, None] == crf.classes_) for labels, value in best)
    np.testing.assert_allclose(marginals, crf.predict_marginals(X[:1])[0], atol=1e-9)
    drawn = crf.sample(X[:1], 4000, random_state=0)[0]
    np.testing.assert_allclose((drawn[..., None] == crf.classes_).mean(axis=0), marginals, atol=0.04)


def test_refusals():
    X, y = pictures()
    with pytest.raises(NotFittedError):
        GridCRF().predict_kbest(X, 2)
    crf = GridCRF().fit(X, y)
    with pytest.raises(NotSupportedError, match=r"GridCRF.predict_kbest: inference=TreeReweighted .*'junction_tree'"):
        crf.predict_kbest(X, 2)
    with pytest.raises(NotSupportedError, match=r"GridCRF.sample: inference=TreeReweighted cannot sample .*'gibbs'"):
        crf.sample(X)
    crf.set_params(inference="junction_tree", learner=EXACT)
    with pytest.raises(InvalidInputError, match=r"GridCRF.predict_kbest: k must be"):
        crf.predict_kbest(X, 0)
    with pytest.raises(InvalidInputError, match=r"GridCRF.sample: n_samples must be"):
        crf.sample(X, 1.5)
    with pytest.raises(InvalidInputError, match=r"GridCRF.sample: random_state must be"):
        crf.sample(X, 1, "a")
