"""Base class of the inference methods, their input and output types, and the loop of the iterative ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from intarsia._core.clock import Clock
from intarsia._core.settings import Settings
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray, check_number
from intarsia.graph import FactorGraph, Reduction


@dataclass
class Repeated:
    """Cache for repeated runs on one graph in which only the first `changed` scores differ between runs.

    A method may store in `state` anything that it computed from the graph and the other scores.
    """

    changed: int = 0
    state: object = None


@dataclass
class Problem:
    """Input of a method: a graph in normal form, scores without NaN or +inf, the task and the options.

    In normal form (see `intarsia.graph.reduction`) every variable has at least two states, every factor joins at
    least two variables, no two factors join the same set, and every variable has a state that is not -inf.

    `original` is the user's graph; `factor_of` maps each factor of it to the factor of `graph` that absorbed it (-1:
    none). `theta` is read-only and already divided by the temperature; `task` is "map" at temperature 0. `reduction`
    converts between the layouts of `graph` and `original`. `start_mu`, `start_messages` and `start_tilt` (the tilt of
    theta by a global energy, in the layout of `original`) come from a warm start.
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
    """Output of a method in the layout of the problem's graph; `infer` converts it to an `InferenceResult`.

    Only `tilt` is in the user's layout and units: it is the amount that a global energy subtracts from theta, and
    `oracle` is the method that computes marginals of this tilted model. At temperature 0 `mu` is used only where
    `integral` is False, which a relaxation sets when its optimum is not a labelling; `factor_mu` then holds the
    beliefs of the variables, followed by a full table of beliefs for each factor, whether or not tables are shared.
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


class InferenceMethod(Settings, ABC):
    """Base class of all inference methods.

    A method is a settings object that follows scikit-learn: keyword arguments are stored unchanged and checked when
    it runs. Its class attributes declare what it can do; error messages, the table in the docs and the contract tests
    read them. Subclass it and add the class to the registry to provide a new method.

    Examples
    --------
    >>> from intarsia.inference.registry import method_class
    >>> method = method_class("junction_tree")
    >>> issubclass(method, InferenceMethod), method.exact
    (True, True)
    """

    name: ClassVar[str]
    """Name in the registry, and of the module, its test and its page in the docs."""
    summary: ClassVar[str]
    """When to choose the method, in one line."""
    exact: ClassVar[bool] = False
    gives_marginals: ClassVar[bool] = False
    gives_map: ClassVar[bool] = False
    gives_samples: ClassVar[bool] = False
    gives_best: ClassVar[bool] = False
    log_partition_is: ClassVar[str | None] = None
    """Guarantee of a converged run on log Z: "exact", "upper bound", "lower bound" or "estimate"."""
    proves_map: ClassVar[bool] = False
    """Whether a MAP run that ends without a limit has proven its labelling best; exact methods also have."""
    map_is: ClassVar[str] = "labelling"
    """Kind of solution of a finished MAP run without a proof: the "relaxed optimum" over the local polytope, a
    "loopy fixed point" of messages, or only a "labelling"."""
    state_is: ClassVar[str | None] = None
    """Kind of data in `result.messages`; a warm start passes it only to methods with the same kind."""
    differentiable: ClassVar[bool] = False
    limited_to: ClassVar[str] = ""
    """Models to which the method is limited, such as "no loops"; it raises for others. Empty: any model."""
    max_scope: ClassVar[int | None] = None
    """Largest number of variables in a factor; None for any."""
    supports_constraints: ClassVar[bool] = False
    """Whether the method handles count constraints directly; for other methods they are expanded into tables."""
    cost: ClassVar[str] = ""
    """Description of the work per sweep, or of the total work for exact methods."""

    temperature: float | None

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings; subclasses extend it."""
        if self.temperature is not None:
            check_number(self.temperature, f"{type(self).__name__}: temperature", low=0.0, high=1e300)

    def solve_without_variables(self, problem: Problem) -> Answer:
        """Return the answer of a problem in which no variable is free, so that only one assignment is possible."""
        answer = Answer(Status.EXACT, assignment=np.empty(0, np.int64), lower_bound=0.0, upper_bound=0.0)
        if problem.task == "marginals":
            answer.mu, answer.log_partition, answer.log_partition_is = np.empty(0), 0.0, "exact"
        answer.samples = np.empty((problem.n_samples, 0), np.int64) if problem.n_samples else None
        answer.best = np.empty((1, 0), np.int64) if problem.n_best else None
        return answer

    @abstractmethod
    def run(self, problem: Problem) -> Answer:
        """Solve a problem in normal form."""


@dataclass
class Iteration:
    """Status, number of sweeps and residuals of a finished loop."""

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

    A residual of NaN means that no assignment is possible; the status is then INFEASIBLE. Ctrl-C ends the loop with
    status INTERRUPTED and keeps the results of the sweeps so far.
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
