"""Paired learning problem: values by hand, and its subgradient compared with an independent solver."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.finite_differences import central_differences
from tests.oracles.paired_objective import exact_objective

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import HingeLossMRF, LinearRows
from intarsia.softlogic.learning.paired_problem import PairedProblem
from intarsia.softlogic.learning.surrogates import EntropyPair, LabelLoss, QuadraticPrior, SurrogateByRole

NAN = np.nan


def small_model(seed, n_groups=3):
    """Return a model of four variables, the last two latent, with squared and linear rules and z0 + z1 = 1."""
    rng = np.random.default_rng(seed)
    matrix = np.array(
        [[1, 0, -1, 0], [-1, 0, 1, 0], [0, 1, 0, -1], [0, -1, 0, 1], [1, -1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], float
    )
    return HingeLossMRF(
        4,
        LinearRows.from_scipy(matrix, rng.uniform(-0.3, 0.4, 7)),
        1.0,
        rng.integers(1, 3, 7),
        term_group=[0, 1, 0, 1, 2, 2, 0],
        equalities=LinearRows([0, 2], [2, 3], [1.0, 1.0], [-1.0]),
        group_names=[f"rule {k}" for k in range(n_groups)],
    )


@pytest.mark.parametrize("surrogate", [EntropyPair(weight=0.7), QuadraticPrior(), LabelLoss(weight=0.3)], ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_subgradient_equals_finite_differences_of_the_objective(surrogate, seed):
    problem = PairedProblem.of(small_model(seed), [1.0, 0.0, NAN, NAN], surrogate)
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, 3)
    _, gradient = exact_objective(problem, weights, 0.1)
    slope = central_differences(lambda w: exact_objective(problem, w, 0.1)[0], weights, step=1e-3)
    np.testing.assert_allclose(gradient, slope, atol=2e-4)


def test_value_of_the_problem_by_hand():
    """Compute both brackets at a point, with the constants of the surrogate."""
    rng = np.random.default_rng(3)
    model, point = small_model(0), rng.random(4)
    labels = np.array([1.0, 0.0, NAN, NAN])
    weights = rng.random(3)
    whole = np.where(np.isnan(labels), point, labels)
    for surrogate, at_label, at_point in (
        (EntropyPair(weight=2.0), 2.0 * (whole**2 + (1 - whole) ** 2).sum(), 2.0 * (point**2 + (1 - point) ** 2).sum()),
        (QuadraticPrior(weight=2.0), 2.0 * (whole**2).sum(), 2.0 * (point**2).sum()),
        (LabelLoss(weight=2.0), 0.0, -2.0 * (abs(point[0] - 1.0) + abs(point[1]))),
        (None, 0.0, 0.0),
        (
            SurrogateByRole(latent=EntropyPair(weight=2.0), labelled=QuadraticPrior(weight=3.0)),
            2.0 * (whole[2:] ** 2 + (1 - whole[2:]) ** 2).sum() + 3.0,
            2.0 * (point[2:] ** 2 + (1 - point[2:]) ** 2).sum() + 3.0 * (point[:2] ** 2).sum(),
        ),
    ):
        problem = PairedProblem.of(model, labels, surrogate)
        clamped = problem.weighted(problem.clamped, weights).objective(point[2:])
        free = problem.weighted(problem.free, weights).objective(point)
        expected = weights @ model.features(whole) + at_label
        assert problem.clamped.minimum(weights, clamped) == pytest.approx(expected, abs=1e-12)
        assert problem.free.minimum(weights, free) == pytest.approx(
            weights @ model.features(point) + at_point, abs=1e-12
        )


def test_counts_latent_and_completion():
    problem = PairedProblem.of(small_model(0), [1.0, 0.0, NAN, NAN], EntropyPair())
    np.testing.assert_array_equal(problem.counts, [3, 2, 2])
    np.testing.assert_array_equal(problem.latent, [2, 3])
    np.testing.assert_array_equal(problem.complete(np.array([0.2, 0.8])), [1.0, 0.0, 0.2, 0.8])
    alone = HingeLossMRF(1, LinearRows([0, 1], [0], [1.0], [0.0]), 1.0, 1, term_group=[1], group_names="ab")
    np.testing.assert_array_equal(
        PairedProblem.of(alone, [1.0]).counts, [1, 1]
    )  # the count of a rule without terms is 1


def test_invalid_labels_raise():
    model = small_model(0)
    with pytest.raises(InvalidInputError, match=r"PairedProblem: labels\[1\] is -0\.5"):
        PairedProblem.of(model, [1.0, -0.5, NAN, NAN])
    with pytest.raises(InvalidInputError, match="the known values alone violate equality 0"):
        PairedProblem.of(model, [1.0, 0.0, 1.0, 1.0])
    with pytest.raises(InvalidInputError, match=r"labels must be 0 or 1.*got 0\.5 for variable 1.*entropy_pair"):
        PairedProblem.of(model, [1.0, 0.5, NAN, NAN], LabelLoss())
    with pytest.raises(InvalidInputError, match="EntropyPair: weight must be a number"):
        PairedProblem.of(model, [1.0, 0.0, NAN, NAN], EntropyPair(weight=0.0))
