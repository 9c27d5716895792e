"""Batches of sequences with sparse features: the steps of dense features, at a cost proportional to the data."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize

from intarsia import ChainCRF
from intarsia.exceptions import ConvergenceWarning
from intarsia.learning import LBFGS, SGD, Adam
from intarsia.learning.minimum import SummedObjective
from intarsia.sequences import MaximumLikelihood
from intarsia.sequences.chain_learner import prepare_fit
from intarsia.sequences.maximum_likelihood import ChainRisk


def sentences(n, length=None):
    """Most features are rare, so that the number of weights grows with the data."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for s in range(n):
        labels = rng.integers(3, size=int(rng.integers(1, 9)) if length is None else length)
        X.append([[f"word{rng.integers(5 * n)}", f"own{s}", f"class{label + rng.integers(2)}"] for label in labels])
        y.append([f"L{label}" for label in labels])
    return X, y


def risk_of(X, y, ridge, weights="auto", **more):
    examples = prepare_fit(ChainCRF(weights=weights), X, y, more.get("edges"), None, None, None).examples
    return ChainRisk(examples, 2.0 * ridge)


class Whole(SummedObjective):
    """A risk whose batches always contain all weights: the plain algorithm."""

    def __init__(self, risk):
        self.risk = risk

    def __call__(self, point):
        return self.risk(point)

    def __len__(self):
        return len(self.risk)

    def subset(self, indices):
        return self.risk.subset(indices)


@pytest.mark.parametrize("with_edges", [False, True])
@pytest.mark.parametrize("weights", ["all", "observed"])
def test_a_part_is_the_risk_of_its_sequences(weights, with_edges):
    X, y = sentences(12)
    edges = [np.ones((max(len(one) - 1, 0), 2)) * 0.3 for one in X] if with_edges else None
    risk = risk_of(X, y, 0.1, weights, edges=edges)
    point = np.random.default_rng(1).normal(size=risk.n_weights)
    chosen = np.array([1, 4, 7])
    value, gradient = risk.subset(chosen)(point)
    part = risk.part(chosen)
    assert part.slots.size < 0.7 * risk.n_weights
    own_value, own_gradient = part.objective(point[part.slots])
    assert own_value + part.ridge * (point @ point) == pytest.approx(value, rel=1e-12)
    whole = 2.0 * part.ridge * point
    whole[part.slots] += own_gradient
    np.testing.assert_allclose(whole, gradient, atol=1e-14)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_makes_the_same_steps(momentum):
    """Momentum of weights outside a batch is applied later."""
    X, y = sentences(30)
    risk = risk_of(X, y, 0.0)
    sgd = SGD(step_size=0.5, momentum=momentum, batch_size=4)
    thin, plain, memory, plain_memory = np.zeros(risk.n_weights), np.zeros(risk.n_weights), {}, {}
    for _ in range(3):
        thin, memory, value = sgd.epoch(risk, thin, memory, 0)
        plain, plain_memory, plain_value = sgd.epoch(Whole(risk), plain, plain_memory, 0)
        np.testing.assert_allclose(thin, plain, atol=1e-12)
        assert value == pytest.approx(plain_value, rel=1e-12)


def test_adam_makes_the_same_steps_where_every_batch_has_all_features():
    rng = np.random.default_rng(0)
    X = [[["a", "b", "c"] for _ in range(3)] for _ in range(12)]
    y = [rng.integers(2, size=3) for _ in X]
    risk = risk_of(X, y, 0.01)
    adam = Adam(batch_size=3)
    thin, _, value = adam.epoch(risk, np.zeros(risk.n_weights), {}, 0)
    plain, _, plain_value = adam.epoch(Whole(risk), np.zeros(risk.n_weights), {}, 0)
    np.testing.assert_allclose(thin, plain, atol=1e-12)
    assert value == pytest.approx(plain_value, rel=1e-12)


@pytest.mark.parametrize(("kind", "step"), [(Adam, 0.1), (SGD, 1.0)])
def test_reaches_the_minimum_with_its_penalty(kind, step):
    """All batches have the same number of positions, so that the mean of their risks is the risk."""
    optimizer = kind(step_size=step, max_iter=150, decay=0.2)
    X, y = sentences(40, length=5)
    risk = risk_of(X, y, 0.002)
    exact = minimize(risk, np.zeros(risk.n_weights), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 0.0})
    result = optimizer.minimize(risk, np.zeros(risk.n_weights))
    assert result.value <= 1.002 * exact.fun


@pytest.mark.parametrize("optimizer", [Adam(), SGD()], ids=["adam", "sgd"])
def test_memory_and_point_of_the_caller_are_not_changed(optimizer):
    X, y = sentences(20)
    risk = risk_of(X, y, 0.01)
    point, memory, _ = optimizer.epoch(risk, np.zeros(risk.n_weights), {}, 0)
    copies = {name: np.array(one) for name, one in memory.items()}
    old = point.copy()
    optimizer.epoch(risk, point, memory, 0)
    np.testing.assert_array_equal(point, old)
    for name, one in memory.items():
        np.testing.assert_array_equal(one, copies[name])


@pytest.mark.parametrize("optimizer", [Adam(), SGD()], ids=["adam", "sgd"])
def test_work_of_a_pass_grows_with_the_data(optimizer, monkeypatch):
    """Count the weights that batches read: quadratic if every batch read all of them."""
    plain = ChainRisk.__call__
    sizes = []
    monkeypatch.setattr(ChainRisk, "__call__", lambda self, w: sizes.append(w.size) or plain(self, w))
    totals = []
    for n in (100, 200, 400):
        risk = risk_of(*sentences(n), 0.01)
        sizes.clear()
        optimizer.epoch(risk, np.zeros(risk.n_weights), {}, 0)
        assert len(sizes) == -(-n // optimizer.batch_size)
        totals.append(sum(sizes))
    assert totals[1] < 2.2 * totals[0]
    assert totals[2] < 2.2 * totals[1]


def test_memory_is_that_of_lbfgs():
    X, y = sentences(600)
    peaks = []
    for optimizer in (LBFGS(max_iter=3), Adam(max_iter=1)):
        crf = ChainCRF(learner=MaximumLikelihood(optimizer=optimizer))
        with pytest.warns(ConvergenceWarning):
            crf.fit(X[:10], y[:10])  # without the memory of compiling and importing
        tracemalloc.start()
        try:
            with pytest.warns(ConvergenceWarning):
                crf.fit(X, y)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 2.0 * peaks[0]
