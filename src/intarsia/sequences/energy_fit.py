"""Fit the energies of a chain model by their surrogate likelihood, and tilt the models of given sequences by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.progress import fit_progress
from intarsia._core.validation import FloatArray, check_n_jobs
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import STRONGEST, ChainEnergies
from intarsia.energies.registry import PSIS
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.bethe_chains import ChainOracle, by_length, check_chain_method, project_chains
from intarsia.inference.chains.chain_inference import ChainMarginals, chain_marginals
from intarsia.inference.projection.bethe_descent import DescentProjection
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.inference.registry import METHODS
from intarsia.learning.energy_learner import ENERGY_LEARNERS, EnergyLearner
from intarsia.learning.energy_risk import EnergyRisk, Ranges
from intarsia.learning.projection_report import ProjectionReport
from intarsia.sequences.chain_data import TILTED_CHUNK, ChainData, ChainExamples, ChainScores, cut_in_chunks
from intarsia.sequences.chain_prediction import Tilt
from intarsia.sequences.maximum_likelihood import MAX_GROUPS

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF


class SurrogateRisk(EnergyRisk):
    r"""The negative surrogate log-likelihood per labelled position (Vilnis2015 Eq. 12), and its gradient.

    .. math:: R(w, \psi) = -\frac1N \sum_s a_s \log Q(A_s; \mu_s) + \frac r2 \lVert w \rVert^2,

    where Q is the chain with the scores :math:`\rho_s = \theta_s(w) - \sum_j \psi_j g_{sj}`, :math:`A_s` the labels
    that are known or allowed, and :math:`g_{sj}` the slope of preference j under which inference left the sequence: at
    convergence that at its marginals :math:`\mu_s`; of energies with kinks, where no single slope will do, their mean.
    So Q is at first the very model that predicts. Called with a point, it infers anew (the gradient holds the slopes
    fixed, so it is not that of the value); `with_slopes` keeps those of one point.

    A point is w (unless it is fixed) followed by the weights of the strengths.

    Parameters
    ----------
    examples : ChainExamples
        Labelled sequences.
    energies : ChainEnergies
        What is wanted.
    psi : Psi
        How strengths depend on the input.
    method : DescentProjection
        How marginals are found.
    fixed : float array, optional
        Weights w that are not learned.
    ridge, psi_ridge : float
        Penalties r/2 |w|^2 on w, and on the weights of all features of psi but the first, relative to the risk per
        position.
    n_jobs : int, optional
        Threads, or workers of `joblib.parallel_config`; the result does not depend on it.
    """

    def __init__(
        self,
        examples: ChainExamples,
        energies: ChainEnergies,
        psi: Psi,
        method: DescentProjection,
        *,
        fixed: FloatArray | None = None,
        ridge: float = 0.0,
        psi_ridge: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        # Energies want sequences of one length side by side.
        self.examples = examples.subset(by_length(examples.data.ptr)[0])
        self.energies, self.method = energies, method
        super().__init__(
            psi, psi.features_of(self.examples.data.matrix, self.examples.data.ptr), energies.psi,
            n_weights=0 if fixed is not None else examples.layout.n_weights, mass=examples.mass, ridge=ridge,
            psi_ridge=psi_ridge, n_jobs=n_jobs,
        )  # fmt: skip
        self._base: ChainBatch | None = None
        if fixed is not None:  # then scores are worked out once
            self._base = self._scores().batch(fixed, 0, len(self.examples))

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.examples)

    def subset(self, indices: ArrayLike) -> SurrogateRisk:
        """The risk of some of the sequences, over their own mass."""
        chosen = np.sort(np.asarray(indices, dtype=np.int64))  # keeps the order by length
        part = self.uncut()
        part.examples = self.examples.subset(chosen)
        part.features = self.features[chosen]
        part.mass = part.examples.mass
        part._base = None if self._base is None else self._base.subset(chosen)
        return part

    def parts(self) -> list[Ranges]:
        """Chunks of sequences; each part has a gradient of its own, so there are few."""
        chunks = cut_in_chunks(self.examples.data.ptr, TILTED_CHUNK)
        groups = np.array_split(np.arange(len(chunks)), max(1, min(MAX_GROUPS, len(chunks))))
        return [[chunks[i] for i in group] for group in groups]

    def find_slope(self, weights: FloatArray, strengths: FloatArray, first: int, last: int) -> FloatArray:
        """Slopes by `project_chains`."""
        return self._slope(self._batch(weights, first, last), strengths)

    def _slope(self, batch: ChainBatch, strengths: FloatArray) -> FloatArray:
        return project_chains(batch, self.energies, strengths, self.method).slope

    def add_up(
        self,
        weights: FloatArray,
        strengths: FloatArray,
        slope: FloatArray | None,
        first: int,
        last: int,
        gradient: FloatArray,
    ) -> tuple[float, FloatArray]:
        """Value of a chunk and its gradient in psi; that in w is added to `gradient`."""
        batch = self._batch(weights, first, last)
        slope = self._slope(batch, strengths) if slope is None else slope
        examples, ptr = self.examples, self.examples.data.ptr
        weight = examples.truth.weight[first:last]
        oracle = ChainOracle(batch, self.energies, strengths)
        tilted = oracle.tilted(slope)
        possible = examples.truth.possible(examples.layout.n_labels)[ptr[first] : ptr[last]]
        free = self._expect(tilted, weight)
        told = self._expect(tilted.restricted(possible), weight)
        value = float(weight @ (free.log_partition - told.log_partition))
        # Vilnis2015 Eq. 17 with its sign put right: log Q falls where the labels have more of the slope than Q expects.
        by_psi = weight[:, None] * oracle.energy.by_psi(slope * (oracle.read(told) - oracle.read(free)))
        if self.n_weights:
            residual = (free.nodes - told.nodes) * np.repeat(weight, oracle.lengths)[:, None]
            transitions = np.asarray(free.transitions) - np.asarray(told.transitions)
            self._pull_back(residual, transitions, batch, first, last, gradient)
        return value, by_psi

    def _expect(self, batch: ChainBatch, weight: FloatArray) -> ChainMarginals:
        """Marginals, with transitions by step where they differ by step, in the weighted sum where w needs them."""
        if batch.has_table_per_step:
            return chain_marginals(batch, transitions="steps")
        if self.n_weights:
            return chain_marginals(batch, transitions="sum", sequence_weight=weight)
        return chain_marginals(batch, transitions=None)

    def _pull_back(
        self, residual: FloatArray, transitions: FloatArray, batch: ChainBatch, first: int, last: int, into: FloatArray
    ) -> None:
        """Add the gradient in w of a chunk; the features are those of its rows only."""
        whole = last - first == len(self)
        examples = self.examples if whole else self.examples.subset(np.arange(first, last))
        layout = examples.layout
        parts = layout.unpack(into[: self.n_weights])  # views
        k = layout.n_labels
        features = ChainScores(examples.data, layout, examples.constraints).features
        features.pull_back(residual, into[: layout.n_states], 0, len(residual))
        if parts.start is not None and parts.end is not None:
            parts.start[:] += residual[batch.ptr[:-1]].sum(axis=0)
            parts.end[:] += residual[batch.ptr[1:] - 1].sum(axis=0)
        if transitions.ndim == 3:
            weight = np.repeat(examples.truth.weight, examples.data.lengths - 1)
            steps = weight[:, None] * transitions.reshape(-1, k * k)
            if parts.edges is not None and len(steps):
                parts.edges[:] += (examples.data.edges.T @ steps).reshape(-1, k, k)
            transitions = steps.sum(axis=0).reshape(k, k)
        parts.transitions[:] += transitions

    def _batch(self, weights: FloatArray, first: int, last: int) -> ChainBatch:
        if self._base is not None:
            return self._base if last - first == len(self) else self._base.part(first, last)
        return self._scores().batch(weights, first, last)

    def _scores(self) -> ChainScores:
        return ChainScores(self.examples.data, self.examples.layout, self.examples.constraints)


@dataclass(frozen=True, eq=False)
class FittedEnergies:
    """Energies with the weights of their strengths.

    Attributes
    ----------
    energies : ChainEnergies
        What is wanted.
    psi : Psi
        How strengths depend on the input.
    weights : (n_psi, n_features of psi) float array
        Learned.
    method : DescentProjection
        How marginals are found.
    """

    energies: ChainEnergies
    psi: Psi
    weights: FloatArray
    method: DescentProjection

    def strengths(self, data: ChainData) -> FloatArray:
        """Strengths (n_sequences, n_psi) of all preferences, at least 0."""
        return np.minimum(self.psi.values(self.weights, self.psi.features_of(data.matrix, data.ptr)), STRONGEST)

    def tilt(self, data: ChainData) -> Tilt:
        """From a batch, and the number of its first sequence in `data`, to the tilted batch."""
        return _EnergyTilt(self.energies, self.method, self.strengths(data))


@dataclass(frozen=True, eq=False)
class _EnergyTilt:
    """What energies of given strengths take from the scores of sequences."""

    energies: ChainEnergies
    method: DescentProjection
    strengths: FloatArray

    def __call__(self, batch: ChainBatch, first: int) -> tuple[ChainBatch, ProjectionReport]:
        psi = self.strengths[first : first + batch.n_sequences]
        order, place = by_length(batch.ptr)
        in_order = bool((order == np.arange(order.size)).all())
        found = project_chains(batch if in_order else batch.subset(order), self.energies, psi[order], self.method)
        failed = ~found.converged
        report = ProjectionReport(failed.size, int(failed.sum()), float(found.residual[failed].max(initial=0.0)))
        return (found.batch if in_order else found.batch.subset(place)), report

    def part(self, first: int, last: int) -> _EnergyTilt:
        """The same for some of the sequences."""
        return replace(self, strengths=self.strengths[first:last])


@dataclass(frozen=True, eq=False)
class EnergyParts:
    """The settings of energies, resolved and checked."""

    psi: Psi
    method: DescentProjection
    learner: EnergyLearner


def resolve_energies(crf: Any) -> EnergyParts | None:
    """Settings of an estimator; None where it has no energies."""
    if crf.energies is None:
        return None
    # The paper finds most of the effect within ten calls, and stops at forty.
    given = BetheRDA(max_iter=40) if crf.projection is None else METHODS.resolve(crf.projection)
    method = check_chain_method(given)
    learner = ENERGY_LEARNERS.resolve(crf.energy_learner)
    learner.check_settings()
    return EnergyParts(PSIS.resolve(crf.psi), method, learner)


def bind_energies(crf: ChainCRF, classes: NDArray[Any], length: int) -> ChainEnergies:
    """Energies that speak of these labels."""
    return ChainEnergies(crf.energies or [], classes.tolist(), length)


def fit_energies(
    crf: ChainCRF,
    parts: EnergyParts,
    energies: ChainEnergies,
    examples: ChainExamples,
    weights: FloatArray,
    settings: Mapping[str, Any],
    freeze_weights: bool,
    before: FittedEnergies | None,
) -> tuple[FloatArray, FittedEnergies, dict[str, FloatArray]]:
    """Learn strengths, and weights unless they are fixed; beginning with the strengths of `before`, if there are.

    `settings` are those of the learner of weights: its penalty and its workers.
    """
    mass = examples.mass or 1.0
    n_jobs = settings.get("n_jobs") if crf.n_jobs is None else crf.n_jobs
    check_n_jobs(n_jobs, "n_jobs")
    risk = SurrogateRisk(
        examples, energies, parts.psi, parts.method, fixed=weights if freeze_weights else None,
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
    return (weights if freeze_weights else own.copy()), fitted, found.history
