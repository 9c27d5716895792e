"""`infer`, the entry point of inference: check the input, run a method, return the result in the user's layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.clock import Clock
from intarsia._core.error_context import warn_caller
from intarsia._core.progress import sweep_progress
from intarsia._core.status import Status
from intarsia._core.validation import (
    LARGEST_SCORE,
    FloatArray,
    as_generator,
    check_choice,
    check_number,
    read_only,
    too_large,
)
from intarsia.exceptions import (
    ConvergenceWarning,
    InvalidInputError,
    NotSupportedError,
    TimeLimitError,
    TooLargeError,
)
from intarsia.graph import FactorGraph, Reduction, reduce_graph
from intarsia.graph.factor_graph import MAX_WRITTEN
from intarsia.graph.factor_kinds import is_constraint
from intarsia.graph.reduction import check_evidence
from intarsia.inference.auto import AUTO, auto_candidates, is_affordable
from intarsia.inference.method import Answer, InferenceMethod, Problem
from intarsia.inference.presentation import Rerun, present
from intarsia.inference.registry import METHODS, method_class, method_names
from intarsia.inference.result import InferenceResult

# Constraints over more variables are not expanded into tables just to find out whether an exact method is affordable.
_SMALL_CONSTRAINT = 12


def infer(
    graph: FactorGraph,
    theta: ArrayLike,
    method: str | InferenceMethod = AUTO,
    task: str = "marginals",
    *,
    evidence: Mapping[int | str, int] | None = None,
    n_samples: int = 0,
    n_best: int = 0,
    warm_start: InferenceResult | None = None,
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
    **settings: Any,
) -> InferenceResult:
    """Compute marginals and log Z (the partition function), or the best labelling (MAP), of a factor graph.

    Use it for any discrete graphical model: Markov random fields, conditional random fields, Bayesian networks.
    The default method is exact where that is affordable and approximate elsewhere, such as loopy belief propagation
    with tree-reweighted messages; `result.status` and `result.log_partition_is` report what is guaranteed.

    Parameters
    ----------
    graph : FactorGraph
        Variables, their numbers of states, and the factors that connect them.
    theta : (graph.n_theta,) array
        Scores (log-potentials) in the layout of `graph`; -inf marks impossible states.
    method : str or InferenceMethod
        A name (the command `intarsia methods` lists them) or a settings object such as `TreeReweighted(damping=0.3)`.
        "auto" runs an exact method where that takes no longer than an approximate one: `tree` on forests, `graph_cut`
        for the best labelling of binary attractive models, `junction_tree` on narrow graphs. Elsewhere "auto" runs
        `tree_reweighted` for marginals, `dual_decomposition` for "map", `gibbs` for samples. `result.method` is the
        method that ran.
    task : {"marginals", "map"}
        "marginals": marginal probabilities and log Z. "map": the labelling with the highest score.
    evidence : dict, optional
        Observed states as a dict from variable (index or name) to state. Results stay in the layout of `graph`, with
        one-hot marginals for observed variables; log Z sums over the assignments that agree with the evidence.
    n_samples, n_best : int
        Number of samples to draw, and number of best labellings to return; only some methods support them.
    warm_start : InferenceResult, optional
        An earlier result on the same graph with the same evidence, to start from.
    time_limit : float, optional
        Time limit in seconds. Iterative methods then return their current result; exact methods raise TimeLimitError.
    random_state : int or Generator, optional
        Seed of all random choices.
    verbose : bool
        Show progress on stderr (only on a terminal).
    **settings
        Settings of the method, such as `max_iter=200` or `temperature=0.5`. With "auto", a setting that only
        approximate methods have, such as `max_iter`, `tol`, `damping` or `schedule`, selects the approximate method.

    Returns
    -------
    InferenceResult
        Marginals, log Z, labelling and bounds, with `status`. An infeasible model has status INFEASIBLE, never NaN.

    Raises
    ------
    InvalidInputError
        If an argument is malformed or out of range.
    NotSupportedError
        If the method cannot do the task on this graph; the message lists methods that can.
    TooLargeError, TimeLimitError
        If an exact method needs too much memory or time.

    Warns
    -----
    ConvergenceWarning
        If an iterative method stops before its residual reaches `tol`; `result.status` reports the same.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.grid_graph(2, 2, 2)
    >>> theta = graph.pack(variables=[[0, 1], [0, 0], [0, 0], [0, 0]], tables=[[[1, 0], [0, 1]]] * 4)
    >>> result = intarsia.infer(graph, theta, "brute_force", evidence={3: 0})
    >>> result.status.name, result.marginals(3).tolist()
    ('EXACT', [1.0, 0.0])
    >>> best = intarsia.infer(graph, theta, task="map")
    >>> best.assignment, best.method
    (array([1, 1, 1, 1]), GraphCut())
    """
    options = Options(evidence, n_samples, n_best, warm_start, time_limit, random_state, verbose)
    result = run_inference(graph, theta, method, task, options, settings)
    _warn_if_not_converged(result)
    return result


@dataclass(frozen=True)
class Options:
    """Arguments of `infer` other than the model, the method and the task."""

    evidence: Mapping[int | str, int] | None = None
    n_samples: int = 0
    n_best: int = 0
    warm_start: InferenceResult | None = None
    time_limit: float | None = None
    random_state: int | np.random.Generator | None = None
    verbose: bool = False


def run_inference(
    graph: FactorGraph,
    theta: ArrayLike,
    method: str | InferenceMethod,
    task: str = "marginals",
    options: Options = Options(),
    settings: Mapping[str, Any] | None = None,
) -> InferenceResult:
    """Run `infer` without the ConvergenceWarning, for callers that check `result.status` themselves.

    Suppressing the warning instead is not an option: warning filters belong to the process, not to a thread.

    Examples
    --------
    >>> from intarsia.graph import from_edges
    >>> graph = from_edges(2, [[0, 1], [1, 2], [2, 0]])
    >>> theta = graph.pack(variables=[[0, 1], [0, 0], [0, 0]], tables=[[[1, 0], [0, 1]]] * 3)
    >>> run_inference(graph, theta, "belief_propagation", settings={"max_iter": 1}).status.name
    'MAX_ITER'
    """
    clock = Clock(options.time_limit)
    if isinstance(method, str) and method != AUTO:
        check_choice(method, [*method_names(), AUTO], "method")
    if method == AUTO:
        check_choice(task, ("marginals", "map"), "task")
        methods = auto_candidates(task, options.n_samples, options.n_best, settings or {})
    else:
        methods = [METHODS.resolve(method, settings)]
    for candidate in methods:
        _check_request(candidate, task, options)
    if not isinstance(graph, FactorGraph):
        raise InvalidInputError(
            f"infer: graph must be a FactorGraph, got {type(graph).__name__}. Build one with GraphBuilder, grid_graph, "
            "chain_graph or from_edges."
        )
    run = _Run(graph, graph.check_theta(theta), task, options, as_generator(options.random_state))
    for candidate in methods[:-1]:
        try:
            if run.can_afford(candidate):
                # An exact method that runs out of time has no result at all, so it may use only half of the time.
                budget = None if clock.limit is None else max((clock.limit - clock.seconds) / 2, 1e-3)
                result = run.solve(candidate, Clock(budget))
                return replace(result, seconds=clock.seconds, chosen_by_auto=True)
        except (TooLargeError, TimeLimitError, NotSupportedError):
            continue
    return replace(run.solve(methods[-1], clock), chosen_by_auto=method == AUTO)


@dataclass
class _Run:
    """A checked model with its task and options, solved by one method or by several candidates in turn."""

    graph: FactorGraph
    theta: FloatArray
    task: str
    options: Options
    rng: np.random.Generator
    reductions: dict[bool, Reduction] = field(default_factory=dict)

    def reduction(self, method: InferenceMethod) -> Reduction:
        """Return the model in normal form; constraints become tables unless the method supports them directly."""
        direct = method.takes_constraints
        if direct not in self.reductions:
            self.reductions[direct] = reduce_graph(self.graph, self.options.evidence, keep_constraints=direct)
        return self.reductions[direct]

    def can_afford(self, method: InferenceMethod) -> bool:
        """Return whether `auto` may run this exact method; constraints over many variables rule it out."""
        width = _widest_constraint(self.graph, self.options.evidence)[1]
        return width <= _SMALL_CONSTRAINT and is_affordable(method, self.reduction(method).graph, self.task)

    def solve(self, method: InferenceMethod, clock: Clock) -> InferenceResult:
        """Run a method and return its result in the layout of the user's graph."""
        graph, scores, options = self.graph, self.theta, self.options
        _check_constraints(method, graph, options.evidence)
        reduction = self.reduction(method)
        if method.max_scope is not None and reduction.graph.max_scope > method.max_scope:
            capable = [n for n in method_names() if (s := method_class(n).max_scope) is None or s >= graph.max_scope]
            raise NotSupportedError(
                f"{type(method).__name__} supports factors of at most {method.max_scope} variables, but the graph has "
                f"one of {reduction.graph.max_scope} variables. Use one of: {', '.join(capable)}."
            )
        temperature = _temperature(method, self.task)
        rerun = Rerun(graph, scores, method, options.evidence, options.warm_start, self.rng, options.n_samples)
        problem = Problem(
            graph=reduction.graph,
            original=graph,
            factor_of=reduction.factor_of,
            theta=read_only(_divide_by_temperature(reduction.lower(scores), temperature)),
            task="marginals" if temperature > 0 else "map",
            rng=self.rng,
            clock=clock,
            n_samples=int(options.n_samples),
            n_best=int(options.n_best),
            reduction=reduction,
            temperature=temperature,
        )
        _set_warm_start(problem, method, options.warm_start, reduction, scores)
        constant = reduction.constant(scores)
        with sweep_progress(type(method).__name__, options.verbose) as report:
            problem.report = report
            answer = _solve(method, problem, constant)
        return present(answer, method, self.task, reduction, scores, constant, temperature, clock, rerun)


