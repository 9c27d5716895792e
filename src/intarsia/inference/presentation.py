"""Conversion of a method's answer to a result in the layout and units of the user's model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, frozen
from intarsia.graph import FactorGraph, Reduction, reduce_graph
from intarsia.graph.factor_kinds import is_constraint
from intarsia.inference.method import Answer, InferenceMethod
from intarsia.inference.result import InferenceResult


def present(
    answer: Answer,
    method: InferenceMethod,
    task: str,
    reduction: Reduction,
    theta: FloatArray,
    constant: float,
    temperature: float,
    clock: Clock,
    rerun: Rerun,
) -> InferenceResult:
    """Convert an answer to a result: undo the reduction, the temperature and the constant."""
    graph = reduction.original
    solved_theta = theta if answer.tilt is None else theta - answer.tilt  # scores of the model that was solved
    fields: dict[str, Any] = {
        "graph": graph,
        "method": method,
        "task": task,
        "status": answer.status,
        "observed": {int(v): int(reduction.states[v]) for v in np.flatnonzero(reduction.states >= 0)},
        "n_iter": answer.n_iter,
        "residual": answer.residual,
        "history": _history(answer, temperature, constant),
        "note": answer.note,
        "r_hat": answer.r_hat,
        "messages": None if answer.messages is None else frozen(answer.messages),
        "tilted_theta": None if answer.tilt is None else frozen(solved_theta),
    }
    if answer.status is Status.INFEASIBLE:
        fields |= {"lower_bound": -np.inf, "upper_bound": -np.inf}
        if task == "marginals":
            fields |= {"log_partition": -np.inf, "log_partition_is": "exact"}
        return InferenceResult(**fields, seconds=clock.seconds)
    assignment = answer.assignment
    if assignment is None and answer.mu is not None:
        assignment = _most_probable_states(reduction.graph, answer.mu)
    if assignment is not None:
        fields["assignment"] = frozen(reduction.raise_labelling(assignment))
        fields["score"] = graph.score_checked(theta, fields["assignment"])
    fields |= _values(answer, reduction, task, temperature, constant, fields)
    if answer.samples is not None:
        fields["samples"] = frozen(reduction.raise_labelling(answer.samples))
    if answer.best is not None:
        fields["best"] = frozen(reduction.raise_labelling(answer.best))
        fields["best_scores"] = frozen(np.asarray(graph.score(solved_theta, fields["best"])))
    if answer.mu_error is not None:
        fields["mu_error"] = frozen(_standard_error(reduction, answer.mu_error))
    if rerun.is_needed and answer.factor_mu is not None and not is_constraint(graph.table_kind).any():
        fields["_single_factors"] = SeparateTables(graph, fields["observed"], answer.factor_mu)
    elif rerun.is_needed and temperature > 0:
        fields["_single_factors"] = (
            rerun.with_sweeps(answer.n_iter) if answer.oracle is None else rerun.of_oracle(solved_theta, answer.oracle)
        )
    return InferenceResult(**fields, seconds=clock.seconds)


def _values(
    answer: Answer, reduction: Reduction, task: str, temperature: float, constant: float, fields: dict[str, Any]
) -> dict[str, Any]:
    """Return marginals, log Z and bounds as fields of the result; at temperature 0 those of the labelling."""
    if temperature > 0:
        values: dict[str, Any] = {
            "lower_bound": temperature * answer.lower_bound + constant,
            "upper_bound": temperature * answer.upper_bound + constant,
        }
        if answer.mu is not None:
            values["mu"] = frozen(reduction.raise_mu(answer.mu))
        if answer.log_partition is not None:
            values["log_partition"] = temperature * answer.log_partition + constant
            values["log_partition_is"] = answer.log_partition_is
        return values
    score = fields.get("score", -np.inf)
    values = {"lower_bound": max(answer.lower_bound + constant, score), "upper_bound": answer.upper_bound + constant}
    if "assignment" in fields:
        fractional = answer.integral is False and answer.mu is not None
        values["integral"] = None if task == "marginals" else not fractional
        if fractional and answer.mu is not None:
            values["mu"] = frozen(reduction.raise_mu(answer.mu))
        else:
            values["mu"] = frozen(reduction.original.statistics(fields["assignment"]))
        if task == "marginals":  # without the entropy, the optimum of the objective is the best score
            values["log_partition"] = score
            values["log_partition_is"] = "exact" if answer.status is Status.EXACT else "lower bound"
    return values


def _history(answer: Answer, temperature: float, constant: float) -> dict[str, FloatArray]:
    """Return the history with log Z and bounds in the units of the user's model."""
    history = dict(answer.history)
    for key in [key for key in history if key.endswith("log_partition")]:
        history[key] = temperature * history[key] + constant
    for key in [key for key in ("lower_bound", "upper_bound") if key in history]:
        history[key] = history[key] + constant
    return {key: frozen(values) for key, values in history.items()}


