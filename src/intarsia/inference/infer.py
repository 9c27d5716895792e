"""The front door: `infer` prepares a problem, runs a method, and gives the answer in the user's layout."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._progress import sweep_progress
from intarsia._validation import FloatArray, as_generator, check_choice, check_number, frozen, read_only
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph, Reduction, reduce_graph
from intarsia.inference.method import Answer, Clock, InferenceMethod, Problem
from intarsia.inference.registry import method_class, method_names, resolve_method
from intarsia.inference.result import InferenceResult, Status


def infer(
    graph: FactorGraph,
    theta: ArrayLike,
    method: str | InferenceMethod = "tree_reweighted",
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
    """Marginals and log Z, or the best labelling, of a factor graph.

    Parameters
    ----------
    graph : FactorGraph
        What is connected.
    theta : (graph.n_theta,) array
        Scores (log-potentials); -inf marks the impossible.
    method : str or InferenceMethod
        A name (see `intarsia methods`) or a settings object such as `TreeReweighted(damping=0.3)`.
    task : {"marginals", "map"}
        Marginals with log Z, or the labelling with the highest score.
    evidence : dict, optional
        Known states by variable index or name. Results stay in the layout of `graph`, the evidence one-hot, and
        log Z is that of the assignments which agree with it.
    n_samples, n_best : int
        How many draws or best labellings to give, with methods that can.
    warm_start : InferenceResult, optional
        An earlier result on the same graph with the same evidence, to start from.
    time_limit : float, optional
        Seconds after which an iterative method returns what it has.
    random_state : int or Generator, optional
        Seed for everything random.
    verbose : bool
        Show progress on stderr (only on a terminal).
    **settings
        Settings of the method, such as `max_iter=200` or `temperature=0.5`.

    Returns
    -------
    InferenceResult
        With `status`; an infeasible model gives status INFEASIBLE, never NaN.

    Warns
    -----
    ConvergenceWarning
        When an iterative method stops before its tolerance; `status` says the same.

    Examples
    --------
    >>> import intarsia
    >>> graph = intarsia.grid_graph(2, 2, 2)
    >>> theta = graph.pack(variables=[[0, 1], [0, 0], [0, 0], [0, 0]], tables=[[[1, 0], [0, 1]]] * 4)
    >>> result = intarsia.infer(graph, theta, "brute_force", evidence={3: 0})
    >>> result.status.name, result.marginals(3).tolist()
    ('EXACT', [1.0, 0.0])
    >>> intarsia.infer(graph, theta, "brute_force", task="map").assignment
    array([1, 1, 1, 1])
    """
    clock = Clock(time_limit)
    chosen = resolve_method(method, settings)
    _check_request(chosen, task, n_samples, n_best, time_limit)
    if not isinstance(graph, FactorGraph):
        raise InvalidInputError(f"infer: graph must be a FactorGraph, got {type(graph).__name__}.")
    scores = graph.check_theta(theta)
    reduction = reduce_graph(graph, evidence)
    if chosen.max_scope is not None and reduction.graph.max_scope > chosen.max_scope:
        able = [n for n in method_names() if (s := method_class(n).max_scope) is None or s >= graph.max_scope]
        raise NotSupportedError(
            f"{type(chosen).__name__} takes factors of at most {chosen.max_scope} variables, but one joins "
            f"{reduction.graph.max_scope}. These take any: {', '.join(able)}."
        )
    default_temperature = 1.0 if task == "marginals" else 0.0
    temperature = default_temperature if chosen.temperature is None else float(chosen.temperature)
    scale = temperature if temperature > 0 else 1.0
    problem = Problem(
        graph=reduction.graph,
        original=graph,
        factor_of=reduction.factor_of,
        theta=read_only(reduction.lower(scores) if scale == 1.0 else reduction.lower(scores) / scale),
        task="marginals" if temperature > 0 else "map",
        rng=as_generator(random_state),
        clock=clock,
        n_samples=n_samples,
        n_best=n_best,
    )
    _put_warm_start(problem, warm_start, reduction)
    constant = reduction.constant(scores)
    with sweep_progress(type(chosen).__name__, verbose) as report:
        problem.report = report
        answer = _solve(chosen, problem, constant)
    result = _present(
        answer, chosen, task, reduction, scores, constant, scale, clock,
        lambda: infer(*_unshared(graph, scores), chosen, task, evidence=evidence, random_state=random_state),
    )  # fmt: skip
    _warn_if_not_converged(result)
    return result


def _check_request(method: InferenceMethod, task: str, n_samples: int, n_best: int, time_limit: float | None) -> None:
    check_choice(task, ("marginals", "map"), "task")
    method.check_settings()
    check_number(n_samples, "n_samples", low=0, integer=True)
    check_number(n_best, "n_best", low=0, integer=True)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0, open_low=True)
    wanted = {
        "gives_marginals": (task == "marginals", f"task={task!r}"),
        "gives_map": (task == "map", f"task={task!r}"),
        "gives_samples": (n_samples > 0, "n_samples"),
        "gives_best": (n_best > 0, "n_best"),
    }
    for ability, (asked, words) in wanted.items():
        if asked and not getattr(method, ability):
            able = [name for name in method_names() if getattr(method_class(name), ability)]
            raise NotSupportedError(f"{type(method).__name__} does not offer {words}. These do: {', '.join(able)}.")
    if n_samples and task == "map":
        raise NotSupportedError("n_samples needs task='marginals': samples are drawn from the distribution.")


def _put_warm_start(problem: Problem, earlier: InferenceResult | None, reduction: Reduction) -> None:
    if earlier is None:
        return
    same = earlier.graph is reduction.original or (
        np.array_equal(earlier.graph.n_states, reduction.original.n_states)
        and np.array_equal(earlier.graph.scope_idx, reduction.original.scope_idx)
    )
    if not same:
        raise InvalidInputError("warm_start: the earlier result is from another graph. Give one from the same graph.")
    if earlier.mu is not None:
        starts, ends = (reduction.original.variable_ptr[reduction.kept + k] for k in (0, 1))
        blocks = [earlier.mu[a:b] for a, b in zip(starts, ends, strict=True)]
        problem.start_mu = np.concatenate(blocks) if blocks else np.empty(0)
    if earlier.messages is not None:
        needed = int(problem.graph.n_states[problem.graph.scope_idx].sum())
        if earlier.messages.size != needed:
            raise InvalidInputError(
                "warm_start: the earlier result has other evidence. Start afresh, or give the same."
            )
        problem.start_messages = earlier.messages


def _solve(method: InferenceMethod, problem: Problem, constant: float) -> Answer:
    """Run the method unless the model is decided, or impossible at a single variable."""
    graph = problem.graph
    if constant == -np.inf or not _every_variable_possible(graph, problem.theta):
        return Answer(Status.INFEASIBLE)
    if graph.n_variables == 0:
        empty = np.empty(0, np.int64)
        answer = Answer(Status.EXACT, assignment=empty, lower_bound=0.0, upper_bound=0.0)
        if problem.task == "marginals":
            answer.mu, answer.log_partition, answer.log_partition_is = np.empty(0), 0.0, "exact"
        answer.samples = np.empty((problem.n_samples, 0), np.int64) if problem.n_samples else None
        answer.best = np.empty((1, 0), np.int64) if problem.n_best else None
        return answer
    return method.run(problem)


def _every_variable_possible(graph: FactorGraph, theta: FloatArray) -> bool:
    split = int(graph.variable_ptr[-1])
    if split == 0:
        return True
    return bool(np.maximum.reduceat(theta[:split], graph.variable_ptr[:-1]).min() > -np.inf)


def _present(
    answer: Answer,
    method: InferenceMethod,
    task: str,
    reduction: Reduction,
    theta: FloatArray,
    constant: float,
    scale: float,
    clock: Clock,
    rerun_unshared: Callable[[], InferenceResult],
) -> InferenceResult:
    """Put an answer into the layout of the graph that the user gave."""
    graph = reduction.original
    fields: dict[str, Any] = {
        "graph": graph,
        "method": method,
        "task": task,
        "status": answer.status,
        "n_iter": answer.n_iter,
        "residual": answer.residual,
        "history": {key: frozen(values) for key, values in answer.history.items()},
        "note": answer.note,
        "r_hat": answer.r_hat,
        "messages": None if answer.messages is None else frozen(answer.messages),
    }
    if answer.status is Status.INFEASIBLE:
        fields |= {"lower_bound": -np.inf, "upper_bound": -np.inf}
        if task == "marginals":
            fields |= {"log_partition": -np.inf, "log_partition_is": "exact"}
        return InferenceResult(**fields, seconds=clock.seconds)
    if "log_partition" in answer.history:
        fields["history"] = answer.history | {"log_partition": scale * answer.history["log_partition"] + constant}
    assignment = answer.assignment
    if assignment is None and answer.mu is not None:
        assignment = _most_probable_states(reduction.graph, answer.mu)
    if assignment is not None:
        fields["assignment"] = frozen(reduction.raise_labelling(assignment))
        fields["score"] = graph.score(theta, fields["assignment"])
    fields["lower_bound"] = scale * answer.lower_bound + constant
    fields["upper_bound"] = scale * answer.upper_bound + constant
    if task == "map":
        fields["lower_bound"] = max(fields["lower_bound"], fields.get("score", -np.inf))
        if assignment is not None:
            fields["mu"] = frozen(graph.statistics(fields["assignment"]))
        if scale != 1.0 or answer.log_partition is not None:  # decoded from marginals: log Z bounds say nothing here
            fields["lower_bound"], fields["upper_bound"] = fields.get("score", -np.inf), np.inf
    else:
        if answer.mu is not None:
            fields["mu"] = frozen(reduction.raise_mu(answer.mu))
        elif assignment is not None:  # temperature 0: the objective is the best score
            fields["mu"] = frozen(graph.statistics(fields["assignment"]))
            answer.log_partition = (fields["score"] - constant) / scale
            answer.log_partition_is = "exact" if answer.status is Status.EXACT else "lower bound"
        if answer.log_partition is not None:
            fields["log_partition"] = scale * answer.log_partition + constant
            fields["log_partition_is"] = answer.log_partition_is
    if answer.samples is not None:
        fields["samples"] = frozen(reduction.raise_labelling(answer.samples))
    if answer.best is not None:
        fields["best"] = frozen(reduction.raise_labelling(answer.best))
        fields["best_scores"] = frozen(np.asarray(graph.score(theta, fields["best"])))
    if answer.mu_error is not None:
        fields["mu_error"] = frozen(_raise_error(reduction, answer.mu_error))
    fields["_factor_marginals"] = _SingleFactors(rerun_unshared)
    return InferenceResult(**fields, seconds=clock.seconds)


def _raise_error(reduction: Reduction, error: FloatArray) -> FloatArray:
    """Standard errors in the original layout; those of several sources add up, which is the worst case."""
    if reduction.is_identity:
        return error
    parts = np.abs(error[reduction.rows] * reduction.coef)
    return np.bincount(reduction.columns, parts, reduction.original.n_theta).astype(np.float64, copy=False)


class _SingleFactors:
    """Marginals of single factors when tables are shared: one more run, with a table for each factor."""

    def __init__(self, rerun: Callable[[], InferenceResult]) -> None:
        self._rerun = rerun
        self._result: InferenceResult | None = None

    def __call__(self, factor: int) -> FloatArray:
        if self._result is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                self._result = self._rerun()
        return self._result.factor_marginals(factor)


def _unshared(graph: FactorGraph, theta: FloatArray) -> tuple[FactorGraph, FloatArray]:
    """The same model with a full table for each factor."""
    alone = FactorGraph(
        graph.n_states, graph.scope_ptr, graph.scope_idx, names=graph.names, grid_shape=graph.grid_shape
    )
    tables = [graph.factor_table(theta, c).reshape(-1) for c in range(graph.n_factors)]
    return alone, np.concatenate([theta[: graph.variable_ptr[-1]], *tables])


def _most_probable_states(graph: FactorGraph, mu: FloatArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """First state of highest marginal, for each variable."""
    if graph.n_variables and (graph.n_states == graph.n_states[0]).all():
        block = mu[: graph.variable_ptr[-1]].reshape(graph.n_variables, -1)
        return block.argmax(axis=1).astype(np.int64)
    return np.array([int(graph.variable(mu, v).argmax()) for v in range(graph.n_variables)], dtype=np.int64)


def _warn_if_not_converged(result: InferenceResult) -> None:
    if result.converged or result.status is Status.INFEASIBLE:
        return
    settings = result.method.get_params()
    advice = [f"{key} (now {settings[key]})" for key in ("max_iter", "damping") if key in settings]
    remedy = f" Consider changing {' or '.join(advice)}." if advice else ""
    tol = f" against tol={settings['tol']:g}" if "tol" in settings else ""
    warnings.warn(
        f"{type(result.method).__name__} {result.status.message} after {result.n_iter} sweeps: residual "
        f"{result.residual:.2e}{tol}.{remedy}",
        ConvergenceWarning,
        stacklevel=3,
    )
