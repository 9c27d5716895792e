"""Bounds and labellings for large models, by coordinate descent in the dual of the relaxation."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._kernels.arguments import GraphArrays
from intarsia._kernels.dual_decomposition import extrapolate
from intarsia._kernels.tree_moves import move_forest
from intarsia.graph import FactorGraph
from intarsia.inference.method import Answer, Clock, InferenceMethod, Problem, iterate
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
    """Improve `labelling` in place by at most `max_moves` moves of random forests, each exact given the rest.

    Ends early after `patience` moves in a row without a gain, or when the clock is up. Returns the number of moves.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> graph, labelling = chain_graph(4, 2), np.array([0, 0, 0, 0])
    >>> theta = graph.pack(variables=[[0, 0.5]] * 4, tables=[[[1, 0], [0, 1]]] * 3)
    >>> n_moves = improve(graph, theta, labelling, np.random.default_rng(0), Clock(), max_moves=50)
    >>> labelling                                    # no single change would have helped
    array([1, 1, 1, 1])
    """
    n, k = graph.n_variables, int(graph.n_states.max(initial=1))
    chosen, held = np.empty(n, np.bool_), np.empty(graph.n_factors, np.int64)
    group, seen, queue, parent, link = (np.empty(n, np.int64) for _ in range(5))
    fields, choice = np.empty((n, k)), np.empty((n, k), np.int64)
    arrays = GraphArrays.of(graph)
    score, idle, n_moves = float(graph.score(theta, labelling)), 0, 0
    while n_moves < max_moves and idle < patience and not clock.expired:
        n_moves += 1
        order = rng.permutation(n)
        move_forest(theta, labelling, order, chosen, group, held, seen, fields, choice, queue, parent, link, arrays)
        now = float(graph.score(theta, labelling))
        idle = 0 if now > score else idle + 1
        score = now
    return n_moves


# Hard sweeps have stalled when one gains less than this share of what the best of them gained.
_STALLED = 0.05
# Smoothed sweeps between two looks at the bound, and the hard sweeps of such a look.
_BLOCK, _LOOK = 8, 2
# At one temperature until a block gains less than this share of what smoothing still costs; then that share of it.
_SETTLED, _COOLING = 0.03, 0.4
# Relative cost of the smoothing below which a block must gain less than that to have settled.
_SLOW = 1e-3
# Moves without a gain after which a search is over.
_PATIENCE = 10
# Variables moved at no sweep's cost: on small models a search is cheap, and a few sweeps earn too few moves.
_FREE = 2000
# Share of the variables that get a random state where a search begins near the best labelling.
_SHAKEN = 0.5


class DualDecomposition(InferenceMethod):
    r"""Upper bound and labelling of large models, near the optimum of the linear programming relaxation.

    Choose it where `lp_relaxation` takes too long: memory and time per sweep are linear in the tables. It minimises the
    dual of the relaxation,

    .. math:: D(\delta) = \sum_v \max_x \Big[\theta_v(x) + \sum_{c \ni v} \delta_{cv}(x)\Big]
        + \sum_c \max_{x_c} \Big[\theta_c(x_c) - \sum_{v \in c} \delta_{cv}(x_v)\Big],

    which is above the score of every labelling whatever :math:`\delta` is. Sequential reweighted message passing goes
    first; it is fast and may stop short of the optimum. Where it stalls, the maxima are smoothed
    (:math:`t \log \sum \exp(\cdot / t)`) and the temperature :math:`t` is lowered step by step, which does not stall;
    smoothed sweeps start from messages extrapolated in the direction of the last sweep, which takes far fewer of them.
    Labellings are read off the messages and improved by exact joint moves of random forests of variables.

    Parameters
    ----------
    max_iter : int
        Most sweeps; one goes forward and back.
    tol : float
        Stop when the bound is within this share of the relaxation's optimum, as far as the smoothing tells, or of the
        labelling's score. Below about 1e-5 it tells little; `lp_relaxation` is exact.
    max_moves : int
        Most moves of random forests each time that a labelling is improved; all in all as many as there were sweeps, on
        small models more. With 0 only the bound is worked on.
    longest_cycle : int
        Tightens the relaxation: pairwise factors around cycles of up to so many variables become one table each, see
        Notes. Below 3 there are none.
    temperature : float, optional
        Only 0, the default, makes sense: what is bounded is the best score.

    Notes
    -----
    If labelling and bound meet, the status is EXACT. `history` holds both for each sweep, as `lower_bound` and
    `upper_bound`, and the temperature of the smoothing. `residual` is the remaining distance, relative to the score.
    `warm_start=` takes over the messages.

    With `longest_cycle=3` triangles and with 4 also the squares of a grid are joined, each factor into one table at
    most; the optimum of this relaxation is never above that of the plain one and often far below. A sweep then costs
    the joint states of the cycles, so this pays for few labels.

    Coordinate descent was preferred to the alternating direction method, which
    needs a quadratic program per factor and sweep.

    References
    ----------
    Kolmogorov2015 for the sweeps; Savchynskyy2012 for the smoothing; ODonoghue2015 for extrapolation that begins anew
    where the value rises; Sontag2011 for the dual; Hamze2004 for forests.

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
    takes_constraints: ClassVar[bool] = True
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
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.max_iter, "DualDecomposition: max_iter", low=1, integer=True)
        check_number(self.tol, "DualDecomposition: tol", low=0.0)
        check_number(self.max_moves, "DualDecomposition: max_moves", low=0, integer=True)
        check_number(self.longest_cycle, "DualDecomposition: longest_cycle", low=0, integer=True)

    def run(self, problem: Problem) -> Answer:
        """Sweep until the bound has arrived, then give the best labelling seen."""
        if self.longest_cycle >= 3:
            graph, theta = join_cycles(problem.graph, problem.theta, int(self.longest_cycle))
            problem = replace(problem, graph=graph, theta=theta)
        descent = _Descent(problem, int(self.max_moves))
        loop = iterate(descent.sweep, int(self.max_iter), float(self.tol), problem.clock, problem.report)
        if not (descent.infeasible or descent.closed):
            descent.polish()
        if descent.infeasible:
            return Answer(Status.INFEASIBLE, note="Hard zeros leave no labelling.")
        answer = Answer(
            loop.status, assignment=descent.labelling, upper_bound=descent.upper, residual=loop.residual,
            n_iter=loop.n_iter, history=descent.history(loop.residuals), messages=descent.state(loop.residual),
            integral=True,
        )  # fmt: skip
        if descent.closed:
            answer.status = Status.EXACT
        if descent.lower == -np.inf:
            answer.note = "No labelling of finite score was found within the limits of the search."
        return answer


