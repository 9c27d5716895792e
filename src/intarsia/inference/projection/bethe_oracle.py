"""Marginal oracle of the Bethe projections: exact or convex inference in the tilted model, in the user's layout."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, read_only
from intarsia.exceptions import InvalidInputError, NotSupportedError, TooLargeError
from intarsia.graph import FactorGraph, Reduction, reduce_graph
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.inference.exact.junction_tree import JunctionTree
from intarsia.inference.exact.tree import Tree
from intarsia.inference.messages.tree_reweighted import TreeReweighted
from intarsia.inference.method import Answer, InferenceMethod, Problem, Repeated
from intarsia.inference.registry import METHODS

# With "auto", loopy graphs whose junction tree needs more bytes are solved by tree-reweighted message passing.
_MEMORY = 2.5e8


@dataclass(frozen=True, eq=False)
class Point:
    """Distribution of a tilted model: its tilt, marginals and log Z.

    Attributes
    ----------
    tilt : float array
        Vector that is subtracted from theta, in the user's layout; if it is shorter, the missing entries are 0.
    mu, reduced_mu : float arrays
        Marginals in the layouts of the user's graph and of the reduced graph.
    value : float
        T times log Z of the tilted model, `<theta - tilt, mu> + T H(mu)`, without the score of fixed states in theta.
    """

    tilt: FloatArray
    mu: FloatArray
    reduced_mu: FloatArray
    value: float

    def divergence(self, origin: Point) -> float:
        """Return T times the KL divergence of this distribution from another."""
        # -H is the conjugate of log Z, so its Bregman divergence follows from the two log Z.
        return origin.value - self.value + float((origin.tilt - self.tilt) @ self.mu[: self.tilt.size])


class MarginalOracle:
    """Inference method that is called on tilted models; tilts are in the user's layout and units.

    A tilt may be shorter than theta: most energies depend on single variables only, whose block comes first and is far
    smaller than the block of the tables.
    """

    def __init__(self, problem: Problem, method: InferenceMethod) -> None:
        self.problem = problem
        self.method = method
        self.reduction: Reduction = problem.reduction or reduce_graph(problem.original)
        # For "map", the tilted model is computed at temperature 1 and then maximised.
        self.temperature = problem.temperature if problem.task == "marginals" else 1.0
        self.n_calls = 0
        self.messages = problem.start_messages
        self.converged = True
        self.bounds_log_partition = True
        self._theta = problem.theta.copy()  # scores of the tilted model
        self._n_tilted = 0
        self._tilted_problem = replace(problem, theta=read_only(self._theta), report=None)
        self._repeated = Repeated()
        self._for_marginals = replace(
            self._tilted_problem, task="marginals", n_samples=0, n_best=0, repeated=self._repeated
        )

    def __call__(self, tilt: FloatArray) -> Point | None:
        """Return the distribution with scores theta - tilt; None if the model is infeasible."""
        self._set_tilt(tilt)
        self._for_marginals.start_messages = self.messages
        answer = self.method.run(self._for_marginals)
        self.n_calls += 1
        self.messages = answer.messages
        self.converged = answer.status in (Status.EXACT, Status.CONVERGED)
        self.bounds_log_partition = answer.log_partition_is in ("exact", "upper bound")
        if answer.mu is None or answer.log_partition is None:
            return None
        fixed_score = 0.0 if self.reduction.is_identity else float(self.reduction.fixed @ self.extend(tilt))
        value = self.temperature * answer.log_partition - fixed_score
        return Point(tilt, self.reduction.raise_mu(answer.mu), answer.mu, value)

    def solve(self, tilt: FloatArray) -> Answer:
        """Solve the problem, with its samples and best labellings, for the tilted model."""
        self._set_tilt(tilt)
        self._repeated.state = None  # this run is not part of the series for which changes are counted
        self._tilted_problem.start_messages = self.messages
        return self.method.run(self._tilted_problem)

    def extend(self, tilt: FloatArray) -> FloatArray:
        """Return the tilt extended by zeros to the length of theta."""
        missing = self.problem.original.n_theta - tilt.size
        return tilt if not missing else np.concatenate([tilt, np.zeros(missing)])

    def _set_tilt(self, tilt: FloatArray) -> None:
        """Set the scores to those of the tilted model."""
        problem, theta = self.problem, self._theta
        reduced_tilt = tilt if self.reduction.is_identity else self.reduction.lower(self.extend(tilt))
        self._repeated.changed = max(reduced_tilt.size, self._n_tilted)
        theta[reduced_tilt.size : self._n_tilted] = problem.theta[reduced_tilt.size : self._n_tilted]
        if self.temperature != 1.0:
            reduced_tilt = reduced_tilt / self.temperature
        np.subtract(problem.theta[: reduced_tilt.size], reduced_tilt, out=theta[: reduced_tilt.size])
        self._n_tilted = reduced_tilt.size


def resolve_oracle(oracle: str | InferenceMethod, problem: Problem) -> InferenceMethod:
    """Return the method for tilted models, or raise if it has no samples or best labellings that are requested."""
    method = oracle_of(oracle, problem.graph)
    for n_requested, ability, argument in (
        (problem.n_samples, "gives_samples", "n_samples"),
        (problem.n_best, "gives_best", "n_best"),
    ):
        if n_requested and not getattr(method, ability):
            raise NotSupportedError(
                f"{argument} needs an exact oracle, but the oracle for this graph is {type(method).__name__}. "
                f"Use oracle='junction_tree' with enough max_memory."
            )
    return method


def oracle_of(oracle: str | InferenceMethod, graph: FactorGraph) -> InferenceMethod:
    """Return the method for tilted models: an exact one, or tree-reweighted, whose objective is convex as well."""
    if oracle == "auto":
        return _automatic(graph)
    method = METHODS.resolve(oracle)
    if not (method.exact or isinstance(method, TreeReweighted)):
        raise InvalidInputError(
            f"oracle={type(method).__name__} is neither exact nor convex. Use 'tree', 'junction_tree', "
            f"'brute_force', 'tree_reweighted' or 'auto'."
        )
    method.check_settings()
    return method


def _automatic(graph: FactorGraph) -> InferenceMethod:
    """Return the oracle that oracle="auto" selects for a graph."""
    if graph.is_forest:
        return Tree()
    return _narrow_tree() if _is_narrow(graph) else TreeReweighted(tol=1e-10, max_iter=5000)


def _narrow_tree() -> JunctionTree:
    """Return the junction tree method for graphs that are narrow enough."""
    return JunctionTree(n_restarts=0, max_memory=_MEMORY)


@OncePerGraph
def _is_narrow(graph: FactorGraph) -> bool:
    """Return whether a junction tree of the graph fits into the memory limit; computed once per graph."""
    try:
        _narrow_tree().prepare(graph)
    except TooLargeError:
        return False
    return True
