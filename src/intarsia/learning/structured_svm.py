"""The structured support vector machine: the largest margin by block-coordinate Frank-Wolfe, or by subgradients.

The objective per labelled variable is `ridge / 2 |w|^2 + sum_i c_i max_z [l_i(z) - w . psi_i(z)]` with `ridge` the
penalty l2 over the number of labelled variables, `psi_i(z)` the features of the truth less those of z, and `l_i(z)` the
cost of z plus what fixed scores say for it. Its dual has a distribution over answers for each example; mean features
and mean costs under these are all that is kept, and `w = sum_i c_i E[psi_i] / ridge`, with the value
`sum_i c_i E[l_i] - ridge / 2 |w|^2`.
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
from intarsia.learning.margin_learner import Look, MarginLearner, Record, Visit
from intarsia.learning.minimum import Minimum

MAX_BYTES = 2**31
_MOST_KEPT = 30
_MOST_ROUNDS = 50
_WORTH = 1e-5  # of the dual, for which another round among the answers is made
_NEW = 1e-12


class SvmSolver(ABC):
    """State of the search: `weights` to look at the next example with, `point` to predict with."""

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
        """Take in the answer for example i: its psi and its l."""

    def polish(self) -> None:  # noqa: B027  # most have nothing to do
        """Improve the weights without any new answer, where that is possible."""

    @property
    def dual(self) -> float:
        """Value that no weights get below; for the subgradient only after whole passes."""
        return self.cost - 0.5 * self.ridge * float(self.weights @ self.weights)


class BlockFrankWolfe(SvmSolver):
    """For each example the exact best step from its worst answer so far to its new one, then steps among the old ones.

    Block-coordinate Frank-Wolfe (LacosteJulien2013) with the pairwise steps and the memory of answers of Osokin2016:
    they cost no inference and take the search to the end, where plain steps zigzag. An example keeps few answers; the
    two least probable ones become one, which is as good a point of the dual as before.

    Examples
    --------
    >>> solver = BlockFrankWolfe(np.ones(1), 1, 1.0)
    >>> solver.update(0, np.array([2.0]), 1.0)       # max(0, 1 - 2 w) + w^2 / 2 is lowest at w = 1/2
    >>> solver.point.tolist(), solver.dual
    ([0.5], 0.125)
    """

    def __init__(self, shares: FloatArray, n_weights: int, ridge: float) -> None:
        super().__init__(shares, n_weights, ridge)
        room = int(MAX_BYTES / (8.0 * max(1, shares.size * n_weights)))
        if room < 2:
            raise TooLargeError(
                f"StructuredSVM: {16.0 * shares.size * n_weights / 2**30:.1f} GiB would be needed for two weight "
                f"vectors of each of {shares.size} examples. Use solver='subgradient', which keeps two in all."
            )
        self.n_kept = min(_MOST_KEPT, room)
        # The first answer of each example is the truth itself: no difference, no cost.
        self.planes = [np.zeros((1, n_weights)) for _ in range(shares.size)]
        self.costs = [np.zeros(1) for _ in range(shares.size)]
        self.probabilities = [np.ones(1) for _ in range(shares.size)]

    @property
    def point(self) -> FloatArray:
        """The present weights."""
        return self.weights

    def update(self, i: int, difference: FloatArray, cost: float) -> None:
        """Keep the answer, and move probability to it."""
        if self._value(i, difference, cost) > self._values(i).max() + _NEW * max(1.0, abs(cost)):
            self.planes[i] = np.vstack([self.planes[i], difference])
            self.costs[i] = np.append(self.costs[i], cost)
            self.probabilities[i] = np.append(self.probabilities[i], 0.0)
        self._move(i)
        self._tidy(i)

    def polish(self) -> None:
        """Steps among the answers that are kept, until they hardly help."""
        for _ in range(_MOST_ROUNDS):
            before = self.dual
            for i in range(self.shares.size):
                if self.costs[i].size > 1:
                    self._move(i)
            if self.dual - before <= _WORTH * abs(self.dual):
                break

    def _values(self, i: int) -> FloatArray:
        return np.asarray(self.costs[i] - self.planes[i] @ self.weights)

    def _value(self, i: int, difference: FloatArray, cost: float) -> float:
        return cost - float(difference @ self.weights)

    def _move(self, i: int) -> None:
        """Best step that moves probability from the lowest answer in use to the highest one."""
        values, share, chance = self._values(i), float(self.shares[i]), self.probabilities[i]
        high, low = int(np.argmax(values)), int(np.argmin(np.where(chance > 0.0, values, np.inf)))
        slope = share * float(values[high] - values[low])
        if slope <= 0.0:
            return
        way = self.planes[i][high] - self.planes[i][low]
        bend = share * share / self.ridge * float(way @ way)
        length = float(chance[low]) if slope >= bend * chance[low] else slope / bend
        self.weights += (share * length / self.ridge) * way
        self.cost += share * length * float(self.costs[i][high] - self.costs[i][low])
        chance[high] += length
        chance[low] = max(0.0, chance[low] - length)

    def _tidy(self, i: int) -> None:
        """Forget answers out of use; join the two least probable ones where there are too many."""
        used = self.probabilities[i] > 0.0
        planes, costs, chance = self.planes[i][used], self.costs[i][used], self.probabilities[i][used]
        if costs.size > self.n_kept:
            order = np.argsort(chance)
            pair, rest = order[:2], order[2:]
            total = chance[pair].sum()
            share = chance[pair] / total
            planes = np.vstack([planes[rest], share @ planes[pair]])
            costs = np.append(costs[rest], share @ costs[pair])
            chance = np.append(chance[rest], total)
        self.planes[i], self.costs[i], self.probabilities[i] = planes, costs, chance


class Subgradient(SvmSolver):
    """Steps of length 1 / (ridge t) against a subgradient; the result is a mean that favours late weights.

    After a whole pass every example has had equally many answers, so that the last weights belong to a point of the
    dual in which these are equally probable.

    Examples
    --------
    >>> solver = Subgradient(np.ones(1), 1, 1.0)
    >>> solver.update(0, np.array([2.0]), 1.0)       # the first step forgets where it began
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
        """Mean of all weights, the t-th of them weighing t."""
        return self.mean

    def update(self, i: int, difference: FloatArray, cost: float) -> None:
        """One step."""
        self.n_steps += 1
        scale = self.shares.size * float(self.shares[i])
        rate = 1.0 / self.n_steps
        self.weights *= 1.0 - rate
        self.weights += (rate * scale / self.ridge) * difference
        self.cost += rate * (scale * cost - self.cost)
        self.mean += 2.0 / (self.n_steps + 1) * (self.weights - self.mean)


