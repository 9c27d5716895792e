"""Wrong derivatives of energies are named, and all energies of the library pass."""

from __future__ import annotations

import numpy as np
import pytest
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.gradients.projection.projection_models import network_energy

from intarsia.exceptions import InvalidInputError
from intarsia.testing import check_energy

START = np.random.default_rng(3).standard_normal(2 * 10)


@pytest.mark.parametrize("name", sorted(set(ENERGIES) - {"poisson"}))
def test_energies_of_the_library_have_correct_derivatives(name):
    graph, _ = chain()
    assert check_energy(ENERGIES[name], graph, BIO) < 1e-5


def test_a_network_with_correct_derivatives_passes():
    graph, _ = chain()
    assert check_energy(network_energy(START), graph) < 1e-7


@pytest.mark.parametrize("wrong", ["derivative", "hessian_vector"])
def test_a_wrong_derivative_is_named(wrong):
    graph, _ = chain()
    with pytest.raises(InvalidInputError, match=rf"`{wrong}` of FunctionEnergy is wrong"):
        check_energy(network_energy(START, wrong=wrong), graph)


def test_invalid_arguments_are_named():
    graph, _ = chain()
    with pytest.raises(InvalidInputError, match="energy must be an Energy, got str"):
        check_energy("count", graph)
    with pytest.raises(InvalidInputError, match="n_points"):
        check_energy(ENERGIES["hinge"], graph, BIO, n_points=0)