class _Descent:
    """Messages, the best bound and labelling so far, and the temperature."""

    def __init__(self, problem: Problem, max_moves: int) -> None:
        self.problem, self.max_moves = problem, max_moves
        graph, theta = problem.graph, problem.theta
        self.sweeps = DualSweeps(graph, theta)
        start = problem.start_messages
        self.known: tuple[float, float] | None = None
        if start is not None and start.size == self.sweeps.delta.size + 2:
            self.known = float(start[-2]), float(start[-1])
        self.sweeps.start(None if start is None or self.known is None else start[:-2])
        self.delta = self.best_delta = self.sweeps.delta
        self.size = largest_score(theta)
        self.upper, self.lower, self.n_sweeps = np.inf, -np.inf, 0
        self.labelling: IntArray | None = None
        self.tried: IntArray = np.empty(0, np.int64)
        self.infeasible, self.n_moves = False, 0
        self.last, self.largest_gain = np.inf, 0.0
        self.t, self.in_block, self.settled = 0.0, 0, np.inf
        self.before, self.n_moved = self.delta, 0
        self.best = self.best_before = np.inf
        self._trace: list[tuple[float, float, float]] = []

    @property
    def closed(self) -> bool:
        """Whether the labelling is proven best."""
        return reaches(self.lower, self.upper, self.size)

    def _relative(self, gap: float) -> float:
        scale = max(abs(self.upper), self.size)
        return max(gap, 0.0) / scale if scale > 0 else 0.0

    def sweep(self) -> float:
        """One sweep forward and back; returns the relative distance that remains, NaN if nothing is possible."""
        self.n_sweeps += 1
        residual = self._hard() if self.t == 0.0 else self._smooth()
        if np.isnan(residual) or self.infeasible:
            self.infeasible = True
            return np.nan
        self._trace.append((self.upper, self.lower, self.t))
        if self.closed:
            return 0.0
        return min(residual, self._relative(self.upper - self.lower))

    def _take(self, bound: float, delta: FloatArray) -> None:
        if bound < self.upper:
            self.upper, self.best_delta = bound, delta

    def _hard(self) -> float:
        value = self.sweeps.run(0.0, self.delta)
        if np.isnan(value):
            return np.nan
        gain, self.last = self.last - value, value
        self._take(value, self.delta)
        if self.n_sweeps & (self.n_sweeps - 1) == 0:  # 1, 2, 4, 8, ...
            self._decode(self.delta)
        if self.known is not None:  # the same model as before, so what was found out then still holds
            bound, residual = self.known
            self.known = None
            if self._relative(abs(value - bound)) <= max(residual, 1e-9):
                return residual
        if gain < np.inf:
            self.largest_gain = max(self.largest_gain, gain)
        if gain <= _STALLED * self.largest_gain or gain <= 1e-9 * max(abs(value), self.size):
            self._decode(self.delta)
            self.find()
            self._warm()
        return np.inf

    def _warm(self) -> None:
        """Choose the first temperature: smoothing then costs about as much as the gap."""
        graph = self.problem.graph
        gap = self.upper - self.lower if self.lower > -np.inf else max(abs(self.upper), self.size)
        capacity = float(np.log(graph.n_states).sum() + np.log(graph.n_states[graph.scope_idx]).sum())
        self._smooth_at(max(gap, 1e-9 * self.size) / max(capacity, 1e-300))
        self.delta = self.delta.copy()
        self.before = self.delta.copy()

    def _smooth_at(self, t: float) -> None:
        self.t, self.in_block = t, 0
        self.last = self.best = self.best_before = np.inf

    def _smooth(self) -> float:
        extrapolate(self.delta, self.before, self.n_moved / (self.n_moved + 3.0))
        self.n_moved += 1
        value = self.sweeps.run(self.t, self.delta)
        if np.isnan(value):
            return np.nan
        if value > self.last:  # too far: begin to gather momentum anew
            self.n_moved = 0
        self.last, self.best = value, min(value, self.best)
        self.in_block += 1
        return self._look() if self.in_block == _BLOCK else self.settled

    def _look(self) -> float:
        """A few hard sweeps tell how good a bound the messages give; lower the temperature where it gains no more."""
        delta = self.delta.copy()
        bound = np.inf
        for _ in range(_LOOK):
            bound = self.sweeps.run(0.0, delta)
        if np.isnan(bound):
            return np.nan
        self._take(bound, delta)
        labels = self._decode(delta)
        cost, gain = self.best - bound, self.best_before - self.best
        self.in_block, self.best_before = 0, self.best
        left = self._relative(cost)
        # Descent slows down with the temperature, so a small gain means less there.
        if gain <= _SETTLED * min(1.0, left / _SLOW) ** 0.5 * cost:
            self.settled = left
            self._smooth_at(_COOLING * self.t)
            if not np.array_equal(labels, self.tried):  # not the best one: another start may lead further
                self.tried = labels
                self._improve(labels.copy(), self._earned() // 2)
        return self.settled

    def _decode(self, delta: FloatArray) -> IntArray:
        """Read a labelling off the messages and climb."""
        labels = self.sweeps.decode(delta)
        climb(self.problem.graph, self.problem.theta, labels)
        self._offer(labels)
        return labels

    def _earned(self) -> int:
        """Moves of forests that may be made now: each takes as long as a few sweeps, so a sweep earns one."""
        free = _FREE // max(self.problem.graph.n_variables, 1)
        return min(self.max_moves, max(self.n_sweeps + free - self.n_moves, 0))

    def _improve(self, labels: IntArray, max_moves: int) -> int:
        problem = self.problem
        graph, theta = problem.graph, problem.theta
        n = improve(graph, theta, labels, problem.rng, problem.clock, max_moves=max_moves, patience=_PATIENCE)
        self.n_moves += n
        self._offer(labels)
        return n

    def _offer(self, labels: IntArray) -> None:
        score = float(self.problem.graph.score(self.problem.theta, labels))
        if self.labelling is None or score > self.lower:
            self.labelling, self.lower = labels, score

    def find(self) -> None:
        """Search for a labelling of finite score if there was none, or a proof that there is none."""
        if self.labelling is not None and self.lower > -np.inf:
            return
        unary, beliefs = self.sweeps.unary, self.sweeps.beliefs
        found = round_beliefs(self.problem, np.where(unary > -np.inf, beliefs, -np.inf))
        self.infeasible = found.infeasible
        if found.labelling is not None and not found.infeasible:
            self._offer(found.labelling)

    def polish(self) -> None:
        """Improve the best labelling, and where moves are left others that begin near it."""
        self.find()
        if self.lower == -np.inf or self.labelling is None:
            return
        labels, rng, unary = self.labelling.copy(), self.problem.rng, self.sweeps.unary
        while not self.closed and self._improve(labels, self._earned()) > 0:
            shaken = rng.random(labels.size) < _SHAKEN
            random = best_states(self.problem.graph, np.where(unary > -np.inf, rng.random(unary.size), -1.0))
            labels = np.where(shaken, random, self.labelling)

    def history(self, residuals: FloatArray) -> dict[str, FloatArray]:
        """Residual, bounds and temperature of each sweep."""
        upper, lower, t = (np.array([row[k] for row in self._trace]) for k in range(3))
        return {"residual": residuals, "upper_bound": upper, "lower_bound": lower, "temperature": t}

    def state(self, residual: float) -> FloatArray:
        """What a warm start needs: messages, the bound they give, how far it was from the end."""
        kept = np.where(np.isinf(self.best_delta), 0.0, self.best_delta)
        return np.concatenate([kept, [self.upper, residual]])
