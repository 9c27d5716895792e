"""Log-partitions and best labellings of a model as it is, and of one whose labels are given."""

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
"""Of each `Kept`; what does not fit is worked out anew at each call."""


class Kept(Generic[T]):
    """Results by labels. Learning asks for the same labels at every step, and for the same graph made from them.

    Methods of inference remember their preparations by graph, so keeping it saves more than its construction. What
    is full stays so until labels go: with examples in turn, throwing out the oldest would keep nothing of use. Threads
    may share one: two that ask for the same at the same time may both work it out, and one of the two is kept.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[TrainingLabels, tuple[FactorGraph, bytes, T, int]] = WeakKeyDictionary()
        self._lock = Lock()

    def get(
        self, labels: TrainingLabels, graph: FactorGraph, key: bytes, make: Callable[[], T], size: Callable[[T], int]
    ) -> T:
        """What `make` gives for these labels, this graph and this key; `size` is in bytes.

        It must not refer to the labels themselves, or they would never go.
        """
        with self._lock:
            known = self._kept.get(labels)
        if known is not None and known[0] is graph and known[1] == key:
            return known[2]
        made = make()
        n_bytes = size(made)
        with self._lock:
            self._kept.pop(labels, None)
            if n_bytes + self._total() <= MAX_BYTES:
                self._kept[labels] = graph, key, made, n_bytes
        return made

    @property
    def n_bytes(self) -> int:
        """Memory in use."""
        with self._lock:
            return self._total()

    def _total(self) -> int:
        return sum(entry[3] for entry in list(self._kept.values()))

    def __contains__(self, labels: TrainingLabels) -> bool:
        return labels in self._kept

    def __len__(self) -> int:
        return len(self._kept)


# What stays of a graph when the observed variables are fixed.
_REDUCTIONS: Kept[Reduction] = Kept()


def choose_method(place: str, task: str, *choices: str | InferenceMethod | None) -> InferenceMethod:
    """The first method that is given, if it can do the task ("marginals" with log Z, or "map")."""
    method = METHODS.resolve(next(choice for choice in choices if choice is not None), {})
    if not gives(type(method), task):
        able = [name for name in method_names() if gives(method_class(name), task)]
        wanted = "log Z and its marginals" if task == "marginals" else "the best labelling"
        raise NotSupportedError(
            f"{place} needs {wanted}, which {type(method).__name__} does not give. These do: {', '.join(able)}."
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
