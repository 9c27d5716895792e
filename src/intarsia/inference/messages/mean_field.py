"""Naive mean field: the best fully factorised distribution by coordinate ascent, and its lower bound on log Z."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_number
from intarsia._kernels.arguments import GraphArrays
from intarsia._kernels.mean_field import (
    complete_mean_field,
    fill_pairwise_tables,
    sweep_mean_field,
    sweep_mean_field_binary,
    sweep_mean_field_pairwise,
)
from intarsia.graph import FactorGraph, FactorKind
from intarsia.inference.method import Answer, InferenceMethod, Iteration, Problem, iterate
from intarsia.inference.sampling.feasible import find_feasible, has_hard_zeros
from intarsia.inference.sampling.icm import ICM

# A change of a marginal by no more than 0.1 tol, or than this share of the last residual if that is more, has to wait:
# effort goes where things move. Any order of updates ascends, and a full pass confirms convergence.
_SLACK = 0.1
_SHARE = 0.005


class MeanField(InferenceMethod):
    r"""Marginals of the best fully factorised distribution, and a lower bound on log Z, by coordinate ascent.

    Choose it when a guaranteed lower bound is wanted or speed matters more than accuracy: it is the cheapest
    variational method, at one multiplication per table entry and variable in a sweep. Do not choose it for strongly
    coupled models, where it is overconfident and finds one of many local optima; `tree_reweighted` is convex.

    It maximises :math:`\langle\theta, \mu\rangle + H(\mu)` over products of marginals by

    .. math:: \mu(x_j) \leftarrow \frac1Z \exp\Big(\theta(x_j)
              + \sum_{c \ni j} \sum_{x_{c \setminus j}} \theta(x_c) \prod_{i \in c \setminus j} \mu(x_i)\Big),

    one variable after the other in ascending order, each with the newest marginals of the others, so the bound never
    falls. Variables that would hardly move, as measured by the last residual, are passed over; before a run counts as
    converged, a pass over all variables, counted with the sweep before it, confirms that none changes by more than
    `tol`.

    Parameters
    ----------
    max_iter : int
        Most sweeps.
    tol : float
        Stop when no marginal changes by more than this in a sweep.
    random_start : bool
        Start from random marginals (see `random_state` of `infer`) instead of uniform ones, to look for another
        local optimum or to leave the symmetric point of a symmetric model.
    trace : bool
        Record the bound after each sweep as `history["log_partition"]`; costs about as much as a sweep.
    temperature : float, optional
        T in `<theta, mu> + T H(mu)`, by default 1. At 0 the optimum is a labelling and the run is that of `ICM`.

    Notes
    -----
    With hard zeros (-inf in tables) uniform marginals have a bound of -inf; the run then starts from an assignment
    of finite score found by search. When the search gives up, the bound may be -inf: the status is then STALLED,
    and `note` says why.

    References
    ----------
    Domke2013, section 3.2, Eqs. 10-12.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.chain_graph(2, 2)
    >>> result = intarsia.infer(graph, graph.pack(variables=[[0.0, 1.0], [0.0, 0.0]]), "mean_field")
    >>> result.marginals(0).round(4)                  # without coupling it is exact: e / (1 + e)
    array([0.2689, 0.7311])
    >>> result.log_partition_is
    'lower bound'
    """

    name: ClassVar[str] = "mean_field"
    summary: ClassVar[str] = "a lower bound on log Z, at the lowest cost"
    gives_marginals: ClassVar[bool] = True
    log_partition_is: ClassVar[str | None] = "lower bound"
    differentiable: ClassVar[bool] = True
    cost: ClassVar[str] = "table entries x scope per sweep; Potts: states"

    def __init__(
        self,
        *,
        max_iter: int = 1000,
        tol: float = 1e-8,
        random_start: bool = False,
        trace: bool = False,
        temperature: float | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.random_start = random_start
        self.trace = trace
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.max_iter, "MeanField: max_iter", low=1, integer=True)
        check_number(self.tol, "MeanField: tol", low=0.0)

    def run(self, problem: Problem) -> Answer:
        """Ascend from a start of finite value."""
        if problem.task == "map":
            return ICM(max_iter=self.max_iter).run(problem)
        state = _make_state(problem.graph, problem.theta)
        proven, note = self._start(problem, state)
        if proven:
            return Answer(Status.INFEASIBLE)
        bounds: list[float] = []
        loop = self._ascend(problem, state, bounds)
        mu, value = state.complete()
        history = {"residual": loop.residuals}
        if self.trace:
            history["log_partition"] = np.array(bounds)
        status = loop.status
        if value == -np.inf:
            status = Status.STALLED
            note = "The bound is -inf: no assignment of finite score was found within the limits of the search."
        return Answer(
            status, mu=mu, log_partition=value, log_partition_is="lower bound", lower_bound=value,
            residual=loop.residual, n_iter=loop.n_iter, history=history, note=note,
        )  # fmt: skip

    def _start(self, problem: Problem, state: _State) -> tuple[bool, str]:
        """Put first marginals into `state`; return whether the model was proven infeasible, and a note."""
        graph, theta = problem.graph, problem.theta
        possible = np.isfinite(theta[: state.split])
        first = possible.astype(float)
        if self.random_start:
            first *= problem.rng.exponential(size=state.split)
        elif problem.start_mu is not None:
            warm = np.where(possible, np.maximum(problem.start_mu, 0.0), 0.0)
            usable = np.repeat(np.add.reduceat(warm, graph.variable_ptr[:-1]) > 0, graph.n_states)
            first = np.where(usable, warm, first)
        state.set_marginals(first)
        if not state.hard or state.value() > -np.inf:
            return False, ""
        found = find_feasible(graph, theta, problem.rng, problem.clock, random=self.random_start)
        if found.labelling is None:
            return found.infeasible, ""
        state.set_labelling(found.labelling)
        return False, "Hard zeros: the ascent started from one assignment of finite score and may stay near it."

    def _ascend(self, problem: Problem, state: _State, bounds: list[float]) -> Iteration:
        least = _SLACK * float(self.tol)
        residual = np.inf

        def sweep() -> float:
            nonlocal residual
            full = state.all_awake
            residual = state.sweep(max(least, _SHARE * residual) if np.isfinite(residual) else least)
            if residual <= self.tol and not full:
                state.all_awake = True
                residual = state.sweep(least)
            if self.trace:
                bounds.append(state.value())
            return residual

        return iterate(sweep, int(self.max_iter), float(self.tol), problem.clock, problem.report)


class _State:
    """The marginals of one run, and the arrays that the kernels take; this base class serves any graph.

    Setting `all_awake` makes the next sweep one over all variables, with everything computed afresh.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray, hard: bool) -> None:
        self.graph, self.theta, self.hard = graph, theta, hard
        self.split = int(graph.variable_ptr[-1])
        self.mu = np.zeros(self.split)
        self.active = np.ones(graph.n_variables, dtype=np.bool_)
        self.drift = np.zeros(graph.n_variables)
        self.arrays = GraphArrays.of(graph)
        self.all_awake = True
        self.prepare()

    def prepare(self) -> None:
        """Make the scratch arrays."""
        largest = int(np.diff(self.graph.table_ptr).max(initial=1)) if self.graph.max_scope > 2 else 1
        self.left, self.right = np.empty(largest), np.empty(largest)
        self.field = np.empty(int(self.graph.n_states.max()))

    def set_marginals(self, weights: FloatArray) -> None:
        totals = np.add.reduceat(weights, self.graph.variable_ptr[:-1])
        self.mu = weights / np.repeat(totals, self.graph.n_states)

    def set_labelling(self, labelling: np.ndarray[Any, Any]) -> None:
        self.mu = np.zeros(self.split)
        self.mu[self.graph.variable_ptr[:-1] + labelling] = 1.0

    def sweep(self, slack: float) -> float:
        """Update what is awake; return the largest change of a marginal."""
        if self.all_awake:
            self.active[:] = True
            self.all_awake = False
        return float(
            sweep_mean_field(
                self.theta, self.mu, self.active, self.drift, slack, self.field, self.left, self.right, self.arrays
            )
        )

    def value(self) -> float:
        """The bound at the present marginals."""
        return float(complete_mean_field(self.theta, self.mu, False, self.left, self.right, self.arrays))

    def complete(self) -> tuple[FloatArray, float]:
        """All of mu, and the bound."""
        mu = np.zeros(self.graph.n_theta)
        mu[: self.split] = self.mu
        value = complete_mean_field(self.theta, mu, True, self.left, self.right, self.arrays)
        return mu, float(value)