def _check_constraints(method: InferenceMethod, graph: FactorGraph, evidence: Mapping[int | str, int] | None) -> None:
    """Raise if a constraint is too large to be expanded into a table and the method needs tables."""
    if method.takes_constraints:
        return
    factor, width = _widest_constraint(graph, evidence)
    if width > MAX_WRITTEN:
        capable = [name for name in method_names() if method_class(name).takes_constraints]
        raise NotSupportedError(
            f"{type(method).__name__} expands constraints into tables, which is possible for at most {MAX_WRITTEN} "
            f"variables, but factor {factor} joins {width} variables. Use a method that supports constraints directly: "
            f"{', '.join(capable)}."
        )


def _widest_constraint(graph: FactorGraph, evidence: Mapping[int | str, int] | None) -> tuple[int, int]:
    """Return the constraint factor with the most unobserved variables, and their number; (-1, 0) if there is none."""
    constraints = np.flatnonzero(is_constraint(graph.table_kind[graph.table_of_factor]))
    if not constraints.size:
        return -1, 0
    free = np.ones(graph.n_variables, dtype=np.int64)
    free[list(check_evidence(graph, evidence))] = 0
    widths = np.array([int(free[graph.scope(int(c))].sum()) for c in constraints])
    return int(constraints[widths.argmax()]), int(widths.max())


