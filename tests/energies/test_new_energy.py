"""A new energy implements one method; every other way to evaluate it is generic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.oracles.finite_differences import central_differences

import intarsia
from intarsia import BetheMirrorDescent, ChainCRF
from intarsia.energies import Count, Energy, MeasuredEnergy, Squared
from intarsia.energies.binding.bound_energy import BoundEnergy, LinearMaps
from intarsia.learning import Adam, DoublyStochastic

QUICK = DoublyStochastic(max_iter=2, optimizer=Adam(step_size=0.1, batch_size=10))


class Cosh(Energy):
    """log cosh of the number of a label minus a target, with the label counts or all of mu as readings."""

    def __init__(self, label, target, *, measured=True, psi=1.0):
        self.label, self.target, self.measured, self.psi = label, target, measured, psi

    def bind_index(self, index):
        entries = index.positions(self.label)
        row = csr_array((np.ones(entries.size), entries, [0, entries.size]), shape=(1, index.layout.n_theta))
        return BoundCosh(index.layout, row, self)


class BoundCosh(BoundEnergy):
    """The energy on one graph."""

    def __init__(self, layout, row, settings):
        self.row, self.target, self.measured = row, settings.target, settings.measured
        readings = LinearMaps(layout, row) if settings.measured else None
        super().__init__(layout, settings.psi, readings=readings, reads="variables")

    def evaluate(self, readings):
        count = readings if self.measured else (self.row @ readings.T).T
        z = count - self.target
        slopes = np.tanh(z)
        return np.log(np.cosh(z)), slopes if self.measured else slopes @ self.row.toarray()


def sequences(n=20, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.choice(["a", "b"], int(rng.integers(1, 6))).tolist() for _ in range(n)]
    X = [rng.normal(size=(len(labels), 2)) + [[label == "a", 1.0] for label in labels] for labels in y]
    return X, y


def test_required_methods_are_few():
    assert BoundEnergy.__abstractmethods__ == {"evaluate"}
    assert Energy.__abstractmethods__ == {"bind_index"}


@pytest.mark.parametrize("measured", [True, False])
def test_slopes_follow_from_evaluate(measured):
    graph = intarsia.chain_graph(4, 2)
    bound = Cosh(1, 1.5, measured=measured, psi=2.0).bind(graph)
    mu = np.random.default_rng(0).random(graph.n_theta)
    np.testing.assert_allclose(bound.gradient(mu), central_differences(bound.value, mu, step=1e-6), atol=1e-6)
    direction = np.random.default_rng(1).normal(size=mu.size)
    by_psi = central_differences(lambda psi: bound.with_psi(psi).gradient(mu) @ direction, bound.psi.copy())
    np.testing.assert_allclose(bound.psi_gradient(mu, direction), by_psi, atol=1e-8)
    count = mu[1:8:2].sum()
    assert bound.value(mu) == pytest.approx(2.0 * np.log(np.cosh(count - 1.5)))


@pytest.mark.parametrize("mixed", [False, True])
def test_graphs_chains_and_learning_agree_for_both_kinds_of_readings(mixed):
    """The readings are a matter of speed: a count, or all of mu, alone or in a sum with another energy."""
    X, y = sequences()
    marginals, psi = [], []
    for measured in (True, False):
        energy = Cosh("a", 1.0, measured=measured, psi=0.7)
        energy = energy + MeasuredEnergy(Count("b"), Squared(1.0), psi=0.3) if mixed else energy
        crf = ChainCRF(energies=energy, energy_learner=QUICK, projection=BetheMirrorDescent(tol=1e-9)).fit(X, y)
        marginals.append(np.concatenate(crf.predict_marginals(X)))
        psi.append(crf.strengths(X)[0])
    np.testing.assert_allclose(marginals[0], marginals[1], atol=1e-7)
    np.testing.assert_allclose(psi[0], psi[1], atol=1e-7)
    graph = intarsia.chain_graph(4, 2)
    theta = np.random.default_rng(2).normal(size=graph.n_theta)
    results = [
        intarsia.infer(graph, theta, "bethe_mirror_descent", energy=Cosh("a", 1.0, measured=m), names=["a", "b"]).mu
        for m in (True, False)
    ]
    np.testing.assert_allclose(results[0], results[1], atol=1e-6)
