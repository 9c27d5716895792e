"""Inference of the positions and flows of a population from noisy counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.clock import Clock
from intarsia._core.error_context import errors_from, warn_caller
from intarsia._core.progress import sweep_progress
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, as_float_array, check_number, too_large
from intarsia.collective.flow_methods import FLOW_METHODS, FlowMethod
from intarsia.collective.noise import NOISES, Noise
from intarsia.collective.problem import CollectiveProblem
from intarsia.collective.result import CollectiveResult
from intarsia.collective.tables import MoveTables, check_counts, move_tables
from intarsia.exceptions import ConvergenceWarning, InvalidInputError


@errors_from("infer_flows")
def infer_flows(
    theta: Any,
    counts: ArrayLike,
    n_walkers: float | None = None,
    *,
    noise: str | Noise = "poisson",
    scores: ArrayLike | None = None,
    flow_counts: ArrayLike | None = None,
    table_of_step: ArrayLike | None = None,
    parents: ArrayLike | None = None,
    model_weight: float = 1.0,
    method: str | FlowMethod = "dual",
    max_iter: int | None = None,
    tol: float | None = None,
    time_limit: float | None = None,
    warm_start: CollectiveResult | None = None,
    verbose: bool = False,
) -> CollectiveResult:
    r"""Infer the expected numbers of walkers in cells and on moves from noisy counts (collective graphical model).

    N walkers move independently along a chain (or tree) of T steps over s cells, with scores theta of their moves; at
    each step they are counted with noise. With Stirling's formula for the log-factorials, the most probable numbers n
    minimise

    .. math:: w \big(-\langle\theta, n\rangle - H(n)\big) - \sum_{t,i} \log p(y_{ti} | n_{ti})

    (Vilnis2015 Eq. 23), a convex problem. Each iteration is one forward-backward pass; memory is a few arrays (T, s).
    Every iterate is a valid distribution, so a run can be stopped at any time.

    Parameters
    ----------
    theta : array (s, s) or (n, s, s), sparse matrix, or a sequence of those
        Scores (log-potentials) of the moves, for all steps or for each; larger is more probable. Moves that a sparse
        matrix does not store are impossible. See `move_tables`.
    counts : array (T, s)
        Counts per step and cell; NaN where nothing was observed.
    n_walkers : float, optional
        Number N of walkers; by default estimated as the mean over the completely observed steps.
    noise : {"poisson", "gaussian", "exact"} or Noise
        Observation noise of the counts.
    scores : array (T, s), optional
        Scores of the cells; those of step 0 can hold the logarithm of the initial distribution.
    flow_counts : array (T - 1, s, s), optional
        Counts of the moves with the same noise; for dense tables only.
    table_of_step : int array (T - 1,), optional
        Index of the table of scores that each pair of steps uses.
    parents : int array (T,), optional
        For a tree of steps instead of a chain: the parent of each step, from which walkers arrive; it precedes the
        step, and is -1 for step 0. Then table t - 1 leads from `parents[t]` to t.
    model_weight : float
        Weight w of the model: 1 gives the posterior; 0 fits the counts alone, starting from the model.
    method : {"dual", "mirror_descent"} or FlowMethod
        L-BFGS on the dual, fast and accurate; or the paper's Algorithm 4, which needs only slopes of the noise.
    max_iter, tol : optional
        Replacements for the settings of `method`: maximum number of iterations (2000), and the residual (see
        `CollectiveResult`) at which the run stops (1e-8).
    time_limit : float, optional
        Limit in seconds; the best result so far is returned.
    warm_start : CollectiveResult, optional
        Earlier result to start from, with counts observed at the same places.
    verbose : bool
        Whether to show progress on a terminal.

    Raises
    ------
    InvalidInputError
        If an argument is invalid, or if a count is positive where no possible path leads.

    Warns
    -----
    ConvergenceWarning
        If the tolerance was not reached.

    Notes
    -----
    The paper solves Eq. 23 by Algorithm 1. Poisson noise has an unbounded slope, with which Algorithm 1 can get stuck;
    Algorithm 4 with backtracking decreases the objective at every step.

    References
    ----------
    Vilnis2015, section 8.3; Sheldon, Sun, Kumar and Dietterich (2013), Approximate inference in collective graphical
    models.

    Examples
    --------
    Ten walkers in two cells cannot move. The counts disagree; by symmetry the result is their mean:

    >>> result = infer_flows([[0.0, -np.inf], [-np.inf, 0.0]], [[6, 4], [4, 6]])
    >>> result.walkers.round(3)
    array([[5., 5.],
           [5., 5.]])
    """
    clock = Clock(time_limit)
    observed = check_counts(counts, "counts")
    noise_model: Noise = NOISES.resolve(noise)
    noise_model.check(observed[~np.isnan(observed)], "counts")
    overrides = {name: value for name, value in (("max_iter", max_iter), ("tol", tol)) if value is not None}
    search_method: FlowMethod = FLOW_METHODS.resolve(method, overrides)
    search_method.check()
    check_number(model_weight, "model_weight", low=0.0, high=1e100)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0.0)
    tables = theta if isinstance(theta, MoveTables) else move_tables(theta, len(observed), table_of_step, parents)
    flows = None if flow_counts is None else as_float_array(flow_counts, "flow_counts")
    problem = CollectiveProblem(
        tables, _cell_scores(scores, observed), observed, flows, _n_walkers(n_walkers, observed, noise_model),
        noise_model, float(model_weight),
    )  # fmt: skip
    start_tilt = np.zeros(problem.y.size) if warm_start is None or warm_start.tilt is None else warm_start.tilt
    if start_tilt.shape != problem.y.shape:
        raise InvalidInputError(
            f"warm_start has {start_tilt.size} counts, but this run has {problem.y.size}. Pass warm_start=None."
        )
    start = problem.evaluate(start_tilt)
    if start is None:
        return CollectiveResult(None, problem.n_walkers, np.inf, np.inf, Status.INFEASIBLE, np.inf, 0)
    search = search_method.search(problem, start, clock)
    with sweep_progress("infer_flows", verbose) as report:
        loop = search.run(int(search_method.max_iter), search_method.tol, report)
    if loop.status in (Status.MAX_ITER, Status.STALLED):
        remedy = "Raise max_iter or tol" if loop.status is Status.MAX_ITER else "Raise tol or change method"
        warn_caller(
            f"{loop.status.message} (residual {search.residual:.1e}, tol {search_method.tol:.1e}). {remedy}.",
            ConvergenceWarning,
        )
    history = {name: np.array(values[: loop.n_iter]) for name, values in search.history.items()}
    best = search.best
    messages = problem.messages_at(best)
    return CollectiveResult(
        messages.marginals, problem.n_walkers, search.best_objective, search.lower, loop.status, search.residual,
        loop.n_iter, history, clock.seconds, best.tilt, messages, problem.oracle_at(best),
    )  # fmt: skip


def _cell_scores(scores: ArrayLike | None, counts: FloatArray) -> FloatArray:
    """Return the scores of the cells, by default 0; raise if a score is invalid."""
    if scores is None:
        return np.zeros_like(counts)
    checked_scores = as_float_array(scores, "scores")
    if np.isnan(checked_scores).any() or too_large(checked_scores):
        raise InvalidInputError("scores hold NaN, +inf or a score beyond 1e200. Pass finite scores, or -inf.")
    return checked_scores


def _n_walkers(n_walkers: float | None, counts: FloatArray, noise: Noise) -> float:
    """Return the number of walkers, by default estimated from the completely observed steps."""
    if n_walkers is not None:
        check_number(n_walkers, "n_walkers", low=0.0, open_low=True, high=1e100)
        return float(n_walkers)
    complete = counts[~np.isnan(counts).any(axis=1)]
    if not len(complete):
        raise InvalidInputError("no step was observed completely, so n_walkers cannot be estimated. Pass n_walkers.")
    total = float(noise.expected(complete).sum(axis=1).mean())
    if not 0.0 < total < np.inf:
        raise InvalidInputError(f"the counts give an estimate of {total:g} walkers. Pass n_walkers.")
    return total
