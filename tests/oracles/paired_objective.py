"""Objective of learning with latent variables, with both of its minima by an independent solver."""

from __future__ import annotations

import numpy as np

from tests.oracles.hinge_program import solve_hinge_program


def exact_objective(problem, weights, l2):
    """Return the objective J and its subgradient at these weights."""
    minima, features = [], []
    for side in (problem.clamped, problem.free):
        model = problem.weighted(side, np.maximum(weights, 0.0))
        minimum, x = solve_hinge_program(model) if model.n_variables else (0.0, np.zeros(0))
        minima.append(minimum)
        features.append(problem.features(side, model.terms.values(x)))
    return problem.value(weights, *minima, l2), problem.gradient(weights, *features, l2)