class _PairwiseState(_State):
    """For pairwise tables without hard zeros: the fields are kept up to date as marginals move."""

    def prepare(self) -> None:
        self.fields = np.empty(self.split)
        self.spare = np.empty(2 * int(self.graph.n_states.max()))

    def sweep(self, slack: float) -> float:
        renew, self.all_awake = self.all_awake, False
        return float(
            sweep_mean_field_pairwise(
                self.theta, self.mu, self.active, self.drift, slack, self.fields, self.spare, renew, self.arrays
            )
        )

    def value(self) -> float:
        # A table's expected score is in the fields of both its variables.
        return self._free_value((self.theta[: self.split] + self.fields) / 2.0)

    def _free_value(self, scores: FloatArray) -> float:
        """Expected scores of single variables, plus the entropy; an impossible state adds nothing."""
        some = slice(None) if self.mu.min() > 0.0 else self.mu > 0.0
        mu = self.mu[some]
        return _dot(mu, scores[some] - np.log(mu))  # Domke2013 Eq. 12

    def complete(self) -> tuple[FloatArray, float]:
        return self._fill(), self.value()

    def _fill(self) -> FloatArray:
        graph = self.graph
        mu = np.empty(graph.n_theta)
        mu[: self.split] = self.mu
        fill_pairwise_tables(
            mu, graph.scope_idx, graph.variable_ptr, graph.table_of_factor, graph.table_ptr, graph.first_factor_of_table
        )
        return mu


