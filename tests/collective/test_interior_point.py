"""Optimum of a synthetic migration, compared with an interior-point solver (Clarabel through cvxpy, minutes)."""

import numpy as np
import pytest
from scipy.special import gammaln

from intarsia.collective import infer_flows
from intarsia_reproduction.workloads.collective_workloads import migration

OPTIMUM = 91672.377  # maximum, with walkers instead of fractions in the entropy, without log y!


@pytest.mark.parametrize("method", ["dual", "mirror_descent"])
def test_objective_equals_the_interior_point_optimum(method):
    made = migration(50)  # `w7_cgm(50)`
    result = infer_flows(made.theta, made.counts, made.n_walkers, method=method, tol=1e-9)
    value = -result.objective - made.n_walkers * np.log(made.n_walkers) + gammaln(made.counts + 1.0).sum()
    assert value == pytest.approx(OPTIMUM, abs=2e-3)
    assert result.n_iter < 100
