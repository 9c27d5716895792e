"""The marginal oracle of the Bethe projections: exact inference in the tilted model, in the user's layout."""

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

# With "auto", loopy graphs whose tables need more are left to tree-reweighted messages.
_MEMORY = 2.5e8


@dataclass(frozen=True, eq=False)
class Point:
    """A distribution of the family: the tilted model and its marginals.

    Attributes
    ----------
    tilt : float array
        What was taken from theta, in the user's layout; of the rest, if it is shorter than that, nothing was.
    mu, reduced : float arrays
        Marginals in the user's layout and in that of the reduced graph.
    value : float
        `<theta - tilt, mu> + T H(mu)` less the score of what is decided: log Z of the tilted model, times T.
    """

    tilt: FloatArray
    mu: FloatArray
    reduced: FloatArray
    value: float

    def divergence(self, origin: Point) -> float:
        """T times the divergence of this distribution from another, from the two log Z alone."""
        # -H is the conjugate of log Z, so its Bregman divergence needs no entropy formula.
        return origin.value - self.value + float((origin.tilt - self.tilt) @ self.mu[: self.tilt.size])


class MarginalOracle:
    """Calls an inference method on the tilted model; tilts are in the user's layout and units.

    A tilt may end where the energy has read enough: most energies look at single variables only, whose block comes
    first and is far smaller than that of the tables.
    """

    def __init__(self, problem: Problem, method: InferenceMethod) -> None:
        self.problem = problem
        self.method = method
        self.reduction: Reduction = problem.reduction or reduce_graph(problem.original)
        # "map" asks for the best labelling of the tilted model, which is found at temperature 1.
        self.temperature = problem.temperature if problem.task == "marginals" else 1.0
        self.n_calls = 0
        self.messages = problem.start_messages
        self.converged = True
        self.bounds_log_partition = True
        self._theta = problem.theta.copy()  # of the tilted model
        self._n_tilted = 0
        self._tilted_problem = replace(problem, theta=read_only(self._theta), report=None)
        self._repeated = Repeated()
        self._for_marginals = replace(
            self._tilted_problem, task="marginals", n_samples=0, n_best=0, repeated=self._repeated
        )

    def __call__(self, tilt: FloatArray) -> Point | None:
        """Marginals of theta - tilt; None when nothing is possible."""
        self._take(tilt)
        self._for_marginals.start_messages = self.messages
        answer = self.method.run(self._for_marginals)
        self.n_calls += 1
        self.messages = answer.messages
        self.converged = answer.status in (Status.EXACT, Status.CONVERGED)
        self.bounds_log_partition = answer.log_partition_is in ("exact", "upper bound")
        if answer.mu is None or answer.log_partition is None:
            return None
        decided = 0.0 if self.reduction.is_identity else float(self.reduction.fixed @ self.whole(tilt))
        value = self.temperature * answer.log_partition - decided
        return Point(tilt, self.reduction.raise_mu(answer.mu), answer.mu, value)

    def ask(self, tilt: FloatArray) -> Answer:
        """Everything that the problem asks for, of the tilted model."""
        self._take(tilt)
        self._repeated.state = None  # this run is not one of the others, whose count of changes it upsets
        self._tilted_problem.start_messages = self.messages
        return self.method.run(self._tilted_problem)

    def whole(self, tilt: FloatArray) -> FloatArray:
        """A tilt of all scores."""
        missing = self.problem.original.n_theta - tilt.size
        return tilt if not missing else np.concatenate([tilt, np.zeros(missing)])

    def _take(self, tilt: FloatArray) -> None:
        """Make the scores those of the tilted model."""
        problem, theta = self.problem, self._theta
        taken = tilt if self.reduction.is_identity else self.reduction.lower(self.whole(tilt))
        self._repeated.changed = max(taken.size, self._n_tilted)
        theta[taken.size : self._n_tilted] = problem.theta[taken.size : self._n_tilted]
        if self.temperature != 1.0:
            taken = taken / self.temperature
        np.subtract(problem.theta[: taken.size], taken, out=theta[: taken.size])
        self._n_tilted = taken.size


def resolve_oracle(oracle: str | InferenceMethod, problem: Problem) -> InferenceMethod:
    """Method that answers for the tilted models: exact, or tree-reweighted, whose objective is convex as well."""
    if oracle == "auto":
        chosen = _automatic(problem.graph)
    else:
        chosen = METHODS.resolve(oracle)
        if not (chosen.exact or isinstance(chosen, TreeReweighted)):
            raise InvalidInputError(
                f"oracle={type(chosen).__name__} is neither exact nor convex. Use 'tree', 'junction_tree', "
                f"'brute_force' or 'tree_reweighted', or leave the choice to 'auto'."
            )
        chosen.check_settings()
    for wanted, ability, words in (
        (problem.n_samples, "gives_samples", "n_samples"),
        (problem.n_best, "gives_best", "n_best"),
    ):
        if wanted and not getattr(chosen, ability):
            raise NotSupportedError(
                f"{words} needs an exact oracle, but this graph is left to {type(chosen).__name__}. "
                f"Use oracle='junction_tree' with enough max_memory."
            )
    return chosen


def _automatic(graph: FactorGraph) -> InferenceMethod:
    if graph.is_forest:
        return Tree()
    return _narrow_tree() if _is_narrow(graph) else TreeReweighted(tol=1e-10, max_iter=5000)


def _narrow_tree() -> JunctionTree:
    return JunctionTree(n_restarts=0, max_memory=_MEMORY)


@OncePerGraph
def _is_narrow(graph: FactorGraph) -> bool:
    try:
        _narrow_tree().prepare(graph)
    except TooLargeError:
        return False
    return True
