"""Surrogate likelihood of graphs under a model with energies, and its gradient in weights and strengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    r"""Negative surrogate log-likelihood of graphs per labelled variable (Vilnis2015 Eq. 12), and its gradient.

    .. math:: R(w, \psi) = -\frac1N \sum_g a_g \log Q(A_g; \mu_g) + \frac r2 \lVert w \rVert^2,

    where Q is the model with the scores :math:`\theta_g(w) - \sum_j \psi_j g_{gj}`, :math:`A_g` is the set of
    labellings that agree with the labels, and :math:`g_{gj}` is the slope of energy j at the inferred marginals. log Q
    is a difference of two log partition functions. It is exact with an exact oracle; with a converged `TreeReweighted`
    both are upper bounds, whose gradients are its marginals. A call with a point runs inference again; its gradient
    treats the slopes as constants, so it is not the gradient of the value. `with_slopes` fixes the slopes at one point.

    Parameters
    ----------
    examples : list of Example
        Labelled graphs.
    energies : list of BoundEnergy
        Energy of each graph.
    initial_psi : (n_psi,) float array
        Strengths that the energies specify.
    psi, features
        Model of the strengths as a function of features, and these features.
    method : BetheProjection
        Inference method that computes marginals under the energies.
    oracle : InferenceMethod
        Inference method for the model with scores that include the slopes.
    fixed : float array, optional
        Weights w, if they are not learned.
    ridge, psi_ridge, psi_rate, fixed_psi, n_jobs
        Regularization, strengths that are not learned, and number of workers, see `EnergyRisk`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        energies: Sequence[BoundEnergy],
        initial_psi: FloatArray,
        psi: Psi,
        features: FloatArray,
        method: BetheProjection,
        oracle: InferenceMethod,
        *,
        fixed: FloatArray | None = None,
        ridge: float = 0.0,
        psi_ridge: float = 0.0,
        psi_rate: float = 0.0,
        fixed_psi: NDArray[np.bool_] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.examples, self.energies, self.method, self.oracle = list(examples), list(energies), method, oracle
        self._fixed = fixed
        super().__init__(
            psi, features, initial_psi, n_weights=0 if fixed is not None else examples[0].scores.n_weights,
            mass=sum(labelled.mass for labelled in self.examples), ridge=ridge, psi_ridge=psi_ridge,
            psi_rate=psi_rate, fixed_psi=fixed_psi, n_jobs=n_jobs,
        )  # fmt: skip

    def __len__(self) -> int:
        """Return the number of graphs."""
        return len(self.examples)

    def subset(self, indices: ArrayLike) -> GraphSurrogateRisk:
        """Return the risk of some of the graphs, averaged over their labelled variables."""
        risk, graphs = self.uncut(), np.asarray(indices, dtype=np.int64)
        risk.examples = [self.examples[i] for i in graphs.tolist()]
        risk.energies = [self.energies[i] for i in graphs.tolist()]
        risk.features, risk.mass = self.features[graphs], sum(labelled.mass for labelled in risk.examples)
        return risk

    def parts(self) -> list[Ranges]:
        """Return the ranges of graphs that workers process, one graph per range."""
        return [[(i, i + 1) for i in graphs] for graphs in cut_in_parts(len(self))]

    def find_slope(self, weights: FloatArray, strengths: FloatArray, first: int, last: int) -> FloatArray:
        """Return the slopes of the energy at the marginals of one graph."""
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
        """Return the value of one graph and its gradient in psi, and add its gradient in w to `gradient`."""
        labelled, energy, psi = self.examples[first], self.energies[first], strengths[0]
        theta = self._theta(first, weights)
        slope = self._slope(first, theta, psi) if slope is None else slope
        psi_of_reading = energy.psi_of_reading
        tilted = np.empty(theta.size)
        energy.subtract_rows((psi[psi_of_reading] * slope)[None], theta[None], tilted[None])
        free, clamped = (
            self._log_partition_and_marginals(labelled, tilted),
            self._log_partition_and_marginals(labelled, _clamp_labels(labelled, tilted)),
        )
        if free is None or clamped is None:  # the labels are impossible for all weights
            return 0.0, np.zeros(psi.size)
        (log_free, mu_free), (log_clamped, mu_clamped) = free, clamped
        # Vilnis2015 Eq. 17 with the sign corrected: log Q decreases if the labels exceed its expectation along the
        # slope.
        psi_gradient = slope * (energy.read(mu_clamped) - energy.read(mu_free))
        if self.n_weights:
            gradient += labelled.weight * labelled.scores.pull_back(mu_free - mu_clamped)
        by_psi = np.bincount(psi_of_reading, psi_gradient, psi.size).astype(np.float64, copy=False)
        return labelled.weight * (log_free - log_clamped), labelled.weight * by_psi

    def _theta(self, i: int, weights: FloatArray) -> FloatArray:
        return self.examples[i].scores.theta(weights if self._fixed is None else self._fixed)

    def _slope(self, i: int, theta: FloatArray, psi: FloatArray) -> FloatArray:
        """Return the slopes of the energy terms, without their strengths, at the marginals under the energy."""
        energy = self.energies[i]
        result = project_graph(energy.graph, theta, energy.with_psi(psi), self.method)
        mu = np.zeros(theta.size) if result.mu is None else result.mu
        return energy.judge_rows(energy.read(mu)[None], psi[None])[1][0]

    def _log_partition_and_marginals(self, labelled: Example, theta: FloatArray) -> tuple[float, FloatArray] | None:
        result = run_inference(labelled.scores.graph, theta, self.oracle)
        if result.mu is None or result.log_partition is None or not np.isfinite(result.log_partition):
            return None
        return float(result.log_partition), result.mu


def check_learnable(energy: BoundEnergy) -> None:
    """Raise for convex energies with kinks, because they have no unique slope at the inferred marginals."""
    unit_energy = energy.with_psi(np.ones(energy.psi.size))
    if unit_energy.convex and not unit_energy.smooth:
        raise NotSupportedError(
            "the strength of an energy with kinks (hinge, absolute value) cannot be learned on graphs. Use a smooth "
            "energy (SmoothedHinge, Huber, width=1), or set energy_learner=None to keep the strength fixed."
        )


def _clamp_labels(labelled: Example, theta: FloatArray) -> FloatArray:
    """Return the scores with -inf for states that the labels forbid; variables with one state have no label."""
    ptr, variables = labelled.scores.graph.variable_ptr, labelled.form.reduction.free_variables
    restricted = theta.copy()
    restricted[rows_of(ptr, variables)[0][~labelled.labels.allowed]] = -np.inf
    return restricted
