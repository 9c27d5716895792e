"""Learner of weights and energies by gradients through the Bethe projections of sequences."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray
from intarsia.exceptions import NotSupportedError
from intarsia.graph import from_edges
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.bethe_chains import project_chains
from intarsia.learning import DoublyStochastic
from intarsia.learning.energy_learner import Report
from intarsia.learning.minimum import Minimum
from intarsia.learning.optimizer import Optimizer
from intarsia.learning.registry import OPTIMIZERS
from intarsia.losses import training_labels
from intarsia.losses.loss import Loss, MarginalLoss
from intarsia.losses.registry import LOSSES
from intarsia.sequences.energy_fit import SurrogateRisk
from intarsia_reproduction.through_projection.chain_solution import ChainSolution, ChainVector


class ThroughProjection(DoublyStochastic):
    """Learn weights and energies of a `ChainCRF` by a loss of the marginals under the energies, with its true gradient.

    The surrogate likelihood of `DoublyStochastic` treats the slopes of the energies as constants; here the gradient
    passes through the Bethe projection that predicts (Domke2013; Vilnis2015). The energies must have a Hessian that is
    diagonal in their readings: smooth penalties of measurements, and distances to a list.

    Parameters
    ----------
    loss : str or MarginalLoss
        Loss of the marginals: "univariate_logistic", "clique_logistic", "univariate_quadratic" and others.
    max_iter, optimizer, average, l1, select, l2, random_state
        Settings of `DoublyStochastic`.

    Examples
    --------
    >>> ThroughProjection(loss="clique_logistic").get_params()["max_iter"]
    10
    """

    name: ClassVar[str] = "through_projection"

    _parts: ClassVar[Parts] = {"optimizer": OPTIMIZERS, "loss": LOSSES}

    def __init__(
        self,
        *,
        loss: str | Loss = "univariate_logistic",
        max_iter: int = 10,
        optimizer: str | Optimizer = "adam",
        average: bool = True,
        l1: float = 0.1,
        select: bool = True,
        l2: float = 0.0,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.loss = loss
        super().__init__(
            max_iter=max_iter, optimizer=optimizer, average=average, l1=l1, select=select, l2=l2,
            random_state=random_state,
        )  # fmt: skip

    def learn(self, risk: Any, start: FloatArray, report: Report | None) -> Minimum:
        """Make passes over the sequences of a surrogate risk, by the loss of the marginals instead."""
        loss = LOSSES.resolve(self.loss)
        if not isinstance(loss, MarginalLoss) or not isinstance(risk, SurrogateRisk):
            raise NotSupportedError(
                f"ThroughProjection needs a loss of marginals and sequences, got {type(loss).__name__} and "
                f"{type(risk).__name__}. Use loss='univariate_logistic' in a ChainCRF."
            )
        projected = ProjectedChainRisk(risk, loss)
        if isinstance(risk.held_out, SurrogateRisk):
            projected.held_out = ProjectedChainRisk(risk.held_out, loss)
        return super().learn(projected, start, report)


class ProjectedChainRisk(SurrogateRisk):
    r"""Loss of the marginals under energies per labelled position, with its gradient in weights and psi.

    .. math:: R(w, \psi) = \frac1N \sum_s \ell(\mu_s(w, \psi), y_s) + \frac r2 \lVert w \rVert^2

    where :math:`\mu_s` are the marginals that inference returns.

    Parameters
    ----------
    risk : SurrogateRisk
        Risk whose sequences, energies and regularization are used.
    loss : MarginalLoss
        Loss of the marginals.
    """

    def __init__(self, risk: SurrogateRisk, loss: MarginalLoss) -> None:
        self.__dict__.update(risk.uncut().__dict__)
        self.loss = loss

    def add_up(
        self,
        weights: FloatArray,
        strengths: FloatArray,
        slope: FloatArray | None,
        first: int,
        last: int,
        gradient: FloatArray,
    ) -> tuple[float, FloatArray]:
        """Return the loss of a chunk and its gradient in psi; add its gradient in w to `gradient`."""
        solution = ChainSolution(
            project_chains(self._batch(weights, first, last), self.energies, strengths, self.method)
        )
        batch, derivative, examples = solution.oracle.batch, solution.derivative, self.examples
        n_positions, k = batch.nodes.shape
        position, rows = np.delete(np.arange(n_positions), batch.ptr[1:] - 1), examples.data.ptr[first : last + 1]
        graph = from_edges(k, np.column_stack([position, position + 1]), n_variables=n_positions)
        possible = examples.truth.possible(k)[rows[0] : rows[-1]]
        labels = training_labels(graph, possible, np.repeat(examples.truth.weight[first:last], np.diff(rows)))
        mu = np.concatenate([derivative.nodes.reshape(-1), derivative.steps.reshape(-1)])
        value, by_mu = self.loss.value_and_gradient(graph, mu, labels)
        nodes, steps = by_mu[: n_positions * k].reshape(-1, k), by_mu[n_positions * k :].reshape(-1, k, k)
        has_weights = self.n_weights > 0
        gradients = solution.pull(
            ChainVector(nodes, steps if self.loss.uses_factors else None), needs_steps=has_weights
        )
        if has_weights and gradients.scores.steps is not None:
            self._add_scores(gradients.scores.nodes, gradients.scores.steps, batch, first, last, gradient)
        return value, gradients.psi

    def _add_scores(
        self, nodes: FloatArray, steps: FloatArray, batch: ChainBatch, first: int, last: int, gradient: FloatArray
    ) -> None:
        """Add the gradient in the weights from that in the scores of labels and transitions."""
        transitions = steps.sum(axis=0)
        if self.examples.data.edges is not None:  # `_pull_back` multiplies steps by the weights of their sequences
            weight = np.repeat(self.examples.truth.weight[first:last], np.diff(batch.ptr) - 1)
            transitions = steps / np.where(weight > 0, weight, 1.0)[:, None, None]
        self._pull_back(nodes, transitions, batch, first, last, gradient)
