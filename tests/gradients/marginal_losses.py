"""Plain losses of marginals for tests of gradient rules: a random quadratic function of mu."""

from __future__ import annotations

import numpy as np
from tests.zoo import ZOO

from intarsia.graph import learning_form


class RandomQuadratic:
    """a . mu + mu . b mu / 2 with random a, b over the variables' part of mu, or over all of it."""

    needs = "marginals"

    def __init__(self, graph, uses_factors, seed=0):
        rng = np.random.default_rng(seed)
        self.uses_factors = uses_factors
        self.a, self.b = rng.standard_normal(graph.n_theta), rng.standard_normal(graph.n_theta)
        if not uses_factors:
            self.a[graph.variable_ptr[-1] :] = self.b[graph.variable_ptr[-1] :] = 0.0

    def value_and_gradient(self, graph, mu, labels):
        return float(self.a @ mu + 0.5 * (self.b * mu) @ mu), self.a + self.b * mu


class NeedsLogZ:
    needs = "log_partition"
    uses_factors = True


def lowered(name):
    """Return a model of the zoo in learning form."""
    graph, theta = ZOO[name]()
    form = learning_form(graph)
    return form.graph, form.lower(theta)


def mixed_rho(graph, seed=1):
    return np.random.default_rng(seed).uniform(0.3, 1.0, graph.n_factors)
