"""The optimum that an interior-point solver (Clarabel through cvxpy, minutes) found on a synthetic migration."""

import numpy as np
import pytest
from scipy.special import gammaln

from intarsia.collective import infer_flows

FOUND = 91672.377  # the largest value, walkers instead of shares in the entropy, log y! left out


def migration(n_cells, n_steps=20, n_walkers=1000, seed=702):
    """Counts and scores of the instance `w7_cgm(50)`; the order of random draws matters."""
    rng = np.random.default_rng(seed)
    x = np.arange(n_cells, dtype=float)
    theta = -(((x[:, None] - x) / n_cells * 7.0) ** 2) / 2.0 + (rng.standard_normal(n_cells) * 0.3)[None, :]
    p = np.exp(theta)
    p /= p.sum(axis=1, keepdims=True)
    n = np.zeros((n_steps, n_cells), int)
    n[0] = rng.multinomial(n_walkers, np.full(n_cells, 1 / n_cells))
    for t in range(1, n_steps):
        for i in range(n_cells):
            n[t] += rng.multinomial(n[t - 1, i], p[i])
    return rng.poisson(n).astype(float), theta, float(n_walkers)


@pytest.mark.parametrize("method", ["dual", "mirror_descent"])
def test_the_same_objective(method):
    counts, theta, n_walkers = migration(50)
    result = infer_flows(theta, counts, n_walkers, method=method, tol=1e-9)
    value = -result.objective - n_walkers * np.log(n_walkers) + gammaln(counts + 1.0).sum()
    assert value == pytest.approx(FOUND, abs=2e-3)
    assert result.n_iter < 100
