"""Base class of the Bethe projections: marginal inference with a global energy, by calls of a marginal oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.settings import clone
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, check_number, read_only
from intarsia._kernels.chain_vectors import compare_parts
from intarsia.energies import Energy
from intarsia.energies.binding.bound_energy import BoundEnergy
from intarsia.exceptions import InvalidInputError, NotSupportedError, TimeLimitError
from intarsia.graph import FactorGraph
from intarsia.inference.method import Answer, InferenceMethod, Iteration, Problem, iterate
from intarsia.inference.projection.bethe_oracle import MarginalOracle, Point, resolve_oracle


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A distribution with its energy and its objective `-<theta, mu> - T H(mu) + L(mu)`, which is minimised.

    `readings` are the statistics that the energy depends on, `reading_gradient` is its gradient with respect to them.
    """

    point: Point
    energy: float
    loss: float
    readings: FloatArray
    reading_gradient: FloatArray


def largest_difference(a: FloatArray, b: FloatArray) -> float:
    """Return the largest absolute difference of two vectors, without a temporary array."""
    maximum = np.zeros(1)
    compare_parts(read_only(np.array([0, a.size])), read_only(a), read_only(b), maximum)
    return float(maximum[0])


class Search:
    """State of one run: current and best distribution, lower bound on the objective, and history."""

    def __init__(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point, tol: float) -> None:
        self.oracle, self.energy, self.tol = oracle, energy, tol
        self.current = self.best = self.evaluate(start)
        self.lower = -np.inf
        self.history: dict[str, list[float]] = {"log_partition": [], "gap": [], "oracle_calls": []}
        # At a kink the gradient jumps, so the fixed-point residual does not vanish; the gap does.
        self.by_gap = energy.convex and not energy.smooth
        self.residual = np.inf

    def evaluate(self, point: Point) -> Evaluated:
        """Compute energy and objective of a distribution; log Z of the oracle replaces a formula for the entropy."""
        readings = self.energy.read(point.mu)
        energy, reading_gradient = self.energy.judge(readings)
        loss = energy - point.value - float(point.tilt @ point.mu[: point.tilt.size])
        return Evaluated(point, energy, loss, readings, reading_gradient)

    def project(self, tilt: FloatArray) -> Point:
        """Call the oracle on the tilted model; raise if it reports an infeasible model."""
        point = self.oracle(tilt)
        if point is None:
            raise NotSupportedError(
                f"{type(self.oracle.method).__name__} reports that the model with its energy is infeasible, although "
                f"the model alone is feasible: the gradient of the energy is too large. Use a smaller psi."
            )
        return point

    def fixed_point_residual(self, state: Evaluated) -> float:
        """Return the largest entry of `|mu - oracle(theta - grad L(mu))|`, by a call of the oracle."""
        gradient = self.energy.spread(state.reading_gradient, state.point.tilt.size)
        return largest_difference(self.project(gradient).mu, state.point.mu)

    def record(self, gap: float) -> dict[str, float]:
        """Return the values of this iteration for the history."""
        return {"log_partition": -self.current.loss, "gap": max(gap, 0.0), "oracle_calls": float(self.oracle.n_calls)}


class SteppedSearch(Search, ABC):
    """Search in which every iteration is one step."""

    @abstractmethod
    def step(self) -> float:
        """Make a step; return an estimate of the distance of the current distribution from a fixed point."""

    def sweep(self) -> float:
        """Make a step and record it; return the residual to compare with the tolerance."""
        try:
            estimate = self.step()
            if self.current.loss < self.best.loss:
                self.best = self.current
            gap = self.best.loss - self.lower
            self.residual = max(gap, 0.0) if self.by_gap else estimate
            if not self.by_gap and estimate <= self.tol:  # confirm the estimate by a call of the oracle
                self.residual = self.fixed_point_residual(self.current)
                if self.residual <= self.tol:
                    self.best = self.current
        except TimeLimitError:
            gap = self.best.loss - self.lower
        for key, value in self.record(gap).items():
            self.history[key].append(value)
        return self.residual


