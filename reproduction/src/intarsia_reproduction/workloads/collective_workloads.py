"""Collective models for timing Intarsia and its peers: fixed seeds, identical on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia.collective import Moves, moves_within


@dataclass(frozen=True, eq=False)
class Migration:
    """Counts (T, s) of individuals (walkers) who move by scores theta (s, s)."""

    counts: FloatArray
    theta: FloatArray
    n_walkers: float


def migration(n_cells: int, n_steps: int = 20, n_walkers: int = 1000, seed: int = 702) -> Migration:
    """Simulate walkers on a line, or on a square if `n_cells` is a square number, with Poisson counts (`w7_cgm`).

    Scores fall with the square of the distance, and some cells attract more than others. The order of the random draws
    must not change.

    Examples
    --------
    >>> workload = migration(9, n_steps=3)
    >>> workload.counts.shape, workload.theta.shape
    ((3, 9), (9, 9))
    """
    rng = np.random.default_rng(seed)
    side = round(np.sqrt(n_cells))
    if side * side == n_cells:
        positions = np.stack(np.divmod(np.arange(n_cells), side), axis=1).astype(float)
        differences = positions[:, None] - positions[None]
    else:
        positions = np.arange(n_cells, dtype=float)[:, None]
        differences = (positions[:, None] - positions[None]) / n_cells * 7.0
    squares = (differences**2).sum(axis=-1)
    theta = -squares / 2.0 + (rng.standard_normal(n_cells) * 0.3)[None, :]
    p = np.exp(theta)
    p /= p.sum(axis=1, keepdims=True)
    n = np.zeros((n_steps, n_cells), dtype=int)
    n[0] = rng.multinomial(n_walkers, np.full(n_cells, 1 / n_cells))
    for t in range(1, n_steps):
        for i in range(n_cells):
            n[t] += rng.multinomial(n[t - 1, i], p[i])
    return Migration(rng.poisson(n).astype(float), theta, float(n_walkers))


@dataclass(frozen=True, eq=False)
class NoisyMarginals:
    """Noisy counts of cells (T, s) and of moves (T - 1, s, s) of a chain."""

    counts: FloatArray
    flow_counts: FloatArray
    n_walkers: float
    sigma: float


def noisy_marginals(
    n_steps: int = 10, n_cells: int = 50, n_walkers: int = 10_000, sigma: float = 20.0, seed: int = 701
) -> NoisyMarginals:
    """Simulate counts of cells and moves of a random chain with Gaussian noise (`w7_mbi`, with its order of draws).

    Examples
    --------
    >>> noisy_marginals(3, 4, 100).flow_counts.shape
    (2, 4, 4)
    """
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.full(n_cells, 0.1), size=n_cells) for _ in range(n_steps - 1)]
    x = np.empty((n_walkers, n_steps), dtype=int)
    first = rng.dirichlet(np.ones(n_cells))
    x[:, 0] = rng.choice(n_cells, size=n_walkers, p=first)
    for t, table in enumerate(tables):
        uniform = rng.random(n_walkers)
        x[:, t + 1] = np.minimum((uniform[:, None] > np.cumsum(table[x[:, t]], axis=1)).sum(axis=1), n_cells - 1)
    cells = [np.bincount(x[:, t], minlength=n_cells) + sigma * rng.standard_normal(n_cells) for t in range(n_steps)]
    moves = []
    for t in range(n_steps - 1):
        pairs = np.bincount(x[:, t] * n_cells + x[:, t + 1], minlength=n_cells**2).reshape(n_cells, n_cells)
        moves.append(pairs + sigma * rng.standard_normal((n_cells, n_cells)))
    return NoisyMarginals(np.array(cells), np.array(moves), float(n_walkers), sigma)


@dataclass(frozen=True, eq=False)
class BandedYear:
    """Weekly counts (T, s) of birds on a map with moves of limited length; theta is sparse (s, s)."""

    counts: FloatArray
    theta: sparse.csr_array
    moves: Moves
    n_walkers: float


def banded_year(n_weeks: int = 52, rows: int = 25, columns: int = 40, n_walkers: float = 1e5) -> BandedYear:
    """Simulate a population that migrates north and back over a grid of cells, at most three cells per week.

    Examples
    --------
    >>> year = banded_year(4, 3, 5)
    >>> year.counts.shape, year.theta.shape
    ((4, 15), (15, 15))
    """
    rng = np.random.default_rng(703)
    # Cells are numbered along the shorter side first, so that moves have a smaller bandwidth.
    positions = np.stack(np.divmod(np.arange(rows * columns), rows)[::-1], axis=1).astype(float)
    moves = moves_within(positions, 3.0, ["squared_distance"])
    theta = moves.matrix(moves.log_softmax(-6.0 * moves.features[:, 0]))
    middle = (rows - 1) * (0.5 - 0.4 * np.cos(2 * np.pi * np.arange(n_weeks) / max(n_weeks, 1)))
    shape = np.exp(
        -(((positions[None, :, 0] - middle[:, None]) / 3.0) ** 2) - ((positions[:, 1] - columns / 2) / 12.0) ** 2
    )
    density = shape * rng.gamma(2.0, size=rows * columns)
    expected = n_walkers * density / density.sum(axis=1, keepdims=True)
    return BandedYear(rng.poisson(expected).astype(float), theta, moves, n_walkers)
