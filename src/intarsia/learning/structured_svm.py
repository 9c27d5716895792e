"""Structured support vector machine (structured SVM) by block-coordinate Frank-Wolfe or by subgradients.

The objective per labelled variable is `ridge / 2 |w|^2 + sum_i c_i max_z [l_i(z) - w . psi_i(z)]`, where `ridge` is
l2 divided by the number of labelled variables, `psi_i(z)` are the features of the truth minus those of z, and `l_i(z)`
is the cost of z plus its advantage in fixed scores, which no weight multiplies. The dual has a distribution over
predictions for each example. Only mean features and mean costs under these are stored:
`w = sum_i c_i E[psi_i] / ridge`, and the dual value is `sum_i c_i E[l_i] - ridge / 2 |w|^2`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import warn_caller
from intarsia._core.progress import fit_progress
from intarsia._core.validation import FloatArray, check_choice, check_number
from intarsia.exceptions import ConvergenceWarning, NotSupportedError, TooLargeError
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.examples import Example
from intarsia.learning.margin_example import MarginExample
from intarsia.learning.margin_learner import Comparison, Evaluation, MarginLearner, Record
from intarsia.learning.minimum import Minimum

MAX_BYTES = 2**31
_MAX_STORED = 30
_MAX_ROUNDS = 50
_MIN_GAIN = 1e-5  # relative gain of the dual for which another round over the stored predictions is made
_MIN_VIOLATION = 1e-12


class SvmSolver(ABC):
    """State of the search: `weights` predict the next example, `point` is the result."""

    def __init__(self, shares: FloatArray, n_weights: int, ridge: float) -> None:
        self.shares = shares
        self.ridge = ridge
        self.weights = np.zeros(n_weights)
        self.cost = 0.0

    @property
    @abstractmethod
    def point(self) -> FloatArray:
        """Weights to predict with."""

    @abstractmethod
    def update(self, i: int, difference: FloatArray, cost: float) -> None:
        """Process the prediction for example i: its features psi and its cost l."""

    def polish(self) -> None:  # noqa: B027  # not every solver can
        """Improve the weights without new predictions, if the solver can."""

    @property
    def dual(self) -> float:
        """Lower bound on the objective; for the subgradient solver only after whole passes."""
        return self.cost - 0.5 * self.ridge * float(self.weights @ self.weights)


class BlockFrankWolfe(SvmSolver):
    """Block-coordinate Frank-Wolfe solver with pairwise steps and stored predictions.

    For each example, the exact best step moves probability from its worst stored prediction to its best one
    (LacosteJulien2013; pairwise steps and stored predictions as in Osokin2016). Steps among stored predictions cost no
    inference and reach the optimum where plain steps zigzag. Few predictions are stored per example; the two least
    probable ones are merged, which leaves the dual point unchanged.

    Examples
    --------
    >>> solver = BlockFrankWolfe(np.ones(1), 1, 1.0)
    >>> solver.update(0, np.array([2.0]), 1.0)       # max(0, 1 - 2 w) + w^2 / 2 is lowest at w = 1/2
    >>> solver.point.tolist(), solver.dual
    ([0.5], 0.125)
    """

    def __init__(self, shares: FloatArray, n_weights: int, ridge: float) -> None:
        super().__init__(shares, n_weights, ridge)
        n_fitting = int(MAX_BYTES / (8.0 * max(1, shares.size * n_weights)))
        if n_fitting < 2:
            raise TooLargeError(
                f"StructuredSVM: {16.0 * shares.size * n_weights / 2**30:.1f} GiB would be needed for two weight "
                f"vectors per example, for {shares.size} examples. Use solver='subgradient', which stores two in total."
            )
        self.n_stored = min(_MAX_STORED, n_fitting)
        # The first stored prediction of each example is the truth: no difference, no cost.
        self.planes = [np.zeros((1, n_weights)) for _ in range(shares.size)]
        self.costs = [np.zeros(1) for _ in range(shares.size)]
        self.probabilities = [np.ones(1) for _ in range(shares.size)]

    @property
    def point(self) -> FloatArray:
        """Current weights of the search."""
        return self.weights

    def update(self, i: int, difference: FloatArray, cost: float) -> None:
        """Store the prediction if it is new, and move probability to it."""
        if self._violation(i, difference, cost) > self._violations(i).max() + _MIN_VIOLATION * max(1.0, abs(cost)):
            self.planes[i] = np.vstack([self.planes[i], difference])
            self.costs[i] = np.append(self.costs[i], cost)
            self.probabilities[i] = np.append(self.probabilities[i], 0.0)
        self._move(i)
        self._tidy(i)

    def polish(self) -> None:
        """Make steps among the stored predictions until they gain little."""
        for _ in range(_MAX_ROUNDS):
            old_dual = self.dual
            for i in range(self.shares.size):
                if self.costs[i].size > 1:
                    self._move(i)
            if self.dual - old_dual <= _MIN_GAIN * abs(self.dual):
                break

    def _violations(self, i: int) -> FloatArray:
        """Return the violation, cost minus w . psi, of each stored prediction of an example."""
        return np.asarray(self.costs[i] - self.planes[i] @ self.weights)

    def _violation(self, i: int, difference: FloatArray, cost: float) -> float:
        """Return the violation, cost minus w . psi, of a prediction."""
        return cost - float(difference @ self.weights)

    def _move(self, i: int) -> None:
        """Make the best step that moves probability from the stored prediction of lowest violation to the highest."""
        violations, scale, probabilities = self._violations(i), float(self.shares[i]), self.probabilities[i]
        high, low = int(np.argmax(violations)), int(np.argmin(np.where(probabilities > 0.0, violations, np.inf)))
        slope = scale * float(violations[high] - violations[low])
        if slope <= 0.0:
            return
        direction = self.planes[i][high] - self.planes[i][low]
        curvature = scale * scale / self.ridge * float(direction @ direction)
        length = float(probabilities[low]) if slope >= curvature * probabilities[low] else slope / curvature
        self.weights += (scale * length / self.ridge) * direction
        self.cost += scale * length * float(self.costs[i][high] - self.costs[i][low])
        probabilities[high] += length
        probabilities[low] = max(0.0, probabilities[low] - length)

    def _tidy(self, i: int) -> None:
        """Remove stored predictions of probability 0; merge the two least probable ones if there are too many."""
        in_use = self.probabilities[i] > 0.0
        planes, costs, probabilities = self.planes[i][in_use], self.costs[i][in_use], self.probabilities[i][in_use]
        if costs.size > self.n_stored:
            order = np.argsort(probabilities)
            pair, rest = order[:2], order[2:]
            total = probabilities[pair].sum()
            fraction = probabilities[pair] / total
            planes = np.vstack([planes[rest], fraction @ planes[pair]])
            costs = np.append(costs[rest], fraction @ costs[pair])
            probabilities = np.append(probabilities[rest], total)
        self.planes[i], self.costs[i], self.probabilities[i] = planes, costs, probabilities


class Subgradient(SvmSolver):
    """Subgradient solver with step sizes 1 / (ridge t); the result is a mean with more weight on later weights.

    After a whole pass every example has had the same number of predictions, so that the last weights belong to a dual
    point in which these are equally probable.

    Examples
    --------
    >>> solver = Subgradient(np.ones(1), 1, 1.0)
    >>> solver.update(0, np.array([2.0]), 1.0)       # the first step ignores the starting weights
    >>> solver.update(0, np.array([0.0]), 0.0)
    >>> solver.weights.tolist(), solver.dual
    ([1.0], 0.0)
    """

    def __init__(self, shares: FloatArray, n_weights: int, ridge: float) -> None:
        super().__init__(shares, n_weights, ridge)
        self.n_steps = 0
        self.mean = np.zeros(n_weights)

    @property
    def point(self) -> FloatArray:
        """Mean of all weights, with weight t on those of step t."""
        return self.mean

    def update(self, i: int, difference: FloatArray, cost: float) -> None:
        """Make one subgradient step."""
        self.n_steps += 1
        scale = self.shares.size * float(self.shares[i])
        rate = 1.0 / self.n_steps
        self.weights *= 1.0 - rate
        self.weights += (rate * scale / self.ridge) * difference
        self.cost += rate * (scale * cost - self.cost)
        self.mean += 2.0 / (self.n_steps + 1) * (self.weights - self.mean)


_SOLVERS: dict[str, type[SvmSolver]] = {"frank_wolfe": BlockFrankWolfe, "subgradient": Subgradient}
_EVALUATE_EVERY = 10


class StructuredSVM(MarginLearner):
    r"""Structured support vector machine (structured SVM, max-margin training).

    .. math:: \min_w \; \frac1N \Big[ \frac{l_2}{2} \lVert w \rVert^2 + \sum_e a_e \max_z
              \big( \Delta_e(z) - w \cdot (\Phi_e(y_e) - \Phi_e(z)) \big) \Big],

    where :math:`\Delta_e(z)` is the number of wrong labels of z (each times its `class_weight`), and the maximum is
    over the labellings, or with `lp_relaxation` over the local polytope with its fractional vertices. As in
    `RiskMinimizer`, :math:`a_e` are the weights of the examples and N the weighted number of labelled variables. The
    objective is convex, and with exact or relaxed inference the duality gap bounds the distance of the result from the
    optimum. Choose it when labels matter and not probabilities, and data are not separable; with the relaxation there
    is a bound on the risk (Kulesza2007, Theorem 2). A pass costs one inference per example.

    Parameters
    ----------
    l2 : float
        L2 regularization, above 0: penalty of `l2 / 2` times the squared norm of the weights, added to the summed hinge
        losses. It is 1 / C of the usual support vector machine.
    solver : {"frank_wolfe", "subgradient"}
        Block-coordinate Frank-Wolfe has no step size, and stores a weight vector for each of several predictions of
        each example; the subgradient solver stores two in total and needs many more passes.
    tol : float
        Converged when the duality gap is at most this fraction of the objective.
    max_iter : int
        Maximum number of passes over the examples.
    path : {"passes", "steps", "none"}
        Weights stored in `history["path"]`: at the start and after each pass, after each step, or none.
    random_state : int, Generator or None
        Seed of the shuffling.
    verbose : bool
        Whether to show progress on stderr, only on a terminal.

    Notes
    -----
    A row of the history is a pass: "risk" is the objective and "gap" its distance from the dual. Both are sums over the
    examples during the pass, while the weights changed; in a row with "certified" 1 they were computed in a further
    round over all examples with the same weights, which is made when the gap seems small enough, every ten passes, and
    at the end. "mistakes" counts predictions that were wrong with the cost added, "misled" those that scored less than
    the truth nevertheless: always 0 with exact and relaxed inference. With other inference the gap is not a bound.

    Raises
    ------
    NotSupportedError
        For hidden labels, and for a start other than 0, where the dual starts.

    Warns
    -----
    ConvergenceWarning
        If the gap is still too large after `max_iter` passes.

    References
    ----------
    Taskar2003; Tsochantaridis2005; LacosteJulien2013; Osokin2016; Kulesza2007, Section 5.2.

    Examples
    --------
    One variable, features 1 and -1 by label, so that only :math:`w_1 - w_0` matters. The hinge is
    :math:`\max(0, 1 - (w_1 - w_0))`, and with weak regularization the result is the shortest weights with a hinge of 0:

    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import Templates, TemplateScores, template_graph
    >>> templates = Templates({"node": 2}, {"node": 1})
    >>> graph = template_graph(templates, {"node": 1}, {})
    >>> data = [
    ...     example(TemplateScores(templates, graph, {"node": [[sign]]}, {}), [label])
    ...     for sign, label in ((-1.0, 0), (1.0, 1))
    ... ]
    >>> result = StructuredSVM(l2=0.02).minimize(data, "lp_relaxation")
    >>> result.status.name, result.point.round(6).tolist()
    ('CONVERGED', [-0.5, 0.5])
    """

    name: ClassVar[str] = "structured_svm"
    summary: ClassVar[str] = "labels without probabilities: the largest margin, with a duality gap"
    handles_hidden: ClassVar[bool] = False

    def __init__(
        self,
        *,
        l2: float = 1.0,
        solver: str = "frank_wolfe",
        tol: float = 1e-2,
        max_iter: int = 100,
        path: str = "passes",
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.l2 = l2
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.path = path
        self.random_state = random_state
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.l2, "StructuredSVM: l2", low=0.0, high=np.inf, open_low=True, open_high=True)
        check_number(self.tol, "StructuredSVM: tol", low=0.0)
        check_choice(self.solver, _SOLVERS, "StructuredSVM: solver")

    def minimize(
        self,
        examples: Sequence[Example],
        inference: str | InferenceMethod,
        start: FloatArray | None = None,
        *,
        validation: Sequence[Example] | None = None,
        title: str = "",
    ) -> Minimum:
        """Return the weights with the lowest objective, with the duality gap in the history."""
        seeded = self.with_seed()
        if seeded is not self:
            return seeded.minimize(examples, inference, start, validation=validation, title=title)
        ready, method, first = self._prepare(examples, inference, start)
        if first.any():
            raise NotSupportedError(
                "StructuredSVM starts at 0, where its dual starts, and cannot continue from other weights. Drop start "
                "and warm_start; the result does not depend on the start."
            )
        if validation is not None:
            raise NotSupportedError(
                "StructuredSVM does not support early stopping: its objective has one minimum. Drop the validation "
                "examples here, and use them to compare fits with several values of l2."
            )
        mass = sum(example.source.mass for example in ready)
        shares = np.array([example.weight / mass for example in ready])
        solver = _SOLVERS[self.solver](shares, first.size, float(self.l2) / mass)
        record, evaluation, status = Record(first, self.path), Evaluation(ready, shares), Status.MAX_ITER
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                while len(record.rows) < int(self.max_iter):
                    last = len(record.rows) + 1 == int(self.max_iter)
                    gap = self._pass(ready, method, solver, record, evaluation, last)
                    row = record.rows[-1]
                    if report is not None:
                        report(len(record.rows), row["risk"], gap, len(record.rows) / int(self.max_iter))
                    if row["certified"] and gap <= self.tol * row["risk"]:
                        status = Status.CONVERGED
                        break
            except KeyboardInterrupt:
                if not record.rows:
                    raise
                status = Status.INTERRUPTED
        row = record.rows[-1] if record.rows else {"risk": np.nan, "gap": np.nan}
        if status is Status.MAX_ITER:
            warn_caller(
                f"StructuredSVM: MAX_ITER after {len(record.rows)} passes with a duality gap of {row['gap']:.2e} "
                f"against tol={self.tol:g} times {row['risk']:.3g}. Raise max_iter, tol or l2.",
                ConvergenceWarning,
            )
        result = Minimum(
            solver.point.copy(), row["risk"], np.nan, status, len(record.rows), start=first, history=record.history()
        )
        return self._end(result)

    def _pass(
        self,
        ready: list[MarginExample],
        method: InferenceMethod,
        solver: SvmSolver,
        record: Record,
        evaluation: Evaluation,
        last: bool,
    ) -> float:
        """Make one pass and return the gap after it: estimated, or exact if it seems small and at the end."""
        hinge, ridge = 0.0, solver.ridge
        for i in self._order(len(ready), len(record.rows)):
            comparison = Comparison(ready[i], solver.weights, method, 1.0)
            record.count(comparison)
            hinge += solver.shares[i] * max(0.0, comparison.cost - comparison.margin)
            # Fixed scores, which no weight multiplies, count like a cost.
            fixed = comparison.margin - float(solver.weights @ comparison.difference)
            solver.update(i, comparison.difference, comparison.cost - fixed)
            record.step(solver.weights)
        solver.polish()
        risk = hinge + 0.5 * ridge * float(solver.weights @ solver.weights)
        # The result may be better than the weights used during the pass, so it is evaluated exactly every few passes.
        due = len(record.rows) % _EVALUATE_EVERY == _EVALUATE_EVERY - 1
        certified = last or due or risk - solver.dual <= self.tol * risk
        if certified:
            point = solver.point
            risk = 0.5 * ridge * float(point @ point)
            risk += evaluation.hinge(point, method)
            record.n_answers += len(ready)
        gap = risk - solver.dual
        record.close(solver.point, risk, gap=gap, dual=solver.dual, certified=float(certified))
        return gap
