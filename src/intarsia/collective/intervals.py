"""Intervals for flows by parametric bootstrap: simulate populations, count them with noise, infer flows again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.error_context import without_warnings
from intarsia._core.validation import FloatArray, IntArray
from intarsia.collective.noise import Noise
from intarsia.collective.oracle import Messages, WalkOracle
from intarsia.collective.result import CollectiveResult
from intarsia.exceptions import ConvergenceWarning


@dataclass(frozen=True, eq=False)
class FlowInterval:
    """Intervals for the numbers of walkers on the moves of one step.

    Attributes
    ----------
    estimate, low, high : arrays (s, s), or CSR arrays if the moves are sparse
        Inferred number of walkers on each move, and the ends of its interval.
    level : float
        Nominal probability that the interval of a move contains its number of walkers.
    n_draws : int
        Number of simulated populations.

    Examples
    --------
    >>> from intarsia.collective import CollectiveChain
    >>> counts = np.array([[30.0, 10.0], [20.0, 20.0], [10.0, 30.0]])
    >>> model = CollectiveChain(n_walkers=40).fit(counts)
    >>> interval = model.flow_interval(0, n_draws=20, refit=False, random_state=0)
    >>> interval.estimate.shape, bool((interval.low <= interval.high).all())
    ((2, 2), True)
    """

    estimate: Any
    low: Any
    high: Any
    level: float
    n_draws: int


def flow_interval(
    result: CollectiveResult,
    counts: FloatArray,
    noise: Noise,
    infer: Callable[[FloatArray], CollectiveResult],
    step: int,
    level: float,
    n_draws: int,
    rng: np.random.Generator,
) -> FlowInterval:
    """Return the basic bootstrap interval of the flows of a step: the estimate minus quantiles of simulated errors."""
    messages, oracle = result._require()
    tables = oracle.tables
    estimate = result.n_walkers * oracle.flow(messages, step).reshape(-1)
    observed = ~np.isnan(counts)
    errors = np.empty((n_draws, estimate.size))
    n_walkers = max(round(result.n_walkers), 1)
    with without_warnings(ConvergenceWarning):
        for draw in range(n_draws):
            walkers, flow = simulate_population(oracle, messages, n_walkers, step, rng)
            simulated = np.full(counts.shape, np.nan)
            simulated[observed] = noise.sample(walkers[observed].astype(np.float64), rng)
            inferred = infer(simulated)
            again, again_oracle = inferred._require()
            errors[draw] = inferred.n_walkers * again_oracle.flow(again, step).reshape(-1) - flow
    # These quantiles have the right probability on average for any number of draws.
    probabilities = [(1.0 - level) / 2, (1.0 + level) / 2]
    low_error, high_error = np.quantile(errors, probabilities, axis=0, method="weibull")
    low, high = np.maximum(estimate - high_error, 0.0), np.maximum(estimate - low_error, 0.0)
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    return FlowInterval(tables.matrix(estimate), tables.matrix(low), tables.matrix(high), level, n_draws)


def simulate_population(
    oracle: WalkOracle, messages: Messages, n_walkers: int, step: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return the walkers in each cell at each step of a simulated population, and those on the moves from `step`.

    Walkers of a cell are distributed over its moves by one multinomial draw, whatever their number.
    """
    n_steps, n_cells = messages.marginals.shape
    ptr, idx, _ = oracle.tables.pattern()
    parents = oracle.tables.parent_of_step
    walkers = np.zeros((n_steps, n_cells), dtype=np.int64)
    walkers[0] = rng.multinomial(n_walkers, messages.marginals[0] / messages.marginals[0].sum())
    flow_of_step = np.zeros(idx.size, dtype=np.int64)
    for t in range(1, n_steps):
        weight = oracle.flow(messages, t - 1).reshape(-1)
        flow = np.zeros(idx.size, dtype=np.int64)
        for cell in np.flatnonzero(walkers[parents[t]]):
            moves = slice(ptr[cell], ptr[cell + 1])
            total = weight[moves].sum()
            flow[moves] = rng.multinomial(walkers[parents[t], cell], weight[moves] / total)
        walkers[t] = np.bincount(idx, flow, n_cells)
        if t - 1 == step:
            flow_of_step = flow
    return walkers, flow_of_step
