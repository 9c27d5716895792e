"""Log-partition functions and best labellings of a model, and of the model with labels fixed (clamped)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, as_float_array
from intarsia.exceptions import NotSupportedError
from intarsia.graph import FactorGraph, Reduction, reduce_graph
from intarsia.inference import InferenceMethod, infer, method_class, method_names
from intarsia.inference.messages.tree_reweighted import TreeReweighted, carry_over
from intarsia.inference.registry import METHODS
from intarsia.losses.labels import TrainingLabels

T = TypeVar("T")

MAX_BYTES = 2**30
"""Maximum memory of each `LabelCache`; results that do not fit are computed again at each call."""


class LabelCache(Generic[T]):
    """Cache of results by training labels, since learning uses the same labels and graphs at every step.

    Inference methods cache their preparations by graph, so that keeping a graph saves more than its construction. A
    full cache stays so until labels are deleted: with examples in turn, evicting the oldest entry would leave no useful
    one. Threads may share a cache: if two request the same entry at once, both may compute it, and one result is
    stored.
    """

    def __init__(self) -> None:
        self._entries: WeakKeyDictionary[TrainingLabels, tuple[FactorGraph, bytes, T, int]] = WeakKeyDictionary()
        self._lock = Lock()

    def get(
        self, labels: TrainingLabels, graph: FactorGraph, key: bytes, make: Callable[[], T], size: Callable[[T], int]
    ) -> T:
        """Return the result of `make` for these labels, this graph and this key; `size` returns its bytes.

        The result must not refer to the labels, or they would never be deleted.
        """
        with self._lock:
            entry = self._entries.get(labels)
        if entry is not None and entry[0] is graph and entry[1] == key:
            return entry[2]
        result = make()
        n_bytes = size(result)
        with self._lock:
            self._entries.pop(labels, None)
            if n_bytes + self._total() <= MAX_BYTES:
                self._entries[labels] = graph, key, result, n_bytes
        return result

    @property
    def n_bytes(self) -> int:
        """Memory in use, in bytes."""
        with self._lock:
            return self._total()

    def _total(self) -> int:
        """Return the memory in use, in bytes; the lock must be held."""
        return sum(entry[3] for entry in list(self._entries.values()))

    def __contains__(self, labels: TrainingLabels) -> bool:
        return labels in self._entries

    def __len__(self) -> int:
        return len(self._entries)


# Graphs without the observed variables.
_REDUCTIONS: LabelCache[Reduction] = LabelCache()


def choose_method(name: str, task: str, *choices: str | InferenceMethod | None) -> InferenceMethod:
    """Return the first method that is not None; raise if it cannot do the task ("marginals" with log Z, or "map")."""
    method = METHODS.resolve(next(choice for choice in choices if choice is not None), {})
    if not gives(type(method), task):
        usable = [method_name for method_name in method_names() if gives(method_class(method_name), task)]
        quantity = "log Z and its marginals" if task == "marginals" else "the best labelling"
        raise NotSupportedError(
            f"{name} needs {quantity}, which {type(method).__name__} does not compute. Use one of: {', '.join(usable)}."
        )
    return method


def gives(method: type[InferenceMethod], task: str) -> bool:
    """Return whether a method can do the task: log Z with marginals, or the best labelling."""
    return method.gives_map if task == "map" else method.gives_marginals and method.log_partition_is is not None


def solve(
    graph: FactorGraph, theta: FloatArray, method: InferenceMethod, task: str, rng: np.random.Generator
) -> tuple[float, FloatArray] | None:
    """Return log Z with marginals, or the best score with its statistics; None if no labelling is possible."""
    result = infer(graph, theta, method, task, random_state=rng)
    if result.status is Status.INTERRUPTED:  # an incomplete gradient must not be used
        raise KeyboardInterrupt
    if result.status is Status.INFEASIBLE or result.mu is None:
        return None
    value = result.score if task == "map" else result.log_partition
    if value is None:
        raise NotSupportedError(f"{type(method).__name__} returned no log Z in this run. Use another inference method.")
    return float(value), result.mu


def solve_clamped(
    graph: FactorGraph,
    theta: FloatArray,
    labels: TrainingLabels,
    method: InferenceMethod,
    task: str,
    rng: np.random.Generator,
) -> tuple[float, FloatArray] | None:
    """Solve over the labellings that the labels allow; without inference if all labels are observed."""
    if labels.complete:
        return score_labels(graph, theta, labels)
    clamped = clamp(graph, theta, labels)
    if clamped is None:
        return None
    result = solve(clamped.graph, clamped.theta, clamped.method(method), task, rng)
    return None if result is None else (result[0] + clamped.constant, clamped.raise_mu(result[1]))


def score_labels(graph: FactorGraph, theta: FloatArray, labels: TrainingLabels) -> tuple[float, FloatArray] | None:
    """Return score and statistics of a complete labelling; None if it is impossible."""
    score = float(graph.score(theta, labels.y))
    return (score, graph.statistics(labels.y)) if score > -np.inf else None


@dataclass(frozen=True, eq=False)
class Clamped:
    """A model with its observed labels fixed: reduced graph of the other variables, scores and a constant."""

    reduction: Reduction
    theta: FloatArray
    constant: float

    @property
    def graph(self) -> FactorGraph:
        """Graph of the variables that are not observed."""
        return self.reduction.graph

    def raise_mu(self, mu: FloatArray) -> FloatArray:
        """Return the marginals of the whole model from those of the reduced graph."""
        return self.reduction.raise_mu(mu)

    def method(self, inference: InferenceMethod) -> InferenceMethod:
        """Return the inference for the reduced graph, with factor weights rho restricted to its factors."""
        if not isinstance(inference, TreeReweighted) or np.ndim(inference.rho) == 0:
            return inference
        full_rho = as_float_array(inference.rho, "TreeReweighted: rho")
        rho = carry_over(full_rho, self.reduction.factor_of, self.graph.n_factors)
        return TreeReweighted(**inference.get_params() | {"rho": rho})


def clamp(graph: FactorGraph, theta: FloatArray, labels: TrainingLabels) -> Clamped | None:
    """Fix the observed variables and forbid states outside label sets; None if no labelling is possible."""
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
    """Return the reduction of the graph to the variables that are not observed."""
    return reduce_graph(graph, {int(v): int(labels.y[v]) for v in np.flatnonzero(labels.observed)})


def _bytes_of(reduction: Reduction) -> int:
    """Return the memory of a reduction, in bytes."""
    if reduction.is_identity:
        return 0
    arrays = (
        reduction.rows,
        reduction.columns,
        reduction.coef,
        reduction.fixed,
        reduction.free_variables,
        reduction.states,
    )
    return sum(array.nbytes for array in arrays) + graph_bytes(reduction.graph)


def graph_bytes(graph: FactorGraph) -> int:
    """Return the memory of the arrays of a graph, in bytes."""
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
    """Return A(theta) - A(theta, labels) and its gradient mu_free - mu_clamped (Domke2013 Eq. 19-21, sign changed).

    None if the labels are impossible.
    """
    clamped_result = solve_clamped(graph, theta, labels, clamped, task, rng)
    free_result = solve(graph, theta, free, task, rng) if clamped_result is not None else None
    if clamped_result is None or free_result is None:
        return None
    return free_result[0] - clamped_result[0], free_result[1] - clamped_result[1]
