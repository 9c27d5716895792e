"""Naive mean field: variational inference with a fully factorised distribution, and a lower bound on log Z."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_number
from intarsia._kernels.graph_arguments import GraphArrays
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

# Variables whose marginals would change by at most _SLACK * tol, or _SHARE * (last residual) if that is larger, are
# skipped, so that sweeps update only what still changes. Every order of updates increases the bound, and a pass over
# all variables confirms convergence.
_SLACK = 0.1
_SHARE = 0.005


class MeanField(InferenceMethod):
    r"""Mean field: marginals of a fully factorised distribution, and a lower bound on log Z, by coordinate ascent.

    Choose it if you need a guaranteed lower bound, or if speed matters more than accuracy: it is the cheapest method of
    variational inference, with one multiplication per table entry and variable in a sweep. Do not use it for strongly
    coupled models, where it is overconfident and returns one of many local optima; `tree_reweighted` is convex.

    It maximises :math:`\langle\theta, \mu\rangle + H(\mu)` over products of marginals by

    .. math:: \mu(x_j) \leftarrow \frac1Z \exp\Big(\theta(x_j)
              + \sum_{c \ni j} \sum_{x_{c \setminus j}} \theta(x_c) \prod_{i \in c \setminus j} \mu(x_i)\Big),

    one variable after the other in ascending order, each with the newest marginals of the others, so the bound never
    decreases. Variables whose marginals would hardly change, compared with the last residual, are skipped. Before a run
    counts as converged, a pass over all variables confirms that no marginal changes by more than `tol`; it is counted
    with the sweep before it.

    Parameters
    ----------
    max_iter : int
        Maximum number of sweeps.
    tol : float
        Stop when no marginal changes by more than this in a sweep.
    random_start : bool
        Start from random marginals (see `random_state` of `infer`) instead of uniform ones, to reach another local
        optimum or to leave the symmetric solution of a symmetric model.
    trace : bool
        Record the bound after each sweep as `history["log_partition"]`; each record costs about as much as a sweep.
    temperature : float, optional
        T in `<theta, mu> + T H(mu)`, by default 1. At 0 the optimum is a labelling, computed by `ICM`.

    Notes
    -----
    With hard zeros (-inf in tables) the bound of uniform marginals is -inf; the run then starts from an assignment of
    finite score, obtained by a search. If the search reaches its limit, the bound may stay at -inf: the status is then
    STALLED, and `note` explains why.

    References
    ----------
    Domke2013, section 3.2, Eqs. 10-12.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.chain_graph(2, 2)
    >>> result = intarsia.infer(graph, graph.pack(variables=[[0.0, 1.0], [0.0, 0.0]]), "mean_field")
    >>> result.marginals(0).round(4)                  # exact without coupling: e / (1 + e)
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
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.max_iter, "MeanField: max_iter", low=1, integer=True)
        check_number(self.tol, "MeanField: tol", low=0.0)

    def run(self, problem: Problem) -> Answer:
        """Maximise the bound by coordinate ascent from a start at which it is finite."""
        if problem.task == "map":
            return ICM(max_iter=self.max_iter).run(problem)
        state = _make_state(problem.graph, problem.theta)
        is_infeasible, note = self._start(problem, state)
        if is_infeasible:
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
            note = "The bound is -inf: the search reached its limit before it found an assignment of finite score."
        return Answer(
            status, mu=mu, log_partition=value, log_partition_is="lower bound", lower_bound=value,
            residual=loop.residual, n_iter=loop.n_iter, history=history, note=note,
        )  # fmt: skip

    def _start(self, problem: Problem, state: _State) -> tuple[bool, str]:
        """Set the initial marginals of `state`; return whether the model is proven infeasible, and a note."""
        graph, theta = problem.graph, problem.theta
        possible = np.isfinite(theta[: state.split])
        weights = possible.astype(float)
        if self.random_start:
            weights *= problem.rng.exponential(size=state.split)
        elif problem.start_mu is not None:
            warm = np.where(possible, np.maximum(problem.start_mu, 0.0), 0.0)
            usable = np.repeat(np.add.reduceat(warm, graph.variable_ptr[:-1]) > 0, graph.n_states)
            weights = np.where(usable, warm, weights)
        state.set_marginals(weights)
        if not state.hard or state.value() > -np.inf:
            return False, ""
        search = find_feasible(graph, theta, problem.rng, problem.clock, random=self.random_start)
        if search.labelling is None:
            return search.infeasible, ""
        state.set_labelling(search.labelling)
        return False, "Hard zeros: the ascent started from an assignment of finite score and may stay near it."

    def _ascend(self, problem: Problem, state: _State, bounds: list[float]) -> Iteration:
        """Sweep until converged; append the bound after each sweep to `bounds` if `trace` is set."""
        smallest_slack = _SLACK * float(self.tol)
        residual = np.inf

        def sweep() -> float:
            nonlocal residual
            was_full = state.all_active
            residual = state.sweep(max(smallest_slack, _SHARE * residual) if np.isfinite(residual) else smallest_slack)
            if residual <= self.tol and not was_full:
                state.all_active = True
                residual = state.sweep(smallest_slack)
            if self.trace:
                bounds.append(state.value())
            return residual

        return iterate(sweep, int(self.max_iter), float(self.tol), problem.clock, problem.report)


