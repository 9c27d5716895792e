"""Collective models on which Intarsia and its peers are timed: fixed seeds, the same bits on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia.collective import Moves, moves_within


@dataclass(frozen=True, eq=False)
class Migration:
    """Counts (T, s) of walkers who move by scores theta (s, s)."""

    counts: FloatArray
    theta: FloatArray
    n_walkers: float


def migration(n_cells: int, n_steps: int = 20, n_walkers: int = 1000, seed: int = 702) -> Migration:
    """Walkers on a line, or on a square where `n_cells` is one, with Poisson counts of them; as `w7_cgm`.

    Scores fall with the square of the distance, and some cells attract more than others. The order of random draws
    matters.

    Examples
    --------
    >>> made = migration(9, n_steps=3)
    >>> made.counts.shape, made.theta.shape
    ((3, 9), (9, 9))
    """
    rng = np.random.default_rng(seed)
    side = round(np.sqrt(n_cells))
    if side * side == n_cells:
        at = np.stack(np.divmod(np.arange(n_cells), side), axis=1).astype(float)
        apart = at[:, None] - at[None]
    else:
        at = np.arange(n_cells, dtype=float)[:, None]
        apart = (at[:, None] - at[None]) / n_cells * 7.0
    squares = (apart**2).sum(axis=-1)
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
    """Gaussian noise on all counts of cells and moves of a random chain; as `w7_mbi`, draws in its order.

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
        drawn = rng.random(n_walkers)
        x[:, t + 1] = np.minimum((drawn[:, None] > np.cumsum(table[x[:, t]], axis=1)).sum(axis=1), n_cells - 1)
    cells = [np.bincount(x[:, t], minlength=n_cells) + sigma * rng.standard_normal(n_cells) for t in range(n_steps)]
    moves = []
    for t in range(n_steps - 1):
        pairs = np.bincount(x[:, t] * n_cells + x[:, t + 1], minlength=n_cells**2).reshape(n_cells, n_cells)
        moves.append(pairs + sigma * rng.standard_normal((n_cells, n_cells)))
    return NoisyMarginals(np.array(cells), np.array(moves), float(n_walkers), sigma)


@dataclass(frozen=True, eq=False)
class BandedYear:
    """Weekly counts (T, s) of birds on a map, whose moves have a limited length; theta is sparse (s, s)."""

    counts: FloatArray
    theta: sparse.csr_array
    moves: Moves
    n_walkers: float


def banded_year(n_weeks: int = 52, rows: int = 25, columns: int = 40, n_walkers: float = 1e5) -> BandedYear:
    """A population that moves north and back over a grid of cells, at most three cells a week.

    Examples
    --------
    >>> made = banded_year(4, 3, 5)
    >>> made.counts.shape, made.theta.shape
    ((4, 15), (15, 15))
    """
    rng = np.random.default_rng(703)
    # Down the shorter side first: moves then reach less far in the numbering of cells.
    at = np.stack(np.divmod(np.arange(rows * columns), rows)[::-1], axis=1).astype(float)
    moves = moves_within(at, 3.0, ["squared_distance"])
    theta = moves.matrix(moves.log_softmax(-6.0 * moves.features[:, 0]))
    middle = (rows - 1) * (0.5 - 0.4 * np.cos(2 * np.pi * np.arange(n_weeks) / max(n_weeks, 1)))
    shape = np.exp(-(((at[None, :, 0] - middle[:, None]) / 3.0) ** 2) - ((at[:, 1] - columns / 2) / 12.0) ** 2)
    density = shape * rng.gamma(2.0, size=rows * columns)
    expected = n_walkers * density / density.sum(axis=1, keepdims=True)
    return BandedYear(rng.poisson(expected).astype(float), theta, moves, n_walkers)
