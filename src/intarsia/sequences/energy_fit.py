"""Learn the weights psi of energies of a chain model by a surrogate likelihood, and apply energies to sequences."""

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
from intarsia.learning.energy_risk import EnergyRisk, ProjectionReport, Ranges
from intarsia.sequences.chain_data import TILTED_CHUNK, ChainData, ChainExamples, ChainScores, cut_in_chunks
from intarsia.sequences.chain_prediction import Tilt
from intarsia.sequences.maximum_likelihood import MAX_GROUPS

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF


class SurrogateRisk(EnergyRisk):
    r"""Negative surrogate log-likelihood per labelled position (Vilnis2015 Eq. 12), and its gradient.

    .. math:: R(w, \psi) = -\frac1N \sum_s a_s \log Q(A_s; \mu_s) + \frac r2 \lVert w \rVert^2,

    where Q is the chain with the scores :math:`\rho_s = \theta_s(w) - \sum_j \psi_j g_{sj}`, :math:`A_s` are the known
    or allowed labels, and :math:`g_{sj}` is the final slope of preference j in inference: at convergence the slope at
    the marginals :math:`\mu_s`, for energies with kinks a mean of slopes. So Q is the model that predicts. A call with
    a point infers the marginals again; its gradient holds the slopes fixed, so it is not the gradient of the value.
    `with_slopes` reuses the slopes of one point.

    A point consists of w (unless it is fixed), followed by the weights of psi.

    Parameters
    ----------
    examples : ChainExamples
        Labelled sequences.
    energies : ChainEnergies
        Energies of every sequence.
    psi : Psi
        Weights psi of the energies as a function of the input.
    method : DescentProjection
        Inference method for marginals under the energies.
    fixed : float array, optional
        Weights w that are not learned.
    ridge, psi_ridge : float
        L2 regularization r/2 |w|^2 of w, and of the weights of all features of psi except the first, relative to the
        risk per position.
    n_jobs : int, optional
        Number of threads, or of workers of `joblib.parallel_config`; the result does not depend on it.
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
        # Sequences of equal length are evaluated together.
        self.examples = examples.subset(by_length(examples.data.ptr)[0])
        self.energies, self.method = energies, method
        super().__init__(
            psi, psi.features_of(self.examples.data.matrix, self.examples.data.ptr), energies.psi,
            n_weights=0 if fixed is not None else examples.layout.n_weights, mass=examples.mass, ridge=ridge,
            psi_ridge=psi_ridge, n_jobs=n_jobs,
        )  # fmt: skip
        self._base: ChainBatch | None = None
        if fixed is not None:  # then the scores are computed once
            self._base = self._scores().batch(fixed, 0, len(self.examples))

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.examples)

    def subset(self, indices: ArrayLike) -> SurrogateRisk:
        """Return the risk of some sequences, per labelled position of these sequences."""
        sorted_indices = np.sort(np.asarray(indices, dtype=np.int64))  # sorted, to stay sorted by length
        risk = self.uncut()
        risk.examples = self.examples.subset(sorted_indices)
        risk.features = self.features[sorted_indices]
        risk.mass = risk.examples.mass
        risk._base = None if self._base is None else self._base.subset(sorted_indices)
        return risk

    def parts(self) -> list[Ranges]:
        """Return groups of chunks of sequences; few, because each group has its own gradient."""
        chunks = cut_in_chunks(self.examples.data.ptr, TILTED_CHUNK)
        groups = np.array_split(np.arange(len(chunks)), max(1, min(MAX_GROUPS, len(chunks))))
        return [[chunks[i] for i in group] for group in groups]

    def find_slope(self, weights: FloatArray, strengths: FloatArray, first: int, last: int) -> FloatArray:
        """Return the slopes of the energies, by `project_chains`."""
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
        """Return the value of a chunk and its gradient in psi; add its gradient in w to `gradient`."""
        batch = self._batch(weights, first, last)
        slope = self._slope(batch, strengths) if slope is None else slope
        examples, ptr = self.examples, self.examples.data.ptr
        weight = examples.truth.weight[first:last]
        oracle = ChainOracle(batch, self.energies, strengths)
        tilted = oracle.tilted(slope)
        possible = examples.truth.possible(examples.layout.n_labels)[ptr[first] : ptr[last]]
        free = self._expect(tilted, weight)
        clamped = self._expect(tilted.restricted(possible), weight)
        value = float(weight @ (free.log_partition - clamped.log_partition))
        # Vilnis2015 Eq. 17 with the sign corrected: log Q decreases if the readings of the labels exceed those of Q.
        by_psi = weight[:, None] * oracle.energy.by_psi(slope * (oracle.read(clamped) - oracle.read(free)))
        if self.n_weights:
            residual = (free.nodes - clamped.nodes) * np.repeat(weight, oracle.lengths)[:, None]
            transitions = np.asarray(free.transitions) - np.asarray(clamped.transitions)
            self._pull_back(residual, transitions, batch, first, last, gradient)
        return value, by_psi

    def _expect(self, batch: ChainBatch, weight: FloatArray) -> ChainMarginals:
        """Return marginals; transitions per step if tables differ by step, their weighted sum if w is learned."""
        if batch.has_table_per_step:
            return chain_marginals(batch, transitions="steps")
        if self.n_weights:
            return chain_marginals(batch, transitions="sum", sequence_weight=weight)
        return chain_marginals(batch, transitions=None)

    def _pull_back(
        self, residual: FloatArray, transitions: FloatArray, batch: ChainBatch, first: int, last: int, out: FloatArray
    ) -> None:
        """Add the gradient in w of a chunk to `out`, using only the features of its rows."""
        is_all = last - first == len(self)
        examples = self.examples if is_all else self.examples.subset(np.arange(first, last))
        layout = examples.layout
        views = layout.unpack(out[: self.n_weights])
        k = layout.n_labels
        features = ChainScores(examples.data, layout, examples.constraints).features
        features.pull_back(residual, out[: layout.n_states], 0, len(residual))
        if views.start is not None and views.end is not None:
            views.start[:] += residual[batch.ptr[:-1]].sum(axis=0)
            views.end[:] += residual[batch.ptr[1:] - 1].sum(axis=0)
        if transitions.ndim == 3:
            weight = np.repeat(examples.truth.weight, examples.data.lengths - 1)
            steps = weight[:, None] * transitions.reshape(-1, k * k)
            if views.edges is not None and len(steps):
                views.edges[:] += (examples.data.edges.T @ steps).reshape(-1, k, k)
            transitions = steps.sum(axis=0).reshape(k, k)
        views.transitions[:] += transitions

    def _batch(self, weights: FloatArray, first: int, last: int) -> ChainBatch:
        if self._base is not None:
            return self._base if last - first == len(self) else self._base.part(first, last)
        return self._scores().batch(weights, first, last)

    def _scores(self) -> ChainScores:
        return ChainScores(self.examples.data, self.examples.layout, self.examples.constraints)


@dataclass(frozen=True, eq=False)
class FittedEnergies:
    """Energies with the learned weights of psi.

    Attributes
    ----------
    energies : ChainEnergies
        Energies of every sequence.
    psi : Psi
        Weights psi of the energies as a function of the input.
    weights : (n_psi, n_features of psi) float array
        Learned weights W of psi.
    method : DescentProjection
        Inference method for marginals under the energies.
    """

    energies: ChainEnergies
    psi: Psi
    weights: FloatArray
    method: DescentProjection

    def strengths(self, data: ChainData) -> FloatArray:
        """Return the weights psi (n_sequences, n_psi) of all preferences, at least 0."""
        return np.minimum(self.psi.values(self.weights, self.psi.features_of(data.matrix, data.ptr)), STRONGEST)

    def tilt(self, data: ChainData) -> Tilt:
        """Return the function that subtracts the slopes of the energies from the scores of a batch of `data`."""
        return _EnergyTilt(self.energies, self.method, self.strengths(data))


@dataclass(frozen=True, eq=False)
class _EnergyTilt:
    """Subtraction of the slopes of energies from the scores of sequences."""

    energies: ChainEnergies
    method: DescentProjection
    strengths: FloatArray

    def __call__(self, batch: ChainBatch, first: int) -> tuple[ChainBatch, ProjectionReport]:
        psi = self.strengths[first : first + batch.n_sequences]
        order, rank = by_length(batch.ptr)
        in_order = bool((order == np.arange(order.size)).all())
        by_size = batch if in_order else batch.subset(order)
        projection = project_chains(by_size, self.energies, psi[order], self.method)
        failed = ~projection.converged
        report = ProjectionReport(failed.size, int(failed.sum()), float(projection.residual[failed].max(initial=0.0)))
        return (projection.batch if in_order else projection.batch.subset(rank)), report

    def part(self, first: int, last: int) -> _EnergyTilt:
        """Return the subtraction for sequences `first` .. `last` - 1."""
        return replace(self, strengths=self.strengths[first:last])


@dataclass(frozen=True, eq=False)
class EnergyParts:
    """Checked settings of energies."""

    psi: Psi
    method: DescentProjection
    learner: EnergyLearner


def resolve_energies(crf: Any) -> EnergyParts | None:
    """Return the checked energy settings of an estimator; None if it has no energies."""
    if crf.energies is None:
        return None
    # In the paper, ten iterations give most of the effect, and forty are the maximum.
    projection = BetheRDA(max_iter=40) if crf.projection is None else METHODS.resolve(crf.projection)
    method = check_chain_method(projection)
    learner = ENERGY_LEARNERS.resolve(crf.energy_learner)
    learner.check_settings()
    return EnergyParts(PSIS.resolve(crf.psi), method, learner)


def bind_energies(crf: ChainCRF, classes: NDArray[Any], length: int) -> ChainEnergies:
    """Return the energies of an estimator bound to these labels."""
    return ChainEnergies(crf.energies or [], classes.tolist(), length)


def fit_energies(
    crf: ChainCRF,
    parts: EnergyParts,
    energies: ChainEnergies,
    examples: ChainExamples,
    weights: FloatArray,
    settings: Mapping[str, Any],
    freeze_weights: bool,
    previous: FittedEnergies | None,
) -> tuple[FloatArray, FittedEnergies, dict[str, FloatArray]]:
    """Learn psi, and the CRF weights unless they are frozen, starting from the psi of `previous` if there is one.

    `settings` are the settings of the learner of the CRF weights: its regularization and number of jobs.
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
    if previous is not None and risk.join(weights, previous.weights).shape == first.shape:
        first = risk.join(weights, previous.weights)
    with fit_progress("ChainCRF energies", bool(crf.verbose)) as report:
        minimum = parts.learner.learn(risk, first, report)
    point = minimum.point if np.isfinite(minimum.point).all() else first
    crf_weights, psi_weights = risk.split(point)
    fitted = FittedEnergies(energies, parts.psi, psi_weights.copy(), parts.method)
    return (weights if freeze_weights else crf_weights.copy()), fitted, minimum.history
