"""CEM-Optimize: the cross-entropy method, which maximises any objective with a proposal that learns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.progress import search_progress
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_generator, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.inference import Status
from intarsia.worlds.proposal import Proposal


@dataclass(frozen=True, eq=False)
class CEMResult(ShownResult):
    r"""Result of the cross-entropy method.

    Attributes
    ----------
    best : object
        Sample with the highest value :math:`Y^*`.
    value : float
        Its value.
    parameters : float array
        Parameters :math:`\lambda^*` of the proposal after the last round.
    status : Status
        CONVERGED (the parameters do not change any more), MAX_ITER, TIME_LIMIT or INTERRUPTED.
    n_iter, n_samples : int
        Numbers of rounds and of evaluated samples.
    seconds : float
        Wall time.
    history : dict
        "best", "threshold" (the value :math:`\gamma_t` that elite samples reach) and "mean" of each round.

    Examples
    --------
    >>> from intarsia.worlds import CategoricalProposal
    >>> result = cem_optimize(CategoricalProposal([2, 2, 2]), sum, n_samples=30)
    >>> result.best.tolist(), result.value, result.status.name
    ([1, 1, 1], 3.0, 'CONVERGED')
    """

    best: Any
    value: float
    parameters: FloatArray
    status: Status
    n_iter: int
    n_samples: int
    seconds: float
    history: dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Round:
    """Result of one round of the cross-entropy method: new parameters, values of the samples, and the best sample."""

    parameters: FloatArray
    values: FloatArray
    best: Any
    threshold: float
    largest_change: float


def cem_rounds(
    parameters: FloatArray,
    draw: Callable[[FloatArray], tuple[FloatArray, Any]],
    fit: Callable[[FloatArray, IntArray], FloatArray] | None,
    *,
    elite_fraction: float,
    smoothing: float,
    max_iter: int,
    tol: float,
) -> Iterator[Round]:
    r"""Yield the rounds of Algorithm 2 of Rohanimanesh2009.

    Parameters
    ----------
    parameters : float array
        First parameters :math:`\lambda_0`.
    draw : function of the parameters
        Draws samples; returns their values, -inf for samples that are not allowed, and the best sample (None if there
        is none).
    fit : function of parameters and indices of elite samples, or None
        Returns the parameters under which the elite samples are most probable; None keeps the parameters.
    elite_fraction, smoothing, max_iter, tol : float
        As in `cem_optimize`. The rounds end when no parameter changes by more than `tol`.

    Examples
    --------
    The proposal is Gaussian around the parameter, the objective is -|y - 3|, and the fit is the mean of the elite:

    >>> rng = np.random.default_rng(0)
    >>> samples = np.zeros(50)
    >>> def draw(parameters):
    ...     samples[:] = rng.normal(parameters[0], 1.0, 50)
    ...     values = -np.abs(samples - 3.0)
    ...     return values, samples[values.argmax()]
    >>> settings = dict(elite_fraction=0.1, smoothing=0.7, max_iter=20, tol=1e-3)
    >>> fit = lambda parameters, elites: samples[elites].mean(keepdims=True)
    >>> rounds = list(cem_rounds(np.array([10.0]), draw, fit, **settings))
    >>> bool(abs(rounds[-1].parameters[0] - 3.0) < 0.2)
    True
    """
    for _ in range(max_iter):
        values, best = draw(parameters)
        allowed = np.isfinite(values)
        if not allowed.any():
            return
        n_elite = int(np.ceil(elite_fraction * allowed.sum()))
        # Algorithm 2, lines 7 and 8, with the largest values kept: the elite is strictly better than the rest, because
        # ties would fill it with samples that are no better than most.
        rest = np.append(np.sort(values)[::-1], -np.inf)[n_elite]
        elite = np.flatnonzero((values > rest) | (values == values.max()))
        largest_change = np.inf
        if fit is not None:
            fitted = fit(parameters, elite)
            smoothed = smoothing * fitted + (1.0 - smoothing) * parameters
            largest_change = float(np.abs(smoothed - parameters).max(initial=0.0))
            parameters = smoothed
        yield Round(parameters, values, best, float(values[elite].min()), largest_change)
        if largest_change <= tol:
            return


@errors_from("cem_optimize")
def cem_optimize(
    proposal: Proposal,
    objective: Callable[[Any], float],
    *,
    start: FloatArray | None = None,
    n_samples: int = 100,
    elite_fraction: float = 0.1,
    smoothing: float = 0.7,
    max_iter: int = 100,
    tol: float = 1e-3,
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    verbose: bool = False,
) -> CEMResult:
    r"""Maximise any objective by the cross-entropy method (CEM-Optimize, Algorithm 2 of Rohanimanesh2009).

    Each round draws samples from a parametrised proposal, keeps the best ones (the elite), and moves the parameters to
    those under which the elite is most probable. Choose it if the objective is a black box and good solutions resemble
    each other; it has no guarantee. If neighbouring states can be scored fast, hill climbing or annealing by `decode`
    needs fewer evaluations.

    Parameters
    ----------
    proposal : Proposal
        Distribution of samples: `CategoricalProposal`, `PermutationProposal`, `GaussianProposal`, or your own class.
    objective : function of a sample
        Value to maximise; -inf (or NaN) marks a sample that is not allowed.
    start : float array, optional
        First parameters; `proposal.initial()` by default.
    n_samples : int
        Number of samples in a round.
    elite_fraction : float
        Fraction :math:`\rho` of the samples that is kept at most, unless more tie for the best. Only samples that are
        strictly better than the rest are kept.
    smoothing : float
        Step :math:`\alpha` in (0, 1] from the old parameters to the fitted ones:
        :math:`\lambda_{t+1} = \alpha \bar\lambda + (1 - \alpha) \lambda_t`. Smaller values search longer.
    max_iter : int
        Maximum number of rounds.
    tol : float
        The search has converged when no parameter changes by more than this.
    time_limit : float, optional
        Seconds after which the search stops, with the best sample so far.
    random_state : int, Generator or None
        Seed.
    verbose : bool
        Whether to show progress on stderr, only on a terminal.

    Returns
    -------
    CEMResult
        Ctrl-C ends the search and returns the best sample so far; without any sample, it is raised.

    Raises
    ------
    InvalidInputError
        If a setting is invalid, the objective does not return a number, or no sample of the first round is allowed.

    References
    ----------
    Rohanimanesh2009, Algorithm 2; DeBoer2005.

    Examples
    --------
    The assignment of three workers to three tasks with the smallest total cost:

    >>> from intarsia.worlds import PermutationProposal
    >>> cost = np.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> result = cem_optimize(PermutationProposal(3), lambda task: -cost[range(3), task].sum())
    >>> result.best.tolist(), result.value
    ([1, 0, 2], -5.0)
    """
    if not isinstance(proposal, Proposal):
        raise InvalidInputError(
            f"proposal is a {type(proposal).__name__}, expected a Proposal. Use PermutationProposal, "
            f"CategoricalProposal or GaussianProposal, or derive your class from intarsia.worlds.Proposal."
        )
    if not callable(objective):
        raise InvalidInputError(
            f"objective is a {type(objective).__name__}, expected a function of a sample. Pass a function that returns "
            f"a number to maximise."
        )
    check_cem_settings("", n_samples, elite_fraction, smoothing, max_iter, tol)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0.0, high=np.inf)
    first = as_float_array(proposal.initial() if start is None else start, "start").copy()
    rng, start_time = as_generator(random_state), time.perf_counter()
    samples: list[Any] = []

    def draw(parameters: FloatArray) -> tuple[FloatArray, Any]:
        samples[:] = proposal.sample_many(parameters, rng, int(n_samples))
        values = np.array([_value(objective, sample) for sample in samples])
        return values, samples[int(np.argmax(values))]

    def fit(parameters: FloatArray, elites: IntArray) -> FloatArray:
        weights = np.full(elites.size, 1.0 / elites.size)
        fitted = np.asarray(proposal.fit(parameters, [samples[k] for k in elites], weights), dtype=np.float64)
        if fitted.shape != parameters.shape or not np.isfinite(fitted).all():
            raise InvalidInputError(
                f"{type(proposal).__name__}.fit returned parameters of shape {fitted.shape}, expected "
                f"{parameters.size} finite numbers. Correct fit."
            )
        return fitted

    settings = {"elite_fraction": float(elite_fraction), "smoothing": float(smoothing), "tol": float(tol)}
    rows: list[Round] = []
    best, value, parameters, status = None, -np.inf, first, Status.MAX_ITER
    with search_progress("cem_optimize", bool(verbose)) as report:
        try:
            for row in cem_rounds(first, draw, fit, max_iter=int(max_iter), **settings):
                rows.append(row)
                parameters = row.parameters
                if row.values.max() > value:
                    best, value = row.best, float(row.values.max())
                if report is not None:
                    report(len(rows) * int(n_samples), value)
                if row.largest_change <= float(tol):
                    status = Status.CONVERGED
                if time_limit is not None and time.perf_counter() - start_time > float(time_limit):
                    status = Status.TIME_LIMIT
                    break
        except KeyboardInterrupt:
            if not rows:
                raise
            status = Status.INTERRUPTED
    if not rows:
        raise InvalidInputError(
            f"none of the {n_samples} samples of the first round has a finite objective. Raise n_samples, or let the "
            f"proposal draw only samples that are allowed."
        )
    history = {
        "best": np.array([row.values.max() for row in rows]),
        "threshold": np.array([row.threshold for row in rows]),
        "mean": np.array([row.values[np.isfinite(row.values)].mean() for row in rows]),
    }
    seconds = time.perf_counter() - start_time
    return CEMResult(best, value, parameters, status, len(rows), len(rows) * int(n_samples), seconds, history)


def check_cem_settings(
    prefix: str, n_samples: Any, elite_fraction: Any, smoothing: Any, max_iter: Any, tol: Any
) -> None:
    """Raise if a setting of the cross-entropy method is out of range; the prefix begins the messages.

    Examples
    --------
    >>> check_cem_settings("", 0, 0.1, 0.7, 10, 1e-3)
    Traceback (most recent call last):
    intarsia.exceptions.InvalidInputError: n_samples must be an integer in [1, inf], got 0.
    """
    for name, count in (("n_samples", n_samples), ("max_iter", max_iter)):
        check_number(count, f"{prefix}{name}", low=1, integer=True)
    check_number(elite_fraction, f"{prefix}elite_fraction", low=0.0, high=1.0, open_low=True)
    check_number(smoothing, f"{prefix}smoothing", low=0.0, high=1.0, open_low=True)
    check_number(tol, f"{prefix}tol", low=0.0, high=np.inf)


def _value(objective: Callable[[Any], float], sample: Any) -> float:
    """Return the objective of a sample; NaN counts as -inf; raise if it is not a number."""
    value = objective(sample)
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"objective returned {value!r:.80} ({type(value).__name__}), expected a number. Return a float."
        ) from error
    if number == np.inf:
        raise InvalidInputError("objective returned inf. Use finite numbers, or -inf for samples that are not allowed.")
    return -np.inf if np.isnan(number) else number