def _temperature(method: InferenceMethod, task: str) -> float:
    """Return the temperature set in the method, or the default of the task: 1 for marginals, 0 for MAP."""
    if method.temperature is None:
        return 1.0 if task == "marginals" else 0.0
    if task == "map" and method.temperature > 0:
        raise InvalidInputError(
            f"task='map' is temperature 0, got temperature={method.temperature}. Drop the temperature; or use "
            "task='marginals', which returns the most probable state of each variable at that temperature."
        )
    return float(method.temperature)


def _divide_by_temperature(theta: FloatArray, temperature: float) -> FloatArray:
    """Return the scores divided by the temperature; raise if their sums could overflow."""
    if temperature in (0.0, 1.0):
        return theta
    with np.errstate(over="ignore"):
        scaled_theta = theta / temperature
    if too_large(scaled_theta):
        raise InvalidInputError(
            f"temperature={temperature} is too small for these scores: theta / temperature must not exceed "
            f"{LARGEST_SCORE:g}. Use temperature=0, or a larger temperature."
        )
    return scaled_theta


def _check_request(method: InferenceMethod, task: str, options: Options) -> None:
    """Raise unless the options are valid and the method supports the task, samples and best labellings."""
    n_samples, n_best, time_limit = options.n_samples, options.n_best, options.time_limit
    check_choice(task, ("marginals", "map"), "task")
    method.check_settings()
    check_number(n_samples, "n_samples", low=0, integer=True)
    check_number(n_best, "n_best", low=0, integer=True)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0, open_low=True)
    requests = {
        "gives_marginals": (task == "marginals", f"task={task!r}"),
        "gives_map": (task == "map", f"task={task!r}"),
        "gives_samples": (n_samples > 0, "n_samples"),
        "gives_best": (n_best > 0, "n_best"),
    }
    for ability, (is_requested, argument) in requests.items():
        if is_requested and not getattr(method, ability):
            capable = [name for name in method_names() if getattr(method_class(name), ability)]
            raise NotSupportedError(
                f"{type(method).__name__} does not support {argument}. Use one of: {', '.join(capable)}."
            )
    if n_samples and (task == "map" or method.temperature == 0):
        raise NotSupportedError(
            "n_samples needs task='marginals' and a temperature above 0, since samples are drawn from a distribution. "
            "Use task='marginals', or drop n_samples."
        )


