"""The optimum that an interior-point solver (Clarabel through cvxpy, minutes) found on a synthetic migration."""

import numpy as np
import pytest
from scipy.special import gammaln

from intarsia.collective import infer_flows
from intarsia_reproduction.workloads.collective_workloads import migration

FOUND = 91672.377  # the largest value, walkers instead of shares in the entropy, log y! left out


@pytest.mark.parametrize("method", ["dual", "mirror_descent"])
def test_the_same_objective(method):
    made = migration(50)  # `w7_cgm(50)`
    result = infer_flows(made.theta, made.counts, made.n_walkers, method=method, tol=1e-9)
    value = -result.objective - made.n_walkers * np.log(made.n_walkers) + gammaln(made.counts + 1.0).sum()
    assert value == pytest.approx(FOUND, abs=2e-3)
    assert result.n_iter < 100
