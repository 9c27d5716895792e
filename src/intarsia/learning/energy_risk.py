"""Base class of the surrogate risks of models with energies, and the report on convergence of their inference."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import run_by_workers, run_in_threads
from intarsia.energies import Psi
from intarsia.energies.binding.batch_energies import STRONGEST
from intarsia.exceptions import ConvergenceWarning
from intarsia.learning.minimum import LARGEST_WEIGHT, SummedObjective

R = TypeVar("R")
E = TypeVar("E", bound="EnergyRisk")
Ranges = list[tuple[int, int]]


class EnergyRisk(SummedObjective):
    """Regularized risk of examples, as a function of the weights of a model and of its energies.

    A point holds the weights of the model (unless they are fixed), followed by the parameters of the strengths (the
    weights psi of the energies). Examples are processed in ranges and blocks that do not depend on the number of
    workers.

    Parameters
    ----------
    psi : Psi
        Model of how the strengths depend on the input.
    features : (n_examples, n_features) float array
        Input features of the strengths.
    initial_strengths : (n_psi,) float array
        Strengths as set in the energies.
    n_weights : int
        Number of weights to learn.
    mass : float
        Weighted number of labels, by which sums are divided.
    ridge, psi_ridge : float
        Coefficients r of the L2 penalties r/2 |w|^2 on the weights, and on the parameters of all features of psi but
        the first (the constant), relative to the risk per label.
    psi_rate : float
        Rate of the exponential prior of the strengths: penalty on the mean over the examples of the sum of strengths,
        relative to the risk per label.
    fixed_psi : (n_psi,) bool array, optional
        Strengths that are not learned.
    n_jobs : int, optional
        Number of threads, or of workers in `joblib.parallel_config`; the result does not depend on it.
    """

    held_out: EnergyRisk | None = None
    """Risk of held-out examples, by which the best point of a search is chosen; None for the risk itself."""

    def __init__(
        self,
        psi: Psi,
        features: FloatArray,
        initial_strengths: FloatArray,
        *,
        n_weights: int,
        mass: float,
        ridge: float,
        psi_ridge: float,
        psi_rate: float = 0.0,
        fixed_psi: NDArray[np.bool_] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.psi, self.features, self.initial_strengths = psi, features, initial_strengths
        self.n_weights, self.mass = n_weights, mass
        self.ridge, self.psi_ridge, self.psi_rate = ridge, psi_ridge, psi_rate
        self.fixed_psi = np.zeros(initial_strengths.size, dtype=bool) if fixed_psi is None else fixed_psi
        self.n_jobs = n_jobs
        self._slopes: list[list[FloatArray]] | None = None  # for each range of each block; None if not fixed

    @abstractmethod
    def parts(self) -> list[Ranges]:
        """Return blocks of ranges of examples, in order; blocks can be processed in parallel."""

    @abstractmethod
    def find_slope(self, weights: FloatArray, strengths: FloatArray, first: int, last: int) -> FloatArray:
        """Run inference on a range of examples; return the slopes of the energies (without strengths) at its result."""

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
        """Return the sum over a range of examples and its gradient in their strengths.

        The gradient in the weights is added to `gradient` in place. `slope` holds fixed slopes of the energies; None
        computes them by inference.
        """

    @abstractmethod
    def subset(self, indices: ArrayLike) -> EnergyRisk:
        """Return the risk of a subset of the examples, divided by their mass."""

    def with_slopes(self: E, point: FloatArray) -> E:
        """Return the risk with the slopes fixed at this point: the E-step of Algorithm 2."""
        slopes = self._run(_find_slopes, point)
        risk = copy.copy(self)  # it shares the blocks
        risk._slopes = slopes
        return risk

    def uncut(self: E) -> E:
        """Return a copy without blocks and slopes; they are computed again when needed."""
        risk = copy.copy(self)
        risk.__dict__.pop("_blocks", None)
        risk._slopes = None
        return risk

    def start(self, weights: FloatArray) -> FloatArray:
        """Return the point at which the strengths are those set in the energies."""
        return self.join(weights, self.psi.initial_of(self.initial_strengths, self.features.shape[1]))

    def without_energies(self, weights: FloatArray) -> FloatArray | None:
        """Return the point at which all strengths are 0; None if they cannot be 0."""
        if self.psi.positive == "softplus":
            return None
        return self.join(weights, np.zeros((self.initial_strengths.size, self.features.shape[1])))

    def join(self, weights: FloatArray, psi_weights: FloatArray) -> FloatArray:
        """Concatenate weights and parameters of the strengths into one point."""
        return np.concatenate([weights[: self.n_weights], psi_weights.reshape(-1)])

    def split(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights (empty if they are fixed) and the parameters of the strengths (n_psi, n_features)."""
        return point[: self.n_weights], point[self.n_weights :].reshape(self.initial_strengths.size, -1)

    def project(self, point: FloatArray) -> FloatArray:
        """Return the point with the parameters of the strengths projected onto their valid range."""
        weights, psi = self.split(point)
        return self.join(weights, self.psi.project(psi))

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Compute the risk and its gradient; infinite if a weight has diverged."""
        if not np.abs(point).max(initial=0.0) < LARGEST_WEIGHT:
            return np.inf, np.zeros(point.size)
        weights, psi_weights = self.split(point)
        gradient, total, by_example = np.zeros(point.size), 0.0, []
        for value, block_by_psi, block_gradient in self._run(_add_up, point, self._slopes):
            total += value
            by_example.append(block_by_psi)
            gradient[: self.n_weights] += block_gradient
        by_strength = np.concatenate(by_example)
        mass = self.mass or 1.0  # a batch may have no labels
        free_strengths = self.psi.values(psi_weights, self.features)[:, ~self.fixed_psi]
        by_strength = np.where(self.fixed_psi, 0.0, by_strength / mass + self.psi_rate / max(1, len(by_strength)))
        by_parameter = self.psi.pull_back(psi_weights, self.features, by_strength)
        by_parameter[:, 1:] += self.psi_ridge * psi_weights[:, 1:]
        gradient[: self.n_weights] = gradient[: self.n_weights] / mass + self.ridge * weights
        gradient[self.n_weights :] = by_parameter.reshape(-1)
        penalty = self.ridge * float(weights @ weights) + self.psi_ridge * float((psi_weights[:, 1:] ** 2).sum())
        prior = self.psi_rate * float(free_strengths.sum()) / max(1, len(free_strengths))
        return total / mass + 0.5 * penalty + prior, gradient

    def strengths(self, psi_weights: FloatArray, first: int, last: int) -> FloatArray:
        """Return the strengths (last - first, n_psi) of a range of examples."""
        free_strengths = np.minimum(self.psi.values(psi_weights, self.features[first:last]), STRONGEST)
        return np.where(self.fixed_psi, self.initial_strengths, free_strengths)

    def _run(self, function: Callable[..., R], point: FloatArray, arguments: list[Any] | None = None) -> list[R]:
        """Call the function on each block with this point; return the results in order."""
        further: list[Any] = [()] * len(self._blocks) if arguments is None else [(value,) for value in arguments]
        calls = [partial(function, block, point, *last) for block, last in zip(self._blocks, further, strict=True)]
        # A single block, such as a small batch, is not worth sending to a worker.
        return run_by_workers(calls, self.n_jobs) if len(calls) > 1 else run_in_threads(calls, self.n_jobs)

    @cached_property
    def _blocks(self) -> list[_Block]:
        """Blocks of examples, which workers process."""
        bare = self.uncut()  # without the blocks, to avoid a reference cycle
        return [_Block(bare, ranges) for ranges in self.parts()]


class _Block:
    """Ranges of examples; only these examples are sent to a worker."""

    def __init__(self, risk: EnergyRisk, ranges: Ranges) -> None:
        self.risk, self.ranges = risk, ranges

    @property
    def ends(self) -> tuple[int, int]:
        """First and last index of the examples."""
        return (self.ranges[0][0], self.ranges[-1][1]) if self.ranges else (0, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        first, last = self.ends
        return _Block, (
            self.risk.subset(np.arange(first, last)),
            [(start - first, stop - first) for start, stop in self.ranges],
        )


def _find_slopes(block: _Block, point: FloatArray) -> list[FloatArray]:
    """Return the slopes of each range of a block."""
    risk = block.risk
    weights, psi_weights = risk.split(point)
    return [
        risk.find_slope(weights, risk.strengths(psi_weights, start, stop), start, stop) for start, stop in block.ranges
    ]


def _add_up(
    block: _Block, point: FloatArray, slopes: list[FloatArray] | None = None
) -> tuple[float, FloatArray, FloatArray]:
    """Return the sum over a block, with its gradients in the strengths of its examples and in the weights."""
    risk, (first, last) = block.risk, block.ends
    weights, psi_weights = risk.split(point)
    total, by_strength, gradient = 0.0, np.zeros((last - first, risk.initial_strengths.size)), np.zeros(risk.n_weights)
    for i, (start, stop) in enumerate(block.ranges):
        slope = None if slopes is None else slopes[i]
        strengths = risk.strengths(psi_weights, start, stop)
        value, by_strength[start - first : stop - first] = risk.add_up(weights, strengths, slope, start, stop, gradient)
        total += value
    return total, by_strength, gradient


class Assessment(NamedTuple):
    """Results of a model with energies on examples, with one row per example.

    Attributes
    ----------
    loss : (n,) float array
        Negative log-likelihood of the labels, times the weight of the example.
    n_wrong : (n,) float array
        Number of labels that differ from the prediction, times the weight of the example.
    violated : (n, n_psi) bool array
        Whether the prediction has a positive energy.
    slope : (n, n_psi) float array
        Absolute slope of each energy, without its strength; an energy with slope 0 does not change the model.
    """

    loss: FloatArray
    n_wrong: FloatArray
    violated: NDArray[np.bool_]
    slope: FloatArray

    def replace_rows(self, rows: NDArray[np.int64], other: Assessment) -> Assessment:
        """Return a copy with the results of these examples replaced."""
        arrays: list[Any] = [array.copy() for array in self]
        for array, new in zip(arrays, other, strict=True):
            array[rows] = new
        return Assessment(*arrays)


class StrengthRow(NamedTuple):
    """Strength of one energy, and its effect on held-out data.

    Attributes
    ----------
    name : str
        Name of the energy, such as "at_most_one('title')".
    strength : float
        Weight psi of the energy; the mean over the held-out examples if it depends on the input.
    violated_before, violated_after : int or None
        Number of held-out examples whose prediction violates the energy, without and with the learned energies.
    gain : float or None
        Increase of the held-out log-likelihood by this energy, in nats.
    note : str
        "learned", "fixed", or the reason why the strength is 0.
    """

    name: str
    strength: float
    violated_before: int | None
    violated_after: int | None
    gain: float | None
    note: str


class StrengthTable(Sequence[StrengthRow]):
    """Table of the strengths of energies, with a row for each energy; it prints as text.

    Parameters
    ----------
    rows : sequence of StrengthRow
        Rows; `pandas.DataFrame(list(table))` converts them.
    n_held_out : int
        Number of held-out examples on which the strengths were learned.

    Examples
    --------
    >>> table = StrengthTable([StrengthRow("at_most_one('title')", 2.5, 7, 1, 12.25, "learned")], 200)
    >>> table[0].strength, len(table)
    (2.5, 1)
    >>> print(table)
    energy                strength  violated before  after    gain  note
    at_most_one('title')       2.5                7      1   12.25  learned
    held-out examples: 200
    """

    def __init__(self, rows: Iterable[Any], n_held_out: int) -> None:
        self.rows, self.n_held_out = [StrengthRow(*row) for row in rows], n_held_out

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        width = max([6, *(len(row.name) for row in self.rows)])
        lines = [f"{'energy':<{width}}  strength  violated before  after    gain  note"]
        for name, strength, before, after, gain, note in self.rows:
            numbers = ["-" if value is None else format(value, ".4g") for value in (before, after, gain)]
            lines.append(
                f"{name:<{width}}  {strength:>8.4g}  {numbers[0]:>15}  {numbers[1]:>5}  {numbers[2]:>6}  {note}"
            )
        return "\n".join([*lines, f"held-out examples: {self.n_held_out}"])


# Least increase of the held-out log-likelihood by a learned energy, in nats (Akaike's criterion for one parameter).
MIN_GAIN = 1.0
_NO_GAIN = "0: no gain on held-out data"
_NO_TOTAL_GAIN, _MORE_ERRORS = "0: no clear gain of all energies together", "0: more wrong labels with the energies"


def select_energies(
    assess: Callable[[NDArray[np.bool_], NDArray[np.int64] | None], Assessment],
    strengths: FloatArray,
    fixed: NDArray[np.bool_],
    titles: list[str],
    l1: float,
    select: bool = True,
) -> tuple[NDArray[np.bool_], list[StrengthRow]]:
    """Set the strengths of energies to 0 that do not help on held-out examples; return the others and table rows.

    Energies are tried one by one, the least influential first. An energy is dropped if the held-out log-likelihood
    increases by less than its prior cost and `MIN_GAIN` through it, or if there are fewer wrong labels without it. In
    the end, all learned energies are dropped unless together they increase the log-likelihood by more than its
    standard error, without additional wrong labels.

    Parameters
    ----------
    assess : callable
        Function of a mask of active energies and of indices of examples (None for all) that returns their results.
    strengths : (n_examples, n_psi) float array
        Strengths of all energies.
    fixed : (n_psi,) bool array
        Energies whose strength is fixed, which are never dropped.
    titles : list of str
        Names of the energies.
    l1 : float
        Rate of the prior of the strengths.
    select : bool
        If False, no energy is dropped.
    """
    mean, active = strengths.mean(axis=0), fixed | (strengths.max(axis=0) > 0.0)
    notes = np.where(fixed, "fixed", np.where(active, "learned", _NO_GAIN)).astype(object).tolist()
    gains: list[float | None] = [None if is_fixed else 0.0 for is_fixed in fixed]
    base, current = assess(fixed, None), assess(active, None)
    for j in np.argsort((strengths * current.slope).sum(axis=0), kind="stable").tolist():
        if fixed[j] or not active[j] or not select:
            continue
        rows = np.flatnonzero(strengths[:, j] * current.slope[:, j] > 1e-9)
        without = active.copy()
        without[j] = False
        if rows.size:
            other = assess(without, rows)
            gain = float((other.loss - current.loss[rows]).sum())
            if gain - l1 * mean[j] > MIN_GAIN and other.n_wrong.sum() >= current.n_wrong[rows].sum():
                gains[j] = gain
                continue
            current = current.replace_rows(rows, other)
        active, notes[j] = without, _NO_GAIN
    is_learned, difference = active & ~fixed, base.loss - current.loss
    if is_learned.any() and select:
        has_gain = difference.sum() > np.sqrt(difference.size) * difference.std()
        if not has_gain or current.n_wrong.sum() > base.n_wrong.sum():
            for j in np.flatnonzero(is_learned).tolist():
                notes[j], gains[j] = _MORE_ERRORS if has_gain else _NO_TOTAL_GAIN, 0.0
            active, current = fixed, base
    before, after = base.violated.sum(axis=0).tolist(), current.violated.sum(axis=0).tolist()
    values = np.where(active, mean, 0.0).tolist()
    rows_of_table = zip(titles, values, before, after, gains, notes, strict=True)
    return active, [StrengthRow(*row) for row in rows_of_table]


class ProjectionReport(NamedTuple):
    """Number of examples, number of these that did not converge, and their largest residual."""

    n: int
    n_failed: int
    residual: float


def warn_unless_all_converged(reports: Iterable[ProjectionReport], noun: str, method: Any) -> None:
    """Warn once for all examples whose inference under energies did not converge.

    Examples
    --------
    >>> import warnings
    >>> from intarsia import BetheRDA
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     reports = [ProjectionReport(3, 0, 0.0), ProjectionReport(4, 2, 0.02)]
    ...     warn_unless_all_converged(reports, "sequences", BetheRDA(max_iter=40))
    >>> str(caught[0].message).partition(":")[0]
    'inference under the energies did not converge for 2 of 7 sequences'
    """
    all_reports = list(reports)
    n_failed = sum(report.n_failed for report in all_reports)
    if n_failed == 0:
        return
    residual = max(report.residual for report in all_reports)
    name = type(method).__name__
    alternative = "" if name == "BetheMirrorDescent" else ", or use projection='bethe_mirror_descent'"
    warn_caller(
        f"inference under the energies did not converge for {n_failed} of "
        f"{sum(report.n for report in all_reports)} {noun}: residual up to {residual:.2e} against "
        f"tol={method.tol:g} after {method.max_iter} iterations. Raise max_iter or tol, such as "
        f"projection={name}(max_iter={10 * int(method.max_iter)}){alternative}.",
        ConvergenceWarning,
    )
