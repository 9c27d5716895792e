"""Maximum pseudo-likelihood of a hinge-loss model whose variables all have labels."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from intarsia._core.error_context import errors_in
from intarsia._core.progress import fit_progress
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.softlogic.learning.learner import HingeLearner, LearnedWeights, Score, learned_mask, start_weights
from intarsia.softlogic.learning.paired_problem import PairedProblem

_CHUNK = 1 << 18  # pairs of a term and a variable whose values are held at once
_NARROW = 1e-6  # a variable whose others leave it no more room than this has nothing to say


class HingePseudoLikelihood(HingeLearner):
    r"""Weights under which each label is likely given all others: :math:`\max_w \sum_i \log P(\hat y_i | \hat y_{-i})`.

    .. math:: \log P(\hat y_i | \hat y_{-i}) = -w \cdot \phi_i(\hat y_i) - \log \int e^{-w \cdot \phi_i(t)} dt

    The density of one variable given the others needs an integral over an interval only: [0, 1], or what the hard
    constraints leave of it. Convex in w, no inference at all, and reproducible: the minimum of the negative, with
    :math:`\lambda / 2 |w|^2` added, is found by L-BFGS-B. Choose it for fully labelled data and models in which every
    variable is well explained by its neighbours; it trusts neighbours more than joint inference later deserves. A pass
    costs (entries of the terms) x `n_nodes`.

    Parameters
    ----------
    l2 : float
        :math:`\lambda \ge 0`: precision of a Gaussian prior on the weights.
    max_iter : int
        Most iterations of L-BFGS-B.
    tol : float
        It ends where no entry of the projected gradient, divided by the number of variables, exceeds this.
    n_nodes : int
        Nodes of the integral: Gauss-Legendre, two in each of `n_nodes / 2` equal pieces, since hinges have kinks.
    verbose : bool
        Show progress on stderr, only on a terminal.

    Notes
    -----
    Variables that hard equalities pin down given the others are left out; where all are, nothing can be learned so,
    and an error says it.

    References
    ----------
    Besag1975; Bach2017, section 6.2.

    Examples
    --------
    Labels 0 and 1 are equally far from the rule's y = 1/2, so its best weight is 0. For the label 1/2 it is about 10,
    where 1 / w = 0.01 w.

    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rows = LinearRows([0, 1, 2], [0, 0], [2.0, -2.0], [-1.0, 1.0])      # |2 y - 1|
    >>> model = HingeLossMRF(1, rows, 1.0, 1, term_group=[0, 0])
    >>> [round(float(HingePseudoLikelihood(l2=0.01).fit(model, [y]).weights[0]), 1) for y in (1.0, 0.5)]
    [0.0, 10.0]
    """

    name: ClassVar[str] = "pseudo_likelihood"
    summary: ClassVar[str] = "fully labelled data, no inference: each label given all others"
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

    def fit(
        self,
        model: HingeLossMRF,
        labels: ArrayLike,
        *,
        start: ArrayLike | None = None,
        learned: ArrayLike | None = None,
        score: Score | None = None,
        title: str = "",
    ) -> LearnedWeights:
        """Learn a weight for each group; see the base class."""
        here = type(self).__name__
        check_number(self.l2, f"{here}: l2", low=0.0, high=np.inf, open_high=True)
        check_number(self.max_iter, f"{here}: max_iter", low=1, integer=True)
        check_number(self.tol, f"{here}: tol", low=0.0, open_low=True)
        check_number(self.n_nodes, f"{here}: n_nodes", low=2, integer=True)
        problem = PairedProblem.of(model, labels)
        self._check_labels(problem.labels)
        with errors_in(here):
            weights, moves = start_weights(model, start), learned_mask(model, learned)
        conditionals = Conditionals(model, problem.labels, int(self.n_nodes))
        bounds = [(0.0, None) if free else (w, w) for w, free in zip(weights, moves, strict=True)]
        begun, now, status = time.perf_counter(), weights, Status.MAX_ITER
        rows = [(weights.copy(), 0.0)]

        def objective(w: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = conditionals.negative_log_likelihood(w)
            scale = 1.0 / conditionals.n_variables
            return scale * (value + 0.5 * self.l2 * float(w @ w)), scale * (gradient + self.l2 * w)

        with fit_progress(title or here, bool(self.verbose)) as report:

            def keep(w: FloatArray) -> None:
                nonlocal now
                now = np.maximum(w, 0.0)
                rows.append((now, time.perf_counter() - begun))
                if report is not None:
                    report(len(rows) - 1, float("nan"), float("nan"), (len(rows) - 1) / int(self.max_iter))

            try:
                options = {"maxiter": int(self.max_iter), "gtol": float(self.tol), "ftol": 0.0}
                found = minimize(objective, weights, jac=True, bounds=bounds, callback=keep, options=options)  # type: ignore[call-overload]
                now = np.maximum(found.x, 0.0)
                status = Status.MAX_ITER if found.nit >= int(self.max_iter) else Status.CONVERGED
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        kept = np.stack([row[0] for row in rows])
        history = {
            "weights": kept,
            "updates": np.arange(len(rows)),
            "admm_iterations": np.zeros(len(rows), dtype=np.int64),
            "seconds": np.array([row[1] for row in rows]),
            "objective": np.array([objective(w)[0] * conditionals.n_variables for w in kept]),
        }
        if score is not None:
            history["score"] = np.array([score(w) for w in kept])
        return LearnedWeights(now, status, len(rows) - 1, 0, np.zeros(0), history)


class Conditionals:
    """The density of every variable given the labels of all others, on the nodes of a quadrature.

    Attributes
    ----------
    n_variables : int
        Variables that have room to vary.
    """

    def __init__(self, model: HingeLossMRF, labels: FloatArray, n_nodes: int) -> None:
        low, high = _room(model, labels)
        roomy = high - low > _NARROW
        if not roomy.any():
            raise InvalidInputError(
                "HingePseudoLikelihood: given the other labels, hard constraints fix every variable, so nothing can be "
                "learned from one at a time. Use learner='perceptron' or 'paired_dual'."
            )
        self.n_variables = int(roomy.sum())
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
        # A term as a function of this variable alone: coef * t + rest.
        self._rest = value[term] - self._coef * labels[variable]
        self._chunks = _chunks(self._ptr, roomy, _CHUNK // n_nodes)

    def negative_log_likelihood(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient, summed over the variables with room."""
        total, gradient = 0.0, np.zeros(self._n_groups)
        for chosen in self._chunks:
            value, part = self._chunk(chosen, weights)
            total += value
            gradient += part
        return total, gradient

    def _chunk(self, chosen: IntArray, weights: FloatArray) -> tuple[float, FloatArray]:
        sizes = self._ptr[chosen + 1] - self._ptr[chosen]
        entry = np.concatenate([np.arange(self._ptr[i], self._ptr[i + 1]) for i in chosen])
        of = np.repeat(np.arange(chosen.size), sizes)
        at = self._low[chosen, None] + self._width[chosen, None] * self._node
        hinges = self._hinges(entry, at[of])
        w = weights[self._group[entry]]
        energy = np.add.reduceat(w[:, None] * hinges, np.cumsum(sizes) - sizes)
        score = self._log_node - energy
        top = score.max(axis=1, keepdims=True)
        mass = np.exp(score - top)
        z = mass.sum(axis=1, keepdims=True)
        expected = (hinges * (mass / z)[of]).sum(axis=1)
        reached = self._hinges(entry, self._labels[chosen][of][:, None])[:, 0]
        log_z = (top + np.log(z))[:, 0] + np.log(self._width[chosen])
        gradient = np.bincount(self._group[entry], weights=reached - expected, minlength=self._n_groups)
        return float(w @ reached + log_z.sum()), np.asarray(gradient, dtype=np.float64)

    def _hinges(self, entry: IntArray, at: FloatArray) -> FloatArray:
        excess = np.maximum(self._coef[entry, None] * at + self._rest[entry, None], 0.0)
        return np.where(self._power[entry, None] == 2, excess * excess, excess)


