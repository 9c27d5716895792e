"""Exact inference by enumeration of all assignments, the reference for the tests of other methods."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._kernels.statistics import score_labellings
from intarsia.exceptions import TimeLimitError, TooLargeError
from intarsia.inference.method import Answer, InferenceMethod, Problem

_MAX_LOG2 = 30.0  # log2 of the number of assignments whose scores fit in memory


class BruteForce(InferenceMethod):
    r"""Exact log Z, marginals, MAP, n-best and samples by enumeration of all assignments.

    Choose it for tiny models and to check other methods. It evaluates
    :math:`\log Z = \log \sum_x \exp(\theta \cdot S(x))` directly, in blocks, at a cost of one score per assignment.

    Parameters
    ----------
    max_assignments : float
        Maximum number of assignments; larger models raise TooLargeError.
    temperature : float, optional
        T in `<theta, mu> + T H(mu)`; by default 1 for marginals, 0 for MAP.

    Raises
    ------
    TooLargeError
        If the model has more than `max_assignments` assignments.

    Examples
    --------
    >>> import intarsia, numpy as np
    >>> graph = intarsia.chain_graph(2, 2)
    >>> np.exp(intarsia.infer(graph, graph.zeros(), "brute_force").log_partition).round(12)
    np.float64(4.0)
    """

    name: ClassVar[str] = "brute_force"
    summary: ClassVar[str] = "tiny models, and as the reference for other methods"
    exact: ClassVar[bool] = True
    gives_marginals: ClassVar[bool] = True
    gives_map: ClassVar[bool] = True
    gives_samples: ClassVar[bool] = True
    gives_best: ClassVar[bool] = True
    log_partition_is: ClassVar[str | None] = "exact"
    cost: ClassVar[str] = "product of the state counts"

    def __init__(self, *, max_assignments: float = 1e7, temperature: float | None = None) -> None:
        self.max_assignments = max_assignments
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.max_assignments, "BruteForce: max_assignments", low=1)

    def run(self, problem: Problem) -> Answer:
        """Enumerate all assignments."""
        graph = problem.graph
        log_count = float(np.log2(graph.n_states).sum())
        if log_count > np.log2(self.max_assignments):
            raise TooLargeError(
                f"BruteForce: 2**{log_count:.0f} assignments exceed max_assignments={self.max_assignments:g}. "
                f"Use JunctionTree, or raise the limit."
            )
        if log_count > _MAX_LOG2:
            raise TooLargeError(f"BruteForce: 2**{log_count:.0f} assignments do not fit in memory. Use JunctionTree.")
        count = int(np.prod(graph.n_states, dtype=np.int64))
        block = 1 << 14
        scores = np.empty(count)
        for start in range(0, count, block):
            if problem.clock.expired:
                raise TimeLimitError(
                    f"BruteForce: {start} of {count} assignments were visited in time_limit={problem.clock.limit:g} s. "
                    f"Raise time_limit, or use JunctionTree."
                )
            labels = self._labels(problem, np.arange(start, min(start + block, count)))
            scores[start : start + block] = score_labellings(labels, problem.theta, *graph.statistics_arguments)
        best_score = scores.max()
        if best_score == -np.inf:
            return Answer(Status.INFEASIBLE)
        answer = Answer(Status.EXACT)
        if problem.n_best:
            order = np.argsort(-scores, kind="stable")[: problem.n_best]
            answer.best = self._labels(problem, order[scores[order] > -np.inf])
        if problem.task == "map":
            answer.assignment = self._labels(problem, np.array([int(np.argmax(scores))]))[0]
            answer.lower_bound = answer.upper_bound = float(best_score)
            return answer
        weights = np.exp(scores - best_score)
        total = weights.sum()
        answer.log_partition = answer.lower_bound = answer.upper_bound = float(best_score + np.log(total))
        answer.log_partition_is = "exact"
        weights /= total
        answer.mu = self._expected_statistics(problem, weights, block)
        if problem.n_samples:
            draws = problem.rng.choice(count, size=problem.n_samples, p=weights)
            answer.samples = self._labels(problem, draws)
        return answer

    @staticmethod
    def _labels(problem: Problem, numbers: IntArray) -> IntArray:
        """Return the labellings with these numbers; the last variable changes fastest."""
        labels = np.empty((numbers.size, problem.graph.n_variables), dtype=np.int64)
        quotient = numbers.copy()
        for v in range(problem.graph.n_variables - 1, -1, -1):
            quotient, labels[:, v] = np.divmod(quotient, problem.graph.n_states[v])
        return labels

    @classmethod
    def _expected_statistics(cls, problem: Problem, weights: FloatArray, block: int) -> FloatArray:
        """Return the expected statistics, computed with NumPy to be independent of the kernels."""
        graph = problem.graph
        mu = graph.zeros()
        for start in range(0, weights.size, block):
            numbers = np.arange(start, min(start + block, weights.size))
            block_weights = weights[numbers]
            labels = cls._labels(problem, numbers)
            for v in range(graph.n_variables):
                graph.variable(mu, v)[:] += np.bincount(labels[:, v], block_weights, minlength=graph.n_states[v])
            for c in range(graph.n_factors):
                shape = graph.factor_shape(c)
                flat = np.ravel_multi_index(tuple(labels[:, graph.scope(c)].T), shape)
                joint = np.bincount(flat, block_weights, minlength=int(np.prod(shape)))
                table = int(graph.table_of_factor[c])
                target = mu[graph.table_ptr[table] : graph.table_ptr[table + 1]]
                if graph.table_kind[table] == 0:
                    target += joint
                else:
                    unit = np.zeros(graph.n_theta)
                    unit[graph.table_ptr[table]] = 1.0
                    target += joint @ graph.factor_table(unit, c).reshape(-1)
        return mu
