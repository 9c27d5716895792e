"""How long the features of a difference of two answers can be, without looking at all answers."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia.exceptions import TooLargeError
from intarsia.learning.margin_example import MarginExample

_MOST_ENTRIES = 2e8
_MOST_DENSE = 2e6


class FeatureBounds:
    r"""Bounds on the features of one example, from its feature matrix in learning form.

    Parameters
    ----------
    one : MarginExample
        The example.

    Examples
    --------
    A variable with feature 2 and labels 0 and 1: changing the label takes the feature from one weight to the other.

    >>> from intarsia.learning import example
    >>> from intarsia.models import Templates, TemplateScores, template_graph
    >>> templates = Templates({"node": 2}, {"node": 1})
    >>> graph = template_graph(templates, {"node": 1}, {})
    >>> one = MarginExample(example(TemplateScores(templates, graph, {"node": [[2.0]]}, {}), [0]))
    >>> round(FeatureBounds(one).radius ** 2, 9), FeatureBounds(one).longest
    (8.0, 2.0)
    """

    def __init__(self, one: MarginExample) -> None:
        self.one = one

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """Features of each entry of the statistics in learning form: a row for each, a column for each weight."""
        scores, form = self.one.source.scores, self.one.source.form
        n_rows, n_weights = form.graph.n_theta, scores.n_weights
        if float(n_rows) * n_weights > _MOST_ENTRIES:
            raise TooLargeError(
                f"example {self.one.number}: a feature matrix of {n_rows} x {n_weights} is too large to bound its "
                f"features. Diagnose smaller graphs, or fewer features."
            )
        fixed = scores.theta(np.zeros(n_weights))
        columns = []
        for j in range(n_weights):
            unit = np.zeros(n_weights)
            unit[j] = 1.0
            column = np.subtract(scores.theta(unit), fixed, where=fixed > -np.inf, out=np.zeros(fixed.size))
            columns.append(sparse.csc_array(form.lower(column)[:, None]))
        return sparse.csr_array(sparse.hstack(columns)) if columns else sparse.csr_array((n_rows, 0))

    @property
    def longest(self) -> float:
        """Length of the longest feature vector of a single variable's or factor's state."""
        squares = self.matrix.multiply(self.matrix).sum(axis=1)
        return float(np.sqrt(np.max(squares, initial=0.0)))

    @cached_property
    def radius(self) -> float:
        """Upper bound on the distance of any answer, fractional ones included, from any that agrees with the labels.

        An answer is a distribution over the states of every variable and factor, so its distance is at most the sum
        over these of the longest way from a right state to another one. The same sum for each weight on its own, where
        ways in different directions do not add up, is another bound; the smaller one counts.
        """
        graph, sum_of_lengths = self.one.source.form.graph, 0.0
        by_weight = np.zeros(self.matrix.shape[1])
        small = True
        for start, end, right in self._blocks():
            rows = self.matrix[start:end]
            gram = np.asarray((rows @ rows.T).todense())
            squares = gram.diagonal()
            apart = squares[:, None] + squares[None, :] - 2.0 * gram
            sum_of_lengths += float(np.sqrt(max(0.0, apart[right].max(initial=0.0))))
            small = small and float(end - start) * by_weight.size <= _MOST_DENSE
            if small:
                dense = np.asarray(rows.todense())
                chosen = dense[right]
                by_weight += np.maximum(dense.max(0) - chosen.min(0), chosen.max(0) - dense.min(0))
        both = [sum_of_lengths, *([float(np.linalg.norm(by_weight))] if small else [])]
        return min(both) if graph.n_variables else 0.0

    def _blocks(self) -> list[tuple[int, int, NDArray[np.bool_]]]:
        """Where the rows of each variable and factor are, and which of its states agree with the labels."""
        graph, labels = self.one.source.form.graph, self.one.source.labels
        ptr = graph.variable_ptr
        allowed = [labels.allowed[ptr[v] : ptr[v + 1]] for v in range(graph.n_variables)]
        found = [(int(ptr[v]), int(ptr[v + 1]), allowed[v]) for v in range(graph.n_variables)]
        for c in range(graph.n_factors):
            right = np.ones(1, dtype=bool)
            for v in graph.scope(c):
                right = (right[:, None] & allowed[v][None, :]).reshape(-1)
            found.append((int(graph.table_ptr[c]), int(graph.table_ptr[c + 1]), right))
        return found
