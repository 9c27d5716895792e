"""What the rules that need converged inference share: run it, judge its marginals, and only then go their own way."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from intarsia._validation import FloatArray, check_number
from intarsia.gradients.reversal import Reversal, converge, reversal_of
from intarsia.gradients.rule import GradientResult, GradientRule, Judge, infeasible
from intarsia.graph import FactorGraph
from intarsia.inference.iteration import Iteration
from intarsia.inference.method import InferenceMethod
from intarsia.inference.result import Status


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Converged inference with its marginals, the loss there, and the loss's gradient in them."""

    graph: FactorGraph
    theta: FloatArray
    inference: InferenceMethod
    run: Reversal
    loop: Iteration
    mu: FloatArray
    value: float
    slope: FloatArray
    uses_factors: bool


class ConvergedRule(GradientRule):
    """Base of the rules for converged inference: `tol` is when it counts as converged."""

    tol: float

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant; extended by subclasses."""
        check_number(self.tol, f"{type(self).__name__}: tol", low=0.0)

    def _differentiate(
        self, graph: FactorGraph, theta: FloatArray, judge: Judge, inference: InferenceMethod
    ) -> GradientResult:
        run = reversal_of(graph, theta, inference)
        loop = converge(run, inference, float(self.tol))
        mu = None if loop.status is Status.INFEASIBLE else run.marginals()
        if mu is None:
            return infeasible(graph)
        value, slope = judge.evaluate(mu)
        return self._pull_back(
            FixedPoint(graph, theta, inference, run, loop, mu, float(value), slope, judge.uses_factors)
        )

    @abstractmethod
    def _pull_back(self, point: FixedPoint) -> GradientResult:
        """The gradient in theta at a fixed point."""
