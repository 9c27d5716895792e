"""Conditioning compared with the complete model, and errors on invalid values."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import HingeLossMRF, LinearRows
from intarsia.softlogic.hinge.conditioning import condition


def random_model(rng, n=5, m=14, n_groups=4):
    matrix = rng.integers(-1, 2, (m, n)) * rng.random((m, n))
    return HingeLossMRF(
        n,
        LinearRows.from_scipy(matrix, rng.uniform(-0.5, 1.0, m)),
        1.0,
        rng.integers(1, 3, m),
        term_group=rng.integers(0, n_groups, m),
        group_names=[f"rule {k}" for k in range(n_groups)],
    )


@pytest.mark.parametrize("seed", range(5))
def test_conditioned_and_fixed_features_sum_to_those_of_the_model(seed):
    rng = np.random.default_rng(seed)
    model, point = random_model(rng), rng.random(5)
    known = np.where(rng.random(5) < 0.6, point, np.nan)
    left = condition(model, known)
    np.testing.assert_array_equal(left.free, np.flatnonzero(np.isnan(known)))
    np.testing.assert_allclose(left.model.features(point[left.free]) + left.fixed, model.features(point), atol=1e-12)
    assert (np.diff(left.model.terms.ptr) > 0).all()


def test_all_or_no_variables_known():
    rng = np.random.default_rng(0)
    model, point = random_model(rng), rng.random(5)
    everything = condition(model, point)
    assert everything.model.n_variables == everything.model.n_terms == 0
    np.testing.assert_allclose(everything.fixed, model.features(point), atol=1e-12)
    nothing = condition(model, np.full(5, np.nan))
    np.testing.assert_allclose(nothing.model.features(point) + nothing.fixed, model.features(point), atol=1e-12)


def test_constraints_keep_free_variables_and_groups():
    pair = LinearRows([0, 2, 4], [0, 1, 1, 2], [1.0, 1.0, 1.0, 1.0], [-1.0, -1.0])
    model = HingeLossMRF(
        3, LinearRows.empty(), [], [], equalities=pair, equality_group=[1, 0], group_names=("a", "b"), inequalities=pair
    )
    left = condition(model, [0.25, 0.75, np.nan]).model
    np.testing.assert_allclose(left.equalities.values([0.5]), [0.25])  # x1 + x2 - 1 with x1 = 3/4
    np.testing.assert_array_equal(left.equality_group, [0])
    assert left.inequalities.n_rows == 1
    with pytest.raises(InvalidInputError, match=r"violate equality 0 of 'b' by 0\.5.*give the rule a weight"):
        condition(model, [0.25, 0.25, np.nan])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.0, 1.5], r"values\[1\] is 1\.5\. Pass values in \[0, 1\], NaN where unknown"),
        ([0.0], r"has shape \(1,\), but there are 2 variables"),
        (["a", "b"], "expected numbers"),
    ],
)
def test_invalid_values_raise(values, message):
    model = HingeLossMRF(2, LinearRows([0, 2], [0, 1], [1.0, -1.0], [0.0]), 1.0, 1)
    with pytest.raises(InvalidInputError, match=message):
        condition(model, values)
