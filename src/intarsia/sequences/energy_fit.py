"""Learn the weights psi of energies of a chain model by a surrogate likelihood, and apply energies to sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.progress import fit_progress
from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray, IntArray, check_n_jobs
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import ChainEnergies, has_energies
from intarsia.energies.registry import PSIS
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.bethe_chains import ChainOracle, check_chain_method, project_chains
from intarsia.inference.chains.chain_inference import ChainMarginals, chain_log_partition, chain_marginals, viterbi
from intarsia.inference.projection.bethe_descent import DescentProjection
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.inference.registry import METHODS
from intarsia.learning.energy_learner import ENERGY_LEARNERS
from intarsia.learning.energy_risk import Assessment, EnergyRisk, Ranges, StrengthRow, StrengthTable, select_energies
from intarsia.sequences.chain_data import TILTED_CHUNK, ChainExamples, ChainScores, cut_in_chunks
from intarsia.sequences.chain_learner import Fold
from intarsia.sequences.fitted_energies import FittedEnergies
from intarsia.sequences.maximum_likelihood import MAX_GROUPS

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF


NOT_LEARNED, NEVER_VIOLATED = "0: no sequence to hold out", "0: never violated"
# An energy whose slope at the marginals of the plain chain is smaller has no measurable effect.
LEAST_SLOPE = 1e-3


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
    folds : sequence of (indices, weights), optional
        Sequences and their weights w, which are then not learned. Every sequence belongs to one fold.
    ridge, psi_ridge, psi_rate : float
        L2 regularization r/2 |w|^2 of w, and of the weights of all features of psi except the first, and the rate of
        the prior of psi, relative to the risk per position.
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
        folds: Sequence[Fold] | None = None,
        ridge: float = 0.0,
        psi_ridge: float = 0.0,
        psi_rate: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        # Sequences of equal length are evaluated together.
        lengths, everything = examples.data.lengths, [np.arange(len(examples))]
        blocks = everything if folds is None else [indices for indices, _ in folds]
        order = np.concatenate([block[np.argsort(lengths[block], kind="stable")] for block in blocks])
        self.examples = examples.subset(order)
        self.energies, self.method = energies, method
        super().__init__(
            psi, psi.features_of(self.examples.data.matrix, self.examples.data.ptr), energies.psi,
            n_weights=0 if folds is not None else examples.layout.n_weights, mass=self.examples.mass, ridge=ridge,
            psi_ridge=psi_ridge, psi_rate=psi_rate, fixed_psi=energies.fixed, n_jobs=n_jobs,
        )  # fmt: skip
        self._ends = np.cumsum([block.size for block in blocks])
        self._base: list[ChainBatch] | None = None
        if folds is not None:  # then the scores are computed once
            starts = [0, *self._ends[:-1].tolist()]
            ranges = zip(starts, self._ends.tolist(), folds, strict=True)
            self._base = [self._scores().batch(weights, first, last) for first, last, (_, weights) in ranges]

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
        cuts = np.searchsorted(sorted_indices, self._ends)
        risk._ends = cuts
        if self._base is not None:
            blocks = np.split(sorted_indices, cuts[:-1])
            starts = [0, *self._ends[:-1].tolist()]
            risk._base = [
                base.subset(block - start) for base, block, start in zip(self._base, blocks, starts, strict=True)
            ]
        return risk

    def parts(self) -> list[Ranges]:
        """Return groups of chunks of sequences; few, because each group has its own gradient."""
        ptr, chunks = self.examples.data.ptr, list[tuple[int, int]]()
        for start, end in pairwise([0, *self._ends.tolist()]):  # sequences are sorted by length in each fold
            if end == start:
                continue
            ranges = cut_in_chunks(ptr[start : end + 1] - ptr[start], TILTED_CHUNK, 4 * TILTED_CHUNK)
            chunks += [(start + first, start + last) for first, last in ranges]
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

    def assess(self, strengths: FloatArray, rows: IntArray | None = None, by_position: bool = False) -> Assessment:
        """Return losses, wrong labels and violated energies of some sequences, with weights w that are not learned.

        `by_position`: predict the most probable label of each position instead of the most probable labelling.
        """
        risk = self if rows is None else self.subset(rows)
        strengths = strengths if rows is None else strengths[np.sort(rows)]
        results = [
            risk._assess(first, last, strengths[first:last], by_position)
            for ranges in risk.parts()
            for first, last in ranges
        ]
        return Assessment(*(np.concatenate(arrays) for arrays in zip(*results, strict=True)))

    def _assess(self, first: int, last: int, strengths: FloatArray, by_position: bool) -> Assessment:
        examples, ptr, k = self.examples, self.examples.data.ptr, self.examples.layout.n_labels
        batch = self._batch(np.empty(0), first, last)
        projection = project_chains(batch, self.energies, strengths, self.method)
        possible = examples.truth.possible(k)[ptr[first] : ptr[last]]
        weight = examples.truth.weight[first:last]
        loss = chain_log_partition(projection.batch) - chain_log_partition(projection.batch.restricted(possible))
        if by_position:
            path = chain_marginals(projection.batch, transitions=None).nodes.argmax(axis=1)
        else:
            path = viterbi(projection.batch)[0]
        is_wrong = ~possible[np.arange(path.size), path]
        n_wrong = np.add.reduceat(is_wrong.astype(np.float64), batch.ptr[:-1])
        oracle = ChainOracle(batch, self.energies, strengths)
        tables = np.zeros((batch.n_sequences, k * k)) if self.energies.reads_tables else None
        if tables is not None:
            sequence = np.repeat(np.arange(batch.n_sequences), np.diff(batch.ptr))
            inside = np.flatnonzero(sequence[1:] == sequence[:-1])
            np.add.at(tables, (sequence[inside], path[inside] * k + path[inside + 1]), 1.0)
        values = oracle.energy.values(oracle.energy.read(np.eye(k)[path], tables))
        slope = oracle.energy.by_psi(np.abs(projection.slope))
        return Assessment(weight * loss, weight * n_wrong, values > 1e-9, slope)

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
            fold = int(np.searchsorted(self._ends, first, side="right"))
            start = int(self._ends[fold - 1]) if fold else 0
            return self._base[fold].part(first - start, last - start)
        return self._scores().batch(weights, first, last)

    def _scores(self) -> ChainScores:
        return ChainScores(self.examples.data, self.examples.layout, self.examples.constraints)


@dataclass(frozen=True, eq=False)
class EnergyParts:
    """Checked settings of energies; without a learner, psi is not learned."""

    psi: Psi
    method: DescentProjection
    learner: Any  # EnergyLearner or None


def resolve_energies(crf: Any) -> EnergyParts | None:
    """Return the checked energy settings of an estimator; None if it has no energies."""
    if not has_energies(crf.energies):
        return None
    # In the paper, ten iterations give most of the effect, and forty are the maximum.
    projection = BetheRDA(max_iter=40) if crf.projection is None else METHODS.resolve(crf.projection)
    method = check_chain_method(projection)
    learner = None if crf.energy_learner is None else ENERGY_LEARNERS.resolve(crf.energy_learner)
    if learner is not None:
        learner.check_settings()
    return EnergyParts(PSIS.resolve(crf.psi), method, learner)


def bind_energies(crf: ChainCRF, classes: NDArray[Any], length: int) -> ChainEnergies:
    """Return the energies of an estimator bound to these labels."""
    return ChainEnergies(crf.energies or [], classes.tolist(), length)


@dataclass(frozen=True, eq=False)
class EnergyFit:
    """Data and settings for learning psi.

    Attributes
    ----------
    energies : ChainEnergies
        Energies of every sequence.
    examples : ChainExamples
        Sequences on which psi is learned.
    folds : list of (indices, weights)
        Sequences with the weights of their scores; no fold if there is no held-out sequence.
    settings : Mapping
        Settings of the learner of the CRF weights.
    """

    crf: ChainCRF
    parts: EnergyParts
    energies: ChainEnergies
    examples: ChainExamples
    folds: list[Fold]
    settings: Mapping[str, Any]

    def learn(self, previous: FittedEnergies | None) -> tuple[FittedEnergies, dict[str, FloatArray]]:
        """Learn psi with constant CRF weights, starting from the psi of `previous` if there is one, and select."""
        energies, parts, fixed = self.energies, self.parts, self.energies.fixed
        if parts.learner is None or fixed.all() or not self.folds:
            return self._without_learning(), {}
        everything = self._risk(energies, self.examples, self.folds)
        first = everything.split(everything.start(np.empty(0)))[1]
        if previous is not None and previous.weights.shape == first.shape:
            first = previous.weights
        base = everything.assess(everything.strengths(first, 0, len(everything)) * fixed)
        is_violated = ~fixed & ((base.slope.max(axis=0) > LEAST_SLOPE) | (not parts.learner.select))
        violated_before = base.violated.sum(axis=0).tolist()
        rows = [
            StrengthRow(title, 0.0, n, n, 0.0, NEVER_VIOLATED)
            for title, n in zip(energies.titles, violated_before, strict=True)
        ]
        active, history, weights = fixed.copy(), dict[str, FloatArray](), first.copy()
        if is_violated.any():
            is_used = fixed | is_violated
            violated_energies, mask = energies.reduced(is_used) if not is_used.all() else (energies, is_used)
            risk = self._risk(violated_energies, self.examples, self.folds)
            # Energies without slope do not change the model of a sequence, so that its loss is constant.
            affected = np.flatnonzero((base.slope[:, is_violated] > LEAST_SLOPE).any(axis=1))
            weights[mask], history = self._learn_psi(risk, affected, first[mask])
            strengths = risk.strengths(weights[mask], 0, len(risk))

            def assess(active: NDArray[np.bool_], rows: IntArray | None) -> Assessment:
                return risk.assess(np.where(active, strengths, 0.0), rows, self.crf.decode == "marginals")

            titles, l1 = violated_energies.titles, float(parts.learner.l1)
            active[mask], selected = select_energies(
                assess, strengths, violated_energies.fixed, titles, l1, bool(parts.learner.select)
            )
            for j, row in zip(np.flatnonzero(mask).tolist(), selected, strict=True):
                rows[j] = row
        table = StrengthTable(rows, len(everything))
        return FittedEnergies(energies, parts.psi, weights, parts.method, active, table), history

    def _learn_psi(
        self, risk: SurrogateRisk, indices: IntArray, start: FloatArray
    ) -> tuple[FloatArray, dict[str, FloatArray]]:
        """Learn psi on these sequences; the loss is per position of all sequences."""
        subset = risk.subset(indices)
        subset.mass, point = risk.mass, risk.join(np.empty(0), start)
        with fit_progress("ChainCRF energies", bool(self.crf.verbose)) as report:
            minimum = self.parts.learner.learn(subset, point, report)
        psi = risk.split(minimum.point if np.isfinite(minimum.point).all() else point)[1]
        return psi, minimum.history

    def learn_together(
        self, start: FittedEnergies, weights: FloatArray, train: ChainExamples
    ) -> tuple[FloatArray, FittedEnergies, dict[str, FloatArray]]:
        """Learn CRF weights and active psi together; return the start if the held-out loss does not decrease.

        The number of rounds is that of the lowest loss on the first fold, when learned on the other sequences. Then so
        many rounds are made on all sequences.
        """
        parts = self.parts
        is_learned = start.active & ~self.energies.fixed
        if not self.folds or not is_learned.any():
            return weights, start, {}
        block, fold_weights = self.folds[0]
        rest = train
        if self.examples is train:
            rest = train.subset(np.setdiff1d(np.arange(len(train)), block))
        held_out, risk, all_risk = (
            self._risk(self.energies, data, None) for data in (self.examples.subset(block), rest, train)
        )
        for surrogate in (held_out, risk, all_risk):  # dropped energies stay at 0
            surrogate.fixed_psi, surrogate.initial_strengths = (
                ~is_learned,
                np.where(is_learned, 0.0, start.fixed_strengths),
            )
        held_out.ridge = held_out.psi_rate = held_out.psi_ridge = 0.0
        risk.held_out = held_out
        psi_weights = np.where(start.active[:, None], start.weights, 0.0)
        with fit_progress("ChainCRF weights and energies", bool(self.crf.verbose)) as report:
            minimum = parts.learner.learn(risk, risk.join(fold_weights, psi_weights), report)
        n_rounds = int(np.argmin(minimum.history["best_risk"])) if minimum.history["best_risk"].size else 0
        if n_rounds == 0:
            return weights, start, minimum.history
        learner = clone(parts.learner).set_params(max_iter=n_rounds)
        result = learner.learn(all_risk, all_risk.join(weights, psi_weights), None)
        new_weights, new_psi = all_risk.split(result.point)
        return new_weights.copy(), replace(start, weights=new_psi.copy()), minimum.history

    def _risk(self, energies: ChainEnergies, examples: ChainExamples, folds: list[Fold] | None) -> SurrogateRisk:
        n_jobs = self.settings.get("n_jobs") if self.crf.n_jobs is None else self.crf.n_jobs
        check_n_jobs(n_jobs, "n_jobs")
        mass, learner = examples.mass or 1.0, self.parts.learner
        return SurrogateRisk(
            examples, energies, self.parts.psi, self.parts.method, folds=folds, n_jobs=n_jobs,
            ridge=float(self.settings.get("l2", 0.0)) / mass, psi_ridge=float(learner.l2) / mass,
            psi_rate=float(learner.l1) / mass,
        )  # fmt: skip

    def _without_learning(self) -> FittedEnergies:
        """Return the fixed energies, without a learner all; psi of others is 0, as there is no held-out sequence."""
        energies, psi = self.energies, self.parts.psi
        n_features = psi.n_features(self.examples.layout.n_features)
        weights = psi.initial_of(np.where(energies.fixed, np.maximum(energies.psi, 1e-9), energies.psi), n_features)
        active = energies.fixed | (self.parts.learner is None)
        values, notes = np.where(active, energies.psi, 0.0), np.where(active, "fixed", NOT_LEARNED)
        rows = [
            (title, float(value), None, None, None, str(note))
            for title, value, note in zip(energies.titles, values, notes, strict=True)
        ]
        return FittedEnergies(energies, psi, weights, self.parts.method, active, StrengthTable(rows, 0))
