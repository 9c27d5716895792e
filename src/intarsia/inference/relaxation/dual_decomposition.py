"""Dual decomposition: MAP bounds and labellings of large models, by descent on the dual of the LP relaxation."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._kernels.dual_smoothing import extrapolate
from intarsia._kernels.graph_arguments import GraphArrays
from intarsia._kernels.tree_moves import move_forest
from intarsia.graph import FactorGraph
from intarsia.inference.method import Answer, InferenceMethod, Problem, iterate
from intarsia.inference.relaxation.dual_sweeps import DualSweeps
from intarsia.inference.relaxation.joined_cycles import join_cycles
from intarsia.inference.relaxation.rounding import largest_score, reaches, round_beliefs
from intarsia.inference.sampling.icm import best_states, climb


def improve(
    graph: FactorGraph,
    theta: FloatArray,
    labelling: IntArray,
    rng: np.random.Generator,
    clock: Clock,
    *,
    max_moves: int,
    patience: int = 20,
) -> int:
    """Improve `labelling` in place by at most `max_moves` moves; return the number of moves.

    A move relabels a random forest of variables optimally, with all other variables fixed. The search ends early after
    `patience` consecutive moves without a gain, or at the time limit.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> graph, labelling = chain_graph(4, 2), np.array([0, 0, 0, 0])
    >>> theta = graph.pack(variables=[[0, 0.5]] * 4, tables=[[[1, 0], [0, 1]]] * 3)
    >>> n_moves = improve(graph, theta, labelling, np.random.default_rng(0), Clock(), max_moves=50)
    >>> labelling                                    # no change of a single variable improves the start
    array([1, 1, 1, 1])
    """
    n, k = graph.n_variables, int(graph.n_states.max(initial=1))
    in_forest, factor_held = np.empty(n, np.bool_), np.empty(graph.n_factors, np.int64)
    group, visited, queue, parent, link = (np.empty(n, np.int64) for _ in range(5))
    fields, choice = np.empty((n, k)), np.empty((n, k), np.int64)
    arrays = GraphArrays.of(graph)
    score, n_idle, n_moves = float(graph.score(theta, labelling)), 0, 0
    while n_moves < max_moves and n_idle < patience and not clock.expired:
        n_moves += 1
        order = rng.permutation(n)
        move_forest(
            theta, labelling, order, in_forest, group, factor_held, visited, fields, choice, queue, parent, link, arrays
        )
        new_score = float(graph.score(theta, labelling))
        n_idle = 0 if new_score > score else n_idle + 1
        score = new_score
    return n_moves


# Unsmoothed sweeps have stalled if the gain of a sweep is below this fraction of the largest gain so far.
_STALLED = 0.05
# Number of smoothed sweeps between two evaluations of the bound, and of unsmoothed sweeps in an evaluation.
_BLOCK, _EVALUATION = 8, 2
# The temperature is multiplied by _COOLING when the gain of a block is below the fraction _SETTLED of the smoothing
# gap.
_SETTLED, _COOLING = 0.03, 0.4
# Relative smoothing gap below which the threshold _SETTLED is lowered, because descent is slow there.
_SLOW = 1e-3
# Number of consecutive moves without a gain after which a search ends.
_PATIENCE = 10
# Small models may make _FREE / n_variables more moves than sweeps: moves are cheap there and sweeps are few.
_FREE = 2000
# Fraction of the variables that get a random state when a search restarts near the best labelling.
_RANDOMISED = 0.5


class DualDecomposition(InferenceMethod):
    r"""Dual decomposition: upper bound and labelling of large models, near the linear programming relaxation.

    Choose it for MAP inference where `lp_relaxation` takes too long: memory and time per sweep are linear in the size
    of the tables. It minimises the dual of the relaxation,

    .. math:: D(\delta) = \sum_v \max_x \Big[\theta_v(x) + \sum_{c \ni v} \delta_{cv}(x)\Big]
        + \sum_c \max_{x_c} \Big[\theta_c(x_c) - \sum_{v \in c} \delta_{cv}(x_v)\Big],

    which is an upper bound on the score of every labelling for any messages :math:`\delta`. Sequential reweighted
    message passing runs first; it is fast but may stall before the optimum. Where it stalls, the maxima are smoothed
    (:math:`t \log \sum \exp(\cdot / t)`) and the temperature :math:`t` is lowered step by step, which does not stall.
    Smoothed sweeps start from messages extrapolated in the direction of the last sweep, so that far fewer are needed.
    Labellings are decoded from the messages and improved by exact joint moves of random forests of variables.

    Parameters
    ----------
    max_iter : int
        Maximum number of sweeps; a sweep has a forward and a backward pass.
    tol : float
        Stop when the relative gap between the bound and the optimum of the relaxation, as estimated from the smoothing,
        or the score of the labelling, is at most `tol`. The estimate is unreliable below about 1e-5; use
        `lp_relaxation` for the exact optimum.
    max_moves : int
        Maximum number of forest moves each time that a labelling is improved. Their total is limited by the number of
        sweeps, except on small models. With 0, only the bound is improved.
    longest_cycle : int
        Tighten the relaxation: pairwise factors around cycles of at most this number of variables are joined into one
        table per cycle, see Notes. Values below 3 join none.
    temperature : float, optional
        Must be 0, the default, since the bound is on the best score.

    Notes
    -----
    If the score of the labelling equals the bound, the status is EXACT. `history` holds for each sweep the score as
    `lower_bound`, the bound as `upper_bound`, and the `temperature` of the smoothing. `residual` is the remaining gap,
    relative to the score. `warm_start=` starts from earlier messages.

    `longest_cycle=3` joins triangles, and 4 also the squares of a grid; each factor is joined into at most one table.
    The optimum of this relaxation is never above that of the standard relaxation, and often far below. The cost of a
    sweep then includes the joint states of the cycles, so use it for models with few labels.

    Coordinate descent is used instead of the alternating direction method of multipliers (AD3), which solves a
    quadratic program per factor and sweep.

    References
    ----------
    Kolmogorov2015 for the sweeps; Savchynskyy2012 for the smoothing; ODonoghue2015 for extrapolation with restarts when
    the objective increases; Sontag2011 for the dual; Hamze2004 for forests.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.grid_graph(2, 2, 2)
    >>> theta = graph.pack(variables=[[0, 1], [0, 0], [0, 0], [0.5, 0]], tables=[[[1, 0], [0, 1]]] * 4)
    >>> result = intarsia.infer(graph, theta, "dual_decomposition", task="map")
    >>> result.assignment, round(result.upper_bound, 6), result.status.name
    (array([1, 1, 1, 1]), 5.0, 'EXACT')
    """

    name: ClassVar[str] = "dual_decomposition"
    summary: ClassVar[str] = "large models: a bound near that of the relaxation and a good labelling, fast"
    gives_map: ClassVar[bool] = True
    state_is: ClassVar[str | None] = "dual messages"
    supports_constraints: ClassVar[bool] = True
    cost: ClassVar[str] = "table entries per sweep; states per sweep for Potts factors"

    def __init__(
        self,
        *,
        max_iter: int = 2000,
        tol: float = 1e-4,
        max_moves: int = 100,
        longest_cycle: int = 0,
        temperature: float | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.max_moves = max_moves
        self.longest_cycle = longest_cycle
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.max_iter, "DualDecomposition: max_iter", low=1, integer=True)
        check_number(self.tol, "DualDecomposition: tol", low=0.0)
        check_number(self.max_moves, "DualDecomposition: max_moves", low=0, integer=True)
        check_number(self.longest_cycle, "DualDecomposition: longest_cycle", low=0, integer=True)

    def run(self, problem: Problem) -> Answer:
        """Sweep until the bound has converged, then return it with the best labelling."""
        if self.longest_cycle >= 3:
            graph, theta = join_cycles(problem.graph, problem.theta, int(self.longest_cycle))
            problem = replace(problem, graph=graph, theta=theta)
        descent = _Descent(problem, int(self.max_moves))
        loop = iterate(descent.sweep, int(self.max_iter), float(self.tol), problem.clock, problem.report)
        if not (descent.infeasible or descent.is_proven):
            descent.improve_best()
        if descent.infeasible:
            return Answer(Status.INFEASIBLE, note="Every labelling has a hard zero (-inf).")
        answer = Answer(
            loop.status, assignment=descent.labelling, upper_bound=descent.upper, residual=loop.residual,
            n_iter=loop.n_iter, history=descent.history(loop.residuals), messages=descent.state(loop.residual),
            integral=True,
        )  # fmt: skip
        if descent.is_proven:
            answer.status = Status.EXACT
        if descent.lower == -np.inf:
            answer.note = "The search reached its limit before it found a labelling of finite score."
        return answer


class _Descent:
    """State of a run: messages, the best bound and labelling so far, and the smoothing temperature."""

    def __init__(self, problem: Problem, max_moves: int) -> None:
        self.problem, self.max_moves = problem, max_moves
        graph, theta = problem.graph, problem.theta
        self.sweeps = DualSweeps(graph, theta)
        start = problem.start_messages
        self.earlier_end: tuple[float, float] | None = None
        if start is not None and start.size == self.sweeps.delta.size + 2:
            self.earlier_end = float(start[-2]), float(start[-1])
        self.sweeps.start(None if start is None or self.earlier_end is None else start[:-2])
        self.delta = self.best_delta = self.sweeps.delta
        self.size = largest_score(theta)
        self.upper, self.lower, self.n_sweeps = np.inf, -np.inf, 0
        self.labelling: IntArray | None = None
        self.searched_labels: IntArray = np.empty(0, np.int64)
        self.infeasible, self.n_moves = False, 0
        self.last, self.largest_gain = np.inf, 0.0
        self.t, self.n_in_block, self.settled_residual = 0.0, 0, np.inf
        self.previous_delta, self.n_extrapolated = self.delta, 0
        self.best = self.previous_best = np.inf
        self._trace: list[tuple[float, float, float]] = []

    @property
    def is_proven(self) -> bool:
        """Whether the labelling is proven to be the best."""
        return reaches(self.lower, self.upper, self.size)

    def _relative(self, gap: float) -> float:
        """Return a gap relative to the size of bound and scores."""
        scale = max(abs(self.upper), self.size)
        return max(gap, 0.0) / scale if scale > 0 else 0.0

    def sweep(self) -> float:
        """Make one sweep; return the relative gap that remains, NaN if the model is infeasible."""
        self.n_sweeps += 1
        residual = self._sweep_unsmoothed() if self.t == 0.0 else self._sweep_smoothed()
        if np.isnan(residual) or self.infeasible:
            self.infeasible = True
            return np.nan
        self._trace.append((self.upper, self.lower, self.t))
        if self.is_proven:
            return 0.0
        return min(residual, self._relative(self.upper - self.lower))

    def _record_bound(self, bound: float, delta: FloatArray) -> None:
        """Store a bound and its messages if the bound is the best so far."""
        if bound < self.upper:
            self.upper, self.best_delta = bound, delta

    def _sweep_unsmoothed(self) -> float:
        """Make an unsmoothed sweep, and start smoothing once these sweeps stall; return the residual."""
        value = self.sweeps.run(0.0, self.delta)
        if np.isnan(value):
            return np.nan
        gain, self.last = self.last - value, value
        self._record_bound(value, self.delta)
        if self.n_sweeps & (self.n_sweeps - 1) == 0:  # 1, 2, 4, 8, ...
            self._decode(self.delta)
        if self.earlier_end is not None:  # for an unchanged model, the residual of the earlier run is still valid
            bound, residual = self.earlier_end
            self.earlier_end = None
            if self._relative(abs(value - bound)) <= max(residual, 1e-9):
                return residual
        if gain < np.inf:
            self.largest_gain = max(self.largest_gain, gain)
        if gain <= _STALLED * self.largest_gain or gain <= 1e-9 * max(abs(value), self.size):
            self._decode(self.delta)
            self.find_feasible()
            self._start_smoothing()
        return np.inf

    def _start_smoothing(self) -> None:
        """Start smoothing at a temperature at which the smoothing gap is about the gap of the bounds."""
        graph = self.problem.graph
        gap = self.upper - self.lower if self.lower > -np.inf else max(abs(self.upper), self.size)
        capacity = float(np.log(graph.n_states).sum() + np.log(graph.n_states[graph.scope_idx]).sum())
        self._set_temperature(max(gap, 1e-9 * self.size) / max(capacity, 1e-300))
        self.delta = self.delta.copy()
        self.previous_delta = self.delta.copy()

    def _set_temperature(self, t: float) -> None:
        """Set the temperature and begin a new block of sweeps."""
        self.t, self.n_in_block = t, 0
        self.last = self.best = self.previous_best = np.inf

    def _sweep_smoothed(self) -> float:
        """Make a smoothed sweep from extrapolated messages; return the residual."""
        extrapolate(self.delta, self.previous_delta, self.n_extrapolated / (self.n_extrapolated + 3.0))
        self.n_extrapolated += 1
        value = self.sweeps.run(self.t, self.delta)
        if np.isnan(value):
            return np.nan
        if value > self.last:  # the step was too long: reset the momentum
            self.n_extrapolated = 0
        self.last, self.best = value, min(value, self.best)
        self.n_in_block += 1
        return self._evaluate_bound() if self.n_in_block == _BLOCK else self.settled_residual

    def _evaluate_bound(self) -> float:
        """Evaluate the bound by unsmoothed sweeps of a copy; lower the temperature if the block gained little."""
        delta = self.delta.copy()
        bound = np.inf
        for _ in range(_EVALUATION):
            bound = self.sweeps.run(0.0, delta)
        if np.isnan(bound):
            return np.nan
        self._record_bound(bound, delta)
        labels = self._decode(delta)
        cost, gain = self.best - bound, self.previous_best - self.best
        self.n_in_block, self.previous_best = 0, self.best
        relative_cost = self._relative(cost)
        # Descent is slower at low temperatures, so the gain must be smaller there to count as settled.
        if gain <= _SETTLED * min(1.0, relative_cost / _SLOW) ** 0.5 * cost:
            self.settled_residual = relative_cost
            self._set_temperature(_COOLING * self.t)
            if not np.array_equal(labels, self.searched_labels):  # search from new labels only
                self.searched_labels = labels
                self._improve(labels.copy(), self._moves_allowed() // 2)
        return self.settled_residual

    def _decode(self, delta: FloatArray) -> IntArray:
        """Decode a labelling from the messages, improve it by single changes, and return it."""
        labels = self.sweeps.decode(delta)
        climb(self.problem.graph, self.problem.theta, labels)
        self._record_labelling(labels)
        return labels

    def _moves_allowed(self) -> int:
        """Return the number of forest moves allowed so far: one per sweep, as a move takes as long as a few sweeps."""
        free = _FREE // max(self.problem.graph.n_variables, 1)
        return min(self.max_moves, max(self.n_sweeps + free - self.n_moves, 0))

    def _improve(self, labels: IntArray, max_moves: int) -> int:
        """Improve labels in place by forest moves; return the number of moves."""
        problem = self.problem
        graph, theta = problem.graph, problem.theta
        n = improve(graph, theta, labels, problem.rng, problem.clock, max_moves=max_moves, patience=_PATIENCE)
        self.n_moves += n
        self._record_labelling(labels)
        return n

    def _record_labelling(self, labels: IntArray) -> None:
        """Store a labelling if it is the best so far."""
        score = float(self.problem.graph.score(self.problem.theta, labels))
        if self.labelling is None or score > self.lower:
            self.labelling, self.lower = labels, score

    def find_feasible(self) -> None:
        """Search for a labelling of finite score, or a proof that none exists, if there is no such labelling yet."""
        if self.labelling is not None and self.lower > -np.inf:
            return
        unary, beliefs = self.sweeps.unary, self.sweeps.beliefs
        search = round_beliefs(self.problem, np.where(unary > -np.inf, beliefs, -np.inf))
        self.infeasible = search.infeasible
        if search.labelling is not None and not search.infeasible:
            self._record_labelling(search.labelling)

    def improve_best(self) -> None:
        """Improve the best labelling, then random variations of it until no moves remain."""
        self.find_feasible()
        if self.lower == -np.inf or self.labelling is None:
            return
        labels, rng, unary = self.labelling.copy(), self.problem.rng, self.sweeps.unary
        while not self.is_proven and self._improve(labels, self._moves_allowed()) > 0:
            is_random = rng.random(labels.size) < _RANDOMISED
            random_labels = best_states(self.problem.graph, np.where(unary > -np.inf, rng.random(unary.size), -1.0))
            labels = np.where(is_random, random_labels, self.labelling)

    def history(self, residuals: FloatArray) -> dict[str, FloatArray]:
        """Return residual, bounds and temperature of each sweep."""
        upper, lower, t = (np.array([row[k] for row in self._trace]) for k in range(3))
        return {"residual": residuals, "upper_bound": upper, "lower_bound": lower, "temperature": t}

    def state(self, residual: float) -> FloatArray:
        """Return the data for a warm start: the messages, followed by their bound and the residual."""
        finite_delta = np.where(np.isinf(self.best_delta), 0.0, self.best_delta)
        return np.concatenate([finite_delta, [self.upper, residual]])
