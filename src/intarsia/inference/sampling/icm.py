"""Iterated conditional modes (ICM): a cheap local search for MAP inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia._kernels.graph_arguments import GraphArrays
from intarsia._kernels.icm import sweep_icm
from intarsia.graph import FactorGraph
from intarsia.inference.method import Answer, InferenceMethod, Problem, iterate
from intarsia.inference.sampling.feasible import find_feasible, has_hard_zeros


class ICM(InferenceMethod):
    r"""Iterated conditional modes: a labelling that no change of a single variable improves.

    Choose it as a baseline for MAP inference or to improve the labelling of another method (`warm_start=`); it is fast
    and stops at the first local maximum, which can be far from the best labelling. It sets

    .. math:: x_j \leftarrow \arg\max_{x_j} \theta(x_j) + \sum_{c \ni j} \theta(x_c)

    for one variable after the other, and updates a variable again only if a neighbour has changed. The score never
    decreases. The first run starts from the best state of each variable alone or, if tables have hard zeros, from an
    assignment of finite score obtained by a search; other runs start from random labellings.

    Parameters
    ----------
    max_iter : int
        Maximum number of sweeps in each run.
    n_restarts : int
        Number of additional runs from random starts; the best labelling is returned.
    temperature : float, optional
        Must be 0, the default, since ICM returns a labelling, not marginals.

    Notes
    -----
    `residual` is the number of variables that changed in the last sweep, so 0 means a local maximum. If the model has
    hard zeros and the search finds no assignment of finite score, the status is STALLED, the score is -inf, and `note`
    reports it.

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
    summary: ClassVar[str] = "a fast labelling, as a baseline or to improve another"
    gives_map: ClassVar[bool] = True
    cost: ClassVar[str] = "states x factors in the first sweep, then only neighbours of changes"

    def __init__(self, *, max_iter: int = 100, n_restarts: int = 0, temperature: float | None = None) -> None:
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.max_iter, "ICM: max_iter", low=1, integer=True)
        check_number(self.n_restarts, "ICM: n_restarts", low=0, integer=True)

    def run(self, problem: Problem) -> Answer:
        """Improve a labelling from each start; return the best."""
        hard = has_hard_zeros(problem.graph, problem.theta)
        best = Answer(Status.STALLED)
        for restart in range(int(self.n_restarts) + 1):
            y = _first_labelling(problem, restart > 0)
            if hard and problem.graph.score(problem.theta, y) == -np.inf:
                search = find_feasible(problem.graph, problem.theta, problem.rng, problem.clock, random=restart > 0)
                if search.infeasible:
                    return Answer(Status.INFEASIBLE)
                y = y if search.labelling is None else search.labelling
            sweep = _sweeper(problem.graph, problem.theta, y)
            loop = iterate(sweep, int(self.max_iter), 0.0, problem.clock, problem.report)
            score = float(problem.graph.score(problem.theta, y))
            if best.assignment is None or score > best.lower_bound:
                best = Answer(
                    loop.status, assignment=y, lower_bound=score, residual=loop.residual, n_iter=loop.n_iter,
                    history={"residual": loop.residuals},
                )  # fmt: skip
            is_last = restart == int(self.n_restarts)
            if loop.status in (Status.TIME_LIMIT, Status.INTERRUPTED) or (problem.clock.expired and not is_last):
                best.status = Status.INTERRUPTED if loop.status is Status.INTERRUPTED else Status.TIME_LIMIT
                break
        if best.lower_bound == -np.inf:
            best.status = Status.STALLED
            best.note = "The search reached its limit before it found an assignment of finite score. Try junction_tree."
        return best


def _first_labelling(problem: Problem, random: bool) -> IntArray:
    """Return the initial labelling: random possible states, or the best states by a warm start or by theta."""
    graph = problem.graph
    unary = problem.theta[: graph.variable_ptr[-1]]
    if random:
        return random_labelling(graph, problem.theta, problem.rng)
    if problem.start_mu is not None:
        return best_states(graph, np.where(unary > -np.inf, problem.start_mu, -1.0))
    return best_states(graph, unary)


def random_labelling(graph: FactorGraph, theta: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return a labelling with a uniformly random possible state of each variable."""
    unary = theta[: graph.variable_ptr[-1]]
    return best_states(graph, np.where(unary > -np.inf, rng.random(unary.size), -1.0))


def best_states(graph: FactorGraph, values: FloatArray) -> IntArray:
    """Return the first state with the highest value, for each variable."""
    starts = graph.variable_ptr[:-1]
    maxima = np.repeat(np.maximum.reduceat(values, starts), graph.n_states)
    position = np.where(values == maxima, np.arange(values.size), values.size)
    return np.asarray(np.minimum.reduceat(position, starts) - starts, dtype=np.int64)


def climb(graph: FactorGraph, theta: FloatArray, labelling: IntArray, max_iter: int = 100) -> None:
    """Improve `labelling` in place by changes of single variables until none helps, for at most `max_iter` sweeps.

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
    """Return a function that makes a sweep over y in place and returns the number of changes."""
    arrays = GraphArrays.of(graph)
    active = np.ones(graph.n_variables, dtype=np.bool_)
    field = np.empty(int(graph.n_states.max(initial=0)))
    return lambda: int(sweep_icm(theta, y, active, field, arrays))