def _standard_error(reduction: Reduction, error: FloatArray) -> FloatArray:
    """Return standard errors in the original layout; errors of merged sources are added, which is the worst case."""
    if reduction.is_identity:
        return error
    contributions = np.abs(error[reduction.rows] * reduction.coef)
    return np.bincount(reduction.columns, contributions, reduction.original.n_theta).astype(np.float64, copy=False)


def _most_probable_states(graph: FactorGraph, mu: FloatArray) -> IntArray:
    """Return the first state with the highest marginal, for each variable."""
    if graph.n_variables and (graph.n_states == graph.n_states[0]).all():
        block = mu[: graph.variable_ptr[-1]].reshape(graph.n_variables, -1)
        return block.argmax(axis=1).astype(np.int64)
    return np.array([int(graph.variable(mu, v).argmax()) for v in range(graph.n_variables)], dtype=np.int64)


class SeparateTables:
    """Marginals of single factors of a graph with shared tables, from the beliefs of each reduced factor."""

    def __init__(self, graph: FactorGraph, observed: Mapping[int | str, int], factor_mu: FloatArray) -> None:
        self.graph, self.observed, self.factor_mu = graph, observed, factor_mu
        self._mu: FloatArray | None = None

    def __call__(self, factor: int) -> FloatArray:
        """Return the joint marginal of one factor of the original graph."""
        separate = with_separate_tables(self.graph)
        if self._mu is None:  # a reduction depends only on the scopes, so it has the same factors
            self._mu = reduce_graph(separate, self.observed).raise_mu(self.factor_mu)
        return separate.table(self._mu, factor)


def with_separate_tables(graph: FactorGraph) -> FactorGraph:
    """Return a graph with the variables and factors of `graph` and a separate full table for each factor."""
    return FactorGraph(graph.n_states, graph.scope_ptr, graph.scope_idx, names=graph.names, grid_shape=graph.grid_shape)


class Rerun:
    """Marginals of single factors of a graph with shared tables, by running the method again with separate tables.

    The second run has the warm start, the generator state and the number of sweeps of the first run.
    """

    def __init__(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        method: InferenceMethod,
        evidence: Mapping[int | str, int] | None,
        warm_start: InferenceResult | None,
        rng: np.random.Generator,
        n_samples: int,
    ) -> None:
        self.graph, self.theta, self.method = graph, theta, method
        self.evidence, self.warm_start, self.n_samples = evidence, warm_start, n_samples
        self.is_needed = graph.shares_tables or bool(graph.table_kind.any())
        self.rng = copy.deepcopy(rng) if self.is_needed else None
        self.n_iter = 0
        self._result: InferenceResult | None = None

    def with_sweeps(self, n_iter: int) -> Rerun:
        """Store the number of sweeps and a copy of theta, since the caller may change theta later; return self."""
        self.n_iter = n_iter
        self.theta = self.theta.copy()
        return self

    def of_oracle(self, theta: FloatArray, method: InferenceMethod) -> Rerun:
        """Return the run of another method on other scores: the oracle on the tilted model, which needs one call."""
        return Rerun(self.graph, theta.copy(), method, self.evidence, None, np.random.default_rng(0), 0)

    def __call__(self, factor: int) -> FloatArray:
        """Return the joint marginal of one factor of the original graph."""
        from intarsia.inference.infer import Options, run_inference

        if self._result is None:
            graph, theta = self._with_separate_tables()
            settings: dict[str, Any] = (
                {"max_iter": self.n_iter} if self.n_iter and hasattr(self.method, "max_iter") else {}
            )
            start = None if self.warm_start is None else self._warm_start_for(graph)
            rng = copy.deepcopy(self.rng)  # two threads may ask for the first factor at once
            options = Options(self.evidence, self.n_samples, warm_start=start, random_state=rng)
            self._result = run_inference(graph, theta, self.method, options=options, settings=settings)
        return self._result.factor_marginals(factor)

    def _warm_start_for(self, graph: FactorGraph) -> InferenceResult | None:
        """Return the warm start of the first run for the graph with separate tables; messages need no conversion."""
        earlier = self.warm_start
        if earlier is None or earlier.mu is None:
            return earlier
        mu = np.zeros(graph.n_theta)
        mu[: graph.variable_ptr[-1]] = earlier.mu[: graph.variable_ptr[-1]]
        return InferenceResult(
            graph, earlier.method, earlier.task, earlier.status, observed=earlier.observed, mu=mu,
            messages=earlier.messages,
        )  # fmt: skip

    def _with_separate_tables(self) -> tuple[FactorGraph, FloatArray]:
        """Return graph and scores of the model with a separate full table for each factor."""
        graph = self.graph
        tables = [graph.factor_table(self.theta, c).reshape(-1) for c in range(graph.n_factors)]
        return with_separate_tables(graph), np.concatenate([self.theta[: graph.variable_ptr[-1]], *tables])
