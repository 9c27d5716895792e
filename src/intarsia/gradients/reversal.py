"""Runs of inference that can be undone, and which one fits."""

from __future__ import annotations

import warnings
from typing import Protocol

import numpy as np

from intarsia._validation import FloatArray
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.appearance import factor_weights
from intarsia.gradients.general_reversal import GeneralReversal
from intarsia.gradients.mean_field_reversal import MeanFieldReversal
from intarsia.gradients.pairwise_reversal import PairwiseReversal
from intarsia.graph import FactorGraph
from intarsia.inference.iteration import Iteration, iterate
from intarsia.inference.mean_field import MeanField
from intarsia.inference.message_passing import MessagePassing
from intarsia.inference.method import Clock, InferenceMethod
from intarsia.inference.pairwise_messages import fits_pairwise
from intarsia.inference.result import Status


class Reversal(Protocol):
    """Sweeps of some inference that can be undone."""

    def forward(self, n_iter: int) -> bool:
        """Sweep from the start, keeping what the way back needs; False if the model is infeasible."""

    def sweep(self) -> float:
        """One sweep more, nothing kept; returns the largest change."""

    def position(self) -> FloatArray:
        """Where the run stands: its messages or marginals."""

    def stand_at(self, position: FloatArray) -> None:
        """Take a position of another run."""

    def marginals(self, with_factors: bool = True) -> FloatArray | None:
        """Marginals now, None when the model is infeasible; those of factors may be 0 where nobody asks for them."""

    def pull_beliefs(self, mu: FloatArray, gradient: FloatArray, uses_factors: bool) -> None:
        """Start the way back."""

    def back(self) -> None:
        """Undo all sweeps of `forward`."""

    def back_once(self) -> float:
        """Undo one of the many sweeps at a fixed point; returns the size of the adjoints met."""

    def gradient(self) -> FloatArray:
        """What has come back to theta."""


def reversal_of(graph: FactorGraph, theta: FloatArray, inference: InferenceMethod) -> Reversal:
    """The fastest way to run this inference forward and back."""
    if isinstance(inference, MeanField):
        return MeanFieldReversal(graph, theta)
    rho = factor_weights(graph, inference)
    damping = float(inference.damping) if isinstance(inference, MessagePassing) else 0.0
    if fits_pairwise(graph, theta, rho):
        return PairwiseReversal(graph, theta, rho, damping)
    return GeneralReversal(graph, theta, rho, damping)


def converge(run: Reversal, inference: InferenceMethod, tol: float) -> Iteration:
    """Sweep until nothing changes by more than `tol`, at most `inference.max_iter` times; warn if that was too few."""
    loop = iterate(run.sweep, int(inference.max_iter), tol, Clock())
    if loop.status is Status.INTERRUPTED:  # half a gradient must not look like one; the learner keeps its weights
        raise KeyboardInterrupt
    if loop.n_iter == 0 and loop.status is Status.MAX_ITER:
        loop.residual = np.inf
    if loop.status is Status.MAX_ITER:
        warnings.warn(
            f"{type(inference).__name__} did not converge within {loop.n_iter} sweeps: residual {loop.residual:.2e} "
            f"against tol={tol:g}. The gradient is that of no fixed point; raise max_iter, or use TruncatedGradient.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return loop