class _BinaryState(_PairwiseState):
    """For pairwise tables over binary variables without hard zeros: log-odds instead of fields."""

    def prepare(self) -> None:
        graph, theta = self.graph, self.theta
        tables = theta[self.split :].reshape(graph.n_tables, 4)
        self.coupling = (tables[:, 0] - tables[:, 1]) - (tables[:, 2] - tables[:, 3])
        self.ends = graph.scope_idx[::2], graph.scope_idx[1::2]
        # What a variable gains by state 1 when all others are in state 0.
        self.gain = theta[1 : self.split : 2] - theta[: self.split : 2]
        for end, entry in zip(self.ends, (2, 1), strict=True):
            rise = (tables[:, entry] - tables[:, 0])[graph.table_of_factor]
            self.gain += np.bincount(end, rise, graph.n_variables)

    def sweep(self, slack: float) -> float:
        if self.all_awake:
            self.all_awake = False
            self.active[:] = True
            first, second = self.ends
            weights = self.coupling[self.graph.table_of_factor]
            self.odds = self.gain + np.bincount(first, weights * self.mu[2 * second + 1], self.graph.n_variables)
            self.odds += np.bincount(second, weights * self.mu[2 * first + 1], self.graph.n_variables)
        return float(
            sweep_mean_field_binary(self.mu, self.active, self.drift, slack, self.odds, self.coupling, self.arrays)
        )

    def value(self) -> float:
        return self.complete()[1]

    def complete(self) -> tuple[FloatArray, float]:
        mu = self._fill()
        return mu, self._free_value(self.theta[: self.split]) + _dot(self.theta[self.split :], mu[self.split :])


def _dot(a: FloatArray, b: FloatArray) -> float:
    """Inner product by one thread: that of BLAS wakes others, which takes longer than the sum where cores are busy."""
    return float(np.einsum("i,i->", a, b))


def _make_state(graph: FactorGraph, theta: FloatArray) -> _State:
    """The state for this graph: pairwise tables without hard zeros, and binary ones, have their own."""
    hard = has_hard_zeros(graph, theta)
    if hard or graph.max_scope != 2 or (graph.table_kind != FactorKind.TABLE).any():
        return _State(graph, theta, hard)
    return (_BinaryState if (graph.n_states == 2).all() else _PairwiseState)(graph, theta, hard)
