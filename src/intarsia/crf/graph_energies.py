"""Learned preferences of a graph model: their strengths for given graphs, and scores tilted by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import STRONGEST, GraphEnergies, Names
from intarsia.energies.binding.bound_energy import BoundEnergy
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
    """Marginals of one graph under an energy; that the search was cut short is no news to those who ask."""
    return run_inference(graph, theta, clone(method).set_params(energy=energy))


def names_of(scores: TemplateScores, classes: Mapping[str, NDArray[Any]]) -> Names:
    """Labels of the variables of a graph: one list for all, or with several types a list for each."""
    listed = {kind: classes[kind].tolist() for kind in scores.templates.n_states}
    if len(listed) == 1:
        return next(iter(listed.values()))
    counts = [block.features.shape[0] for block in scores.blocks[: len(listed)]]
    return [own for own, n in zip(listed.values(), counts, strict=True) for _ in range(n)]


def check_psi_types(psi: Psi, templates: Templates) -> None:
    """Raise where psi depends on features of variables, but these have several types with different columns."""
    types = list(templates.n_states)
    if len(types) > 1 and psi.n_features(1) > 1:
        raise NotSupportedError(
            f"psi={type(psi).__name__} reads features of variables, but there are the types {types}. "
            f"Use psi='constant'."
        )


def psi_features(psi: Psi, maps: Sequence[TemplateScores]) -> FloatArray:
    """Features (n_graphs, n_features) on which strengths depend: those of the variables, of which there is one type."""
    rows, counts = [], []
    for scores in maps:
        check_psi_types(psi, scores.templates)
        features = scores.blocks[0].features
        if len(scores.templates.n_states) > 1:  # rows of several types have other columns, and psi reads none
            features = np.zeros((scores.graph.n_variables, 1))
        rows.append(features)
        counts.append(features.shape[0])
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if not rows:
        return psi.features_of(np.zeros((0, 1)), ptr)
    whole = sparse.vstack(rows, format="csr") if any(map(sparse.issparse, rows)) else np.concatenate(rows)
    return psi.features_of(whole, ptr)


@dataclass(frozen=True, eq=False)
class FittedGraphEnergies:
    """Energies of graphs with the weights of their strengths.

    Attributes
    ----------
    energies : GraphEnergies
        What is wanted.
    psi : Psi
        How strengths depend on the input.
    weights : (n_psi, n_features of psi) float array
        Learned.
    method : BetheProjection
        How marginals are found.
    """

    energies: GraphEnergies
    psi: Psi
    weights: FloatArray
    method: BetheProjection

    def strengths(self, maps: Sequence[TemplateScores]) -> FloatArray:
        """Strengths (n_graphs, n_psi) of all preferences, at least 0."""
        return np.minimum(self.psi.values(self.weights, psi_features(self.psi, maps)), STRONGEST)

    def tilted(self, maps: Sequence[TemplateScores], names: Sequence[Names]) -> list[TiltedScores]:
        """The same maps, whose scores are those of the tilted models."""
        strengths = self.strengths(maps)
        return [
            TiltedScores(scores, self.energies.bound(scores.graph, own).with_psi(psi), self.method)
            for scores, own, psi in zip(maps, names, strengths, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class TiltedScores:
    """A map from weights to the scores of the tilted model (Vilnis2015, Proposition 1)."""

    scores: TemplateScores
    energy: BoundEnergy
    method: BetheProjection

    @property
    def graph(self) -> FactorGraph:
        """What is connected."""
        return self.scores.graph

    def project(self, weights: FloatArray) -> tuple[FloatArray, ProjectionReport]:
        """Scores less the slope of the energy, as they are where nothing is possible; and whether they converged."""
        plain = self.scores.theta(weights)
        found = project_graph(self.graph, plain, self.energy, self.method)
        failed = not (found.converged or found.status is Status.INFEASIBLE)
        report = ProjectionReport(1, int(failed), float(found.residual) if failed else 0.0)
        return (plain if found.tilted_theta is None else found.tilted_theta), report


@dataclass(frozen=True, eq=False)
class FixedScores:
    """Scores that do not depend on weights any more."""

    graph: FactorGraph
    values: FloatArray

    def theta(self, weights: FloatArray) -> FloatArray:
        """The scores."""
        return self.values


def project_scores(weights: FloatArray, inference: Any, tilted: TiltedScores) -> tuple[FixedScores, ProjectionReport]:
    """Scores of one tilted model, and whether inference under its energy converged."""
    values, report = tilted.project(weights)
    return FixedScores(tilted.graph, values), report
