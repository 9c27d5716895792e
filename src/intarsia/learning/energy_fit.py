"""From what users give to learned energies of a chain model: checks, the second stage of a fit, what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._progress import fit_progress
from intarsia._validation import FloatArray, check_n_jobs
from intarsia.energies import Psi
from intarsia.energies.chain_energies import ChainEnergies
from intarsia.energies.registry import resolve_psi
from intarsia.exceptions import InvalidInputError
from intarsia.inference.bethe_chains import check_chain_method
from intarsia.inference.bethe_descent import DescentProjection
from intarsia.inference.bethe_rda import BetheRDA
from intarsia.inference.registry import resolve_method
from intarsia.learning.chain_data import ChainExamples
from intarsia.learning.energy_learner import EnergyLearner
from intarsia.learning.fitted_energies import FittedEnergies
from intarsia.learning.registry import resolve_energy_learner
from intarsia.learning.surrogate_risk import SurrogateRisk

if TYPE_CHECKING:
    from intarsia.learning.chain_crf import ChainCRF


@dataclass(frozen=True, eq=False)
class EnergyParts:
    """The settings of energies, resolved and checked."""

    psi: Psi
    method: DescentProjection
    learner: EnergyLearner


def resolve_energies(crf: Any, where: str) -> EnergyParts | None:
    """Settings of an estimator; None where it has no energies."""
    if crf.energies is None:
        return None
    try:
        # The paper finds most of the effect within ten calls, and stops at forty.
        given = BetheRDA(max_iter=40) if crf.inference is None else resolve_method(crf.inference)
        method = check_chain_method(given, where)
        learner = resolve_energy_learner(crf.energy_learner)
        learner.check_settings()
        return EnergyParts(resolve_psi(crf.psi), method, learner)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None


def bind_energies(crf: ChainCRF, classes: NDArray[Any], length: int, where: str) -> ChainEnergies:
    """Energies that speak of these labels."""
    try:
        return ChainEnergies(crf.energies or [], classes.tolist(), length)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None


def fit_energies(
    crf: ChainCRF,
    parts: EnergyParts,
    energies: ChainEnergies,
    examples: ChainExamples,
    weights: FloatArray,
    settings: Mapping[str, Any],
    fix_theta: bool,
    before: FittedEnergies | None,
) -> tuple[FloatArray, FittedEnergies, dict[str, FloatArray]]:
    """Learn strengths, and weights unless they are fixed; beginning with the strengths of `before`, if there are.

    `settings` are those of the learner of weights: its penalty and its workers.
    """
    mass = examples.mass or 1.0
    n_jobs = settings.get("n_jobs") if crf.n_jobs is None else crf.n_jobs
    check_n_jobs(n_jobs, "ChainCRF.fit: n_jobs")
    risk = SurrogateRisk(
        examples, energies, parts.psi, parts.method, fixed=weights if fix_theta else None,
        ridge=float(settings.get("l2", 0.0)) / mass, psi_ridge=float(parts.learner.l2) / mass,
        n_jobs=n_jobs,
    )  # fmt: skip
    first = risk.start(weights)
    if before is not None and risk.join(weights, before.weights).shape == first.shape:
        first = risk.join(weights, before.weights)
    with fit_progress("ChainCRF energies", bool(crf.verbose)) as report:
        found = parts.learner.learn(risk, first, report)
    point = found.point if np.isfinite(found.point).all() else first
    own, psi_weights = risk.split(point)
    fitted = FittedEnergies(energies, parts.psi, psi_weights.copy(), parts.method)
    return (weights if fix_theta else own.copy()), fitted, found.history
