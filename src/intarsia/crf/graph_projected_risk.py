"""Risk of graphs as a loss of the marginals under energies, with its gradient through the projection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray
from intarsia.crf.graph_surrogate_risk import GraphSurrogateRisk
from intarsia.energies.binding.batch_energies import bind_members
from intarsia.energies.binding.graph_energies import GraphEnergies, Names
from intarsia.energies.parameters import EnergyParameters
from intarsia.exceptions import NotSupportedError
from intarsia.gradients.projection.pullback import projection_pullback
from intarsia.graph.chains import rows_of
from intarsia.learning.examples import Example
from intarsia.learning.projection.through_projection import ThroughProjection, loss_through_projection


class GraphProjectedRisk(GraphSurrogateRisk):
    r"""Loss of the marginals under energies per labelled variable, with its gradient in weights, psi and settings.

    .. math:: R(w, \psi) = \frac1N \sum_g a_g \ell(\mu_g(w, \psi), y_g) + \frac r2 \lVert w \rVert^2

    Parameters
    ----------
    learner : ThroughProjection
        Loss, mode, and settings of the energies to learn.
    preferences : GraphEnergies
        Energies that are not bound to a graph.
    names : list
        Labels of the variables of each graph.
    examples : list of Example
        Labelled graphs.
    *arguments, **settings
        Further arguments of `GraphSurrogateRisk`.
    """

    def __init__(
        self,
        learner: ThroughProjection,
        preferences: GraphEnergies,
        names: Sequence[Names],
        examples: Sequence[Example],
        *arguments: Any,
        **settings: Any,
    ) -> None:
        super().__init__(examples, *arguments, **settings)
        self.learner, self.preferences, self.names = learner, preferences, list(names)
        self.parameters = EnergyParameters(preferences.members, learner.learn_also)
        self.extras = self.parameters.start
        self.n_weights += self.extras.size
        uses_factors = learner.marginal_loss().uses_factors
        for i, labelled in enumerate(self.examples):
            if uses_factors and not labelled.form.reduction.is_identity:
                raise NotSupportedError(
                    f"graph {i} has variables with a single state or several factors of the same variables, so that "
                    f"{type(learner.marginal_loss()).__name__}, a loss of factors, cannot be learned through the "
                    f"projection. Use loss='univariate_logistic'."
                )

    def subset(self, indices: ArrayLike) -> GraphProjectedRisk:
        """Return the risk of some of the graphs, averaged over their labelled variables."""
        risk: Any = super().subset(indices)
        risk.names = [self.names[i] for i in np.asarray(indices, dtype=np.int64).tolist()]
        return risk

    def energies_with(self, extras: FloatArray) -> GraphEnergies:
        """Return the energies with these values of their learned settings."""
        preferences = self.preferences
        if not extras.size:
            return preferences
        return GraphEnergies(self.parameters.members_with(extras), preferences.sizes, preferences.psi)

    def add_up(
        self,
        weights: FloatArray,
        strengths: FloatArray,
        slope: FloatArray | None,
        first: int,
        last: int,
        gradient: FloatArray,
    ) -> tuple[float, FloatArray]:
        """Return the loss of one graph and its gradient in psi; add its gradient in w and settings to `gradient`."""
        labelled, names, n = self.examples[first], self.names[first], self.n_weights - self.extras.size
        form, theta = labelled.form, self._theta(first, weights[:n])
        energies = self.energies_with(weights[n:])
        is_expanded = form.reduction.is_identity  # then the graph in learning form has the same variables
        graph = form.graph if is_expanded else form.original
        energy = bind_members(energies.members, energies.sizes, graph, names).with_psi(strengths[0])
        if is_expanded:
            value, by_theta, by_parameter = loss_through_projection(
                self.learner, self.method, graph, form.lower(theta), energy, labelled.labels
            )
            by_theta = form.pull_back(by_theta)
        else:
            value, by_theta, by_parameter = self._pull_variables(labelled, theta, energy)
        if n:
            gradient[:n] += labelled.weight * labelled.scores.pull_back(by_theta)
        if self.extras.size:
            gradient[n:] += labelled.weight * self.parameters.pull(energies.members, graph, names, by_parameter)
        return labelled.weight * value, labelled.weight * by_parameter["psi"]

    def _pull_variables(
        self, labelled: Example, theta: FloatArray, energy: Any
    ) -> tuple[float, FloatArray, dict[str, FloatArray]]:
        """Differentiate a loss of variables on a graph that is not in normal form."""
        form, graph = labelled.form, labelled.form.original
        pullback = projection_pullback(self.method, graph, theta, energy, mode=self.learner.mode)
        if pullback.mu is None:
            return 0.0, np.zeros(theta.size), {"psi": np.zeros(energy.psi.size)}
        entries = rows_of(graph.variable_ptr, form.reduction.free_variables)[0]
        mu, slope = form.graph.zeros(), np.zeros(theta.size)
        mu[: entries.size] = pullback.mu[entries]
        value, by_mu = self.learner.marginal_loss().value_and_gradient(form.graph, mu, labelled.labels)
        slope[entries] = by_mu[: entries.size]
        return value, *pullback.pull(slope)