def _nodes(n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Two Gauss-Legendre nodes in each of equal pieces of [0, 1], and the logarithms of their weights."""
    n_pieces = max(1, n_nodes // 2)
    offset = 0.5 / np.sqrt(3.0)
    centre = (np.arange(n_pieces) + 0.5) / n_pieces
    node = np.concatenate([centre - offset / n_pieces, centre + offset / n_pieces])
    return node, np.full(node.size, -np.log(node.size))


def _room(model: HingeLossMRF, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The interval that hard constraints leave each variable while all others keep their labels."""
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
        up = rows.coef > 0.0
        np.minimum.at(high, rows.idx[up], np.maximum(limit[up], labels[rows.idx[up]]))
        np.maximum.at(low, rows.idx[~up], np.minimum(limit[~up], labels[rows.idx[~up]]))
    return low, high


def _chunks(ptr: IntArray, roomy: NDArray[np.bool_], n_entries: int) -> list[IntArray]:
    """Variables with room and terms, in runs whose terms fit into memory together."""
    chosen = np.flatnonzero(roomy & (np.diff(ptr) > 0))
    before = np.concatenate([[0], np.cumsum(np.diff(ptr)[chosen])])
    cuts = np.searchsorted(before, np.arange(n_entries, before[-1], n_entries))
    return [part for part in np.split(chosen, np.unique(cuts)) if part.size]
