"""Models, energies and finite differences for the tests of gradients through Bethe projections."""

from __future__ import annotations

import copy

import numpy as np
from scipy.sparse import csr_array
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.inference.bethe_checks import LOOPY
from tests.oracles.finite_differences import central_differences
from tests.zoo import ZOO

from intarsia.energies import Count, FunctionEnergy, Hinge, MeasuredEnergy, Squared
from intarsia.energies.binding.scalar_terms import Penalties, PoissonDeviances, ScalarTerms
from intarsia.inference.infer import run_inference

SMOOTH = ["smoothed_hinge", "squared", "huber", "rounded_interval", "segments", "poisson_with_background", "function"]
NOT_CONVEX = ["words", "cross_clique"]
KINKED = ["hinge", "absolute", "interval"]

# A hinge beyond its limit, and one below it: both away from the kink.
ENERGIES_OFF_KINKS = {
    "hinge_above": MeasuredEnergy(Count("B-x"), Hinge(0.1), psi=0.05),
    "hinge_below": MeasuredEnergy(Count("B-x"), Hinge(2.9), psi=3.0),
}


def model(name):
    """Return graph, theta and bound energy: an energy of the chain, or a loopy graph of the zoo with its energy."""
    if name in LOOPY:
        graph, theta = ZOO[name]()
        return graph, theta, LOOPY[name].bind(graph)
    graph, theta = chain()
    return graph, theta, (ENERGIES | ENERGIES_OFF_KINKS)[name].bind(graph, BIO)


def weights(graph, seed=0):
    """Return the gradient of a linear loss in the marginals."""
    return np.random.default_rng(seed).standard_normal(graph.n_theta)


def loss(method, graph, theta, energy, weight):
    """Return the linear loss of the marginals of a projection."""
    run = copy.copy(method)
    run.energy = energy
    return float(weight @ run_inference(graph, theta, run).mu)


def directional_error(function, at, gradient, step=1e-4, n_directions=2):
    """Return the largest error of a gradient along random directions, relative to the size of the gradient.

    The derivative along a direction is a central difference with fourth-order accuracy in the step.
    """
    rng, worst = np.random.default_rng(5), 0.0
    finite = np.isfinite(at)
    scale = max(float(np.abs(gradient[finite]).sum()), 1e-3)
    for _ in range(n_directions):
        direction = np.where(finite, rng.choice([-1.0, 1.0], at.size) * rng.uniform(0.5, 1.0, at.size), 0.0)
        slope = central_differences(lambda t, d=direction: function(at + t[0] * d), np.zeros(1), step)[0]
        worst = max(worst, abs(slope - float(gradient @ direction)) / scale)
    return worst


def with_limits(terms, limits):
    """Return scalar terms with other limits."""
    f = terms.functions
    return _rebuild(terms, terms.measurements, Penalties(limits, f.low, f.high, f.width))


def with_coefficients(terms, data):
    """Return scalar terms with other coefficients of the measurements."""
    matrix = terms.measurements
    return _rebuild(terms, csr_array((data, matrix.indices, matrix.indptr), matrix.shape), terms.functions)


def with_poisson(terms, rates, backgrounds):
    """Return Poisson terms with other rates and backgrounds."""
    return _rebuild(terms, terms.measurements, PoissonDeviances(terms.functions.count, rates, backgrounds))


def _rebuild(terms, matrix, functions):
    return ScalarTerms(terms.layout, matrix, functions, terms.psi, terms.psi_of, terms.psi.size)


def network_energy(parameters, wrong=None):
    """Return an energy network: the sum of softplus units of the marginals of single variables.

    `wrong` names a derivative that is wrong by one percent.
    """

    def unpack(mu, graph, parameters):
        n = int(graph.variable_ptr[-1])
        matrix = parameters.reshape(-1, n + 1)
        raw = matrix[:, :n] @ mu[:n] + matrix[:, n]
        return matrix, n, raw, 1.0 / (1.0 + np.exp(-raw))

    def scaled(name, values):
        return 1.01 * values if name == wrong else values

    def function(mu, graph, parameters):
        return float(np.logaddexp(0.0, unpack(mu, graph, parameters)[2]).sum())

    def derivative(mu, graph, parameters):
        matrix, n, _, unit = unpack(mu, graph, parameters)
        slope = np.zeros(mu.size)
        slope[:n] = matrix[:, :n].T @ unit
        return scaled("derivative", slope)

    def hessian_vector(mu, graph, v, parameters):
        matrix, n, _, unit = unpack(mu, graph, parameters)
        product = np.zeros(mu.size)
        product[:n] = matrix[:, :n].T @ (unit * (1 - unit) * (matrix[:, :n] @ v[:n]))
        return scaled("hessian_vector", product)

    def parameter_derivative(mu, graph, v, parameters):
        matrix, n, _, unit = unpack(mu, graph, parameters)
        inner = unit * (1 - unit) * (matrix[:, :n] @ v[:n])
        slopes = np.column_stack([np.outer(unit, v[:n]) + np.outer(inner, mu[:n]), inner])
        return scaled("parameter_derivative", slopes.ravel())

    return FunctionEnergy(
        function, derivative, convex=True, floor=0.0, reads="variables", hessian_vector=hessian_vector,
        parameters=parameters, parameter_derivative=parameter_derivative, psi=1.5,
    )  # fmt: skip


def count_to(target, label=1, psi=2.0):
    """Return a squared distance of a count from a target."""
    return MeasuredEnergy(Count(label), Squared(target), psi=psi)
