"""The surrogate likelihood of graphs under a model with energies, and its gradient in weights and strengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import cut_in_parts
from intarsia.crf.graph_energies import project_graph
from intarsia.energies import Psi
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.exceptions import NotSupportedError
from intarsia.graph.chains import rows_of
from intarsia.inference import InferenceMethod
from intarsia.inference.infer import run_inference
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.learning.energy_risk import EnergyRisk, Ranges
from intarsia.learning.examples import Example


class GraphSurrogateRisk(EnergyRisk):
    r"""The negative surrogate log-likelihood per labelled variable (Vilnis2015 Eq. 12) of graphs, and its gradient.

    .. math:: R(w, \psi) = -\frac1N \sum_g a_g \log Q(A_g; \mu_g) + \frac r2 \lVert w \rVert^2,

    where Q is the model with the scores :math:`\theta_g(w) - \sum_j \psi_j g_{gj}`, :math:`A_g` the labels that are
    known or allowed, and :math:`g_{gj}` the slope of preference j at the marginals that inference found. log Q is a
    difference of two log Z: exact with an exact oracle; with a converged `TreeReweighted`, one of two upper bounds,
    whose gradients are its marginals. Called with a point, it infers anew (the gradient holds the slopes fixed, so it
    is not that of the value); `with_slopes` keeps those of one point.

    Parameters
    ----------
    examples : list of Example
        Labelled graphs.
    energies : list of BoundEnergy
        The energy of each.
    own : (n_psi,) float array
        The energies' own strengths.
    psi, features
        How strengths depend on the input, and on what.
    method : BetheProjection
        How marginals under energies are found.
    oracle : InferenceMethod
        How those of tilted models are.
    fixed : float array, optional
        Weights w that are not learned.
    ridge, psi_ridge, n_jobs
        Penalties and workers, see `EnergyRisk`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        energies: Sequence[BoundEnergy],
        own: FloatArray,
        psi: Psi,
        features: FloatArray,
        method: BetheProjection,
        oracle: InferenceMethod,
        *,
        fixed: FloatArray | None = None,
        ridge: float = 0.0,
        psi_ridge: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        self.examples, self.energies, self.method, self.oracle = list(examples), list(energies), method, oracle
        self._fixed = fixed
        super().__init__(
            psi, features, own, n_weights=0 if fixed is not None else examples[0].scores.n_weights,
            mass=sum(one.mass for one in self.examples), ridge=ridge, psi_ridge=psi_ridge, n_jobs=n_jobs,
        )  # fmt: skip

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self.examples)

    def subset(self, indices: ArrayLike) -> GraphSurrogateRisk:
        """The risk of some of the graphs, over their own mass."""
        part, chosen = self.uncut(), np.asarray(indices, dtype=np.int64)
        part.examples = [self.examples[i] for i in chosen.tolist()]
        part.energies = [self.energies[i] for i in chosen.tolist()]
        part.features, part.mass = self.features[chosen], sum(one.mass for one in part.examples)
        return part

    def parts(self) -> list[Ranges]:
        """Graph by graph."""
        return [[(i, i + 1) for i in part] for part in cut_in_parts(len(self))]

    def find_slope(self, weights: FloatArray, strengths: FloatArray, first: int, last: int) -> FloatArray:
        """Slopes at the marginals of one graph."""
        return self._slope(first, self._theta(first, weights), strengths[0])

    def add_up(
        self,
        weights: FloatArray,
        strengths: FloatArray,
        slope: FloatArray | None,
        first: int,
        last: int,
        gradient: FloatArray,
    ) -> tuple[float, FloatArray]:
        """Value of one graph and its gradient in psi; that in w is added to `gradient`."""
        one, energy, psi = self.examples[first], self.energies[first], strengths[0]
        theta = self._theta(first, weights)
        slope = self._slope(first, theta, psi) if slope is None else slope
        psi_of = energy.psi_of_reading
        tilted = np.empty(theta.size)
        energy.subtract_rows((psi[psi_of] * slope)[None], theta[None], tilted[None])
        free, told = self._expect(one, tilted), self._expect(one, _restricted(one, tilted))
        if free is None or told is None:  # such labels are impossible, whatever the weights
            return 0.0, np.zeros(psi.size)
        (log_free, mu_free), (log_told, mu_told) = free, told
        # Vilnis2015 Eq. 17 with its sign put right: log Q falls where the labels have more of the slope than Q expects.
        along = slope * (energy.read(mu_told) - energy.read(mu_free))
        if self.n_weights:
            gradient += one.weight * one.scores.pull_back(mu_free - mu_told)
        by_psi = np.bincount(psi_of, along, psi.size).astype(np.float64, copy=False)
        return one.weight * (log_free - log_told), one.weight * by_psi

    def _theta(self, i: int, weights: FloatArray) -> FloatArray:
        return self.examples[i].scores.theta(weights if self._fixed is None else self._fixed)

    def _slope(self, i: int, theta: FloatArray, psi: FloatArray) -> FloatArray:
        """Slopes of the readings, without strengths, at the marginals under the energy."""
        energy = self.energies[i]
        found = project_graph(energy.graph, theta, energy.with_psi(psi), self.method)
        mu = np.zeros(theta.size) if found.mu is None else found.mu
        return energy.judge_rows(energy.read(mu)[None], psi[None])[1][0]

    def _expect(self, one: Example, theta: FloatArray) -> tuple[float, FloatArray] | None:
        found = run_inference(one.scores.graph, theta, self.oracle)
        if found.mu is None or found.log_partition is None or not np.isfinite(found.log_partition):
            return None
        return float(found.log_partition), found.mu


def check_learnable(energy: BoundEnergy) -> None:
    """Refuse convex energies with kinks: no single slope describes where inference under them ends."""
    usual = energy.with_psi(np.ones(energy.psi.size))
    if usual.convex and not usual.smooth:
        raise NotSupportedError(
            "the strength of an energy with kinks (hinge, absolute value) cannot be learned on graphs. Round "
            "the kinks (SmoothedHinge, Huber, width=1), or keep its strength by energy_learner=None."
        )


def _restricted(one: Example, theta: FloatArray) -> FloatArray:
    """Scores with -inf where the labels say that a state is not allowed; variables of one state have no label."""
    ptr, kept = one.scores.graph.variable_ptr, one.form.reduction.kept
    told = theta.copy()
    told[rows_of(ptr, kept)[0][~one.labels.allowed]] = -np.inf
    return told
