"""Bounds and labellings for large models, by coordinate descent in the dual of the relaxation."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from intarsia._kernels.dual_decomposition import decode_dual, sweep_dual
from intarsia._validation import FloatArray, IntArray, check_number
from intarsia.inference.icm import climb
from intarsia.inference.iteration import iterate
from intarsia.inference.joined_cycles import join_cycles
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.result import Status
from intarsia.inference.rounding import reaches, round_beliefs
from intarsia.inference.tree_moves import improve

# Hard sweeps have stalled when one gains less than this share of the gap.
_STALLED = 1e-3
# Smoothed sweeps between two looks at the bound, and the hard sweeps of such a look.
_BLOCK, _LOOK = 10, 3
# At one temperature until a block gains less than this share of what smoothing still costs.
_SETTLED = 0.01


class DualDecomposition(InferenceMethod):
    r"""Upper bound and labelling of large models, near the optimum of the linear programming relaxation.

    Choose it where `lp_relaxation` takes too long: memory and time per sweep are linear in the tables. It minimises the
    dual of the relaxation,

    .. math:: D(\delta) = \sum_v \max_x \Big[\theta_v(x) + \sum_{c \ni v} \delta_{cv}(x)\Big]
        + \sum_c \max_{x_c} \Big[\theta_c(x_c) - \sum_{v \in c} \delta_{cv}(x_v)\Big],

    which is above the score of every labelling whatever :math:`\delta` is. Sequential reweighted message passing goes
    first; it is fast and may stop short of the optimum. Where it stalls, the maxima are smoothed
    (:math:`t \log \sum \exp(\cdot / t)`) and the temperature :math:`t` is lowered step by step, which does not stall.
    Labellings are read off the messages and improved by exact joint moves of random forests of variables.

    Parameters
    ----------
    max_iter : int
        Most sweeps; one goes forward and back.
    tol : float
        Stop when the bound is within this share of the relaxation's optimum, as far as the smoothing tells, or of the
        labelling's score.
    max_moves : int
        Most moves of random forests each time that a labelling is improved.
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
    Kolmogorov2015 for the sweeps; Savchynskyy2012 for the smoothing; Sontag2011 for the dual; Hamze2004 for forests.

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
        sizes = graph.n_states[graph.scope_idx]
        message_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        some = graph.n_factors > 0
        starts = graph.scope_ptr[:-1]
        first = np.minimum.reduceat(graph.scope_idx, starts) if some else np.empty(0, np.int64)
        last = np.maximum.reduceat(graph.scope_idx, starts) if some else np.empty(0, np.int64)
        table = graph.table_of_factor
        self.graph = (
            graph.n_states, graph.variable_ptr, *graph.pairs_by_variable, graph.factor_of_pair, graph.scope_ptr,
            graph.scope_idx, first, last, graph.table_ptr[:-1][table], graph.table_kind[table],
            graph.table_truncation[table], message_ptr,
        )  # fmt: skip
        split, k = int(graph.variable_ptr[-1]), int(graph.n_states.max(initial=1))
        self.unary, self.beliefs = theta[:split].copy(), np.empty(split)
        self._free = np.full(graph.n_variables, -1)
        self._work = np.empty(max(graph.max_scope, 2), np.int64), np.empty(k), np.empty(k)
        self.delta = np.zeros(int(message_ptr[-1]))
        self.known: tuple[float, float] | None = None
        if problem.start_messages is not None and problem.start_messages.size == self.delta.size + 2:
            self.delta[:] = problem.start_messages[:-2]
            self.known = float(problem.start_messages[-2]), float(problem.start_messages[-1])
        self.delta[(self.unary == -np.inf)[self._entries()]] = np.inf
        self.best_delta = self.delta
        self.size = float(np.abs(theta[theta > -np.inf]).max(initial=0.0))
        self.upper, self.lower, self.n_sweeps = np.inf, -np.inf, 0
        self.labelling: IntArray | None = None
        self.infeasible = False
        self.t, self.last, self.in_block, self.settled = 0.0, np.inf, 0, np.inf
        self._trace: list[tuple[float, float, float]] = []

    def _entries(self) -> IntArray:
        """Position in the variables' layout of each entry of the messages."""
        graph = self.problem.graph
        sizes, ends = graph.n_states[graph.scope_idx], self.graph[-1][1:]
        return np.arange(self.delta.size) + np.repeat(graph.variable_ptr[graph.scope_idx] - (ends - sizes), sizes)

    @property
    def closed(self) -> bool:
        """Whether the labelling is proven best."""
        return reaches(self.lower, self.upper, self.problem.theta)

    def _relative(self, gap: float) -> float:
        scale = max(abs(self.upper), self.size)
        return max(gap, 0.0) / scale if scale > 0 else 0.0

    def sweep(self) -> float:
        """One sweep forward and back; returns the relative distance that remains, NaN if nothing is possible."""
        self.n_sweeps += 1
        residual = self._hard() if self.t == 0.0 else self._smooth()
        if np.isnan(residual) or self.infeasible:
            return np.nan
        self._trace.append((self.upper, self.lower, self.t))
        if self.closed:
            return 0.0
        return min(residual, self._relative(self.upper - self.lower))

    def _pass(self, t: float, delta: FloatArray) -> float:
        """Forward, then back; the value of D, a bound if t is 0."""
        value = np.nan
        for forward in (True, False):
            value = sweep_dual(
                forward, t, self.problem.theta, self.unary, delta, self.beliefs, self._free, *self._work, self.graph
            )
            if np.isnan(value):
                self.infeasible = True
                break
        return float(value)

    def _take(self, bound: float, delta: FloatArray) -> None:
        if bound < self.upper:
            self.upper, self.best_delta = bound, delta

    def _hard(self) -> float:
        value = self._pass(0.0, self.delta)
        if np.isnan(value):
            return np.nan
        gain, self.last = self.last - value, value
        self._take(value, self.delta)
        if self.n_sweeps & (self.n_sweeps - 1) == 0:  # 1, 2, 4, 8, ...
            self._decode()
        if self.known is not None:  # the same model as before, so what was found out then still holds
            bound, residual = self.known
            self.known = None
            if self._relative(abs(value - bound)) <= max(residual, 1e-9):
                return residual
        if gain <= _STALLED * (self.upper - self.lower) or gain <= 1e-9 * max(abs(value), self.size):
            self._decode()
            if not self.closed:
                self.polish()
            self._warm()
        return np.inf

    def _warm(self) -> None:
        """Choose the first temperature: smoothing then costs about as much as the gap."""
        gap = self.upper - self.lower if self.lower > -np.inf else max(abs(self.upper), self.size)
        capacity = float(np.log(self.problem.graph.n_states).sum())
        self.t = max(4.0 * gap, 1e-9 * self.size) / capacity
        self.delta = self.delta.copy()
        self.last, self.in_block = np.inf, 0

    def _smooth(self) -> float:
        value = self._pass(self.t, self.delta)
        if np.isnan(value):
            return np.nan
        self.in_block += 1
        if self.in_block < _BLOCK:
            return self.settled
        delta = self.delta.copy()
        for _ in range(_LOOK):
            bound = self._pass(0.0, delta)
        if np.isnan(bound):
            return np.nan
        self._take(bound, delta)
        self._decode(delta)
        cost, gain = value - bound, self.last - value
        self.last, self.in_block = value, 0
        if gain <= _SETTLED * cost:
            self.settled = self._relative(cost)
            self.t, self.last = 0.5 * self.t, np.inf
        return self.settled

    def _decode(self, delta: FloatArray | None = None) -> None:
        """Read a labelling off the messages and climb."""
        graph, theta = self.problem.graph, self.problem.theta
        labels = np.full(graph.n_variables, -1)
        decode_dual(True, theta, self.unary, self.delta if delta is None else delta, labels, *self._work, self.graph)
        climb(graph, theta, labels)
        self._offer(labels)

    def _offer(self, labels: IntArray) -> None:
        score = float(self.problem.graph.score(self.problem.theta, labels))
        if self.labelling is None or score > self.lower:
            self.labelling, self.lower = labels, score

    def polish(self) -> None:
        """Find a labelling of finite score if there was none, and improve the best one."""
        problem = self.problem
        if self.labelling is None or self.lower == -np.inf:
            found = round_beliefs(problem, np.where(self.unary > -np.inf, self.beliefs, -np.inf))
            self.infeasible = found.infeasible
            if found.infeasible or found.labelling is None:
                return
            self._offer(found.labelling)
        if self.lower > -np.inf and self.labelling is not None:
            labels = self.labelling.copy()
            improve(problem.graph, problem.theta, labels, problem.rng, problem.clock, max_moves=self.max_moves)
            self._offer(labels)

    def history(self, residuals: FloatArray) -> dict[str, FloatArray]:
        """Residual, bounds and temperature of each sweep."""
        upper, lower, t = (np.array([row[k] for row in self._trace]) for k in range(3))
        return {"residual": residuals, "upper_bound": upper, "lower_bound": lower, "temperature": t}

    def state(self, residual: float) -> FloatArray:
        """What a warm start needs: messages, the bound they give, how far it was from the end."""
        kept = np.where(np.isinf(self.best_delta), 0.0, self.best_delta)
        return np.concatenate([kept, [self.upper, residual]])
