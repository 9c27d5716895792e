"""One labelled graph as margin learners see it: the truth's statistics, the cost of a wrong label, and answers."""

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

# Mass on a wrong state above which an answer counts as wrong; linear programs are solved to about 1e-9.
WRONG_MASS = 1e-6


@dataclass(frozen=True, eq=False)
class MarginExample:
    """An example with what margin learners need of it, all in the layout of its own graph.

    Attributes
    ----------
    given : Example
        The labelled graph.
    number : int
        Its place among the others, for messages.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import LinearScores
    >>> one = MarginExample(example(LinearScores(chain_graph(3, 2), [[0.0], [1.0], [2.0]]), [0, -1, 1]))
    >>> one.cost[:6].tolist()                      # a wrong label costs 1, and a hidden variable has none
    [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    """

    given: Example
    number: int = 0

    @property
    def weight(self) -> float:
        """How much the example counts."""
        return self.given.weight

    @property
    def n_labelled(self) -> int:
        """Number of variables whose label says something."""
        return self.given.n_labelled

    @property
    def complete(self) -> bool:
        """Whether every variable has one label."""
        return self.given.labels.complete

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """States that agree with the labels, flat over the variables."""
        graph, kept = self.given.scores.graph, self.given.form.reduction.kept
        free = np.zeros(graph.n_variables, dtype=bool)
        free[kept] = True
        found = np.ones(int(graph.variable_ptr[-1]), dtype=bool)
        found[np.repeat(free, graph.n_states)] = self.given.labels.allowed
        return found

    @cached_property
    def cost(self) -> FloatArray:
        """What each entry of the statistics costs: the variable's weight at states that its label does not allow."""
        graph, labels = self.given.scores.graph, self.given.labels
        each = np.ones(graph.n_variables)
        if labels.weights is not None:
            each[self.given.form.reduction.kept] = labels.weights
        found = graph.zeros()
        found[: self.allowed.size] = np.where(self.allowed, 0.0, np.repeat(each, graph.n_states))
        return found

    @cached_property
    def labels(self) -> IntArray:
        """The label of each variable; meaningful where it has one only."""
        graph = self.given.scores.graph
        starts = graph.variable_ptr[:-1]
        first = np.flatnonzero(self.allowed)
        return np.asarray(first[np.searchsorted(first, starts)] - starts)

    @cached_property
    def _truth(self) -> FloatArray:
        return self.given.scores.graph.statistics(self.labels)

    def check_truth(self) -> None:
        """Raise where the model forbids the labels."""
        fixed = self.theta(np.zeros(self.given.scores.n_weights))
        if self.complete and (fixed[self._truth != 0.0] == -np.inf).any():
            raise InvalidInputError(
                f"example {self.number}: its labels have a score of -inf whatever the weights. Correct them, or take "
                f"out of the model what forbids them."
            )

    def theta(self, weights: FloatArray) -> FloatArray:
        """Scores under these weights."""
        return self.given.scores.theta(weights)

    def truth(self, theta: FloatArray, method: InferenceMethod) -> FloatArray:
        """Statistics of the truth; where labels are hidden, of the best labelling that agrees with them."""
        if self.complete:
            return self._truth
        agreeing = theta.copy()
        agreeing[: self.allowed.size][~self.allowed] = -np.inf
        return self._statistics(self._infer(agreeing, method), "that agrees with its labels")

    def answer(self, theta: FloatArray, method: InferenceMethod) -> tuple[FloatArray, bool]:
        """Statistics of the best labelling as the inference finds it, fractions as they are; whether it converged."""
        result = self._infer(theta, method)
        return self._statistics(result, "of finite score"), result.converged

    def wrong_mass(self, mu: FloatArray) -> float:
        """Labels that are wrong: the number of them, or their shares, where the answer is fractional."""
        return float(mu[: self.allowed.size][~self.allowed].sum())

    def pull_back(self, difference: FloatArray) -> FloatArray:
        """Features of a difference of statistics."""
        return self.given.scores.pull_back(difference)

    def _infer(self, theta: FloatArray, method: InferenceMethod) -> InferenceResult:
        # Learners count runs that did not converge.
        return whole_answer(run_inference(self.given.scores.graph, theta, method, task="map"))

    def _statistics(self, result: InferenceResult, which: str) -> FloatArray:
        if result.mu is None:
            raise InvalidInputError(
                f"example {self.number} has no labelling {which}: {result.note or result.status.message}. Check its "
                f"labels against what the model forbids."
            )
        return result.mu


def score_difference(theta: FloatArray, first: FloatArray, second: FloatArray) -> float:
    """Score of the first statistics less that of the second, where entries of -inf that both lack do not count.

    Examples
    --------
    >>> score_difference(np.array([1.0, -np.inf, 3.0]), np.array([1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    1.0
    """
    difference = first - second
    at = difference != 0.0
    return float(difference[at] @ theta[at])
