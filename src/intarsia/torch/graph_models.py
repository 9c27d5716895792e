"""Marginals of a batch of models with one graph, and gradients through the inference that computes them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.gradients import GRADIENTS, GradientRule, TruncatedGradient
from intarsia.gradients.free_energy import differentiate_free_energy
from intarsia.gradients.projection import ProjectionPullback, projection_pullback
from intarsia.gradients.projection.elimination_derivative import EliminationDerivative
from intarsia.gradients.rule import LossFunction
from intarsia.graph import FactorGraph, learning_form
from intarsia.graph.batch import batch_graphs
from intarsia.graph.spanning_trees import stored_appearance
from intarsia.inference.infer import run_inference
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.inference.method import InferenceMethod
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.losses import TrainingLabels, training_labels
from intarsia.losses.likelihood import LogPartitionLoss
from intarsia.losses.loss import DirectLoss, MarginalLoss


class GraphModels(ABC):
    """Inference and its gradient for rows of scores (batch, n_theta) of one graph, all in float64."""

    def __init__(self, graph: FactorGraph) -> None:
        self.graph = graph

    @abstractmethod
    def marginals(self, theta: FloatArray) -> FloatArray:
        """Compute the marginals (batch, n_theta)."""

    @abstractmethod
    def pull(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the gradient in theta from that in the marginals."""

    @abstractmethod
    def log_partition(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute log Z (batch,) or its estimate, and the gradient (batch, n_theta)."""

    @abstractmethod
    def loss(self, theta: FloatArray, labels: list[Any], loss: Any) -> tuple[float, FloatArray]:
        """Compute the sum of a loss over all examples, and the gradient (batch, n_theta)."""

    def direct_loss(
        self, theta: FloatArray, labels: list[Any], loss: DirectLoss, inference: InferenceMethod
    ) -> tuple[float, FloatArray]:
        """Compute a loss that has a gradient in theta of its own, example by example."""
        form = learning_form(self.graph)
        total, gradient = 0.0, np.zeros(theta.shape)
        for k, y in enumerate(labels):
            value, slope = loss.value_and_gradient_theta(
                form.graph, form.lower(theta[k]), form_labels(self.graph, y), inference=inference
            )
            total, gradient[k] = total + value, form.pull_back(slope)
        return total, gradient


def form_labels(graph: FactorGraph, labels: Any) -> TrainingLabels:
    """Return the labels of the variables of a graph as labels of its learning form."""
    form = learning_form(graph)
    labels_of_graph = training_labels(graph, labels)
    return training_labels(form.graph, form.lower_labels(labels_of_graph.allowed))


class ExactModels(GraphModels):
    """Exact inference; the gradient of marginals is a product with their covariance, by variable elimination."""

    def __init__(self, graph: FactorGraph, inference: InferenceMethod) -> None:
        super().__init__(graph)
        self.inference = inference
        self.temperature = 1.0 if inference.temperature is None else float(inference.temperature)

    def marginals(self, theta: FloatArray) -> FloatArray:
        """Compute the marginals (batch, n_theta)."""
        return self._infer(theta)[1]

    def _infer(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log Z and marginals of every example; raise for the first that is infeasible."""
        log_z, mu = np.zeros(len(theta)), np.zeros(theta.shape)
        for k, scores in enumerate(theta):
            result = run_inference(self.graph, scores, self.inference)
            if result.mu is None or result.log_partition is None:
                raise infeasible(k)
            log_z[k], mu[k] = result.log_partition, result.mu
        return log_z, mu

    def pull(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the gradient in theta from that in the marginals."""
        form = learning_form(self.graph)
        if not len(theta) or not form.graph.n_variables:
            return np.zeros(theta.shape)
        lowered = np.array([form.lower(row) for row in theta]) / self.temperature
        directions = np.array([form.lower(row) for row in gradient])
        product = EliminationDerivative(form.graph, lowered).product(directions[None])[0] / self.temperature
        return np.array([form.pull_back(row) for row in product])

    def log_partition(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute log Z (batch,) and its gradient, the marginals."""
        return self._infer(theta)

    def loss(self, theta: FloatArray, labels: list[Any], loss: Any) -> tuple[float, FloatArray]:
        """Compute the sum of a loss over all examples, and the gradient (batch, n_theta)."""
        if isinstance(loss, DirectLoss):
            return self.direct_loss(theta, labels, loss, self.inference)
        form, total = learning_form(self.graph), 0.0
        lowered = np.array([form.lower(row) for row in theta])
        models = ExactModels(form.graph, self.inference)
        mu, slopes = models.marginals(lowered), np.zeros(lowered.shape)
        for k, y in enumerate(labels):
            value, slopes[k] = loss.value_and_gradient(form.graph, mu[k], form_labels(self.graph, y))
            total += value
        gradient = models.pull(lowered, slopes)
        return total, np.array([form.pull_back(row) for row in gradient]).reshape(theta.shape)


class DifferentiatedModels(GraphModels):
    """Message passing or mean field with a gradient rule; all examples of a batch are one disconnected graph."""

    def __init__(self, graph: FactorGraph, inference: InferenceMethod, rule: GradientRule) -> None:
        super().__init__(graph)
        self.inference, self.rule, self.form = inference, rule, learning_form(graph)
        rule.check_settings()
        rule.check_fits(inference)
        self._unions: dict[int, tuple[FactorGraph, InferenceMethod]] = {}

    def _union(self, n_batch: int) -> tuple[FactorGraph, InferenceMethod]:
        """Return the graph of a batch, and the inference with the appearance probabilities of a single graph."""
        if n_batch not in self._unions:
            if len(self._unions) >= 4:  # batch sizes in use: training, its last batch, and validation
                self._unions.clear()
            inference = self.inference
            if isinstance(inference, TreeReweighted) and np.ndim(inference.rho) == 0 and inference.rho is None:
                rho = np.tile(stored_appearance(self.form.graph), n_batch)
                inference = clone(inference).set_params(rho=rho)
            elif isinstance(inference, TreeReweighted) and np.ndim(inference.rho):
                inference = clone(inference).set_params(rho=np.tile(np.asarray(inference.rho), n_batch))
            self._unions[n_batch] = batch_graphs([self.form.graph] * n_batch).graph, inference
        return self._unions[n_batch]

    def _join(self, rows: FloatArray) -> FloatArray:
        """Return rows in the layout of the user's graph as one vector in the layout of the union."""
        lowered = np.array([self.form.lower(row) for row in rows])
        split = int(self.form.graph.variable_ptr[-1])
        return np.concatenate([lowered[:, :split].reshape(-1), lowered[:, split:].reshape(-1)])

    def _rows(self, vector: FloatArray, n_batch: int) -> FloatArray:
        """Return a vector in the layout of the union as rows in the layout of the learning form."""
        split = int(self.form.graph.variable_ptr[-1])
        variables, tables = vector[: n_batch * split], vector[n_batch * split :]
        return np.concatenate([variables.reshape(n_batch, -1), tables.reshape(n_batch, -1)], axis=1)

    def _run(self, theta: FloatArray, evaluate: Any, *, uses_factors: bool) -> tuple[float, FloatArray]:
        """Return the value of a function of all marginals, and its gradient (batch, n_theta) in theta."""
        union, inference = self._union(len(theta))
        result = self.rule.differentiate(union, self._join(theta), LossFunction(evaluate, uses_factors), inference)
        if result.mu is None:
            raise infeasible(None)
        gradient = np.array([self.form.pull_back(row) for row in self._rows(result.gradient, len(theta))])
        return result.value, gradient

    def marginals(self, theta: FloatArray) -> FloatArray:
        """Compute the marginals (batch, n_theta)."""
        if not len(theta) or not self.form.graph.n_variables:
            return np.array([self.form.raise_mu(self.form.graph.zeros()) for _ in theta]).reshape(theta.shape)
        union, inference = self._union(len(theta))
        if isinstance(self.rule, TruncatedGradient):
            mu = self.rule.marginals(union, self._join(theta), inference)
        else:
            precise = clone(inference).set_params(tol=self.rule.get_params()["tol"])
            result = run_inference(union, self._join(theta), precise)
            if result.mu is None:
                raise infeasible(None)
            mu = result.mu
        return np.array([self.form.raise_mu(row) for row in self._rows(mu, len(theta))])

    def pull(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the gradient in theta from that in the marginals."""
        if not len(theta) or not self.form.graph.n_variables:
            return np.zeros(theta.shape)
        slope = self._join(gradient)
        return self._run(theta, lambda mu: (0.0, slope), uses_factors=True)[1]

    def log_partition(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the estimate of log Z (batch,) from the free energy of the marginals, and its gradient."""
        values, gradient = np.zeros(len(theta)), np.zeros(theta.shape)
        for k, row in enumerate(theta):
            result = differentiate_free_energy(self.rule, self.form.graph, self.form.lower(row), self.inference)
            if result.mu is None:
                raise infeasible(k)
            values[k], gradient[k] = result.value, self.form.pull_back(result.gradient)
        return values + self._constant(theta), gradient + self._constant_gradient(theta)

    def _constant(self, theta: FloatArray) -> FloatArray:
        """Return the score of the parts of the model that the learning form leaves out (batch,)."""
        return np.array([self.form.reduction.constant(row) for row in theta]).reshape(len(theta))

    def _constant_gradient(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of `_constant`: the statistics of variables with a single state."""
        fixed = self.form.raise_mu(self.form.graph.zeros())
        return np.broadcast_to(fixed, theta.shape)

    def loss(self, theta: FloatArray, labels: list[Any], loss: Any) -> tuple[float, FloatArray]:
        """Compute the sum of a loss over all examples, and the gradient (batch, n_theta)."""
        union, inference = self._union(len(theta))
        is_truncated_likelihood = isinstance(loss, LogPartitionLoss) and self.rule.fits_loss(loss)
        if isinstance(loss, DirectLoss) and not is_truncated_likelihood:
            return self.direct_loss(theta, labels, loss, self.inference)
        allowed = [form_labels(self.graph, y).allowed for y in labels]
        union_labels = training_labels(union, np.concatenate(allowed))
        result = self.rule.value_and_gradient(union, self._join(theta), union_labels, loss, inference)
        if result.mu is None:
            raise infeasible(None)
        gradient = np.array([self.form.pull_back(row) for row in self._rows(result.gradient, len(theta))])
        return result.value, gradient


class ProjectedModels(GraphModels):
    """Bethe projections: inference with global energies, example by example."""

    def __init__(self, graph: FactorGraph, projection: BetheProjection, energy: Any) -> None:
        super().__init__(graph)
        self.projection, self.energy = projection, energy

    def run(self, theta: FloatArray, psi: FloatArray | None = None) -> list[ProjectionPullback]:
        """Return the result of every example, with its gradient."""
        energy = self.energy
        if psi is not None:
            energy = energy.with_psi(psi)
        pullbacks = []
        for k, row in enumerate(theta):
            pullbacks.append(projection_pullback(self.projection, self.graph, row, energy))
            if pullbacks[-1].mu is None:
                raise infeasible(k)
        return pullbacks

    def marginals(self, theta: FloatArray) -> FloatArray:
        """Compute the marginals (batch, n_theta)."""
        return np.array([pullback.mu for pullback in self.run(theta)]).reshape(theta.shape)

    def pull(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the gradient in theta from that in the marginals."""
        pairs = zip(self.run(theta), gradient, strict=True)
        return np.array([pullback.pull(row)[0] for pullback, row in pairs]).reshape(theta.shape)

    def log_partition(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute minus the objective of the projection (batch,), and its gradient, the marginals."""
        pullbacks = self.run(theta)
        values = np.array([float(pullback.result.log_partition or 0.0) for pullback in pullbacks])
        return values, np.array([pullback.mu for pullback in pullbacks]).reshape(theta.shape)

    def loss(self, theta: FloatArray, labels: list[Any], loss: Any) -> tuple[float, FloatArray]:
        """Compute the sum of a loss of marginals over all examples, and the gradient (batch, n_theta)."""
        if not isinstance(loss, MarginalLoss):
            raise NotSupportedError(
                f"{type(loss).__name__} is not a loss of marginals, which projections need. Use one of: "
                f"univariate_logistic, univariate_quadratic, clique_logistic, clique_quadratic."
            )
        pullbacks = self.run(theta)
        mu = np.array([pullback.mu for pullback in pullbacks]).reshape(theta.shape)
        value, slope = self.loss_of_marginals(mu, labels, loss)
        gradient = [pullback.pull(row)[0] for pullback, row in zip(pullbacks, slope, strict=True)]
        return value, np.array(gradient).reshape(theta.shape)

    def loss_of_marginals(self, mu: FloatArray, labels: list[Any], loss: MarginalLoss) -> tuple[float, FloatArray]:
        """Compute a loss of marginals, summed over all examples, and the gradient (batch, n_theta) in these."""
        form = learning_form(self.graph)
        if not form.is_identity and loss.uses_factors:
            raise NotSupportedError(
                f"{type(loss).__name__} needs the marginals of single factors, but factors of this graph share tables. "
                f"Use a loss of variables such as 'univariate_logistic', or separate tables."
            )
        graph, n_states = form.graph, int(self.graph.variable_ptr[-1])
        total, gradient = 0.0, np.zeros(mu.shape)
        for k, y in enumerate(labels):
            full = mu[k]
            if not form.is_identity:  # variables with a single state are constant, and factors are not used
                full = graph.zeros()
                full[: int(graph.variable_ptr[-1])] = mu[k, :n_states][self._free_states]
            value, slope = loss.value_and_gradient(graph, full, form_labels(self.graph, y))
            total += value
            if form.is_identity:
                gradient[k] = slope
            else:
                gradient[k, :n_states][self._free_states] = slope[: int(graph.variable_ptr[-1])]
        return total, gradient

    @property
    def _free_states(self) -> Any:
        """Mask of the states of variables that are free in the learning form."""
        is_free = np.zeros(self.graph.n_variables, dtype=bool)
        is_free[learning_form(self.graph).reduction.free_variables] = True
        return np.repeat(is_free, self.graph.n_states)


def infeasible(example: int | None) -> InvalidInputError:
    """Return the error for scores that allow no labelling."""
    where = "some example" if example is None else f"example {example}"
    return InvalidInputError(f"theta of {where} allows no labelling. Set some scores above -inf.")


def models_of(graph: FactorGraph, inference: InferenceMethod, gradient: Any) -> GraphModels:
    """Return the models for an inference without energies: exact, or with a gradient rule."""
    if not inference.gives_marginals:
        raise NotSupportedError(
            f"{type(inference).__name__} computes no marginals. Use 'tree', 'junction_tree', 'tree_reweighted', "
            f"'belief_propagation' or 'mean_field'."
        )
    if inference.exact:
        if gradient is not None:
            raise InvalidInputError(
                f"{type(inference).__name__} is exact, and its gradient needs no rule. Drop `gradient`."
            )
        return ExactModels(graph, copy.copy(inference))
    return DifferentiatedModels(graph, inference, GRADIENTS.resolve("truncated" if gradient is None else gradient))
