"""The surrogate likelihood of sequences under a model with energies, and its gradient in weights and strengths."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from intarsia._validation import FloatArray
from intarsia.energies import Psi
from intarsia.energies.chain_energies import ChainEnergies
from intarsia.graph.chains import ChainBatch
from intarsia.inference.bethe_chains import by_length, project_chains
from intarsia.inference.bethe_descent import DescentProjection
from intarsia.inference.chain_vectors import ChainOracle
from intarsia.inference.chains import ChainMarginals, chain_marginals
from intarsia.learning.chain_data import TILTED_CHUNK, ChainExamples, ChainScores, cut_in_chunks
from intarsia.learning.chain_risk import MOST_GROUPS
from intarsia.learning.energy_risk import EnergyRisk, Ranges


class SurrogateRisk(EnergyRisk):
    r"""The negative surrogate log-likelihood per labelled position (Vilnis2015 Eq. 12), and its gradient.

    .. math:: R(w, \psi) = -\frac1N \sum_s a_s \log Q(A_s; \mu_s) + r \lVert w \rVert^2,

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
        Penalties on w, and on the weights of all features of psi but the first, relative to the risk per position.
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
        groups = np.array_split(np.arange(len(chunks)), max(1, min(MOST_GROUPS, len(chunks))))
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
