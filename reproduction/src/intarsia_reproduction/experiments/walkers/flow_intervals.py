"""Coverage of the intervals for flows of a collective model, on simulated populations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia.collective import CollectiveChain, moves_within
from intarsia_reproduction.experiment import Experiment, Finding, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KNOWN, _LEARNED = "known moves, {} walkers", "learned moves held fixed, 500 walkers"
_COVERAGE: dict[str, float | None] = dict.fromkeys((_KNOWN.format(200), _KNOWN.format(2000), _LEARNED))


def flow_intervals(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the fraction of true flows inside intervals of 90 %.

    Examples
    --------
    >>> [task.key for task in flow_intervals(quick=True).tasks]
    ['coverage']
    """
    run = partial(_coverage, quick)
    return Experiment(
        "flow-intervals",
        "Coverage of 90 % intervals for flows",
        [Task("coverage", "fraction of the true flows inside", _COVERAGE, "fraction", run)],
        _figures,
        "simulated walkers on a line of six cells, six steps, Poisson counts; intervals without refitting",
        question="Do intervals of 90 % contain 90 % of the true flows?",
    )


def _coverage(quick: bool, _: Path) -> Finding:
    """Return how often 90 % intervals contain the true flows of simulated populations."""
    values, arrays = {}, {}
    n_populations, n_draws = (2, 20) if quick else (10, 40)
    for name, n_walkers, learn in (
        (_KNOWN.format(200), 200, False),
        (_KNOWN.format(2000), 2000, False),
        (_LEARNED, 500, True),
    ):
        inside = [covered_flows(seed, n_walkers, n_draws, learn) for seed in range(n_populations)]
        arrays[f"inside {name}"] = np.array(inside)
        values[name] = float(np.mean(inside))
    settings = {"level": 0.9, "draws": n_draws, "cells": 6, "steps": 6, "rate": 1.0, "refit": False}
    return Finding(values, n_populations, arrays, settings)


def covered_flows(seed: int, n_walkers: int, n_draws: int, learn: bool) -> NDArray[np.bool_]:
    """Simulate a population on a line of six cells and compare the intervals of its flows with the true flows.

    All moves that leave a cell are equally probable; the model knows that, or learns it from the counts.
    """
    rng = np.random.default_rng(seed)
    moves = moves_within(np.arange(6.0)[:, None], 1.0, ("stay", "axis_0"))
    probabilities = moves.matrix(np.exp(moves.log_softmax(np.zeros(moves.idx.size)))).toarray()
    walkers, flows = [rng.multinomial(n_walkers, [0.4, 0.3, 0.15, 0.1, 0.04, 0.01])], []
    for _ in range(5):
        flow = [rng.multinomial(number, row) for number, row in zip(walkers[-1], probabilities, strict=True)]
        flows.append(np.stack(flow))
        walkers.append(flows[-1].sum(axis=0))
    counts = rng.poisson(np.array(walkers)).astype(float)
    model = CollectiveChain(moves, n_walkers=n_walkers, learn="auto" if learn else "nothing", tol=1e-4)
    interval = model.fit(counts).flow_interval(2, n_draws=n_draws, refit=False, random_state=seed)
    low, high = (sparse.csr_array(matrix).toarray() for matrix in (interval.low, interval.high))
    inside = (flows[2] >= low - 1e-9) & (flows[2] <= high + 1e-9)
    return np.asarray(inside[probabilities > 0])


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    return {}
