"""The structured support vector machine: the largest margin by block-coordinate Frank-Wolfe, or by subgradients."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from intarsia._progress import fit_progress
from intarsia._validation import FloatArray, check_choice, check_number
from intarsia.exceptions import ConvergenceWarning, NotSupportedError
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.example import Example
from intarsia.learning.margin_example import MarginExample
from intarsia.learning.margin_learner import Look, MarginLearner, Record, Visit
from intarsia.learning.minimum import Minimum
from intarsia.learning.svm_solvers import BlockFrankWolfe, Subgradient, SvmSolver

_SOLVERS: dict[str, type[SvmSolver]] = {"frank_wolfe": BlockFrankWolfe, "subgradient": Subgradient}
_LOOK_EVERY = 10


class StructuredSVM(MarginLearner):
    r"""Weights under which the truth wins by as much as the other labellings are wrong, or nearly so.

    .. math:: \min_w \; \frac\lambda2 \lVert w \rVert^2 + \frac1N \sum_e a_e \max_z
              \big[ \Delta_e(z) - w \cdot (\Phi_e(y_e) - \Phi_e(z)) \big],

    where :math:`\Delta_e(z)` adds up the wrong labels of z (each times its `class_weight`), the maximum is over what
    the inference maximises over: labellings, or with `lp_relaxation` the local polytope, fractions as they are. As in
    `RiskMinimizer`, :math:`a_e` are the examples' weights and N the weighted number of labelled variables. The
    objective is convex, and with exact or relaxed inference the duality gap bounds how far the result is from the
    best. Choose it where labels matter and not probabilities, and data are not separable; the relaxed one has a bound
    on the risk (Kulesza2007, Theorem 2). A pass costs one inference for each example.

    Parameters
    ----------
    ridge : float
        :math:`\lambda`, above 0.
    solver : {"frank_wolfe", "subgradient"}
        Block-coordinate Frank-Wolfe has no step size, and keeps a weight vector for each of some answers of each
        example; subgradients keep two in all and need many more passes.
    tol : float
        Ends when the duality gap is at most this share of the objective.
    max_epochs : int
        Most passes over the examples.
    path : {"passes", "steps", "none"}
        Which weights `history["path"]` keeps: at the start and after each pass, after each step, or none.
    random_state : int
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
        When `max_epochs` end it before the gap is small.

    References
    ----------
    Taskar2003; Tsochantaridis2005; LacosteJulien2013; Osokin2016; Kulesza2007, Section 5.2.

    Examples
    --------
    One variable, features 1 and -1 by label, so that only :math:`w_1 - w_0` matters. The hinge is
    :math:`\max(0, 1 - (w_1 - w_0))`, and with a small ridge it is 0 at the shortest weights for which it can be:

    >>> from intarsia.learning import example
    >>> from intarsia.models import Templates, TemplateScores, template_graph
    >>> templates = Templates({"node": 2}, {"node": 1})
    >>> graph = template_graph(templates, {"node": 1}, {})
    >>> data = [
    ...     example(TemplateScores(templates, graph, {"node": [[sign]]}, {}), [label])
    ...     for sign, label in ((-1.0, 0), (1.0, 1))
    ... ]
    >>> found = StructuredSVM(ridge=0.01).minimize(data, "lp_relaxation")
    >>> found.status.name, found.point.round(6).tolist()
    ('CONVERGED', [-0.5, 0.5])
    """

    name: ClassVar[str] = "structured_svm"
    summary: ClassVar[str] = "labels without probabilities: the largest margin, with a duality gap"
    handles_hidden: ClassVar[bool] = False

    def __init__(
        self,
        *,
        ridge: float = 1e-3,
        solver: str = "frank_wolfe",
        tol: float = 1e-2,
        max_epochs: int = 100,
        path: str = "passes",
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.ridge = ridge
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.path = path
        self.random_state = random_state
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.ridge, "StructuredSVM: ridge", low=0.0, high=np.inf, open_low=True, open_high=True)
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
        ready, method, first = self._prepare(examples, inference, start)
        if first.any():
            raise NotSupportedError(
                "StructuredSVM begins at 0, where its dual does, and cannot go on from other weights. Leave start and "
                "warm_start out; the result does not depend on the start."
            )
        if validation is not None:
            raise NotSupportedError(
                "StructuredSVM does not stop early: its objective has one minimum. Choose ridge on the validation "
                "examples instead, by fits with several."
            )
        mass = sum(one.given.mass for one in ready)
        shares = np.array([one.weight / mass for one in ready])
        solver = _SOLVERS[self.solver](shares, first.size, float(self.ridge))
        record, look, status = Record(first, self.path), Look(ready, shares), Status.MAX_ITER
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                while len(record.rows) < int(self.max_epochs):
                    last = len(record.rows) + 1 == int(self.max_epochs)
                    gap = self._pass(ready, method, solver, record, look, last)
                    row = record.rows[-1]
                    if report is not None:
                        report(len(record.rows), row["risk"], gap, len(record.rows) / int(self.max_epochs))
                    if row["certified"] and gap <= self.tol * row["risk"]:
                        status = Status.CONVERGED
                        break
            except KeyboardInterrupt:
                if not record.rows:
                    raise
                status = Status.INTERRUPTED
        row = record.rows[-1] if record.rows else {"risk": np.nan, "gap": np.nan}
        if status is Status.MAX_ITER:
            warnings.warn(
                f"StructuredSVM: MAX_ITER after {len(record.rows)} passes with a duality gap of {row['gap']:.2e} "
                f"against tol={self.tol:g} times {row['risk']:.3g}. Raise max_epochs, tol or ridge.",
                ConvergenceWarning,
                stacklevel=2,
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
        hinge, ridge = 0.0, float(self.ridge)
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
