"""What the Bethe projections share: marginal inference with a global energy, by calls of a marginal oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from intarsia._core.error_context import errors_in
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
    """A distribution, its energy, and the objective `-<theta, mu> - T H(mu) + L(mu)` that is minimised.

    `readings` is what the energy looks at, `pull` its slope in these.
    """

    point: Point
    energy: float
    loss: float
    readings: FloatArray
    pull: FloatArray


def largest_difference(a: FloatArray, b: FloatArray) -> float:
    """Largest absolute difference of two vectors, without a third."""
    found = np.zeros(1)
    compare_parts(read_only(np.array([0, a.size])), read_only(a), read_only(b), found)
    return float(found[0])


class Search:
    """State of one run: the current distribution, the best so far, a lower bound on the objective, the history."""

    def __init__(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point, tol: float) -> None:
        self.oracle, self.energy, self.tol = oracle, energy, tol
        self.current = self.best = self.evaluate(start)
        self.lower = -np.inf
        self.history: dict[str, list[float]] = {"log_partition": [], "gap": [], "oracle_calls": []}
        # At a kink the slope jumps, so that fixed points cannot be seen; the gap can.
        self.by_gap = energy.convex and not energy.smooth
        self.residual = np.inf

    def evaluate(self, point: Point) -> Evaluated:
        """Energy and objective of a distribution; no entropy formula is needed, the oracle's log Z knows it."""
        readings = self.energy.read(point.mu)
        energy, pull = self.energy.judge(readings)
        loss = energy - point.value - float(point.tilt @ point.mu[: point.tilt.size])
        return Evaluated(point, energy, loss, readings, pull)

    def project(self, tilt: FloatArray) -> Point:
        """Call the oracle; what was possible stays so, since tilts are finite."""
        point = self.oracle(tilt)
        if point is None:
            raise NotSupportedError(
                f"{type(self.oracle.method).__name__} finds the tilted model impossible, although the model is not: "
                f"the energy's slope is too large. Use a smaller psi."
            )
        return point

    def fixed_point_residual(self, at: Evaluated) -> float:
        """|mu - oracle(theta - grad L(mu))|, by a call of the oracle."""
        slope = self.energy.spread(at.pull, at.point.tilt.size)
        return largest_difference(self.project(slope).mu, at.point.mu)

    def record(self, gap: float) -> dict[str, float]:
        """What goes into the history."""
        return {"log_partition": -self.current.loss, "gap": max(gap, 0.0), "oracle_calls": float(self.oracle.n_calls)}


class SteppedSearch(Search, ABC):
    """A search that makes one step at a time."""

    @abstractmethod
    def step(self) -> float:
        """Move on; return how far the current distribution is from being a fixed point, about."""

    def sweep(self) -> float:
        """One step, recorded; what is compared with the tolerance."""
        try:
            estimate = self.step()
            if self.current.loss < self.best.loss:
                self.best = self.current
            gap = self.best.loss - self.lower
            self.residual = max(gap, 0.0) if self.by_gap else estimate
            if not self.by_gap and estimate <= self.tol:  # an estimate until now
                self.residual = self.fixed_point_residual(self.current)
                if self.residual <= self.tol:
                    self.best = self.current
        except TimeLimitError:
            gap = self.best.loss - self.lower
        for key, value in self.record(gap).items():
            self.history[key].append(value)
        return self.residual


