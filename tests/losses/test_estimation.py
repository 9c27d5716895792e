"""Estimates of the likelihoods without inference, compared with scikit-learn, closed forms and a known model."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from intarsia import grid_graph, infer
from intarsia.losses import PiecewiseLikelihood, PseudoLikelihood, training_labels
from intarsia.models import LinearScores

SIZE = (5, 6)
# F and G of a binary model with a bias at each pixel and a coupling of 1.2.
TRUE_F, TRUE_G = np.array([[0.0, 0.0], [0.8, -0.3]]), np.array([[0.6], [0.0], [0.0], [0.6]])


@functools.cache
def drawn_images(n_images=150, seed=0):
    """Features of images, and labels sampled exactly from the model with those weights."""
    rng = np.random.default_rng(seed)
    graph = grid_graph(*SIZE, 2)
    maps, labels = [], []
    for _ in range(n_images):
        scores = LinearScores(graph, np.column_stack([rng.normal(size=graph.n_variables), np.ones(graph.n_variables)]))
        theta = scores.theta(scores.join(TRUE_F, TRUE_G))
        labels.append(infer(graph, theta, "junction_tree", n_samples=1, random_state=rng).samples[0])
        maps.append(scores)
    return maps, labels


def fitted(loss, maps, labels):
    """Weights that minimize the sum of losses, by SciPy."""
    known = [training_labels(scores.graph, y) for scores, y in zip(maps, labels, strict=True)]

    def total(weights):
        value, gradient = 0.0, np.zeros(weights.size)
        for scores, y in zip(maps, known, strict=True):
            one, slope = loss.value_and_gradient_theta(scores.graph, scores.theta(weights), y)
            value, gradient = value + one, gradient + scores.pull_back(slope)
        return value, gradient

    result = minimize(
        total, np.zeros(maps[0].n_weights), jac=True, method="L-BFGS-B", options={"gtol": 1e-7, "ftol": 0}
    )
    return maps[0].split(result.x)


def neighbours(y):
    """For each pixel: number of neighbours after it, number before it, and number of all that are labelled 1."""
    after, before, ones = (np.zeros(SIZE) for _ in range(3))
    image = y.reshape(SIZE)
    for axis in (0, 1):
        front = (slice(None),) * axis + (slice(None, -1),)
        back = (slice(None),) * axis + (slice(1, None),)
        after[front] += 1
        before[back] += 1
        ones[front] += image[back]
        ones[back] += image[front]
    return np.column_stack([part.ravel() for part in (after, before, ones)])


def test_pseudo_likelihood_is_logistic_regression_on_the_neighbours():
    """log p(1 | rest) / p(0 | rest) is linear in features and neighbours' labels (Besag's definition)."""
    maps, labels = drawn_images()
    F, G = fitted(PseudoLikelihood(), maps, labels)
    design = np.vstack([np.hstack([m.node_features, neighbours(y)]) for m, y in zip(maps, labels, strict=True)])
    regression = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=5000)
    expected = regression.fit(design, np.concatenate(labels)).coef_[0]
    (g00, g01, g10, g11) = G[:, 0]
    result = [*(F[1] - F[0]), g10 - g00, g01 - g00, g11 - g10 - g01 + g00]
    np.testing.assert_allclose(result, expected, atol=2e-4)


def test_pseudo_likelihood_recovers_the_model_of_the_labels():
    F, G = fitted(PseudoLikelihood(), *drawn_images())
    coupling = G[3, 0] - G[2, 0] - G[1, 0] + G[0, 0]
    # 4500 pixels: a standard error of about 0.05 for each of these.
    assert coupling == pytest.approx(1.2, abs=0.15)
    assert F[1, 0] - F[0, 0] == pytest.approx(0.8, abs=0.15)


def test_piecewise_likelihood_fits_frequencies_of_single_factors():
    """With one constant feature the pieces are multinomial: their estimates are the frequencies."""
    maps, labels = drawn_images()
    plain = [LinearScores(m.graph, np.ones((m.graph.n_variables, 1))) for m in maps]
    F, G = fitted(PiecewiseLikelihood(), plain, labels)
    scopes = plain[0].graph.scope_idx.reshape(-1, 2)
    pairs = np.concatenate([2 * y[scopes[:, 0]] + y[scopes[:, 1]] for y in labels])
    for weights, seen in ((F[:, 0], np.concatenate(labels)), (G[:, 0], pairs)):
        shares = np.exp(weights) / np.exp(weights).sum()
        np.testing.assert_allclose(shares, np.bincount(seen) / seen.size, atol=1e-5)
