"""Energies of every kind on small graphs with named labels, for the tests of energies and of inference methods."""

from __future__ import annotations

import numpy as np

from intarsia.energies import (
    Absolute,
    Count,
    CrossCliqueEnergy,
    DistanceToSet,
    FunctionEnergy,
    Hinge,
    Huber,
    MeasuredEnergy,
    PoissonCounts,
    SegmentStarts,
    SmoothedHinge,
    SoftInterval,
    Squared,
    StartsAfter,
    Transitions,
    segment_preferences,
)
from intarsia.graph import chain_graph

BIO = ["O", "B-x", "B-y"]


def half_square(mu, graph):
    return 0.5 * float(mu @ mu)


def identity(mu, graph):
    return mu.copy()


# The psi of the three energies with kinks is so large that the optimum of `chain` is at the kink.
ENERGIES = {
    "hinge": MeasuredEnergy(Count("B-x"), Hinge(0.2), psi=3.0),
    "smoothed_hinge": MeasuredEnergy(Count("B-x"), SmoothedHinge(0.3, width=0.7), psi=2.0),
    "squared": MeasuredEnergy(Transitions("O", "B-y"), Squared(0.9), psi=3.0),
    "absolute": MeasuredEnergy(SegmentStarts("x") - SegmentStarts("y"), Absolute(0.4), psi=4.0),
    "huber": MeasuredEnergy(2.0 * Count("O") + Count("B-y"), Huber(1.5, width=0.5), psi=1.2),
    "interval": MeasuredEnergy(Count("O"), SoftInterval(1.5, 1.6), psi=3.0),
    "rounded_interval": MeasuredEnergy(Count("O"), SoftInterval(1.2, 1.6, width=0.5), psi=1.1),
    "order": MeasuredEnergy(StartsAfter("x", "y"), SmoothedHinge(0.5), psi=2.0),
    "segments": segment_preferences(["O", "B-x", "B-y"], psi=0.7),
    "poisson": PoissonCounts([[2, 0, 1], [np.nan, 3, 0.5], [0, 0, 4]], rate=4.0),
    "poisson_with_background": PoissonCounts([[2, 0, 1], [0, 3, 0], [0, 0, 4]], rate=4.0, background=0.5),
    "words": DistanceToSet([["B-x", "O", "B-y"], ["O", "O", "B-x"]], positional=True, psi=0.8),
    "capped": DistanceToSet([["B-x", "O", "B-y"], ["O", "O", "B-x"]], positional=True, psi=0.8, cap=3.0),
    "counts": DistanceToSet([["B-x", "O", "B-y"], ["O", "O", "B-x"]], positional=False, psi=0.8),
    "cross_clique": CrossCliqueEnergy(
        [((0, 2), [[1, -1, 0.5], [0, 2, 0], [-1, 0, 1]]), ((0, 1, 2), np.arange(27.0).reshape(3, 3, 3) / 20)]
    ),
    "function": FunctionEnergy(half_square, identity, convex=True, floor=0.0),
    "sum": MeasuredEnergy(Count("B-x"), Hinge(0.8))
    + 2.0 * MeasuredEnergy(Count("O"), Squared(1.0), psi=0.5)
    + DistanceToSet([["B-x", "O", "B-y"], ["O", "B-y", "O"]], psi=3.0),
}


def chain(shared=False, length=3):
    """Return a chain of variables with three states and random scores."""
    graph = chain_graph(length, 3, shared=shared)
    return graph, np.random.default_rng(4).standard_normal(graph.n_theta)
