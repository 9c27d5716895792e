"""What the surrogate risks of sequences and of graphs share: a point of weights and strengths, penalties, the sum."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from intarsia._validation import FloatArray
from intarsia.energies import Psi
from intarsia.energies.chain_energies import STRONGEST
from intarsia.learning.chain_data import LARGEST_WEIGHT
from intarsia.learning.minimum import SummedObjective


class EnergyRisk(SummedObjective):
    """A risk per unit of mass of examples, of weights and of the weights of strengths.

    A point is the weights (unless they are fixed) followed by those of the strengths.

    Parameters
    ----------
    psi : Psi
        How strengths depend on the input.
    features : (n_examples, n_features) float array
        What they depend on.
    own : (n_psi,) float array
        The energies' own strengths.
    n_weights : int
        Number of weights that are learned.
    mass : float
        By which sums are divided.
    ridge, psi_ridge : float
        Penalties on the weights, and on those of all features of psi but the first, relative to the risk.
    """

    def __init__(
        self,
        psi: Psi,
        features: FloatArray,
        own: FloatArray,
        *,
        n_weights: int,
        mass: float,
        ridge: float,
        psi_ridge: float,
    ) -> None:
        self.psi, self.features, self.own = psi, features, own
        self.n_weights, self.mass = n_weights, mass
        self.ridge, self.psi_ridge = ridge, psi_ridge

    @abstractmethod
    def _evaluate(self, weights: FloatArray, strengths: FloatArray, gradient: FloatArray) -> tuple[float, FloatArray]:
        """Sum over the examples and its gradient in their strengths; that in the weights is added to `gradient`."""

    @abstractmethod
    def subset(self, indices: ArrayLike) -> EnergyRisk:
        """The risk of some of the examples, over their own mass."""

    @abstractmethod
    def with_slopes(self, point: FloatArray) -> EnergyRisk:
        """The same risk with the slopes of this point kept: an E-step of Algorithm 2."""

    def start(self, weights: FloatArray) -> FloatArray:
        """The point at which strengths are the energies' own."""
        return self.join(weights, self.psi.initial_of(self.own, self.features.shape[1]))

    def join(self, weights: FloatArray, psi_weights: FloatArray) -> FloatArray:
        """One point of both."""
        return np.concatenate([weights[: self.n_weights], psi_weights.reshape(-1)])

    def split(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (none if they are fixed), and those of the strengths (n_psi, n_features)."""
        return point[: self.n_weights], point[self.n_weights :].reshape(self.own.size, -1)

    def project(self, point: FloatArray) -> FloatArray:
        """The point with the weights of strengths brought back to where they belong."""
        weights, psi = self.split(point)
        return self.join(weights, self.psi.project(psi))

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Risk and its gradient; infinite where weights are beyond all reason."""
        if not np.abs(point).max(initial=0.0) < LARGEST_WEIGHT:
            return np.inf, np.zeros(point.size)
        weights, psi_weights = self.split(point)
        gradient = np.zeros(point.size)
        total, by_psi = self._evaluate(weights, self._strengths(psi_weights), gradient)
        mass = self.mass or 1.0  # a batch may happen to have no labels
        by_weight = self.psi.pull_back(psi_weights, self.features, by_psi / mass)
        by_weight[:, 1:] += 2.0 * self.psi_ridge * psi_weights[:, 1:]
        gradient[: self.n_weights] = gradient[: self.n_weights] / mass + 2.0 * self.ridge * weights
        gradient[self.n_weights :] = by_weight.reshape(-1)
        penalty = self.ridge * float(weights @ weights) + self.psi_ridge * float((psi_weights[:, 1:] ** 2).sum())
        return total / mass + penalty, gradient

    def _strengths(self, psi_weights: FloatArray) -> FloatArray:
        return np.minimum(self.psi.values(psi_weights, self.features), STRONGEST)
