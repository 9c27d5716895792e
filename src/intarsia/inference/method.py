"""The base of every inference method: settings, declared abilities, and the loop that iterative methods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.graph import FactorGraph, Reduction


@dataclass
class Repeated:
    """For runs again and again on one graph: from run to run only the first `changed` scores become others.

    A method may keep in `state` what follows from the rest.
    """

    changed: int = 0
    state: object = None


@dataclass
class Problem:
    """What a method is given: a graph in normal form, scores without NaN or +inf, and what is wanted.

    In normal form (see `intarsia.graph.reduction`) every variable has at least two states, every factor joins at
    least two variables, no two factors join the same set, and every variable has a state that is not -inf.

    `original` is the user's graph; `factor_of` says which factor of `graph` each of its factors went into (-1: none).
    `theta` is read-only and divided by the temperature already; `task` is "map" at temperature 0. `reduction` leads
    back to the user's layout, for what is defined there; `start_tilt` is in that layout.
    """

    graph: FactorGraph
    original: FactorGraph
    factor_of: IntArray
    theta: FloatArray
    task: str
    rng: np.random.Generator
    clock: Clock = field(default_factory=Clock)
    n_samples: int = 0
    n_best: int = 0
    start_mu: FloatArray | None = None
    start_messages: FloatArray | None = None
    report: Callable[[int, float], None] | None = None
    reduction: Reduction | None = None
    temperature: float = 1.0
    start_tilt: FloatArray | None = None
    repeated: Repeated | None = None


@dataclass
class Answer:
    """What a method gives back, in the layout of the problem's graph; `infer` turns it into a result.

    `tilt` is the exception, in the user's layout and units: what a global energy took from theta; `oracle` is the
    method that answers for the tilted model. At temperature 0 `mu` is read only where `integral` is False, which a
    relaxation sets when its optimum is not a labelling; `factor_mu` then holds the variables' beliefs followed by
    those of each factor in full, shared table or not.
    """

    status: Status
    mu: FloatArray | None = None
    assignment: IntArray | None = None
    log_partition: float | None = None
    log_partition_is: str | None = None
    lower_bound: float = -np.inf
    upper_bound: float = np.inf
    residual: float = 0.0
    n_iter: int = 0
    history: dict[str, FloatArray] = field(default_factory=dict)
    samples: IntArray | None = None
    best: IntArray | None = None
    mu_error: FloatArray | None = None
    r_hat: float | None = None
    messages: FloatArray | None = None
    note: str = ""
    tilt: FloatArray | None = None
    oracle: InferenceMethod | None = None
    integral: bool | None = None
    factor_mu: FloatArray | None = None


class InferenceMethod(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all inference methods.

    A method is a settings object (scikit-learn conventions: keyword arguments stored as given, checked at use). Its
    class attributes say what it can do; error messages, the docs' table and the contract tests read them.

    Examples
    --------
    >>> from intarsia.inference.registry import method_class
    >>> method = method_class("junction_tree")
    >>> issubclass(method, InferenceMethod), method.exact
    (True, True)
    """

    name: ClassVar[str]
    """Name in the registry, also that of the file, the test and the page."""
    summary: ClassVar[str]
    """When to choose it, in one line."""
    exact: ClassVar[bool] = False
    gives_marginals: ClassVar[bool] = False
    gives_map: ClassVar[bool] = False
    gives_samples: ClassVar[bool] = False
    gives_best: ClassVar[bool] = False
    log_partition_is: ClassVar[str | None] = None
    """What a converged run guarantees of log Z."""
    proves_map: ClassVar[bool] = False
    """Whether a run for "map" that ends by itself has the best labelling, proven; exact methods do so too."""
    map_is: ClassVar[str] = "labelling"
    """What a finished run for "map" has found where nothing is proven: the "relaxed optimum" over the local polytope, a
    "loopy fixed point" of messages, or just a "labelling"."""
    state_is: ClassVar[str | None] = None
    """What `result.messages` holds; a warm start hands it on only to methods of the same word."""
    differentiable: ClassVar[bool] = False
    only_for: ClassVar[str] = ""
    """Kind of model outside which it refuses, such as "no loops"."""
    max_scope: ClassVar[int | None] = None
    """Largest factor it takes; None for any."""
    takes_constraints: ClassVar[bool] = False
    """Whether constraints on counts stay as they are; other methods are given tables, where these are small."""
    cost: ClassVar[str] = ""
    """Work per sweep, or in all for exact methods, in words."""

    temperature: float | None

    def check_settings(self) -> None:
        """Raise InvalidInputError for settings that cannot be meant; extended by subclasses."""
        if self.temperature is not None:
            check_number(self.temperature, f"{type(self).__name__}: temperature", low=0.0, high=1e300)

    def decided(self, problem: Problem) -> Answer:
        """Answer when no variable is free: the score of what is known is all there is."""
        answer = Answer(Status.EXACT, assignment=np.empty(0, np.int64), lower_bound=0.0, upper_bound=0.0)
        if problem.task == "marginals":
            answer.mu, answer.log_partition, answer.log_partition_is = np.empty(0), 0.0, "exact"
        answer.samples = np.empty((problem.n_samples, 0), np.int64) if problem.n_samples else None
        answer.best = np.empty((1, 0), np.int64) if problem.n_best else None
        return answer

    @abstractmethod
    def run(self, problem: Problem) -> Answer:
        """Solve one problem in normal form."""


@dataclass
class Iteration:
    """How a loop went."""

    status: Status
    n_iter: int
    residual: float
    residuals: FloatArray


def iterate(
    sweep: Callable[[], float],
    max_iter: int,
    tol: float,
    clock: Clock,
    report: Callable[[int, float], None] | None = None,
) -> Iteration:
    """Call `sweep` until the residual it returns is at most `tol`.

    A residual of NaN is the sweep's way to say that no assignment is left: the status is then INFEASIBLE. Ctrl-C
    ends the loop after the current sweep, with status INTERRUPTED and everything reached so far.
    """
    residuals: list[float] = []
    status = Status.MAX_ITER
    try:
        for k in range(int(max_iter)):
            residual = sweep()
            if np.isnan(residual):
                status = Status.INFEASIBLE
                break
            residuals.append(residual)
            if report is not None:
                report(k + 1, residual)
            if residual <= tol:
                status = Status.CONVERGED
                break
            if clock.expired:
                status = Status.TIME_LIMIT
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    last = residuals[-1] if residuals else np.inf
    return Iteration(status, len(residuals), last, np.array(residuals))
