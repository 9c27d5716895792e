"""Many preferences with shared measurements equal the sum of the single energies."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.energies import (
    Count,
    EnergySum,
    Hinge,
    MeasuredEnergies,
    MeasuredEnergy,
    SoftInterval,
    SparseVector,
    StartsAfter,
    at_most_one,
    segment_preferences,
)
from intarsia.energies.measured_energies import shared_measurements
from intarsia.exceptions import InvalidInputError
from intarsia.graph import chain_graph

NAMES = ["O", "B-x", "I-x", "B-y", "I-y"]


@pytest.fixture
def graph():
    return chain_graph(4, len(NAMES), shared=True)


def both(energies):
    return MeasuredEnergies(energies), EnergySum(energies)


@pytest.mark.parametrize("names", [NAMES, ["x", "y", "z", "u", "v"]], ids=["marked", "runs"])
def test_equals_the_sum(graph, names):
    include = ("at_most_one", "exactly_one", "implies", "balanced", "forbidden_together")
    single = list(segment_preferences(names, include=include).energies)
    single.append(MeasuredEnergy(Count(names[0]), SoftInterval(1.0, 2.0), psi=0.5))
    rng = np.random.default_rng(0)
    psi = rng.uniform(0.0, 3.0, len(single))
    for energy, strength in zip(single, psi, strict=True):
        energy.set_params(psi=float(strength))
    one, summed = (energy.bind(graph, names) for energy in both(single))
    for _ in range(3):
        mu, direction = rng.uniform(0.0, 1.0, (2, graph.n_theta))
        assert one.value(mu) == pytest.approx(summed.value(mu), rel=1e-12)
        np.testing.assert_allclose(one.gradient(mu), summed.gradient(mu), atol=1e-12)
        np.testing.assert_allclose(one.psi_gradient(mu, direction), summed.psi_gradient(mu, direction), atol=1e-12)
    np.testing.assert_array_equal(one.psi, psi)


def test_psi_is_a_setting_or_that_of_the_members(graph):
    members = [at_most_one("x", psi=2.0, width=0.0), at_most_one("y", psi=3.0, width=0.0)]
    mu = graph.statistics([1, 1, 3, 3])  # one segment too many of each kind
    assert MeasuredEnergies(members).bind(graph, NAMES).value(mu) == 5.0
    assert MeasuredEnergies(members, psi=[10.0, 0.0]).bind(graph, NAMES).value(mu) == 10.0
    assert (2.0 * MeasuredEnergies(members)).bind(graph, NAMES).value(mu) == 10.0


def test_measurements_with_arrays_are_not_confused(graph):
    many = np.arange(40)
    first, second = (MeasuredEnergy(SparseVector(many + shift), Hinge(0.0)) for shift in (0, 1))
    assert len(shared_measurements([first, second])[0]) == 2


@pytest.mark.parametrize(
    ("energy", "message"),
    [
        (MeasuredEnergies([]), "empty"),
        (MeasuredEnergies([at_most_one("x")], psi=[1.0, 2.0]), r"psi has shape \(2,\), but there are 1"),
        (MeasuredEnergies([MeasuredEnergy(StartsAfter("x", "y"), Hinge(1.0))]), "has 3 rows, expected 1"),
        (MeasuredEnergies([at_most_one("unknown")]), "unknown"),
    ],
    ids=["none", "too many strengths", "several rows", "unknown label"],
)
def test_bad_input(graph, energy, message):
    with pytest.raises(InvalidInputError, match=message):
        energy.bind(graph, NAMES)