class BetheProjection(InferenceMethod):
    """Base class of the methods that minimise `-<theta, mu> - T H(mu) + L(mu)` (Vilnis2015 Eq. 2) by an oracle."""

    gives_marginals: ClassVar[bool] = True
    gives_map: ClassVar[bool] = True
    gives_samples: ClassVar[bool] = True
    gives_best: ClassVar[bool] = True
    state_is: ClassVar[str | None] = "messages"  # messages of the oracle
    log_partition_is: ClassVar[str | None] = "estimate"
    cost: ClassVar[str] = "a call of the oracle per iteration"

    energy: Energy | BoundEnergy | None
    names: Any
    oracle: str | InferenceMethod
    max_iter: int
    tol: float

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        name = type(self).__name__
        check_number(self.max_iter, f"{name}: max_iter", low=0, integer=True)
        check_number(self.tol, f"{name}: tol", low=0.0)
        if self.energy is not None and not isinstance(self.energy, (Energy, BoundEnergy)):
            raise InvalidInputError(
                f"{name}: energy must be an Energy such as MeasuredEnergy(Count('x'), Hinge(1.0)), got "
                f"{type(self.energy).__name__}. Pass one; combine several with +."
            )

    def check_energy(self, energy: BoundEnergy) -> None:
        """Raise for energies that the method does not support; hard constraints have no gradient."""
        if np.isinf(energy.psi).any():
            raise NotSupportedError(
                f"{type(self).__name__}: psi[{int(np.argmax(np.isinf(energy.psi)))}] is infinite, a hard constraint. "
                f"Use 'bethe_dual', or set a finite psi."
            )

    @abstractmethod
    def solve(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point) -> tuple[Search, Iteration, str]:
        """Run the search from an initial distribution; return it with the loop statistics and a note."""

    def run(self, problem: Problem) -> Answer:
        """Run the oracle if there is no energy; otherwise search for the tilted model and return its marginals."""
        with errors_in(type(self).__name__):
            method = resolve_oracle(self.oracle, problem)
        oracle = MarginalOracle(problem, method)
        no_tilt = np.zeros(problem.original.n_theta)
        if self.energy is None:
            answer = oracle.solve(no_tilt)
        else:
            energy = self._bind(self.energy, problem.original)
            self.check_energy(energy)
            start = oracle(no_tilt if problem.start_tilt is None else problem.start_tilt)
            if start is None:
                return Answer(Status.INFEASIBLE)
            answer = self._make_answer(oracle, energy, *self.solve(oracle, energy, start))
        if answer.status is not Status.INFEASIBLE:
            answer.tilt = no_tilt if answer.tilt is None else answer.tilt
            answer.oracle = clone(method).set_params(temperature=self.temperature)
        return answer

    def solve_without_variables(self, problem: Problem) -> Answer:
        """Return the answer of a problem without free variables; log Z includes the energy of the fixed states."""
        answer = super().solve_without_variables(problem)
        if self.energy is not None and problem.task == "marginals" and problem.reduction is not None:
            energy = self._bind(self.energy, problem.original).value(problem.reduction.fixed)
            answer.log_partition = answer.lower_bound = answer.upper_bound = -energy / problem.temperature
        return answer

    def _bind(self, energy: Energy | BoundEnergy, graph: FactorGraph) -> BoundEnergy:
        """Bind an energy to the graph; raise if it is already bound to a different graph."""
        if isinstance(energy, Energy):
            return energy.bind(graph, self.names)
        arrays = ("n_states", "scope_ptr", "scope_idx", "table_of_factor", "table_kind")
        if energy.graph is not graph and not all(
            np.array_equal(getattr(energy.graph, key), getattr(graph, key)) for key in arrays
        ):
            raise InvalidInputError(
                f"{type(self).__name__}: the energy is bound to another graph. Bind it to this graph, or pass the "
                f"unbound energy with names."
            )
        return energy

    def _loop(self, sweep: Callable[[], float], oracle: MarginalOracle) -> Iteration:
        """Iterate until convergence, max_iter or the time limit."""
        return iterate(sweep, self.max_iter, self.tol, oracle.problem.clock, oracle.problem.report)

    def _make_answer(
        self, oracle: MarginalOracle, energy: BoundEnergy, search: Search, loop: Iteration, note: str
    ) -> Answer:
        """Convert a finished search to an answer: the best distribution, its bounds and the requested samples."""
        problem, best = oracle.problem, search.best
        if loop.status is Status.MAX_ITER and loop.n_iter and not search.by_gap:
            loop.residual = loop.residuals[-1] = search.fixed_point_residual(best)  # replaces an estimate
            if loop.residual <= self.tol:
                loop.status = Status.CONVERGED
        if not oracle.converged:
            note = f"The oracle {type(oracle.method).__name__} did not converge; {note}".rstrip("; ")
            loop.status = Status.STALLED if loop.status is Status.CONVERGED else loop.status
        history = {key: np.array(values) for key, values in search.history.items()}
        history = {"residual": loop.residuals, **{key: values[: loop.n_iter] for key, values in history.items()}}
        answer = Answer(loop.status, residual=loop.residual, n_iter=loop.n_iter, history=history, note=note)
        answer.tilt, answer.messages = oracle.extend(best.point.tilt), oracle.messages
        if problem.task == "map":
            return self._add_labelling(answer, oracle)
        answer.mu = best.point.reduced_mu
        scale = oracle.temperature
        answer.log_partition, answer.log_partition_is = -best.loss / scale, "estimate"
        for key in [key for key in history if key.endswith("log_partition")]:
            history[key] = history[key] / scale
        if energy.convex and oracle.bounds_log_partition:
            # L(mu) <= E[L(S)] for convex L, so the optimum is a lower bound on -log sum exp(theta . S - L(S)).
            answer.upper_bound = -search.lower / scale
        if problem.n_samples or problem.n_best:
            tilted_answer = oracle.solve(answer.tilt)
            answer.samples, answer.best = tilted_answer.samples, tilted_answer.best
        return answer

    def _add_labelling(self, answer: Answer, oracle: MarginalOracle) -> Answer:
        """Add the MAP labelling of the tilted model to the answer (Vilnis2015, section 4)."""
        oracle.messages = None  # sum-product messages are no start for max-product
        tilted_answer = oracle.solve(answer.tilt)  # type: ignore[arg-type]
        answer.assignment, answer.best = tilted_answer.assignment, tilted_answer.best
        answer.history = {key: v for key, v in answer.history.items() if not key.endswith("log_partition")}
        answer.messages = None
        return answer
