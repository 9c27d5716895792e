"""From what users give to learned energies of a graph model: checks, the second stage of a fit, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from intarsia._core.progress import fit_progress
from intarsia._core.validation import FloatArray, check_n_jobs
from intarsia._files.saved_model import Arrays, finite_array
from intarsia.crf.graph_energies import FittedGraphEnergies, check_psi_types, names_of, psi_features
from intarsia.crf.graph_surrogate_risk import GraphSurrogateRisk, check_learnable
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import GraphEnergies
from intarsia.energies.registry import PSIS
from intarsia.exceptions import NotSupportedError
from intarsia.inference import InferenceMethod
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.inference.registry import METHODS
from intarsia.learning.energy_learner import ENERGY_LEARNERS, EnergyLearner
from intarsia.learning.examples import Example
from intarsia.models.template_scores import TemplateScores

if TYPE_CHECKING:
    from intarsia.crf.graph_crf import GraphCRF


@dataclass(frozen=True, eq=False)
class GraphEnergyParts:
    """The settings of energies, resolved and checked; without a learner strengths stay as they are given."""

    psi: Psi
    method: BetheProjection
    oracle: InferenceMethod
    learner: EnergyLearner | None


def resolve_graph_energies(crf: GraphCRF) -> GraphEnergyParts | None:
    """Settings of an estimator; None where it has no energies."""
    if crf.energies is None:
        return None
    oracle = METHODS.resolve(crf.inference, {})
    if not (oracle.exact or isinstance(oracle, TreeReweighted)):
        raise NotSupportedError(
            f"energies need exact or convex marginals, but inference is {type(oracle).__name__}. Use "
            f"'tree', 'junction_tree' or 'tree_reweighted'."
        )
    learner = None if crf.energy_learner is None else ENERGY_LEARNERS.resolve(crf.energy_learner)
    if learner is not None:
        learner.check_settings()
    return GraphEnergyParts(PSIS.resolve(crf.psi), _projection(crf, oracle), oracle, learner)


def _projection(crf: GraphCRF, oracle: InferenceMethod) -> BetheProjection:
    # The paper finds most of the effect within ten calls, and stops at forty.
    method = BetheRDA(max_iter=40) if crf.projection is None else METHODS.resolve(crf.projection, {})
    if not isinstance(method, BetheProjection):
        raise NotSupportedError(
            f"projection={type(method).__name__} takes no energies. These do: BetheRDA, BetheMirrorDescent, "
            f"BetheAccelerated, BetheDual."
        )
    if method.energy is not None or method.temperature not in (None, 1, 1.0):
        raise NotSupportedError("give energies= to the estimator, and leave energy and temperature out.")
    method.check_settings()
    asked: BetheProjection = clone(method).set_params(oracle=oracle) if method.oracle == "auto" else method
    return asked


def bind_graph_energies(
    crf: GraphCRF, parts: GraphEnergyParts, maps: Sequence[TemplateScores], classes: Mapping[str, NDArray[Any]]
) -> GraphEnergies:
    """Energies that make sense for some of these graphs, checked together with psi before anything is learned."""
    for scores in maps[:1]:
        check_psi_types(parts.psi, scores.templates)
    graphs = [(scores.graph, names_of(scores, classes)) for scores in maps]
    energies = GraphEnergies.known(crf.energies or [], graphs)
    for graph, names in graphs:
        bound = energies.bound(graph, names).with_psi(energies.psi)
        parts.method.check_energy(bound)
        if parts.learner is not None:
            check_learnable(bound)
    return energies


def fit_graph_energies(
    crf: GraphCRF,
    parts: GraphEnergyParts,
    energies: GraphEnergies,
    examples: Sequence[Example],
    classes: Mapping[str, NDArray[Any]],
    weights: FloatArray,
    settings: Mapping[str, Any],
    freeze_weights: bool,
    before: FittedGraphEnergies | None,
) -> tuple[FloatArray, FittedGraphEnergies, dict[str, FloatArray]]:
    """Learn strengths, and weights unless they are fixed; beginning with the strengths of `before`, if there are.

    `settings` are those of the learner of weights: its penalty and its workers.
    """
    maps: list[Any] = [one.scores for one in examples]
    features = psi_features(parts.psi, maps)
    psi_weights = parts.psi.initial_of(energies.psi, features.shape[1])
    if before is not None and before.weights.shape == psi_weights.shape:
        psi_weights = before.weights
    history: dict[str, FloatArray] = {}
    if parts.learner is not None:
        check_n_jobs(settings.get("n_jobs"), "n_jobs")
        mass = sum(one.mass for one in examples) or 1.0
        bound = [energies.bound(scores.graph, names_of(scores, classes)) for scores in maps]
        risk = GraphSurrogateRisk(
            examples, bound, energies.psi, parts.psi, features, parts.method, parts.oracle,
            fixed=weights if freeze_weights else None,
            ridge=float(settings.get("l2", 0.0)) / mass,
            psi_ridge=float(parts.learner.l2) / mass,
            n_jobs=settings.get("n_jobs"),
        )  # fmt: skip
        first = risk.join(weights, psi_weights)
        with fit_progress("GraphCRF energies", bool(crf.verbose)) as report:
            found = parts.learner.learn(risk, first, report)
        own, psi_weights = risk.split(found.point if np.isfinite(found.point).all() else first)
        weights, history = (weights if freeze_weights else own.copy()), found.history
    return weights, FittedGraphEnergies(energies, parts.psi, psi_weights.copy(), parts.method), history


def graph_energies_to_file(crf: GraphCRF) -> tuple[dict[str, Any], Arrays]:
    """What was learned of energies."""
    fitted = crf.energies_
    if fitted is None:
        return {}, {}
    about = {"energy_sizes": fitted.energies.sizes, "energy_history": sorted(crf.energy_history_)}
    histories = {f"energy_history_{name}": values for name, values in crf.energy_history_.items()}
    return about, {"psi": fitted.energies.psi, "psi_weights": fitted.weights, **histories}


def graph_energies_from_file(
    crf: GraphCRF, about: dict[str, Any], arrays: Arrays
) -> tuple[FittedGraphEnergies | None, dict[str, FloatArray]]:
    """The way back; everything is checked before it is used."""
    if "energy_sizes" not in about:
        return None, {}
    parts = resolve_graph_energies(crf)
    sizes = [int(size) for size in about["energy_sizes"]]
    if parts is None or crf.energies is None or min(sizes, default=0) < 0:
        raise ValueError("energies")
    psi = finite_array(arrays, "psi", (sum(sizes),))
    energies = GraphEnergies(crf.energies, sizes, psi)
    if len(energies.members) != len(sizes) or (psi < 0).any():
        raise ValueError("energies")
    kinds = list(crf.templates_.n_features.values())
    shape = (psi.size, parts.psi.n_features(kinds[0] if len(kinds) == 1 else 1))
    fitted = FittedGraphEnergies(energies, parts.psi, finite_array(arrays, "psi_weights", shape), parts.method)
    history = {name: arrays[f"energy_history_{name}"].astype(np.float64) for name in about["energy_history"]}
    return fitted, history
