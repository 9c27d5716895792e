"""Maximum pseudo-likelihood learning for hinge-loss Markov random fields with complete labels."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.progress import fit_progress
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.learning.learner import HingeLearner, LearnedWeights
from intarsia.softlogic.learning.paired_problem import PairedProblem

_CHUNK = 1 << 18  # number of values of terms at nodes in memory at once
_MIN_WIDTH = 1e-6  # a variable with a smaller interval is treated as fixed by the constraints


class HingePseudoLikelihood(HingeLearner):
    r"""Maximum pseudo-likelihood learning: :math:`\max_w \sum_i \log P(\hat y_i | \hat y_{-i})`.

    .. math:: \log P(\hat y_i | \hat y_{-i}) = -w \cdot \phi_i(\hat y_i) - \log \int e^{-w \cdot \phi_i(t)} dt

    Use it for fully labelled data. It needs no inference: the density of a variable given all others is an integral
    over an interval, which is [0, 1] or the part of it that satisfies the hard constraints. The negative
    pseudo-likelihood with the regularization :math:`\lambda / 2 |w|^2` is convex in w and is minimized by L-BFGS-B, so
    the result is reproducible. Weights that rely on neighbouring labels can be too large for joint inference, where
    the neighbours are inferred too. A pass costs (entries of the terms) x `n_nodes`.

    Parameters
    ----------
    l2 : float
        Regularization :math:`\lambda \ge 0`: precision of a Gaussian prior on the weights.
    max_iter : int
        Maximum number of iterations of L-BFGS-B.
    tol : float
        Tolerance for the largest entry of the projected gradient, divided by the number of variables.
    n_nodes : int
        Number of quadrature nodes: two Gauss-Legendre nodes in each of `n_nodes / 2` equal intervals, because hinges
        have kinks.
    verbose : bool
        Whether to show progress on stderr, if it is a terminal.

    Raises
    ------
    InvalidInputError
        A variable has no label, or hard constraints fix every variable given the others.

    Notes
    -----
    Variables that hard equalities determine given the others are omitted.

    References
    ----------
    Besag1975; Bach2017, section 6.2.

    Examples
    --------
    The rule is |2 y - 1|. Label 1 violates it, so the best weight is 0. Label 1/2 satisfies it, and the best weight is
    about 10, where 1 / w = 0.01 w.

    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rows = LinearRows([0, 1, 2], [0, 0], [2.0, -2.0], [-1.0, 1.0])      # |2 y - 1|
    >>> model = HingeLossMRF(1, rows, 1.0, 1, term_group=[0, 0])
    >>> [round(float(HingePseudoLikelihood(l2=0.01).fit(model, [y]).weights[0]), 1) for y in (1.0, 0.5)]
    [0.0, 10.0]
    """

    name: ClassVar[str] = "pseudo_likelihood"
    summary: ClassVar[str] = "fully labelled data, no inference: pseudo-likelihood of each label given all others"
    takes_latent: ClassVar[bool] = False

    def __init__(
        self,
        *,
        l2: float = 1e-2,
        max_iter: int = 200,
        tol: float = 1e-5,
        n_nodes: int = 64,
        verbose: bool = False,
    ) -> None:
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.n_nodes = n_nodes
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        class_name = type(self).__name__
        check_number(self.l2, f"{class_name}: l2", low=0.0, high=np.inf, open_high=True)
        check_number(self.max_iter, f"{class_name}: max_iter", low=1, integer=True)
        check_number(self.tol, f"{class_name}: tol", low=0.0, open_low=True)
        check_number(self.n_nodes, f"{class_name}: n_nodes", low=2, integer=True)

    def _learn(
        self,
        model: HingeLossMRF,
        problem: PairedProblem,
        weights: FloatArray,
        trainable: NDArray[np.bool_],
        title: str,
    ) -> LearnedWeights:
        from scipy.optimize import minimize

        conditionals = Conditionals(model, problem.labels, int(self.n_nodes))
        bounds = [(0.0, None) if free else (w, w) for w, free in zip(weights, trainable, strict=True)]
        start_time, current, status = time.perf_counter(), weights, Status.MAX_ITER
        rows = [(weights.copy(), 0.0)]

        def objective(w: FloatArray) -> tuple[float, FloatArray]:
            """Return the mean objective per variable and its gradient."""
            value, gradient = conditionals.negative_log_likelihood(w)
            scale = 1.0 / conditionals.n_variables
            return scale * (value + 0.5 * self.l2 * float(w @ w)), scale * (gradient + self.l2 * w)

        with fit_progress(title, bool(self.verbose)) as report:

            def record(w: FloatArray) -> None:
                """Store the weights of an iteration, and report progress."""
                nonlocal current
                current = np.maximum(w, 0.0)
                rows.append((current, time.perf_counter() - start_time))
                if report is not None:
                    report(len(rows) - 1, float("nan"), float("nan"), (len(rows) - 1) / int(self.max_iter))

            try:
                options = {"maxiter": int(self.max_iter), "gtol": float(self.tol), "ftol": 0.0}
                solution = minimize(objective, weights, jac=True, bounds=bounds, callback=record, options=options)  # type: ignore[call-overload]
                current = np.maximum(solution.x, 0.0)
                status = Status.MAX_ITER if solution.nit >= int(self.max_iter) else Status.CONVERGED
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        weight_rows = np.stack([row[0] for row in rows])
        history = {
            "weights": weight_rows,
            "updates": np.arange(len(rows)),
            "admm_iterations": np.zeros(len(rows), dtype=np.int64),
            "seconds": np.array([row[1] for row in rows]),
            "objective": np.array([objective(w)[0] * conditionals.n_variables for w in weight_rows]),
        }
        return LearnedWeights(current, status, len(rows) - 1, 0, np.zeros(0), history)


class Conditionals:
    """Conditional density of each variable given the labels of all others, at quadrature nodes.

    Attributes
    ----------
    n_variables : int
        Number of variables that the constraints do not fix.
    """

    def __init__(self, model: HingeLossMRF, labels: FloatArray, n_nodes: int) -> None:
        low, high = _feasible_intervals(model, labels)
        is_free = high - low > _MIN_WIDTH
        if not is_free.any():
            raise InvalidInputError(
                "HingePseudoLikelihood: hard constraints fix every variable given the other labels, so the conditional "
                "densities contain no information. Use learner='perceptron' or 'paired_dual'."
            )
        self.n_variables = int(is_free.sum())
        self._n_groups = model.n_groups
        node, self._log_node = _nodes(n_nodes)
        by_variable = model.terms.to_scipy(model.n_variables).tocsc()
        group = np.arange(model.n_terms) if model.term_group is None else model.term_group
        value = model.terms.values(labels)
        self._labels, self._low, self._width, self._node = labels, low, high - low, node
        self._ptr, self._coef = by_variable.indptr.astype(np.int64), by_variable.data
        term = by_variable.indices
        self._group, self._power = group[term].astype(np.int64), model.power[term]
        variable = np.repeat(np.arange(model.n_variables), np.diff(self._ptr))
        # A term as a function of a single variable t is coef * t + rest.
        self._rest = value[term] - self._coef * labels[variable]
        self._chunks = _chunks(self._ptr, is_free, _CHUNK // n_nodes)

    def negative_log_likelihood(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient, summed over the variables that are not fixed."""
        total, gradient = 0.0, np.zeros(self._n_groups)
        for variables in self._chunks:
            value, chunk_gradient = self._chunk(variables, weights)
            total += value
            gradient += chunk_gradient
        return total, gradient

    def _chunk(self, variables: IntArray, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient of some variables."""
        sizes = self._ptr[variables + 1] - self._ptr[variables]
        entry = np.concatenate([np.arange(self._ptr[i], self._ptr[i + 1]) for i in variables])
        owner = np.repeat(np.arange(variables.size), sizes)
        nodes = self._low[variables, None] + self._width[variables, None] * self._node
        hinges = self._hinges(entry, nodes[owner])
        w = weights[self._group[entry]]
        energy = np.add.reduceat(w[:, None] * hinges, np.cumsum(sizes) - sizes)
        score = self._log_node - energy
        largest = score.max(axis=1, keepdims=True)
        mass = np.exp(score - largest)
        z = mass.sum(axis=1, keepdims=True)
        expected = (hinges * (mass / z)[owner]).sum(axis=1)
        label_hinges = self._hinges(entry, self._labels[variables][owner][:, None])[:, 0]
        log_z = (largest + np.log(z))[:, 0] + np.log(self._width[variables])
        gradient = np.bincount(self._group[entry], weights=label_hinges - expected, minlength=self._n_groups)
        return float(w @ label_hinges + log_z.sum()), np.asarray(gradient, dtype=np.float64)

    def _hinges(self, entry: IntArray, values: FloatArray) -> FloatArray:
        """Return the hinges of entries at values of their variables."""
        excess = np.maximum(self._coef[entry, None] * values + self._rest[entry, None], 0.0)
        return np.where(self._power[entry, None] == 2, excess * excess, excess)


def _nodes(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return two Gauss-Legendre nodes in each of equal intervals of [0, 1], and the logarithms of their weights."""
    n_intervals = max(1, n_nodes // 2)
    offset = 0.5 / np.sqrt(3.0)
    centre = (np.arange(n_intervals) + 0.5) / n_intervals
    node = np.concatenate([centre - offset / n_intervals, centre + offset / n_intervals])
    return node, np.full(node.size, -np.log(node.size))


def _feasible_intervals(model: HingeLossMRF, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the feasible interval of each variable while all others have their labels."""
    low, high = np.zeros(model.n_variables), np.ones(model.n_variables)
    for rows, equal in ((model.equalities, True), (model.inequalities, False)):
        if rows is None:
            continue
        value = np.repeat(rows.values(labels), np.diff(rows.ptr))
        if equal:
            low[rows.idx] = high[rows.idx] = labels[rows.idx]
            continue
        # coef * t + rest <= 0 bounds t from above where coef > 0, from below where coef < 0
        limit = labels[rows.idx] - value / rows.coef
        bounds_above = rows.coef > 0.0
        np.minimum.at(high, rows.idx[bounds_above], np.maximum(limit[bounds_above], labels[rows.idx[bounds_above]]))
        np.maximum.at(low, rows.idx[~bounds_above], np.minimum(limit[~bounds_above], labels[rows.idx[~bounds_above]]))
    return low, high


def _chunks(ptr: IntArray, is_free: NDArray[np.bool_], n_entries: int) -> list[IntArray]:
    """Split the variables that are not fixed and have terms into chunks of limited size."""
    variables = np.flatnonzero(is_free & (np.diff(ptr) > 0))
    entry_start = np.concatenate([[0], np.cumsum(np.diff(ptr)[variables])])
    cuts = np.searchsorted(entry_start, np.arange(n_entries, entry_start[-1], n_entries))
    return [chunk for chunk in np.split(variables, np.unique(cuts)) if chunk.size]
