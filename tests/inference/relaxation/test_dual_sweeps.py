"""Sweeps compared with the smoothed dual in plain NumPy, and the linear domain with the log domain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.inference.relaxation.test_dual_decomposition import full_tables
from tests.zoo import ZOO

import intarsia
from intarsia._kernels.dual_smoothing import extrapolate
from intarsia.inference.relaxation import dual_sweeps
from intarsia.inference.relaxation.dual_sweeps import DualSweeps


def smoothed_messages(table, sent, t):
    """Return the smoothed max-marginal of the columns of a table minus the messages of its rows, normalised."""
    out = t * logsumexp((table - sent[:, None]) / t, axis=0)
    return out - out.max()


def chain_of_two(kind, weight, unary, t, n_states=4):
    """Return the table of a chain of two variables and the beliefs after one sweep."""
    graph = intarsia.chain_graph(2, n_states, kind=kind)
    theta = graph.pack(np.array([unary, np.zeros(n_states)]), np.reshape(weight, (1, *np.shape(weight))))
    sweeps = DualSweeps(graph, theta)
    sweeps.run(t, sweeps.delta)
    return graph.factor_table(theta, 0), sweeps.beliefs


@pytest.mark.parametrize("t", [2.0, 0.1, 1e-3])
@pytest.mark.parametrize("weight", [3.0, 0.2, 0.0, -0.5, -4.0])
def test_potts_smoothing_does_not_underflow(t, weight):
    unary = np.array([0.0, 2.0, -1.0, 1.2])
    table, beliefs = chain_of_two("potts", weight, unary, t)
    np.testing.assert_allclose(beliefs[4:], smoothed_messages(table, -unary, t), atol=1e-9)


@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("t", [1.0, 0.05])
def test_linear_domain_equals_log_domain(size, t, monkeypatch):
    rng = np.random.default_rng(0)
    graph = intarsia.from_edges([3, 4, 2, 3], [[0, 1], [2, 1], [2, 0], [3, 2], [1, 3]])
    theta = size * rng.standard_normal(graph.n_theta)
    theta[rng.random(theta.size) < 0.1] = -np.inf
    values = []
    for linear in (0.0, np.inf):
        monkeypatch.setattr(dual_sweeps, "_LINEAR_RANGE", linear)
        sweeps = DualSweeps(graph, theta)
        sweeps.start(None)
        values.append([sweeps.run(t, sweeps.delta) for _ in range(4)] + [sweeps.delta])
    np.testing.assert_allclose(values[0][:4], values[1][:4], rtol=1e-9)
    np.testing.assert_allclose(values[0][4], values[1][4], rtol=1e-6, atol=1e-7 * size)


@pytest.mark.parametrize("model", ["grid_three_states", "potts", "unequal_state_counts", "hard_zeros"])
@pytest.mark.parametrize("t", [0.5, 0.01, 1e-4])
def test_smoothed_sweeps_decrease_and_stay_above_the_relaxation(model, t):
    graph, theta = full_tables(*ZOO[model]())
    bound = intarsia.infer(graph, theta, "lp_relaxation", "map").upper_bound
    sweeps = DualSweeps(graph, theta)
    sweeps.start(None)
    values = [sweeps.run(t, sweeps.delta) for _ in range(30)]
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] >= bound - 1e-9


def test_extrapolation_keeps_impossible_states():
    delta, before = np.array([1.0, np.inf, np.inf, 2.0]), np.array([0.0, np.inf, 5.0, 2.0])
    extrapolate(delta, before, 0.5)
    assert delta.tolist() == [1.5, np.inf, np.inf, 2.0]
    assert before.tolist() == [1.0, np.inf, np.inf, 2.0]
