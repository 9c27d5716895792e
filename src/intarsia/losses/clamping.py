"""Log-partitions and best labellings of a model as it is, and of one whose labels are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia._validation import FloatArray, as_float_array
from intarsia.exceptions import NotSupportedError
from intarsia.graph import FactorGraph, Reduction, reduce_graph
from intarsia.inference import InferenceMethod, infer, method_class, method_names
from intarsia.inference.registry import resolve_method
from intarsia.inference.result import Status
from intarsia.inference.tree_reweighted import TreeReweighted, carry_over
from intarsia.losses.kept import Kept
from intarsia.losses.labels import TrainingLabels

# What stays of a graph when the observed variables are fixed.
_REDUCTIONS: Kept[Reduction] = Kept()


def choose_method(where: str, task: str, *choices: str | InferenceMethod | None) -> InferenceMethod:
    """The first method that is given, if it can do the task ("marginals" with log Z, or "map")."""
    method = resolve_method(next(choice for choice in choices if choice is not None), {})
    if not gives(type(method), task):
        able = [name for name in method_names() if gives(method_class(name), task)]
        wanted = "log Z and its marginals" if task == "marginals" else "the best labelling"
        raise NotSupportedError(
            f"{where} needs {wanted}, which {type(method).__name__} does not give. These do: {', '.join(able)}."
        )
    return method


def gives(method: type[InferenceMethod], task: str) -> bool:
    """Whether a method does the task: log Z with marginals, or the best labelling."""
    return method.gives_map if task == "map" else method.gives_marginals and method.log_partition_is is not None


def solve(
    graph: FactorGraph, theta: FloatArray, method: InferenceMethod, task: str, rng: np.random.Generator
) -> tuple[float, FloatArray] | None:
    """Log Z with marginals, or the best score with its statistics; None when no labelling is possible."""
    result = infer(graph, theta, method, task, random_state=rng)
    if result.status is Status.INTERRUPTED:  # half a gradient must not look like one; the learner keeps its weights
        raise KeyboardInterrupt
    if result.status is Status.INFEASIBLE or result.mu is None:
        return None
    value = result.score if task == "map" else result.log_partition
    if value is None:
        raise NotSupportedError(f"{type(method).__name__} gave no log Z in this run. Use another inference method.")
    return float(value), result.mu


def solve_clamped(
    graph: FactorGraph,
    theta: FloatArray,
    labels: TrainingLabels,
    method: InferenceMethod,
    task: str,
    rng: np.random.Generator,
) -> tuple[float, FloatArray] | None:
    """The same over the labellings that the labels allow; without inference when all are observed."""
    if labels.complete:
        return score_labels(graph, theta, labels)
    clamped = clamp(graph, theta, labels)
    if clamped is None:
        return None
    found = solve(clamped.graph, clamped.theta, clamped.method(method), task, rng)
    return None if found is None else (found[0] + clamped.constant, clamped.raise_mu(found[1]))


def score_labels(graph: FactorGraph, theta: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray] | None:
    """Score and statistics of a complete labelling; None when it is impossible."""
    score = float(graph.score(theta, labels.y))
    return (score, graph.statistics(labels.y)) if score > -np.inf else None


@dataclass(frozen=True, eq=False)
class Clamped:
    """What is left of a model when the labels are given: a reduced graph of the others, its scores and a constant."""

    reduction: Reduction
    theta: FloatArray
    constant: float

    @property
    def graph(self) -> FactorGraph:
        """The variables that are not observed."""
        return self.reduction.graph

    def raise_mu(self, mu: FloatArray) -> FloatArray:
        """Marginals of the whole model."""
        return self.reduction.raise_mu(mu)

    def method(self, inference: InferenceMethod) -> InferenceMethod:
        """The same inference for what is left: weights that were given for the factors of the whole go along."""
        if not isinstance(inference, TreeReweighted) or np.ndim(inference.rho) == 0:
            return inference
        given = as_float_array(inference.rho, "TreeReweighted: rho")
        rho = carry_over(given, self.reduction.factor_of, self.graph.n_factors)
        return TreeReweighted(**inference.get_params() | {"rho": rho})


def clamp(graph: FactorGraph, theta: FloatArray, labels: TrainingLabels) -> Clamped | None:
    """Fix the observed variables and forbid what label sets do not allow; None when nothing is possible any more."""
    reduction = _REDUCTIONS.get(labels, graph, b"", lambda: _without_observed(graph, labels), _bytes_of)
    constant = reduction.constant(theta)
    if constant == -np.inf:
        return None
    forbidden = ~labels.allowed[np.repeat(~labels.observed, graph.n_states)]
    scores = reduction.lower(theta)
    if forbidden.any():  # label sets
        scores = scores.copy()
        scores[: forbidden.size][forbidden] = -np.inf
    return Clamped(reduction, scores, constant)


def _without_observed(graph: FactorGraph, labels: TrainingLabels) -> Reduction:
    return reduce_graph(graph, {int(v): int(labels.y[v]) for v in np.flatnonzero(labels.observed)})


def _bytes_of(reduction: Reduction) -> int:
    if reduction.is_identity:
        return 0
    own = (reduction.rows, reduction.columns, reduction.coef, reduction.fixed, reduction.kept, reduction.states)
    return sum(array.nbytes for array in own) + graph_bytes(reduction.graph)


def graph_bytes(graph: FactorGraph) -> int:
    """Memory of a graph's arrays."""
    return sum(array.nbytes for array in vars(graph).values() if isinstance(array, np.ndarray))


def free_minus_clamped(
    graph: FactorGraph,
    theta: FloatArray,
    labels: TrainingLabels,
    free: InferenceMethod,
    clamped: InferenceMethod,
    task: str,
    rng: np.random.Generator,
) -> tuple[float, FloatArray] | None:
    """A(theta) - A(theta, labels) and its gradient mu_free - mu_clamped (Domke2013 Eq. 19-21 with the sign changed).

    None when the labels are impossible.
    """
    below = solve_clamped(graph, theta, labels, clamped, task, rng)
    above = solve(graph, theta, free, task, rng) if below is not None else None
    if below is None or above is None:
        return None
    return above[0] - below[0], above[1] - below[1]
