"""Small labelled grids that the tests of the learners share."""

from __future__ import annotations

import numpy as np

from intarsia.graph import grid_graph
from intarsia.learning import example
from intarsia.models import LinearScores


def noisy_grids(n=6, noise=1.0, seed=0, shape=(3, 4), **settings):
    """Binary grids with a vertical border, seen through noise: learnable, and not separable."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(n):
        graph = grid_graph(*shape, 2)
        y = (np.arange(shape[1]) >= rng.integers(1, shape[1])).astype(np.int64)
        y = np.broadcast_to(y, shape).reshape(-1)
        u = np.column_stack([y - 0.5 + noise * rng.normal(size=y.size), np.ones(y.size)])
        result.append(example(LinearScores(graph, u), y, **settings))
    return result
