"""Pseudo-likelihood compared with adaptive integration of the density of each variable."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from tests.oracles.finite_differences import central_differences

from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status
from intarsia.softlogic import HingeLossMRF, LinearRows
from intarsia.softlogic.learning.pseudo_likelihood import Conditionals, HingePseudoLikelihood


def grounded(rng, n=6, m=20):
    matrix = rng.choice([-1.0, 0.0, 0.0, 1.0], (m, n))
    matrix[0, :] = 0.0  # a term without variables
    return HingeLossMRF(
        n,
        LinearRows.from_scipy(matrix, rng.uniform(-0.2, 0.8, m)),
        1.0,
        rng.integers(1, 3, m),
        term_group=rng.integers(0, 3, m),
        group_names="abc",
    )


def by_integration(model, labels, weights, low=None, high=None):
    """Return the negative log pseudo-likelihood, by adaptive quadrature with the kinks as break points."""
    weighted = model.with_weights(weights)
    total = 0.0
    for i in range(model.n_variables):
        a, b = (0.0, 1.0) if low is None else (low[i], high[i])

        def energy(t, i=i):
            moved = labels.copy()
            moved[i] = t
            return weighted.objective(moved)

        at_label = energy(labels[i])
        row = weighted.terms.to_scipy(model.n_variables)[:, [i]].toarray()[:, 0]
        rest = weighted.terms.values(labels) - row * labels[i]
        kinks = [-c / k for c, k in zip(rest, row, strict=True) if k and a < -c / k < b]
        z, _ = quad(lambda t, e=energy, top=at_label: np.exp(top - e(t)), a, b, limit=200, points=kinks or None)
        total += np.log(z)
    return total


@pytest.mark.parametrize("seed", range(2))
def test_value_and_gradient_against_integration(seed):
    rng = np.random.default_rng(seed)
    model, labels, weights = grounded(rng), rng.random(6), rng.uniform(0.2, 3.0, 3)
    conditionals = Conditionals(model, labels, n_nodes=512)
    value, gradient = conditionals.negative_log_likelihood(weights)
    assert value == pytest.approx(by_integration(model, labels, weights), abs=1e-5)
    slope = central_differences(lambda w: by_integration(model, labels, w), weights, step=1e-3)
    np.testing.assert_allclose(gradient, slope, atol=1e-5)
    coarse = Conditionals(model, labels, n_nodes=64).negative_log_likelihood(weights)[0]
    assert coarse == pytest.approx(value, abs=1e-3)  # the default is accurate enough for learning


def test_chunk_size_does_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(0)
    model, labels, weights = grounded(rng), rng.random(6), np.array([1.0, 2.0, 0.5])
    whole = Conditionals(model, labels, 64).negative_log_likelihood(weights)
    monkeypatch.setattr("intarsia.softlogic.learning.pseudo_likelihood._CHUNK", 64 * 7)
    pieces = Conditionals(model, labels, 64)
    assert len(pieces._chunks) > 1
    again = pieces.negative_log_likelihood(weights)
    assert again[0] == pytest.approx(whole[0], abs=1e-10)
    np.testing.assert_allclose(again[1], whole[1], atol=1e-10)


def test_constraints_reduce_the_interval_or_fix_the_variable():
    # y0 + y1 <= 1 allows y0 up to 0.7 and y1 up to 0.8; y2 = y3 fixes both.
    model = HingeLossMRF(
        4,
        LinearRows([0, 1, 2, 3], [0, 1, 2], [1.0, -1.0, 1.0], [0.0, 1.0, 0.0]),
        1.0,
        2,
        inequalities=LinearRows([0, 2], [0, 1], [1.0, 1.0], [-1.0]),
        equalities=LinearRows([0, 2], [2, 3], [1.0, -1.0], [0.0]),
    )
    labels, weights = np.array([0.2, 0.3, 0.5, 0.5]), np.array([1.0, 2.0, 3.0])
    conditionals = Conditionals(model, labels, 128)
    assert conditionals.n_variables == 2
    two = HingeLossMRF(2, LinearRows([0, 1, 2], [0, 1], [1.0, -1.0], [0.0, 1.0]), 1.0, 2)
    expected = by_integration(two, labels[:2], weights[:2], low=[0.0, 0.0], high=[0.7, 0.8])
    value, gradient = conditionals.negative_log_likelihood(weights)
    assert value == pytest.approx(expected, abs=1e-6)
    assert gradient[2] == 0.0


def test_learned_weights_are_a_minimum_and_a_satisfied_rule_gains():
    rng = np.random.default_rng(4)
    n = 20
    labels = np.clip(0.9 + 0.05 * rng.standard_normal(n), 0.0, 1.0)
    rows = LinearRows(
        np.arange(2 * n + 1), np.tile(np.arange(n), 2), np.repeat([-1.0, 1.0], n), np.repeat([1.0, 0.0], n)
    )
    model = HingeLossMRF(n, rows, 1.0, 2, term_group=np.repeat([0, 1], n))
    learner = HingePseudoLikelihood(l2=0.1, tol=1e-7)
    found = learner.fit(model, labels)
    assert found.status is Status.CONVERGED
    assert found.weights[0] > 3.0 > 1.0 > found.weights[1]
    best = by_integration(model, labels, found.weights) + 0.05 * found.weights @ found.weights
    for step in ([0.3, 0.0], [-0.3, 0.0], [0.0, 0.3], [0.3, 0.3]):
        moved = found.weights + step
        assert by_integration(model, labels, moved) + 0.05 * moved @ moved > best
    assert (np.diff(found.history["objective"]) <= 1e-9).all()
    kept = learner.fit(model, labels, start=[1.0, 2.5], trainable=[True, False])
    assert kept.weights[1] == 2.5
    again = learner.fit(model, labels)
    np.testing.assert_array_equal(found.weights, again.weights)


def test_invalid_input_raises():
    model = HingeLossMRF(2, LinearRows([0, 1, 2], [0, 1], [1.0, 1.0], [0.0, 0.0]), 1.0, 2)
    with pytest.raises(InvalidInputError, match=r"variable 1 has no label.*paired_dual"):
        HingePseudoLikelihood().fit(model, [1.0, np.nan])
    pinned = HingeLossMRF(2, model.terms, 1.0, 2, equalities=LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0]))
    with pytest.raises(InvalidInputError, match="hard constraints fix every variable"):
        HingePseudoLikelihood().fit(pinned, [1.0, 1.0])
    with pytest.raises(InvalidInputError, match=r"start\[0\] is -1"):
        HingePseudoLikelihood().fit(model, [1.0, 0.0], start=[-1.0, 1.0])
    with pytest.raises(InvalidInputError, match=r"trainable must be a boolean array of shape \(2,\)"):
        HingePseudoLikelihood().fit(model, [1.0, 0.0], trainable=[1, 0, 1])
    with pytest.raises(InvalidInputError, match="n_nodes"):
        HingePseudoLikelihood(n_nodes=1).fit(model, [1.0, 0.0])
