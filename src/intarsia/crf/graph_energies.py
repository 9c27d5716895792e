"""Fitted energies of a graph model: their strengths for each graph, and scores that include their gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._core.settings import clone
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import STRONGEST
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.energies.binding.graph_energies import GraphEnergies, Names
from intarsia.exceptions import NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.inference.infer import run_inference
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.inference.result import InferenceResult
from intarsia.learning.energy_risk import ProjectionReport
from intarsia.models.template_scores import Templates, TemplateScores


def project_graph(
    graph: FactorGraph, theta: FloatArray, energy: BoundEnergy, method: BetheProjection
) -> InferenceResult:
    """Compute the marginals of a graph under an energy, without a convergence warning (callers report it)."""
    return run_inference(graph, theta, clone(method).set_params(energy=energy))


def labels_of_variables(scores: TemplateScores, classes: Mapping[str, NDArray[Any]]) -> Names:
    """Return the labels of the variables of a graph: one list for all, or a list per variable if there are types."""
    labels_by_type = {kind: classes[kind].tolist() for kind in scores.templates.n_states}
    if len(labels_by_type) == 1:
        return next(iter(labels_by_type.values()))
    counts = [block.features.shape[0] for block in scores.blocks[: len(labels_by_type)]]
    return [labels for labels, n in zip(labels_by_type.values(), counts, strict=True) for _ in range(n)]


def check_psi_types(psi: Psi, templates: Templates) -> None:
    """Raise if psi depends on features of variables, but there are several types with different features."""
    types = list(templates.n_states)
    if len(types) > 1 and psi.n_features(1) > 1:
        raise NotSupportedError(
            f"psi={type(psi).__name__} depends on features of variables, but these have several types: {types}. "
            f"Use psi='constant'."
        )


def psi_features(psi: Psi, maps: Sequence[TemplateScores]) -> FloatArray:
    """Return the features (n_graphs, n_features) on which the strengths depend, computed from those of variables."""
    rows, counts = [], []
    for scores in maps:
        check_psi_types(psi, scores.templates)
        features = scores.blocks[0].features
        if len(scores.templates.n_states) > 1:  # columns differ between types, but psi does not depend on features
            features = np.zeros((scores.graph.n_variables, 1))
        rows.append(features)
        counts.append(features.shape[0])
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    features_of_variables = (
        sparse.vstack(rows, format="csr") if any(map(sparse.issparse, rows)) else np.concatenate(rows)
    )
    return psi.features_of(features_of_variables, ptr)


@dataclass(frozen=True, eq=False)
class FittedGraphEnergies:
    """Energies of graphs with the learned weights of their strengths (the weights psi of the energies).

    Attributes
    ----------
    energies : GraphEnergies
        Global preferences on the labels.
    psi : Psi
        Model of the strengths as a function of the features.
    weights : (n_psi, n_features of psi) float array
        Learned weights of this model.
    method : BetheProjection
        Inference method that computes marginals under the energies.
    """

    energies: GraphEnergies
    psi: Psi
    weights: FloatArray
    method: BetheProjection

    def strengths(self, maps: Sequence[TemplateScores]) -> FloatArray:
        """Return the strengths (n_graphs, n_psi) of all energies, at least 0."""
        free_strengths = np.minimum(self.psi.values(self.weights, psi_features(self.psi, maps)), STRONGEST)
        return np.where(self.energies.fixed, self.energies.psi, free_strengths)

    def add_energies(self, maps: Sequence[TemplateScores], names: Sequence[Names]) -> list[ScoresWithEnergy]:
        """Return feature maps whose scores include the gradient of the energies."""
        strengths = self.strengths(maps)
        return [
            ScoresWithEnergy(scores, self.energies.bound(scores.graph, labels).with_psi(psi), self.method)
            for scores, labels, psi in zip(maps, names, strengths, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class ScoresWithEnergy:
    """Feature map from weights to scores minus the gradient of an energy (Vilnis2015, Proposition 1)."""

    scores: TemplateScores
    energy: BoundEnergy
    method: BetheProjection

    @property
    def graph(self) -> FactorGraph:
        """Graph of the scores."""
        return self.scores.graph

    def project(self, weights: FloatArray) -> tuple[FloatArray, ProjectionReport]:
        """Return the scores minus the gradient of the energy, and a report on convergence.

        The scores are returned unchanged if no labelling is possible.
        """
        theta = self.scores.theta(weights)
        result = project_graph(self.graph, theta, self.energy, self.method)
        failed = not (result.converged or result.status is Status.INFEASIBLE)
        report = ProjectionReport(1, int(failed), float(result.residual) if failed else 0.0)
        return (theta if result.tilted_theta is None else result.tilted_theta), report


@dataclass(frozen=True, eq=False)
class FixedScores:
    """Feature map with constant scores, independent of the weights."""

    graph: FactorGraph
    values: FloatArray

    def theta(self, weights: FloatArray) -> FloatArray:
        """Return the constant scores."""
        return self.values


def project_scores(
    weights: FloatArray, inference: Any, tilted: ScoresWithEnergy
) -> tuple[FixedScores, ProjectionReport]:
    """Return the constant scores of one example under its energy, and a report on convergence."""
    values, report = tilted.project(weights)
    return FixedScores(tilted.graph, values), report
