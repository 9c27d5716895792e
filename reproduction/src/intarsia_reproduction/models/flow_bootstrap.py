"""Intervals for flows by parametric bootstrap: simulate populations, count them with noise, infer flows again."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.error_context import without_warnings
from intarsia._core.settings import clone
from intarsia._core.validation import IntArray
from intarsia.collective import CollectiveChain
from intarsia.collective.oracle import Messages, WalkOracle
from intarsia.exceptions import ConvergenceWarning


def flow_interval(
    model: CollectiveChain, step: int, level: float, n_draws: int, refit: bool, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Return the ends of intervals for the numbers of walkers on the moves from `step` to the next.

    Populations are simulated from the inferred chain and counted with Poisson noise at the places that were observed.
    With `refit` the model is fitted again to these counts; otherwise the learned moves are held fixed. The interval is
    the basic bootstrap interval: the estimate minus quantiles of the errors.
    """
    result, counts, noise = model.infer(), model.counts_, model.noise_
    messages, oracle = result._require()
    estimate = result.n_walkers * oracle.flow(messages, step).reshape(-1)
    observed = ~np.isnan(counts)
    errors = np.empty((n_draws, estimate.size))
    n_walkers = max(round(result.n_walkers), 1)
    with without_warnings(ConvergenceWarning):
        for draw in range(n_draws):
            walkers, flow = simulate_population(oracle, messages, n_walkers, step, rng)
            simulated = np.full(counts.shape, np.nan)
            simulated[observed] = rng.poisson(noise.rate * walkers[observed])
            if refit:
                again: Any = clone(model).set_params(n_walkers=model.n_walkers_, warm_start=False)
                inferred = again.fit(simulated).infer()
            else:
                inferred = model.infer(simulated)
            new_messages, new_oracle = inferred._require()
            errors[draw] = inferred.n_walkers * new_oracle.flow(new_messages, step).reshape(-1) - flow
    # These quantiles have the right probability on average for any number of draws.
    probabilities = [(1.0 - level) / 2, (1.0 + level) / 2]
    low_error, high_error = np.quantile(errors, probabilities, axis=0, method="weibull")
    low, high = np.maximum(estimate - high_error, 0.0), np.maximum(estimate - low_error, 0.0)
    matrix = oracle.tables.matrix
    return matrix(np.minimum(low, estimate)), matrix(np.maximum(high, estimate))


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