class BetheProjection(InferenceMethod):
    """Base of the methods that minimise `-<theta, mu> - T H(mu) + L(mu)` (Vilnis2015 Eq. 2) by a marginal oracle."""

    gives_marginals: ClassVar[bool] = True
    gives_map: ClassVar[bool] = True
    gives_samples: ClassVar[bool] = True
    gives_best: ClassVar[bool] = True
    state_is: ClassVar[str | None] = "messages"  # of the oracle
    log_partition_is: ClassVar[str | None] = "estimate"
    cost: ClassVar[str] = "a call of the oracle per iteration"

    energy: Energy | BoundEnergy | None
    names: Any
    oracle: str | InferenceMethod
    max_iter: int
    tol: float

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        here = type(self).__name__
        check_number(self.max_iter, f"{here}: max_iter", low=0, integer=True)
        check_number(self.tol, f"{here}: tol", low=0.0)
        if self.energy is not None and not isinstance(self.energy, (Energy, BoundEnergy)):
            raise InvalidInputError(
                f"{here}: energy must be an energy such as MeasuredEnergy(Count('x'), Hinge(1.0)), got "
                f"{type(self.energy).__name__}. Add several with +."
            )

    def check_energy(self, energy: BoundEnergy) -> None:
        """Refuse energies that this method cannot take; hard constraints have no slope."""
        if np.isinf(energy.psi).any():
            raise NotSupportedError(
                f"{type(self).__name__}: psi[{int(np.argmax(np.isinf(energy.psi)))}] is infinite, a hard constraint. "
                f"Use 'bethe_dual', or a finite psi."
            )

    @abstractmethod
    def solve(self, oracle: MarginalOracle, energy: BoundEnergy, start: Point) -> tuple[Search, Iteration, str]:
        """Search from a first distribution; with how it went, and a note."""

    def run(self, problem: Problem) -> Answer:
        """Plain inference without an energy; otherwise search, and answer by the tilted model."""
        with errors_in(type(self).__name__):
            method = resolve_oracle(self.oracle, problem)
        oracle = MarginalOracle(problem, method)
        nothing = np.zeros(problem.original.n_theta)
        if self.energy is None:
            answer = oracle.ask(nothing)
        else:
            energy = self._bind(self.energy, problem.original)
            self.check_energy(energy)
            start = oracle(nothing if problem.start_tilt is None else problem.start_tilt)
            if start is None:
                return Answer(Status.INFEASIBLE)
            answer = self._conclude(oracle, energy, *self.solve(oracle, energy, start))
        if answer.status is not Status.INFEASIBLE:
            answer.tilt = nothing if answer.tilt is None else answer.tilt
            answer.oracle = clone(method).set_params(temperature=self.temperature)
        return answer

    def decided(self, problem: Problem) -> Answer:
        """When nothing is free, the energy of what is known still counts."""
        answer = super().decided(problem)
        if self.energy is not None and problem.task == "marginals" and problem.reduction is not None:
            energy = self._bind(self.energy, problem.original).value(problem.reduction.fixed)
            answer.log_partition = answer.lower_bound = answer.upper_bound = -energy / problem.temperature
        return answer

    def _bind(self, energy: Energy | BoundEnergy, graph: FactorGraph) -> BoundEnergy:
        if isinstance(energy, Energy):
            return energy.bind(graph, self.names)
        arrays = ("n_states", "scope_ptr", "scope_idx", "table_of_factor", "table_kind")
        if energy.graph is not graph and not all(
            np.array_equal(getattr(energy.graph, key), getattr(graph, key)) for key in arrays
        ):
            raise InvalidInputError(
                f"{type(self).__name__}: the energy is bound to another graph. Bind it to this one, or give the energy "
                f"itself, with names."
            )
        return energy

    def _loop(self, sweep: Callable[[], float], oracle: MarginalOracle) -> Iteration:
        return iterate(sweep, self.max_iter, self.tol, oracle.problem.clock, oracle.problem.report)

    def _conclude(
        self, oracle: MarginalOracle, energy: BoundEnergy, search: Search, loop: Iteration, note: str
    ) -> Answer:
        problem, best = oracle.problem, search.best
        if loop.status is Status.MAX_ITER and loop.n_iter and not search.by_gap:
            loop.residual = loop.residuals[-1] = search.fixed_point_residual(best)  # what was there was an estimate
            if loop.residual <= self.tol:
                loop.status = Status.CONVERGED
        if not oracle.converged:
            note = f"the oracle {type(oracle.method).__name__} did not converge; {note}".rstrip("; ")
            loop.status = Status.STALLED if loop.status is Status.CONVERGED else loop.status
        history = {key: np.array(values) for key, values in search.history.items()}
        history = {"residual": loop.residuals, **{key: values[: loop.n_iter] for key, values in history.items()}}
        answer = Answer(loop.status, residual=loop.residual, n_iter=loop.n_iter, history=history, note=note)
        answer.tilt, answer.messages = oracle.whole(best.point.tilt), oracle.messages
        if problem.task == "map":
            return self._label(answer, oracle)
        answer.mu = best.point.reduced
        scale = oracle.temperature
        answer.log_partition, answer.log_partition_is = -best.loss / scale, "estimate"
        for key in [key for key in history if key.endswith("log_partition")]:
            history[key] = history[key] / scale
        if energy.convex and oracle.bounds_log_partition:
            # L(mu) <= E[L(S)] for convex L, so the least objective bounds -log sum exp(theta . S - L(S)) from below.
            answer.upper_bound = -search.lower / scale
        if problem.n_samples or problem.n_best:
            drawn = oracle.ask(answer.tilt)
            answer.samples, answer.best = drawn.samples, drawn.best
        return answer

    def _label(self, answer: Answer, oracle: MarginalOracle) -> Answer:
        """MAP is that of the tilted model (Vilnis2015, section 4)."""
        oracle.messages = None  # those of marginals say nothing of maxima
        found = oracle.ask(answer.tilt)  # type: ignore[arg-type]
        answer.assignment, answer.best = found.assignment, found.best
        answer.history = {key: v for key, v in answer.history.items() if not key.endswith("log_partition")}
        answer.messages = None
        return answer
