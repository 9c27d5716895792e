"""Bootstrap intervals for flows: coverage of simulated populations, and what must hold for any interval."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from intarsia import CollectiveChain
from intarsia.collective import make_moves, moves_within
from intarsia_reproduction.experiments.walkers.flow_intervals import covered_flows
from intarsia_reproduction.models.flow_bootstrap import flow_interval

COUNTS = np.array([[50.0, 30, 20], [30, 40, 30], [10, 30, 60]])


def interval(model, step=0, level=0.9, n_draws=12, refit=False):
    ends = flow_interval(model, step, level, n_draws, refit, np.random.default_rng(0))
    return tuple(sparse.csr_array(end).toarray() for end in ends)


def test_intervals_cover_simulated_flows():
    inside = [covered_flows(seed, 400, 25, learn=False) for seed in range(5)]
    assert 0.8 < np.mean(inside) < 1.0


def test_intervals_contain_the_estimate_and_grow_with_the_level():
    model = CollectiveChain(n_walkers=100.0, tol=1e-4).fit(COUNTS)
    (low, high), (lower, higher) = (interval(model, 1, level, 30) for level in (0.5, 0.95))
    estimate = model.flows(1)
    assert (lower <= low + 1e-12).all()
    assert (higher >= high - 1e-12).all()
    assert ((low <= estimate) & (estimate <= high) & (low >= 0.0)).all()


def test_walkers_that_cannot_move_are_known():
    still = CollectiveChain(make_moves(np.eye(2)), learn="nothing", n_walkers=10).fit([[9.0, 1.0], [9.0, 1.0]])
    low, high = interval(still)
    assert low[0, 1] == high[0, 1] == 0.0
    assert (low <= 9.0).all()


def test_refitting_includes_the_uncertainty_of_the_moves():
    moves = moves_within(np.arange(3.0)[:, None], 1.0, ["stay", "axis_0"])
    model = CollectiveChain(moves, n_walkers=100.0, tol=1e-3).fit(COUNTS)
    widths = [np.subtract(*interval(model, refit=refit)[::-1]).sum() for refit in (False, True)]
    assert widths[1] > widths[0]