_SOLVERS: dict[str, type[SvmSolver]] = {"frank_wolfe": BlockFrankWolfe, "subgradient": Subgradient}
_LOOK_EVERY = 10


class StructuredSVM(MarginLearner):
    r"""Weights under which the truth wins by as much as the other labellings are wrong, or nearly so.

    .. math:: \min_w \; \frac1N \Big[ \frac{l_2}{2} \lVert w \rVert^2 + \sum_e a_e \max_z
              \big( \Delta_e(z) - w \cdot (\Phi_e(y_e) - \Phi_e(z)) \big) \Big],

    where :math:`\Delta_e(z)` adds up the wrong labels of z (each times its `class_weight`), the maximum is over what
    the inference maximises over: labellings, or with `lp_relaxation` the local polytope, fractions as they are. As in
    `RiskMinimizer`, :math:`a_e` are the examples' weights and N the weighted number of labelled variables. The
    objective is convex, and with exact or relaxed inference the duality gap bounds how far the result is from the
    best. Choose it where labels matter and not probabilities, and data are not separable; the relaxed one has a bound
    on the risk (Kulesza2007, Theorem 2). A pass costs one inference for each example.

    Parameters
    ----------
    l2 : float
        Penalty above 0: `l2 / 2` times the squared length of the weights, beside the summed hinge losses. It is 1 / C
        of the usual support vector machine.
    solver : {"frank_wolfe", "subgradient"}
        Block-coordinate Frank-Wolfe has no step size, and keeps a weight vector for each of some answers of each
        example; subgradients keep two in all and need many more passes.
    tol : float
        Ends when the duality gap is at most this share of the objective.
    max_iter : int
        Most passes over the examples.
    path : {"passes", "steps", "none"}
        Which weights `history["path"]` keeps: at the start and after each pass, after each step, or none.
    random_state : int, Generator or None
        Seed of the orders.
    verbose : bool
        Show progress on stderr, only on a terminal.

    Notes
    -----
    A row of the history is a pass: "risk" is the objective and "gap" its distance from the dual. Both are sums of what
    the examples showed during the pass, while weights moved on; a row with "certified" 1 has them from one more round
    over all examples with the same weights, which is made when the gap looks small enough, every ten passes, and at
    the end. "mistakes" counts answers that were wrong with the cost added, "misled" those which scored less than the
    truth even so: always 0 with exact and relaxed inference. With other inference the gap is no bound.

    Raises
    ------
    NotSupportedError
        For hidden labels, and for a start other than 0, since the dual begins there.

    Warns
    -----
    ConvergenceWarning
        When `max_iter` end it before the gap is small.

    References
    ----------
    Taskar2003; Tsochantaridis2005; LacosteJulien2013; Osokin2016; Kulesza2007, Section 5.2.

    Examples
    --------
    One variable, features 1 and -1 by label, so that only :math:`w_1 - w_0` matters. The hinge is
    :math:`\max(0, 1 - (w_1 - w_0))`, and with a small penalty it is 0 at the shortest weights for which it can be:

    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import Templates, TemplateScores, template_graph
    >>> templates = Templates({"node": 2}, {"node": 1})
    >>> graph = template_graph(templates, {"node": 1}, {})
    >>> data = [
    ...     example(TemplateScores(templates, graph, {"node": [[sign]]}, {}), [label])
    ...     for sign, label in ((-1.0, 0), (1.0, 1))
    ... ]
    >>> found = StructuredSVM(l2=0.02).minimize(data, "lp_relaxation")
    >>> found.status.name, found.point.round(6).tolist()
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
        """Raise for settings that cannot be meant."""
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
        """Weights of the lowest objective found, with the duality gap in the history."""
        seeded = self.with_seed()
        if seeded is not self:
            return seeded.minimize(examples, inference, start, validation=validation, title=title)
        ready, method, first = self._prepare(examples, inference, start)
        if first.any():
            raise NotSupportedError(
                "StructuredSVM begins at 0, where its dual does, and cannot go on from other weights. Leave start and "
                "warm_start out; the result does not depend on the start."
            )
        if validation is not None:
            raise NotSupportedError(
                "StructuredSVM does not stop early: its objective has one minimum. Choose l2 on the validation "
                "examples instead, by fits with several."
            )
        mass = sum(one.given.mass for one in ready)
        shares = np.array([one.weight / mass for one in ready])
        solver = _SOLVERS[self.solver](shares, first.size, float(self.l2) / mass)
        record, look, status = Record(first, self.path), Look(ready, shares), Status.MAX_ITER
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                while len(record.rows) < int(self.max_iter):
                    last = len(record.rows) + 1 == int(self.max_iter)
                    gap = self._pass(ready, method, solver, record, look, last)
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
        found = Minimum(
            solver.point.copy(), row["risk"], np.nan, status, len(record.rows), start=first, history=record.history()
        )
        return self._end(found)

    def _pass(
        self,
        ready: list[MarginExample],
        method: InferenceMethod,
        solver: SvmSolver,
        record: Record,
        look: Look,
        last: bool,
    ) -> float:
        """One pass and the gap after it: as it looks, or for certain where it looks small and at the end."""
        hinge, ridge = 0.0, solver.ridge
        for i in self._order(len(ready), len(record.rows)):
            visit = Visit(ready[i], solver.weights, method, 1.0)
            record.see(visit)
            hinge += solver.shares[i] * max(0.0, visit.cost - visit.margin)
            # Fixed scores, which no weight multiplies, count like a cost.
            fixed = visit.margin - float(solver.weights @ visit.difference)
            solver.update(i, visit.difference, visit.cost - fixed)
            record.step(solver.weights)
        solver.polish()
        risk = hinge + 0.5 * ridge * float(solver.weights @ solver.weights)
        # Weights to predict with may be better than those that were looked at, so now and then all is looked at anew.
        due = len(record.rows) % _LOOK_EVERY == _LOOK_EVERY - 1
        certified = last or due or risk - solver.dual <= self.tol * risk
        if certified:
            point = solver.point
            risk = 0.5 * ridge * float(point @ point)
            risk += look.hinge(point, method)
            record.n_answers += len(ready)
        gap = risk - solver.dual
        record.close(solver.point, risk, gap=gap, dual=solver.dual, certified=float(certified))
        return gap
