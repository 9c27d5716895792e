"""Upper bounds on the length of feature differences between two answers, without enumerating answers."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia.exceptions import TooLargeError
from intarsia.learning.margin_example import MarginExample

_MAX_ENTRIES = 2e8
_MAX_DENSE = 2e6


class FeatureBounds:
    r"""Bounds on the feature vectors of one example, computed from its feature matrix in learning form.

    Parameters
    ----------
    example : MarginExample
        Labelled example.

    Examples
    --------
    A variable with feature 2 and labels 0 and 1: changing the label moves the feature from one weight to the other.

    >>> from intarsia.learning import example
    >>> from intarsia.models import Templates, TemplateScores, template_graph
    >>> templates = Templates({"node": 2}, {"node": 1})
    >>> graph = template_graph(templates, {"node": 1}, {})
    >>> single = MarginExample(example(TemplateScores(templates, graph, {"node": [[2.0]]}, {}), [0]))
    >>> round(FeatureBounds(single).radius ** 2, 9), FeatureBounds(single).longest
    (8.0, 2.0)
    """

    def __init__(self, example: MarginExample) -> None:
        self.example = example

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """Features of each entry of the statistics in learning form: one row per entry, one column per weight."""
        scores, form = self.example.source.scores, self.example.source.form
        n_rows, n_weights = form.graph.n_theta, scores.n_weights
        if float(n_rows) * n_weights > _MAX_ENTRIES:
            raise TooLargeError(
                f"example {self.example.number}: a feature matrix of {n_rows} x {n_weights} is too large to bound its "
                f"features. Use smaller graphs or fewer features."
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
        """Length of the longest feature vector of a state of a single variable or factor."""
        squares = self.matrix.multiply(self.matrix).sum(axis=1)
        return float(np.sqrt(np.max(squares, initial=0.0)))

    @cached_property
    def radius(self) -> float:
        """Upper bound on the feature distance between any answer (also fractional) and one that agrees with the labels.

        An answer is a distribution over the states of every variable and factor, so its distance is at most the sum
        over variables and factors of the longest distance from a correct state to another one. Summing for each weight
        separately, and taking the norm at the end, gives a second bound. The smaller of the two is returned.
        """
        graph, sum_of_lengths = self.example.source.form.graph, 0.0
        by_weight = np.zeros(self.matrix.shape[1])
        is_small = True
        for start, end, is_correct in self._blocks():
            rows = self.matrix[start:end]
            gram = np.asarray((rows @ rows.T).todense())
            squares = gram.diagonal()
            squared_distances = squares[:, None] + squares[None, :] - 2.0 * gram
            sum_of_lengths += float(np.sqrt(max(0.0, squared_distances[is_correct].max(initial=0.0))))
            is_small = is_small and float(end - start) * by_weight.size <= _MAX_DENSE
            if is_small:
                dense = np.asarray(rows.todense())
                correct_rows = dense[is_correct]
                by_weight += np.maximum(dense.max(0) - correct_rows.min(0), correct_rows.max(0) - dense.min(0))
        bounds = [sum_of_lengths, *([float(np.linalg.norm(by_weight))] if is_small else [])]
        return min(bounds) if graph.n_variables else 0.0

    def _blocks(self) -> list[tuple[int, int, NDArray[np.bool_]]]:
        """Return the row range of each variable and factor, and a mask of its states that agree with the labels."""
        graph, labels = self.example.source.form.graph, self.example.source.labels
        ptr = graph.variable_ptr
        allowed = [labels.allowed[ptr[v] : ptr[v + 1]] for v in range(graph.n_variables)]
        blocks = [(int(ptr[v]), int(ptr[v + 1]), allowed[v]) for v in range(graph.n_variables)]
        for c in range(graph.n_factors):
            is_correct = np.ones(1, dtype=bool)
            for v in graph.scope(c):
                is_correct = (is_correct[:, None] & allowed[v][None, :]).reshape(-1)
            blocks.append((int(graph.table_ptr[c]), int(graph.table_ptr[c + 1]), is_correct))
        return blocks
