"""Models, energies and finite differences for the tests of gradients through Bethe projections."""

from __future__ import annotations

import copy

import numpy as np
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.inference.bethe_checks import LOOPY
from tests.oracles.finite_differences import central_differences
from tests.zoo import ZOO

from intarsia.energies import Count, FunctionEnergy, Hinge, MeasuredEnergy, Squared
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


def network_energy(parameters, wrong=None):
    """Return an energy network: the sum of softplus units of the marginals of single variables.

    `wrong` names a derivative that is wrong by one percent.
    """

    def unpack(mu, graph):
        n = int(graph.variable_ptr[-1])
        matrix = parameters.reshape(-1, n + 1)
        raw = matrix[:, :n] @ mu[:n] + matrix[:, n]
        return matrix[:, :n], n, raw, 1.0 / (1.0 + np.exp(-raw))

    def scaled(name, values):
        return 1.01 * values if name == wrong else values

    def function(mu, graph):
        return float(np.logaddexp(0.0, unpack(mu, graph)[2]).sum())

    def derivative(mu, graph):
        matrix, n, _, unit = unpack(mu, graph)
        slope = np.zeros(mu.size)
        slope[:n] = matrix.T @ unit
        return scaled("derivative", slope)

    def hessian_vector(mu, graph, v):
        matrix, n, _, unit = unpack(mu, graph)
        product = np.zeros(mu.size)
        product[:n] = matrix.T @ (unit * (1 - unit) * (matrix @ v[:n]))
        return scaled("hessian_vector", product)

    return FunctionEnergy(
        function, derivative, convex=True, floor=0.0, reads="variables", hessian_vector=hessian_vector, psi=1.5
    )


def count_to(target, label=1, psi=2.0):
    """Return a squared distance of a count from a target."""
    return MeasuredEnergy(Count(label), Squared(target), psi=psi)
