"""Properties of every Bethe projection, and the problems on which they are tested."""

from __future__ import annotations

import functools
import warnings

import numpy as np
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.oracles.global_energy import solve_penalised, solve_smooth

import intarsia
from intarsia.energies import Count, Huber, MeasuredEnergy, PoissonCounts, SmoothedHinge, Squared
from intarsia.exceptions import ConvergenceWarning

SMOOTH = ["smoothed_hinge", "squared", "huber", "rounded_interval", "order", "segments", "poisson_with_background"]
# Energies with one kink each.
KINKED = ["hinge", "absolute", "interval"]


@functools.cache
def smooth_optimum(name, shared=False):
    """Return the minimum of the objective and mu for the chain with a smooth energy, by BFGS over all assignments."""
    graph, theta = chain(shared)
    bound = ENERGIES[name].bind(graph, BIO)
    return solve_smooth(graph, theta, bound.value, bound.gradient)


@functools.cache
def kinked_optimum(name, psi=None):
    """Return the minimum of the objective and mu for the chain with an energy with kinks, by SLSQP with slacks."""
    graph, theta = chain()
    terms = ENERGIES[name].bind(graph, BIO)
    functions = terms.functions
    rows = terms.measurements.toarray()
    strength = terms.psi[0] if psi is None else psi
    return solve_penalised(
        graph,
        theta,
        [
            (rows[i].copy(), functions.shift[i], functions.low[i], functions.high[i], strength)
            for i in range(functions.size)
        ],
    )


def ask(graph, theta, method, **settings):
    """Run `infer` without the ConvergenceWarning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return intarsia.infer(graph, theta, method, **settings)


def solve(name, method, *, shared=False, **settings):
    """Run a method on the chain with one of the energies."""
    graph, theta = chain(shared)
    return ask(graph, theta, method, energy=ENERGIES[name], names=BIO, **settings)


def check_is_the_tilted_model(result, energy, names=None, evidence=None):
    """Check that mu are the marginals of tilted_theta; return the exact result and the bound energy."""
    exact = intarsia.infer(result.graph, result.tilted_theta, "brute_force", evidence=evidence)
    np.testing.assert_allclose(result.mu, exact.mu, atol=1e-10)
    bound = energy.bind(result.graph, names)
    return exact, bound


LOOPY = {
    "grid": MeasuredEnergy(Count(1), Squared(2.0), psi=2.0),
    "unequal_state_counts": MeasuredEnergy(Count(1), Huber(3.0, width=0.5), psi=1.5),
    "one_state_variables": MeasuredEnergy(Count(0), SmoothedHinge(3.2), psi=2.0),
    "same_scope_twice": MeasuredEnergy(Count(1), Squared(3.0)),
    "unary_factors_twice": MeasuredEnergy(Count(0), Squared(2.0)),
    "truncated_quadratic": MeasuredEnergy(Count(3), Squared(3.0)),
    "hard_zeros": MeasuredEnergy(Count(2), Squared(2.0)),
    "three_way_factor": PoissonCounts([3, 1, 0, 2, 2, np.nan, np.nan, 1, 1, 1, 0], rate=4.0, background=0.5),
}
