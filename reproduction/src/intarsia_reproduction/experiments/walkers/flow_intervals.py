"""Coverage of the intervals for flows of a collective model, on simulated populations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia.collective import CollectiveChain, moves_within
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.flow_bootstrap import flow_interval
from intarsia_reproduction.models.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ENDS = ("", ", low", ", high")  # mean over populations, and the ends of its 95 % interval
_WIDER = ", half a walker wider"  # flows are integers, and the ends of the intervals are not
# Number of walkers, and whether moves are learned, of each figure.
_FIXED: dict[str, tuple[int, bool]] = {
    "known moves, 200 walkers": (200, False),
    "known moves, 2000 walkers": (2000, False),
    "learned moves held fixed, 500 walkers": (500, True),
}
_REFITTED: dict[str, tuple[int, bool]] = {"learned moves fitted again, 500 walkers": (500, True)}
_REFITTED_START: dict[str, tuple[int, bool]] = {"known moves, start fitted again, 200 walkers": (200, False)}


def flow_intervals(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the fraction of true flows inside intervals of 90 %.

    Examples
    --------
    >>> [task.key for task in flow_intervals(quick=True).tasks]
    ['coverage', 'refit', 'refit-start']
    """
    tasks = []
    for key, label, cases, n_populations in (
        ("coverage", "fraction of the true flows inside, refit=False", _FIXED, 120),
        ("refit", "fraction of the true flows inside, refit=True", _REFITTED, 25),
        ("refit-start", "fraction of the true flows inside, refit=True, known moves", _REFITTED_START, 60),
    ):
        figures: dict[str, float | None] = {name + end: None for name in cases for end in _ENDS}
        run = partial(_coverage, cases, key != "coverage", 2 if quick else n_populations, 20 if quick else 40)
        tasks.append(Task(key, label, figures, "fraction", run, separate=key != "coverage"))
    return Experiment(
        "flow-intervals",
        "Coverage of 90 % intervals for flows",
        tasks,
        _figures,
        "simulated walkers on a line of six cells, six steps, Poisson counts",
        question="Do intervals of 90 % contain 90 % of the true flows?",
    )


def _coverage(cases: dict[str, tuple[int, bool]], refit: bool, n_populations: int, n_draws: int, _: Path) -> Finding:
    """Return how often 90 % intervals contain the true flows of simulated populations."""
    values: dict[str, float] = {}
    arrays = {}
    for name, (n_walkers, learn) in cases.items():
        cases_of_seeds = [flows_and_intervals(seed, n_walkers, n_draws, learn, refit) for seed in range(n_populations)]
        inside = np.array([_inside(*case) for case in cases_of_seeds])
        values[name + _WIDER] = float(np.mean([_inside(*case, margin=0.5) for case in cases_of_seeds]))
        arrays[f"inside {name}"] = inside
        fractions = inside.mean(axis=1)
        values |= dict(
            zip((name + end for end in _ENDS), (float(fractions.mean()), *mean_interval(fractions)), strict=True)
        )
    settings = {"level": 0.9, "draws": n_draws, "cells": 6, "steps": 6, "rate": 1.0, "refit": refit}
    return Finding(values, n_populations, arrays, settings)


def covered_flows(seed: int, n_walkers: int, n_draws: int, learn: bool, refit: bool = False) -> NDArray[np.bool_]:
    """Simulate a population on a line of six cells and return whether the intervals of its flows contain them.

    All moves that leave a cell are equally probable; the model knows that, or learns it from the counts.
    """
    return _inside(*flows_and_intervals(seed, n_walkers, n_draws, learn, refit))


def flows_and_intervals(
    seed: int, n_walkers: int, n_draws: int, learn: bool, refit: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the true flows of a simulated population, and the ends of their intervals."""
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
    ends = flow_interval(model.fit(counts), 2, 0.9, n_draws, refit, np.random.default_rng(seed))
    low, high = (sparse.csr_array(matrix).toarray() for matrix in ends)
    possible = probabilities > 0
    return flows[2][possible].astype(np.float64), low[possible], high[possible]


def _inside(flows: FloatArray, low: FloatArray, high: FloatArray, margin: float = 1e-9) -> NDArray[np.bool_]:
    return np.asarray((flows >= low - margin) & (flows <= high + margin))


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    return {}
