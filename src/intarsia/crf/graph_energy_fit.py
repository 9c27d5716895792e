"""Energies of `GraphCRF`: checks of the settings, the second stage of a fit, and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.progress import fit_progress
from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray, check_n_jobs
from intarsia._files.saved_model import Arrays, finite_array
from intarsia.crf.graph_energies import FittedGraphEnergies, check_psi_types, labels_of_variables, psi_features
from intarsia.crf.graph_surrogate_risk import GraphSurrogateRisk, check_learnable
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import has_energies
from intarsia.energies.binding.graph_energies import GraphEnergies
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
    """Settings of the energies, resolved and checked; without a learner the strengths are not learned."""

    psi: Psi
    method: BetheProjection
    oracle: InferenceMethod
    learner: EnergyLearner | None


def resolve_graph_energies(crf: GraphCRF) -> GraphEnergyParts | None:
    """Resolve and check the energy settings of an estimator; return None if it has no energies."""
    if not has_energies(crf.energies):
        return None
    oracle = METHODS.resolve(crf.inference, {})
    if not (oracle.exact or isinstance(oracle, TreeReweighted)):
        raise NotSupportedError(
            f"energies need exact or convex inference, but inference is {type(oracle).__name__}. Use "
            f"'tree', 'junction_tree' or 'tree_reweighted'."
        )
    learner = None if crf.energy_learner is None else ENERGY_LEARNERS.resolve(crf.energy_learner)
    if learner is not None:
        learner.check_settings()
    return GraphEnergyParts(PSIS.resolve(crf.psi), _projection(crf, oracle), oracle, learner)


def _projection(crf: GraphCRF, oracle: InferenceMethod) -> BetheProjection:
    # In the paper most of the effect occurs within ten iterations, and the limit is forty.
    method = BetheRDA(max_iter=40) if crf.projection is None else METHODS.resolve(crf.projection, {})
    if not isinstance(method, BetheProjection):
        raise NotSupportedError(
            f"projection={type(method).__name__} does not support energies. Use BetheRDA, BetheMirrorDescent, "
            f"BetheAccelerated or BetheDual."
        )
    if method.energy is not None or method.temperature not in (None, 1, 1.0):
        raise NotSupportedError(
            "projection has its own energy or temperature. Pass energies= to the estimator, and leave these two at "
            "their defaults."
        )
    method.check_settings()
    projection: BetheProjection = clone(method).set_params(oracle=oracle) if method.oracle == "auto" else method
    return projection


def bind_graph_energies(
    crf: GraphCRF, parts: GraphEnergyParts, maps: Sequence[TemplateScores], classes: Mapping[str, NDArray[Any]]
) -> GraphEnergies:
    """Return the energies that apply to some of these graphs, after checking them and psi."""
    for scores in maps[:1]:
        check_psi_types(parts.psi, scores.templates)
    graphs = [(scores.graph, labels_of_variables(scores, classes)) for scores in maps]
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
    previous: FittedGraphEnergies | None,
) -> tuple[FloatArray, FittedGraphEnergies, dict[str, FloatArray]]:
    """Learn the strengths, and also the weights unless they are frozen; return weights, energies and history.

    Learning starts from the strengths of `previous`, if passed. `settings` are those of the learner of the weights, for
    its regularization (`l2`) and number of workers.
    """
    maps: list[Any] = [labelled.scores for labelled in examples]
    features = psi_features(parts.psi, maps)
    psi_weights = parts.psi.initial_of(energies.psi, features.shape[1])
    if previous is not None and previous.weights.shape == psi_weights.shape:
        psi_weights = previous.weights
    history: dict[str, FloatArray] = {}
    if parts.learner is not None and not energies.fixed.all():
        check_n_jobs(settings.get("n_jobs"), "n_jobs")
        mass = sum(labelled.mass for labelled in examples) or 1.0
        bound = [energies.bound(scores.graph, labels_of_variables(scores, classes)) for scores in maps]
        risk = GraphSurrogateRisk(
            examples, bound, energies.psi, parts.psi, features, parts.method, parts.oracle,
            fixed=weights if freeze_weights else None, ridge=float(settings.get("l2", 0.0)) / mass,
            psi_ridge=float(parts.learner.l2) / mass, psi_rate=float(parts.learner.l1) / mass,
            fixed_psi=energies.fixed, n_jobs=settings.get("n_jobs"),
        )  # fmt: skip
        start = risk.join(weights, psi_weights)
        with fit_progress("GraphCRF energies", bool(crf.verbose)) as report:
            minimum = parts.learner.learn(risk, start, report)
        learned_weights, psi_weights = risk.split(minimum.point if np.isfinite(minimum.point).all() else start)
        weights, history = (weights if freeze_weights else learned_weights.copy()), minimum.history
    return weights, FittedGraphEnergies(energies, parts.psi, psi_weights.copy(), parts.method), history


def graph_energies_to_file(crf: GraphCRF) -> tuple[dict[str, Any], Arrays]:
    """Return the content of a file for the fitted energies: metadata and arrays."""
    fitted = crf.energies_
    if fitted is None:
        return {}, {}
    metadata = {"energy_sizes": fitted.energies.sizes, "energy_history": sorted(crf.energy_history_)}
    histories = {f"energy_history_{name}": values for name, values in crf.energy_history_.items()}
    arrays = {"psi": fitted.energies.psi, "psi_weights": fitted.weights, **histories}
    return metadata, arrays


def graph_energies_from_file(
    crf: GraphCRF, metadata: dict[str, Any], arrays: Arrays
) -> tuple[FittedGraphEnergies | None, dict[str, FloatArray]]:
    """Restore energies and their history from the content of a file, which is checked before it is used."""
    if "energy_sizes" not in metadata:
        return None, {}
    parts = resolve_graph_energies(crf)
    sizes = [int(size) for size in metadata["energy_sizes"]]
    if parts is None or crf.energies is None or min(sizes, default=0) < 0:
        raise ValueError("energies")
    psi = finite_array(arrays, "psi", (sum(sizes),))
    energies = GraphEnergies(crf.energies, sizes, psi)
    if len(energies.members) != len(sizes) or (psi < 0).any():
        raise ValueError("energies")
    kinds = list(crf.templates_.n_features.values())
    shape = (psi.size, parts.psi.n_features(kinds[0] if len(kinds) == 1 else 1))
    psi_weights = finite_array(arrays, "psi_weights", shape)
    fitted = FittedGraphEnergies(energies, parts.psi, psi_weights, parts.method)
    history = {name: arrays[f"energy_history_{name}"].astype(np.float64) for name in metadata["energy_history"]}
    return fitted, history
