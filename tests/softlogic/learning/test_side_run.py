"""ADMM with changing weights equals `ConsensusADMM.advance`, and so do the features."""

from __future__ import annotations

import numpy as np
import pytest
from tests.softlogic.random_hinges import random_mrf

from intarsia.softlogic import ConsensusADMM, HingeLossMRF
from intarsia.softlogic.learning.side_run import GroupSteps


def grouped(seed, n_groups=4, **sizes):
    model = random_mrf(seed, **sizes)
    group = np.random.default_rng(seed).integers(0, n_groups, model.n_terms).astype(np.int32)
    return HingeLossMRF(
        model.n_variables,
        model.terms,
        1.0,
        model.power,
        group,
        model.equalities,
        model.inequalities,
        group_names=tuple("abcd"[:n_groups]),
    )


@pytest.mark.parametrize("alpha", [1.0, 1.6])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_changing_weights_of_groups_step_by_step(seed, alpha):
    model = grouped(seed, n=12, n_terms=40, density=0.15)  # some terms have no variables
    assert (np.diff(model.terms.ptr) == 0).any()
    solver = ConsensusADMM(step_size=0.8, over_relaxation=alpha)
    slow, fast = solver.start(model), solver.start(model)
    steps = GroupSteps(model, fast.plan, alpha)
    rng = np.random.default_rng(seed)
    for _ in range(6):
        weights = rng.exponential(1.0, 4) * (rng.random(4) < 0.7)  # weights can be 0
        solver.advance(model.with_weights(weights), slow, 2)
        assert steps.advance(fast, weights, 2, 0.0) == 2
        np.testing.assert_array_equal(fast.consensus, slow.consensus)
        excess = np.maximum(solver.local_values(model, slow), 0.0) ** model.power
        expected = np.bincount(model.term_group, weights=excess, minlength=4)
        np.testing.assert_allclose(steps.features(fast), expected, atol=1e-12)
    assert fast.n_iter == slow.n_iter == 12


def test_iterations_stop_if_both_residuals_are_small():
    model = grouped(3, n_equalities=0, n_inequalities=0)
    solver = ConsensusADMM(step_size=1.0, over_relaxation=1.0)
    weights, tol = np.array([1.0, 0.5, 2.0, 1.5]), 1e-3
    watched, state = solver.start(model), solver.start(model)
    needed = 1
    while max(solver.advance(model.with_weights(weights), watched, 1)) > tol:
        needed += 1
    steps = GroupSteps(model, state.plan, 1.0)
    assert 1 < needed < 5000
    assert steps.advance(state, weights, 10 * needed, tol) == needed
    np.testing.assert_array_equal(state.consensus, watched.consensus)
    assert (
        steps.advance(state, weights, 5, 100 * tol) == 1
    )  # at least one iteration, because the weights may have changed
