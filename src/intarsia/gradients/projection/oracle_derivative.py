"""Derivative of the marginal oracle of a Bethe projection, in the layout of the user's graph."""

from __future__ import annotations

import numpy as np

from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray
from intarsia.gradients.free_energy import factor_weights
from intarsia.gradients.implicit import OptimalityConditions
from intarsia.gradients.projection.elimination_derivative import EliminationDerivative
from intarsia.graph import FactorGraph, learning_form
from intarsia.inference.infer import run_inference
from intarsia.inference.method import InferenceMethod


class OracleDerivative:
    """Derivative J of the marginals of a tilted model in its scores: a symmetric matrix, as a product with vectors.

    For exact oracles J is the covariance of the statistics, computed by differentiating variable elimination; for
    tree-reweighted message passing it comes from the optimality conditions of its convex objective. The temperature
    is included, so that J is the derivative in theta and in the tilt (with a minus sign).

    Parameters
    ----------
    graph : FactorGraph
        Any graph.
    theta : (n_theta,) array
        Scores of the tilted model.
    oracle : InferenceMethod
        Exact method or `TreeReweighted`.
    temperature : float
        Temperature T of the projection.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.inference.registry import METHODS
    >>> graph = chain_graph(2, 2, shared=True)
    >>> derivative = OracleDerivative(graph, graph.zeros(), METHODS.resolve("tree"))
    >>> derivative.product(np.eye(graph.n_theta)[0])[:4].tolist()
    [0.25, -0.25, 0.0, 0.0]
    """

    def __init__(
        self, graph: FactorGraph, theta: FloatArray, oracle: InferenceMethod, temperature: float = 1.0
    ) -> None:
        self.form, self.temperature = learning_form(graph), temperature
        scores = self.form.lower(theta) / temperature
        self._elimination: EliminationDerivative | None = None
        self._conditions: OptimalityConditions | None = None
        if oracle.exact or self.form.graph.is_forest:
            self._elimination = EliminationDerivative(self.form.graph, scores)
        elif self.form.graph.n_variables:
            # The scores are already divided by the temperature of the projection.
            result = run_inference(self.form.graph, scores, clone(oracle).set_params(temperature=None))
            if result.mu is not None:
                rho = factor_weights(self.form.graph, oracle)
                self._conditions = OptimalityConditions(self.form.graph, rho, result.mu)

    def product(self, direction: FloatArray) -> FloatArray:
        """Return `J direction` of one vector (n_theta,)."""
        return self.products(direction[None])[0]

    def products(self, directions: FloatArray) -> FloatArray:
        """Return the rows `J direction` of rows of directions (k, n_theta)."""
        form = self.form
        lowered = directions if form.is_identity else np.array([form.lower(row) for row in directions])
        lowered = lowered.reshape(len(directions), form.graph.n_theta)
        if self._elimination is not None:
            changes = self._elimination.product(lowered)
        elif self._conditions is not None:
            changes = np.array([self._conditions.solve(row) for row in lowered])
        else:
            changes = np.zeros(lowered.shape)
        changes = changes.reshape(lowered.shape) / self.temperature
        if form.is_identity:
            return changes
        return np.array([form.pull_back(row) for row in changes]).reshape(directions.shape)