class _State:
    """Marginals of one run and the arrays of the kernels; this base class supports any graph.

    Setting `all_active` makes the next sweep update all variables and recompute all cached values.
    """

    def __init__(self, graph: FactorGraph, theta: FloatArray, hard: bool) -> None:
        self.graph, self.theta, self.hard = graph, theta, hard
        self.split = int(graph.variable_ptr[-1])
        self.mu = np.zeros(self.split)
        self.active = np.ones(graph.n_variables, dtype=np.bool_)
        self.drift = np.zeros(graph.n_variables)
        self.arrays = GraphArrays.of(graph)
        self.all_active = True
        self.prepare()

    def prepare(self) -> None:
        """Create the work arrays of the kernel."""
        largest = int(np.diff(self.graph.table_ptr).max(initial=1)) if self.graph.max_scope > 2 else 1
        self.left, self.right = np.empty(largest), np.empty(largest)
        self.field = np.empty(int(self.graph.n_states.max()))

    def set_marginals(self, weights: FloatArray) -> None:
        """Set the marginals to nonnegative weights, normalised for each variable."""
        totals = np.add.reduceat(weights, self.graph.variable_ptr[:-1])
        self.mu = weights / np.repeat(totals, self.graph.n_states)

    def set_labelling(self, labelling: np.ndarray[Any, Any]) -> None:
        """Set one-hot marginals."""
        self.mu = np.zeros(self.split)
        self.mu[self.graph.variable_ptr[:-1] + labelling] = 1.0

    def sweep(self, slack: float) -> float:
        """Update the active variables; return the largest change of a marginal."""
        if self.all_active:
            self.active[:] = True
            self.all_active = False
        return float(
            sweep_mean_field(
                self.theta, self.mu, self.active, self.drift, slack, self.field, self.left, self.right, self.arrays
            )
        )

    def value(self) -> float:
        """Return the bound at the current marginals."""
        return float(complete_mean_field(self.theta, self.mu, False, self.left, self.right, self.arrays))

    def complete(self) -> tuple[FloatArray, float]:
        """Return mu with the marginals of factors, and the bound."""
        mu = np.zeros(self.graph.n_theta)
        mu[: self.split] = self.mu
        value = complete_mean_field(self.theta, mu, True, self.left, self.right, self.arrays)
        return mu, float(value)


class _PairwiseState(_State):
    """State for pairwise tables without hard zeros, with fields that are updated with each marginal."""

    def prepare(self) -> None:
        self.fields = np.empty(self.split)
        self.spare = np.empty(2 * int(self.graph.n_states.max()))

    def sweep(self, slack: float) -> float:
        renew, self.all_active = self.all_active, False
        return float(
            sweep_mean_field_pairwise(
                self.theta, self.mu, self.active, self.drift, slack, self.fields, self.spare, renew, self.arrays
            )
        )

    def value(self) -> float:
        # The expected score of a table is contained in the fields of both of its variables.
        return self._free_value((self.theta[: self.split] + self.fields) / 2.0)

    def _free_value(self, scores: FloatArray) -> float:
        """Return the expected score of the variables plus their entropy; states of probability 0 contribute 0."""
        positive = slice(None) if self.mu.min() > 0.0 else self.mu > 0.0
        mu = self.mu[positive]
        return _dot(mu, scores[positive] - np.log(mu))  # Domke2013 Eq. 12

    def complete(self) -> tuple[FloatArray, float]:
        return self._fill(), self.value()

    def _fill(self) -> FloatArray:
        """Return mu with the marginals of factors, which are products of those of their variables."""
        graph = self.graph
        mu = np.empty(graph.n_theta)
        mu[: self.split] = self.mu
        fill_pairwise_tables(
            mu, graph.scope_idx, graph.variable_ptr, graph.table_of_factor, graph.table_ptr, graph.first_factor_of_table
        )
        return mu


class _BinaryState(_PairwiseState):
    """State for pairwise tables of binary variables without hard zeros, with log-odds instead of fields."""

    def prepare(self) -> None:
        graph, theta = self.graph, self.theta
        tables = theta[self.split :].reshape(graph.n_tables, 4)
        self.coupling = (tables[:, 0] - tables[:, 1]) - (tables[:, 2] - tables[:, 3])
        self.ends = graph.scope_idx[::2], graph.scope_idx[1::2]
        # Difference of the scores of states 1 and 0 of each variable if all other variables are in state 0.
        self.gain = theta[1 : self.split : 2] - theta[: self.split : 2]
        for end, entry in zip(self.ends, (2, 1), strict=True):
            rise = (tables[:, entry] - tables[:, 0])[graph.table_of_factor]
            self.gain += np.bincount(end, rise, graph.n_variables)

    def sweep(self, slack: float) -> float:
        if self.all_active:
            self.all_active = False
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
    """Return the inner product, computed by one thread: starting BLAS threads takes longer on busy cores."""
    return float(np.einsum("i,i->", a, b))


def _make_state(graph: FactorGraph, theta: FloatArray) -> _State:
    """Return the fastest state that supports the graph."""
    hard = has_hard_zeros(graph, theta)
    if hard or graph.max_scope != 2 or (graph.table_kind != FactorKind.TABLE).any():
        return _State(graph, theta, hard)
    return (_BinaryState if (graph.n_states == 2).all() else _PairwiseState)(graph, theta, hard)
