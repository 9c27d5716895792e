"""Scores whose exponentials overflow and runs that are stopped early: bounds hold, and there is no NaN."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.contracts.asking import METHODS, TAKES, all_numbers, ask, check_log_partition
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ZOO

import intarsia
from intarsia.inference import method_class

MODELS = ["chain", "tree", "grid", "complete", "three_way_factor", "unequal_state_counts", "potts", "shared_chain"]
GIVE_MARGINALS = [name for name in METHODS if method_class(name).gives_marginals]


@functools.cache
def extreme(model, kind):
    """Return a graph of the zoo with scores of -3000 or 3000 (many ties) or in between, and the exact result."""
    graph = ZOO[model]()[0]
    rng = np.random.default_rng(5)
    if kind == "two values":
        theta = rng.choice([-3000.0, 3000.0], graph.n_theta)
    else:
        theta = rng.uniform(-3000.0, 3000.0, graph.n_theta)
    return graph, theta, enumerate_model(graph, theta)


@pytest.mark.parametrize(
    ("method", "model"),
    [(name, model) for name in GIVE_MARGINALS for model in MODELS if model in TAKES.get(name, ZOO)],
)
@pytest.mark.parametrize("max_iter", [0, 1, 3])
@pytest.mark.parametrize("kind", ["two values", "between"])
def test_bounds_hold_with_extreme_scores_when_stopped_early(method, model, max_iter, kind):
    graph, theta, truth = extreme(model, kind)
    defaults = method_class(method)().get_params()
    if method == "mean_field":  # at least one sweep is required
        max_iter = max(max_iter, 1)
    settings = {"max_iter": max_iter, "damping": 0.9}
    if "burn_in" in defaults:  # a sampler needs several sweeps for its diagnostics
        settings |= {"max_iter": max_iter + 100, "burn_in": 0}
    result = ask(graph, theta, method, **{key: value for key, value in settings.items() if key in defaults})
    for field, numbers in all_numbers(result):
        assert not np.isnan(numbers).any(), field
    check_log_partition(result, truth)
    if method == "tree_reweighted":  # its bound does not require convergence
        assert np.isfinite(result.upper_bound)
    assert result.n_iter <= settings["max_iter"] or "max_iter" not in defaults
    for v in range(graph.n_variables):
        assert result.marginals(v).sum() == pytest.approx(1.0, abs=1e-9)
    assert result.score <= truth.best_score + 1e-9 * max(1.0, abs(truth.best_score))


@pytest.mark.parametrize("method", GIVE_MARGINALS)
def test_damping_alone_does_not_look_like_convergence(method):
    """With damping 0.9 messages change by a tenth of the undamped step; the residual is the undamped change."""
    if "damping" not in method_class(method)().get_params():
        return
    graph = intarsia.grid_graph(3, 3, 2)
    theta = np.random.default_rng(3).standard_normal(graph.n_theta)
    free, damped = (ask(graph, theta, method, damping=d, tol=1e-6, max_iter=5000) for d in (0.0, 0.9))
    assert free.converged
    assert damped.converged
    np.testing.assert_allclose(damped.mu, free.mu, atol=1e-4)
