"""Scalar functions: conjugates and slopes by brute force over a grid."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.energies import Absolute, Hinge, Huber, Poisson, SmoothedHinge, SoftInterval, Squared
from intarsia.energies.binding.scalar_terms import Penalties, StackedFunctions, stack_functions

FUNCTIONS = {
    "hinge": (Hinge(0.7), lambda z: max(0.0, z - 0.7)),
    "hinge_below": (Hinge(0.7, side="below"), lambda z: max(0.0, 0.7 - z)),
    "smoothed_hinge": (
        SmoothedHinge(1.0, side="below"),  # as Rennie writes it
        lambda z: 0.5 - z if z <= 0 else 0.5 * (1 - z) ** 2 if z < 1 else 0.0,
    ),
    "squared": (Squared(-0.4), lambda z: 0.5 * (z + 0.4) ** 2),
    "absolute": (Absolute(0.3), lambda z: abs(z - 0.3)),
    "huber": (Huber(0.3, width=0.5), lambda z: abs(z - 0.3) - 0.25 if abs(z - 0.3) > 0.5 else (z - 0.3) ** 2),
    "interval": (SoftInterval(-0.5, 0.6), lambda z: max(0.0, -0.5 - z, z - 0.6)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_the_formulas(name):
    settings, expected = FUNCTIONS[name]
    for z in np.linspace(-3, 3, 61):
        assert settings(z) == pytest.approx(expected(z), abs=1e-12)


@pytest.mark.parametrize("name", [*FUNCTIONS, "poisson", "poisson_background"])
@pytest.mark.parametrize("psi", [0.5, 2.0])
def test_conjugates_by_brute_force(name, psi):
    settings = {
        "poisson": Poisson(2.0, rate=3.0),
        "poisson_background": Poisson(2.0, rate=3.0, background=0.5),
    }.get(name) or FUNCTIONS[name][0]
    made = settings.functions()
    strength = np.full(made.size, psi)
    low, high = made.bounds(strength)
    lowest = -0.5 / 3.0 + 1e-9 if name == "poisson_background" else 1e-9
    grid = np.linspace(-40.0, 40.0, 8001) if "poisson" not in name else np.linspace(lowest, 60.0, 12_001)
    values = np.stack([made.value(np.full(made.size, z)) for z in grid])
    for share in (0.05, 0.4, 0.9):
        lam = np.maximum(low, -3.0) + share * (np.minimum(high, 3.0) - np.maximum(low, -3.0))
        lam = np.minimum(lam, 0.9 * np.where(np.isfinite(high), high, np.inf)) if "poisson" in name else lam
        brute = (lam * grid[:, None] - psi * values).max(axis=0)
        np.testing.assert_allclose(made.conjugate(lam, strength), brute, atol=2e-3)
        z = made.conjugate_derivative(lam, strength)
        np.testing.assert_allclose(made.conjugate(lam, strength), lam * z - psi * made.value(z), atol=1e-9)


@pytest.mark.parametrize("name", [*FUNCTIONS, "poisson"])
def test_slopes_and_curvature(name):
    made = (Poisson(2.0, rate=3.0) if name == "poisson" else FUNCTIONS[name][0]).functions()
    for z in (0.11, 0.52, 1.9):
        at, step = np.full(made.size, z), 1e-6
        expected = (made.value(at + step) - made.value(at - step)) / (2 * step)
        np.testing.assert_allclose(made.derivative(at), expected, atol=1e-6)
        second = (made.derivative(at + step) - made.derivative(at - step)) / (2 * step)
        assert (second <= made.curvature + 1e-6).all()


def test_slope_at_a_kink_is_the_one_nearest_to_zero():
    made = stack_functions([Hinge(1.0).functions(), Absolute(1.0).functions()])
    assert isinstance(made, Penalties)
    assert made.derivative(np.ones(2)).tolist() == [0.0, 0.0]
    assert made.derivative(np.nextafter(np.ones(2), 2)).tolist() == [1.0, 1.0]


def test_hard_constraints_are_the_limit_of_the_conjugate():
    made = Hinge(1.0).functions()
    hard = np.array([np.inf])
    assert [float(b[0]) for b in made.bounds(hard)] == [0.0, np.inf]
    assert made.conjugate(np.array([5.0]), hard).tolist() == [5.0]
    assert Absolute(1.0).functions().bounds(hard)[0].tolist() == [-np.inf]


def test_stacked_families_equal_single_families():
    made = stack_functions([Hinge(1.0).functions(), Poisson(1.0).functions(), Squared().functions()])
    assert isinstance(made, StackedFunctions)
    z = np.array([2.0, 1.0, 3.0])
    assert made.value(z).tolist() == [1.0, 0.0, 4.5]
    assert made.derivative(z).tolist() == [1.0, 0.0, 3.0]
    psi = np.ones(3)
    assert made.bounds(psi)[0].tolist() == [0.0, -np.inf, -np.inf]
    assert made.conjugate(np.array([0.5, 0.0, 2.0]), psi).tolist() == [0.5, 0.0, 2.0]
