"""Where many walkers were and how they moved, from noisy counts of them."""

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
    r"""Expected numbers of walkers in cells and on moves, given noisy counts (collective graphical models).

    N walkers move independently along a chain (or tree) of T steps over s cells, with scores theta of their moves; at
    each step they are counted with noise. The most probable numbers n minimise, with Stirling's formula for the
    logarithms of their factorials,

    .. math:: w \big(-\langle\theta, n\rangle - H(n)\big) - \sum_{t,i} \log p(y_{ti} | n_{ti})

    (Vilnis2015 Eq. 23), a convex problem. Each iteration is one forward-backward pass; memory is a few arrays (T, s).
    Every iterate is a distribution, so that a run may be stopped at any time.

    Parameters
    ----------
    theta : array (s, s) or (n, s, s), sparse matrix, or a sequence of those
        Scores of moves, larger = more probable, for all steps or for each; in a sparse matrix moves that are not
        stored cannot be. See `move_tables`.
    counts : array (T, s)
        What was counted; NaN where nothing was looked for.
    n_walkers : float, optional
        N; by default what the counts of the completely observed steps speak for, on average.
    noise : {"poisson", "gaussian", "exact"} or Noise
        How counts come about.
    scores : array (T, s), optional
        Scores of cells; those of step 0 hold the walkers' first distribution, say.
    flow_counts : array (T - 1, s, s), optional
        Counts of moves with the same noise; for dense tables.
    table_of_step : int array (T - 1,), optional
        Which of several tables each move uses.
    parents : int array (T,), optional
        For a tree of steps instead of a chain: the step from which walkers come to each, earlier than it; -1 for
        step 0. Then the tables lead from `parents[t]` to t, one for each t from 1 on.
    model_weight : float
        w: 1 is the posterior; 0 fits the counts alone, beginning from the model.
    method : {"dual", "mirror_descent"} or FlowMethod
        L-BFGS on the dual, quick and accurate; or the paper's Algorithm 4, which needs only slopes of the noise.
    max_iter, tol : optional
        Instead of those of `method`: iterations at most (2000), and the residual (see `CollectiveResult`) at which it
        stops (1e-8).
    time_limit : float, optional
        Seconds; the best result so far is returned.
    warm_start : CollectiveResult, optional
        Begin where an earlier run on the same pattern of counts ended.
    verbose : bool
        Show progress on a terminal.

    Raises
    ------
    InvalidInputError
        For input that cannot be meant, and for counts where no possible path leads.

    Warns
    -----
    ConvergenceWarning
        When the tolerance was not reached.

    Notes
    -----
    The paper solves Eq. 23 by Algorithm 1. Poisson counts have no bounded slope, so that its steps can stick;
    Algorithm 4 with backtracking always falls.

    References
    ----------
    Vilnis2015, section 8.3; Sheldon, Sun, Kumar and Dietterich (2013), Approximate inference in collective graphical
    models.

    Examples
    --------
    Ten walkers in two cells who cannot move; the counts disagree, and by symmetry the answer stands between them:

    >>> result = infer_flows([[0.0, -np.inf], [-np.inf, 0.0]], [[6, 4], [4, 6]])
    >>> result.walkers.round(3)
    array([[5., 5.],
           [5., 5.]])
    """
    clock = Clock(time_limit)
    observed = check_counts(counts, "counts")
    model: Noise = NOISES.resolve(noise)
    model.check(observed[~np.isnan(observed)], "counts")
    changed = {name: value for name, value in (("max_iter", max_iter), ("tol", tol)) if value is not None}
    search_method: FlowMethod = FLOW_METHODS.resolve(method, changed)
    search_method.check()
    check_number(model_weight, "model_weight", low=0.0, high=1e100)
    if time_limit is not None:
        check_number(time_limit, "time_limit", low=0.0)
    tables = theta if isinstance(theta, MoveTables) else move_tables(theta, len(observed), table_of_step, parents)
    flows = None if flow_counts is None else as_float_array(flow_counts, "flow_counts")
    problem = CollectiveProblem(
        tables, _cell_scores(scores, observed), observed, flows, _total(n_walkers, observed, model), model,
        float(model_weight),
    )  # fmt: skip
    first = np.zeros(problem.y.size) if warm_start is None or warm_start.tilt is None else warm_start.tilt
    if first.shape != problem.y.shape:
        raise InvalidInputError(
            f"warm_start is of a run with {first.size} counts, here are {problem.y.size}. Leave it out."
        )
    start = problem.evaluate(first)
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
    if scores is None:
        return np.zeros_like(counts)
    found = as_float_array(scores, "scores")
    if np.isnan(found).any() or too_large(found):
        raise InvalidInputError("scores hold NaN, +inf or a score beyond 1e200. They are finite, or -inf.")
    return found


def _total(n_walkers: float | None, counts: FloatArray, noise: Noise) -> float:
    if n_walkers is not None:
        check_number(n_walkers, "n_walkers", low=0.0, open_low=True, high=1e100)
        return float(n_walkers)
    complete = counts[~np.isnan(counts).any(axis=1)]
    if not len(complete):
        raise InvalidInputError("no step was observed completely. Give n_walkers.")
    total = float(noise.expected(complete).sum(axis=1).mean())
    if not 0.0 < total < np.inf:
        raise InvalidInputError(f"the counts speak for {total:g} walkers. Give n_walkers.")
    return total
