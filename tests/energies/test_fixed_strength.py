"""Tests of fixed weights psi of the energies with a class of their own."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.energies import CrossCliqueEnergy, FunctionEnergy, PoissonCounts
from intarsia.exceptions import InvalidInputError
from intarsia.graph import chain_graph

ENERGIES = {
    "poisson": lambda **settings: PoissonCounts([[4, 1], [3, 2]], rate=4.0, background=0.5, **settings),
    "cliques": lambda **settings: CrossCliqueEnergy([((0, 1), [[1.0, 0.0], [0.0, 2.0]])], **settings),
    "function": lambda **settings: FunctionEnergy(lambda mu, graph: mu @ mu, lambda mu, graph: 2 * mu, **settings),
}


@pytest.mark.parametrize("make", ENERGIES.values(), ids=ENERGIES)
def test_a_fixed_strength_replaces_psi(make) -> None:
    graph = chain_graph(2, 2)
    mu = np.array([0.7, 0.3, 0.4, 0.6, 0.3, 0.4, 0.1, 0.2])
    energy = make(psi=7.0, strength=3.0, title="my energy")
    assert energy.bind(graph).value(mu) == pytest.approx(3.0 * make(psi=1.0).bind(graph).value(mu), rel=1e-12)
    assert (energy.has_fixed_psi(1), make().has_fixed_psi(1)) == ([True], [False])
    assert energy.display_name == "my energy"
    with pytest.raises(InvalidInputError, match="strength"):
        make(strength=-1.0).bind(graph)