def _set_warm_start(
    problem: Problem,
    method: InferenceMethod,
    earlier: InferenceResult | None,
    reduction: Reduction,
    scores: FloatArray,
) -> None:
    """Copy the marginals, energy tilt and messages of an earlier result into the problem, as its start."""
    if earlier is None:
        return
    if not isinstance(earlier, InferenceResult):
        raise InvalidInputError(
            f"warm_start must be an earlier result of infer, got {type(earlier).__name__}. Pass what infer returned."
        )
    same_graph = earlier.graph is reduction.original or all(
        np.array_equal(getattr(earlier.graph, name), getattr(reduction.original, name))
        for name in ("n_states", "scope_ptr", "scope_idx")
    )
    if not same_graph:
        raise InvalidInputError("warm_start: the earlier result is from another graph. Pass one for the same graph.")
    if earlier.mu is not None:
        starts, ends = (reduction.original.variable_ptr[reduction.kept + k] for k in (0, 1))
        blocks = [earlier.mu[a:b] for a, b in zip(starts, ends, strict=True)]
        problem.start_mu = np.concatenate(blocks) if blocks else np.empty(0)
    if earlier.tilted_theta is not None and earlier.tilted_theta.shape == scores.shape:
        tilt = np.zeros(scores.size)
        finite = np.isfinite(scores) & np.isfinite(earlier.tilted_theta)
        np.subtract(scores, earlier.tilted_theta, where=finite, out=tilt)
        problem.start_tilt = tilt
    if earlier.messages is not None:
        observed = np.flatnonzero(reduction.states >= 0)
        if earlier.observed != {int(v): int(reduction.states[v]) for v in observed}:
            raise InvalidInputError(
                "warm_start: the earlier result has other evidence. Pass the same evidence, or drop warm_start."
            )
        if earlier.method.state_is == method.state_is:
            problem.start_messages = earlier.messages


def _solve(method: InferenceMethod, problem: Problem, constant: float) -> Answer:
    """Run the method, unless no variable is free or a single variable already has no possible state."""
    graph = problem.graph
    if constant == -np.inf or not _all_variables_possible(graph, problem.theta):
        return Answer(Status.INFEASIBLE)
    if graph.n_variables == 0:
        return method.solve_without_variables(problem)
    return method.run(problem)


def _all_variables_possible(graph: FactorGraph, theta: FloatArray) -> bool:
    """Return whether every variable has a state whose score is above -inf."""
    split = int(graph.variable_ptr[-1])
    if theta[:split].min(initial=0.0) > -np.inf:  # the common case, which is cheap to recognise
        return True
    return bool(np.maximum.reduceat(theta[:split], graph.variable_ptr[:-1]).min() > -np.inf)


def _warn_if_not_converged(result: InferenceResult) -> None:
    """Issue a ConvergenceWarning with residual, tolerance and settings to change, if the run did not converge."""
    if result.converged or result.status is Status.INFEASIBLE:
        return
    settings = result.method.get_params()
    adjustable = ("max_iter", "damping") if result.status is not Status.TIME_LIMIT else ("damping",)
    advice = [f"{key} (now {settings[key]})" for key in adjustable if key in settings]
    if result.status is Status.TIME_LIMIT:
        advice.insert(0, "time_limit")
    remedy = f" Try a larger {' or '.join(advice)}." if advice else ""
    tol = f", tol={settings['tol']:g}" if "tol" in settings else ""
    warn_caller(
        f"{type(result.method).__name__} did not converge: {result.status.message} (residual "
        f"{result.residual:.2e}{tol}, {result.n_iter} sweeps).{remedy}",
        ConvergenceWarning,
    )
