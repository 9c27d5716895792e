"""Labelled graphs for margin learners: statistics of the truth, cost of wrong labels, and predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.inference import InferenceMethod, InferenceResult
from intarsia.inference.infer import run_inference
from intarsia.learning.examples import Example
from intarsia.learning.learner import whole_answer

# Probability of a wrong state above which a prediction counts as wrong; linear programs are solved to about 1e-9.
WRONG_MASS = 1e-6


@dataclass(frozen=True, eq=False)
class MarginExample:
    """An example with the quantities that margin learners need, in the layout of its graph.

    Attributes
    ----------
    source : Example
        The labelled graph.
    number : int
        Index among the examples, for messages.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import LinearScores
    >>> chain = MarginExample(example(LinearScores(chain_graph(3, 2), [[0.0], [1.0], [2.0]]), [0, -1, 1]))
    >>> chain.cost[:6].tolist()                    # a wrong label costs 1, any label of a hidden variable 0
    [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    """

    source: Example
    number: int = 0

    @property
    def weight(self) -> float:
        """Weight of the example."""
        return self.source.weight

    @property
    def n_labelled(self) -> int:
        """Number of variables whose label is not hidden."""
        return self.source.n_labelled

    @property
    def complete(self) -> bool:
        """Whether every variable has exactly one label."""
        return self.source.labels.complete

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Mask of the states that agree with the labels, flat over the variables."""
        graph, variables = self.source.scores.graph, self.source.form.reduction.free_variables
        free = np.zeros(graph.n_variables, dtype=bool)
        free[variables] = True
        allowed = np.ones(int(graph.variable_ptr[-1]), dtype=bool)
        allowed[np.repeat(free, graph.n_states)] = self.source.labels.allowed
        return allowed

    @cached_property
    def cost(self) -> FloatArray:
        """Cost of each entry of the statistics: the weight of the variable at states that its label excludes."""
        graph, labels = self.source.scores.graph, self.source.labels
        weights = np.ones(graph.n_variables)
        if labels.weights is not None:
            weights[self.source.form.reduction.free_variables] = labels.weights
        cost = graph.zeros()
        cost[: self.allowed.size] = np.where(self.allowed, 0.0, np.repeat(weights, graph.n_states))
        return cost

    @cached_property
    def labels(self) -> IntArray:
        """Label of each variable; only meaningful for variables with exactly one label."""
        graph = self.source.scores.graph
        starts = graph.variable_ptr[:-1]
        positions = np.flatnonzero(self.allowed)
        return np.asarray(positions[np.searchsorted(positions, starts)] - starts)

    @cached_property
    def _truth(self) -> FloatArray:
        return self.source.scores.graph.statistics(self.labels)

    def check_truth(self) -> None:
        """Raise if the model forbids the labels."""
        fixed = self.theta(np.zeros(self.source.scores.n_weights))
        if self.complete and (fixed[self._truth != 0.0] == -np.inf).any():
            raise InvalidInputError(
                f"example {self.number}: its labels have a score of -inf for all weights. Correct the labels, or "
                f"remove the hard constraint that forbids them."
            )

    def theta(self, weights: FloatArray) -> FloatArray:
        """Return the scores under these weights."""
        return self.source.scores.theta(weights)

    def truth(self, theta: FloatArray, method: InferenceMethod) -> FloatArray:
        """Return the statistics of the truth; with hidden labels, of the best labelling that agrees with the rest."""
        if self.complete:
            return self._truth
        agreeing = theta.copy()
        agreeing[: self.allowed.size][~self.allowed] = -np.inf
        return self._statistics(self._infer(agreeing, method), "that agrees with its labels")

    def answer(self, theta: FloatArray, method: InferenceMethod) -> tuple[FloatArray, bool]:
        """Return the statistics of the predicted labelling, possibly fractional, and whether inference converged."""
        result = self._infer(theta, method)
        return self._statistics(result, "of finite score"), result.converged

    def wrong_mass(self, mu: FloatArray) -> float:
        """Return the number of wrong labels; for a fractional prediction, the sum of wrong probabilities."""
        return float(mu[: self.allowed.size][~self.allowed].sum())

    def pull_back(self, difference: FloatArray) -> FloatArray:
        """Return the features of a difference of statistics."""
        return self.source.scores.pull_back(difference)

    def _infer(self, theta: FloatArray, method: InferenceMethod) -> InferenceResult:
        # Without a warning: learners count the runs that did not converge.
        return whole_answer(run_inference(self.source.scores.graph, theta, method, task="map"))

    def _statistics(self, result: InferenceResult, condition: str) -> FloatArray:
        if result.mu is None:
            raise InvalidInputError(
                f"example {self.number} has no labelling {condition}: {result.note or result.status.message}. Check "
                f"its labels against the hard constraints of the model."
            )
        return result.mu


def score_difference(theta: FloatArray, first: FloatArray, second: FloatArray) -> float:
    """Return the score of the first statistics minus that of the second, ignoring entries that are equal.

    Examples
    --------
    >>> score_difference(np.array([1.0, -np.inf, 3.0]), np.array([1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    1.0
    """
    difference = first - second
    differs = difference != 0.0
    return float(difference[differs] @ theta[differs])
