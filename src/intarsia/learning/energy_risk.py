"""What the surrogate risks of sequences and of graphs share: a point of weights and strengths, penalties, the sum."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import Parcels, run_by_workers, run_in_threads
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import STRONGEST
from intarsia.exceptions import ConvergenceWarning
from intarsia.learning.minimum import LARGEST_WEIGHT, SummedObjective

R = TypeVar("R")
E = TypeVar("E", bound="EnergyRisk")
Ranges = list[tuple[int, int]]


class EnergyRisk(SummedObjective):
    """A risk per unit of mass of examples, of weights and of the weights of strengths.

    A point is the weights (unless they are fixed) followed by those of the strengths. Examples are worked in parts that
    do not depend on the number of workers, range by range.

    Parameters
    ----------
    psi : Psi
        How strengths depend on the input.
    features : (n_examples, n_features) float array
        What they depend on.
    own : (n_psi,) float array
        The energies' own strengths.
    n_weights : int
        Number of weights that are learned.
    mass : float
        By which sums are divided.
    ridge, psi_ridge : float
        Penalties r/2 |w|^2 on the weights, and on those of all features of psi but the first, relative to the risk.
    n_jobs : int, optional
        Threads, or workers of `joblib.parallel_config`; the result does not depend on it.
    """

    def __init__(
        self,
        psi: Psi,
        features: FloatArray,
        own: FloatArray,
        *,
        n_weights: int,
        mass: float,
        ridge: float,
        psi_ridge: float,
        n_jobs: int | None = None,
    ) -> None:
        self.psi, self.features, self.own = psi, features, own
        self.n_weights, self.mass = n_weights, mass
        self.ridge, self.psi_ridge = ridge, psi_ridge
        self.n_jobs = n_jobs
        self._slopes: list[list[FloatArray]] | None = None  # of each range of each part, where they are kept

    @abstractmethod
    def parts(self) -> list[Ranges]:
        """Ranges of examples, one after the other, in parts that may be worked side by side."""

    @abstractmethod
    def find_slope(self, weights: FloatArray, strengths: FloatArray, first: int, last: int) -> FloatArray:
        """Slopes of the preferences, without strengths, under which inference leaves a range of examples."""

    @abstractmethod
    def add_up(
        self,
        weights: FloatArray,
        strengths: FloatArray,
        slope: FloatArray | None,
        first: int,
        last: int,
        gradient: FloatArray,
    ) -> tuple[float, FloatArray]:
        """Sum over a range of examples, and its gradient in their strengths; that in the weights is added in place.

        Slopes are those given, or those that inference finds.
        """

    @abstractmethod
    def subset(self, indices: ArrayLike) -> EnergyRisk:
        """The risk of some of the examples, over their own mass."""

    def with_slopes(self: E, point: FloatArray) -> E:
        """The same risk with the slopes of this point kept: an E-step of Algorithm 2."""
        slopes = self._run(_find_slopes, point)
        kept = copy.copy(self)  # of the same parts, which stay where they are
        kept._slopes = slopes
        return kept

    def uncut(self: E) -> E:
        """A copy whose parts, and slopes, are still to be found."""
        made = copy.copy(self)
        made.__dict__.pop("_parcels", None)
        made._slopes = None
        return made

    def start(self, weights: FloatArray) -> FloatArray:
        """The point at which strengths are the energies' own."""
        return self.join(weights, self.psi.initial_of(self.own, self.features.shape[1]))

    def without_energies(self, weights: FloatArray) -> FloatArray | None:
        """The point at which all strengths are 0; None where they cannot be."""
        if self.psi.positive == "softplus":
            return None
        return self.join(weights, np.zeros((self.own.size, self.features.shape[1])))

    def join(self, weights: FloatArray, psi_weights: FloatArray) -> FloatArray:
        """One point of both."""
        return np.concatenate([weights[: self.n_weights], psi_weights.reshape(-1)])

    def split(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (none if they are fixed), and those of the strengths (n_psi, n_features)."""
        return point[: self.n_weights], point[self.n_weights :].reshape(self.own.size, -1)

    def project(self, point: FloatArray) -> FloatArray:
        """The point with the weights of strengths brought back to where they belong."""
        weights, psi = self.split(point)
        return self.join(weights, self.psi.project(psi))

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Risk and its gradient; infinite where weights are beyond all reason."""
        if not np.abs(point).max(initial=0.0) < LARGEST_WEIGHT:
            return np.inf, np.zeros(point.size)
        weights, psi_weights = self.split(point)
        gradient, total, parts = np.zeros(point.size), 0.0, []
        for value, part_by_psi, part_gradient in self._run(_add_up, point, self._slopes):
            total += value
            parts.append(part_by_psi)
            gradient[: self.n_weights] += part_gradient
        by_psi = np.concatenate(parts)
        mass = self.mass or 1.0  # a batch may happen to have no labels
        by_weight = self.psi.pull_back(psi_weights, self.features, by_psi / mass)
        by_weight[:, 1:] += self.psi_ridge * psi_weights[:, 1:]
        gradient[: self.n_weights] = gradient[: self.n_weights] / mass + self.ridge * weights
        gradient[self.n_weights :] = by_weight.reshape(-1)
        squares = self.ridge * float(weights @ weights) + self.psi_ridge * float((psi_weights[:, 1:] ** 2).sum())
        return total / mass + 0.5 * squares, gradient

    def strengths(self, psi_weights: FloatArray, first: int, last: int) -> FloatArray:
        """Strengths (last - first, n_psi) of some of the examples."""
        return np.minimum(self.psi.values(psi_weights, self.features[first:last]), STRONGEST)

    def _run(self, function: Callable[..., R], point: FloatArray, each: list[Any] | None = None) -> list[R]:
        calls = self._parcels.calls(function, point, each=each)
        # A single part, such as a small batch, is not worth sending.
        return run_by_workers(calls, self.n_jobs) if len(calls) > 1 else run_in_threads(calls, self.n_jobs)

    @cached_property
    def _parcels(self) -> Parcels:
        """The examples in parts; while points change, they stay on the workers that have them."""
        bare = self.uncut()  # which does not hold the parts, so that nothing goes round in circles
        return Parcels([_Part(bare, ranges) for ranges in self.parts()])


class _Part:
    """Some ranges of the examples; only these travel."""

    def __init__(self, risk: EnergyRisk, ranges: Ranges) -> None:
        self.risk, self.ranges = risk, ranges

    @property
    def ends(self) -> tuple[int, int]:
        return (self.ranges[0][0], self.ranges[-1][1]) if self.ranges else (0, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        first, last = self.ends
        return _Part, (self.risk.subset(np.arange(first, last)), [(a - first, b - first) for a, b in self.ranges])


def _find_slopes(part: _Part, point: FloatArray) -> list[FloatArray]:
    """Slopes of each range."""
    risk = part.risk
    weights, psi_weights = risk.split(point)
    return [risk.find_slope(weights, risk.strengths(psi_weights, a, b), a, b) for a, b in part.ranges]


def _add_up(
    part: _Part, point: FloatArray, slopes: list[FloatArray] | None = None
) -> tuple[float, FloatArray, FloatArray]:
    """Sum of a part, and its gradients in the strengths of its examples and in the weights."""
    risk, (first, last) = part.risk, part.ends
    weights, psi_weights = risk.split(point)
    total, by_psi, gradient = 0.0, np.zeros((last - first, risk.own.size)), np.zeros(risk.n_weights)
    for i, (a, b) in enumerate(part.ranges):
        slope = None if slopes is None else slopes[i]
        strengths = risk.strengths(psi_weights, a, b)
        value, by_psi[a - first : b - first] = risk.add_up(weights, strengths, slope, a, b, gradient)
        total += value
    return total, by_psi, gradient


class ProjectionReport(NamedTuple):
    """Number of examples, how many of them did not converge, and the largest residual of these."""

    n: int
    n_failed: int
    residual: float


def warn_unless_all_converged(reports: Iterable[ProjectionReport], noun: str, method: Any, setting: str) -> None:
    """Warn once for all examples; `setting` is the name under which the estimator takes the method.

    Examples
    --------
    >>> import warnings
    >>> from intarsia import BetheRDA
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     reports = [ProjectionReport(3, 0, 0.0), ProjectionReport(4, 2, 0.02)]
    ...     warn_unless_all_converged(reports, "sequences", BetheRDA(max_iter=40), "projection")
    >>> str(caught[0].message).partition(":")[0]
    'inference under the energies did not converge for 2 of 7 sequences'
    """
    listed = list(reports)
    n_failed = sum(report.n_failed for report in listed)
    if n_failed == 0:
        return
    residual = max(report.residual for report in listed)
    name = type(method).__name__
    other = "" if name == "BetheMirrorDescent" else f", or use {setting}='bethe_mirror_descent'"
    warn_caller(
        f"inference under the energies did not converge for {n_failed} of "
        f"{sum(report.n for report in listed)} {noun}: residual up to {residual:.2e} against tol={method.tol:g} after "
        f"{method.max_iter} iterations. Raise max_iter or tol, such as {setting}={name}(max_iter="
        f"{10 * int(method.max_iter)}){other}.",
        ConvergenceWarning,
    )
