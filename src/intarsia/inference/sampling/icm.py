"""Iterated conditional modes: the cheap baseline for the best labelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._kernels.arguments import GraphArrays
from intarsia._kernels.icm import sweep_icm
from intarsia.graph import FactorGraph
from intarsia.inference.method import Answer, InferenceMethod, Problem, iterate
from intarsia.inference.sampling.feasible import find_feasible, has_hard_zeros


class ICM(InferenceMethod):
    r"""A labelling that no change of a single variable improves, by iterated conditional modes.

    Choose it as a baseline or to polish a labelling found otherwise (`warm_start=`); it is fast and stops at the first
    local maximum, which can be far from the best labelling. It sets

    .. math:: x_j \leftarrow \arg\max_{x_j} \theta(x_j) + \sum_{c \ni j} \theta(x_c)

    for one variable after the other, and visits again only variables with a neighbour that moved. The score never
    falls. The first run starts from the best state of each variable alone, or from an assignment of finite score
    found by search when tables hold hard zeros; the others from random labellings.

    Parameters
    ----------
    max_iter : int
        Most sweeps in each run.
    n_restarts : int
        Further runs from random starts; the best labelling is kept.
    temperature : float, optional
        Only 0, the default, makes sense: ICM gives a labelling, not marginals.

    Notes
    -----
    `residual` is the number of variables that moved in the last sweep, so 0 means a local maximum. When hard
    zeros leave no assignment that the search could find, the status is STALLED, the score -inf, and `note` says so.

    References
    ----------
    Besag1986.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.chain_graph(3, 2)
    >>> theta = graph.pack(variables=[[0, 3], [1, 0], [0, 3]], tables=[[[1, 0], [0, 1]]] * 2)
    >>> intarsia.infer(graph, theta, "icm", task="map").assignment
    array([1, 1, 1])
    """

    name: ClassVar[str] = "icm"
    summary: ClassVar[str] = "a labelling at once, as a baseline or to polish another"
    gives_map: ClassVar[bool] = True
    cost: ClassVar[str] = "states x factors per sweep, then only what moved"

    def __init__(self, *, max_iter: int = 100, n_restarts: int = 0, temperature: float | None = None) -> None:
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.max_iter, "ICM: max_iter", low=1, integer=True)
        check_number(self.n_restarts, "ICM: n_restarts", low=0, integer=True)

    def run(self, problem: Problem) -> Answer:
        """Climb from each start, keep the best."""
        hard = has_hard_zeros(problem.graph, problem.theta)
        best = Answer(Status.STALLED)
        for restart in range(int(self.n_restarts) + 1):
            y = _first_labelling(problem, restart > 0)
            if hard and problem.graph.score(problem.theta, y) == -np.inf:
                found = find_feasible(problem.graph, problem.theta, problem.rng, problem.clock, random=restart > 0)
                if found.infeasible:
                    return Answer(Status.INFEASIBLE)
                y = y if found.labelling is None else found.labelling
            sweep = _sweeper(problem.graph, problem.theta, y)
            loop = iterate(sweep, int(self.max_iter), 0.0, problem.clock, problem.report)
            score = float(problem.graph.score(problem.theta, y))
            if best.assignment is None or score > best.lower_bound:
                best = Answer(
                    loop.status, assignment=y, lower_bound=score, residual=loop.residual, n_iter=loop.n_iter,
                    history={"residual": loop.residuals},
                )  # fmt: skip
            if loop.status in (Status.TIME_LIMIT, Status.INTERRUPTED) or problem.clock.expired:
                break
        if best.lower_bound == -np.inf:
            best.status = Status.STALLED
            best.note = "No assignment of finite score was found within the limits of the search. Try junction_tree."
        return best


def _first_labelling(problem: Problem, random: bool) -> IntArray:
    """Best state of each variable alone, or by an earlier result's marginals, or random among the possible."""
    graph = problem.graph
    unary = problem.theta[: graph.variable_ptr[-1]]
    if random:
        return best_states(graph, np.where(unary > -np.inf, problem.rng.random(unary.size), -1.0))
    if problem.start_mu is not None:
        return best_states(graph, np.where(unary > -np.inf, problem.start_mu, -1.0))
    return best_states(graph, unary)


def best_states(graph: FactorGraph, values: FloatArray) -> IntArray:
    """First state of the highest value, for each variable."""
    starts = graph.variable_ptr[:-1]
    top = np.repeat(np.maximum.reduceat(values, starts), graph.n_states)
    position = np.where(values == top, np.arange(values.size), values.size)
    return np.asarray(np.minimum.reduceat(position, starts) - starts, dtype=np.int64)


def climb(graph: FactorGraph, theta: FloatArray, labelling: IntArray, max_iter: int = 100) -> None:
    """Improve `labelling` in place by changes of single variables until none helps, or for `max_iter` sweeps.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> graph, labelling = chain_graph(3, 2), np.array([1, 0, 1])
    >>> climb(graph, graph.pack(tables=[[[1, 0], [0, 1]]] * 2), labelling)
    >>> labelling
    array([0, 0, 0])
    """
    sweep = _sweeper(graph, theta, labelling)
    for _ in range(max_iter):
        if sweep() == 0:
            break


def _sweeper(graph: FactorGraph, theta: FloatArray, y: IntArray) -> Callable[[], int]:
    """A function that sweeps once over y in place and returns the number of moves."""
    arrays = GraphArrays.of(graph)
    active = np.ones(graph.n_variables, dtype=np.bool_)
    field = np.empty(int(graph.n_states.max(initial=0)))
    return lambda: int(sweep_icm(theta, y, active, field, arrays))
