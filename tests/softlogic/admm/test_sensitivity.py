"""Minima of batches of hinge-loss MRFs and their derivatives, against Clarabel and differences of minima."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.hinge_qp import minimise_hinges
from tests.softlogic.random_hinges import random_mrf

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic import ConsensusADMM, HingeLossMRF, LinearRows, condition
from intarsia.softlogic.admm.sensitivity import HingeProblems

SOLVER = ConsensusADMM()
SEEDS = [seed for seed in range(12) if seed != 7]  # the constraints of 7 have no free variable


def problem(seed, proximal=0.05, **settings):
    """A random model with two observed variables, and two examples near a feasible point."""
    model = random_mrf(seed, n_equalities=seed % 2, n_inequalities=seed % 3, **settings)
    rng = np.random.default_rng(seed)
    observed = np.array([5, 1])
    feasible = np.random.default_rng(seed).random(model.n_variables)[observed]  # as in random_mrf
    values = np.clip(feasible + 0.01 * rng.standard_normal((2, 2)) * [[0.0], [1.0]], 0.0, 1.0)
    weights = np.array([model.weight, 1.5 * model.weight + 0.01])
    return HingeProblems(model, observed, proximal), values, weights


def model_of(problems, values, weights):
    """The model of one example, with observed values inserted and the proximal term written out."""
    mrf = problems.mrf
    known = np.full(mrf.n_variables, np.nan)
    known[problems.observed] = values
    small = condition(mrf.with_weights(weights), known).model
    n = small.n_variables
    both = np.concatenate([small.terms.to_scipy(n).toarray(), np.eye(n), -np.eye(n)])
    const = np.concatenate([small.terms.const, np.full(n, -0.5), np.full(n, 0.5)])
    return HingeLossMRF(
        n,
        LinearRows.from_scipy(both, const),
        np.append(small.weight, np.full(2 * n, problems.proximal / 2)),
        np.append(small.power, np.full(2 * n, 2)),
        equalities=small.equalities,
        inequalities=small.inequalities,
    )


@pytest.mark.parametrize("powers", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("seed", SEEDS)
def test_minimum_is_that_of_an_interior_point_method(seed, powers):
    problems, values, weights = problem(seed, powers=powers)
    solutions = problems.solve(values, weights, SOLVER)
    assert solutions.residual.max() < 1e-10
    for k in range(2):
        x, _ = minimise_hinges(model_of(problems, values[k], weights[k]))
        assert solutions.x[k] == pytest.approx(x, abs=1e-5)


@pytest.mark.parametrize("powers", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_is_that_of_differences(seed, powers):
    problems, values, weights = problem(seed, powers=powers)
    direction = np.random.default_rng(seed).standard_normal((2, problems.free.size))
    of_values, of_weights = problems.solve(values, weights, SOLVER).pull(direction)

    def function(v, w):
        return float((problems.solve(v, w, SOLVER).x * direction).sum())

    rng, step = np.random.default_rng(100 + seed), 1e-6
    along_values, along_weights = rng.standard_normal(values.shape), rng.random(weights.shape) * (weights > 0)
    slope = [function(values, weights + s * step * along_weights) for s in (1, -1)]
    assert (of_weights * along_weights).sum() == pytest.approx((slope[0] - slope[1]) / (2 * step), abs=1e-6)
    slope = [function(values + s * step * along_values, weights) for s in (1, -1)]
    assert (of_values * along_values).sum() == pytest.approx((slope[0] - slope[1]) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_of_very_different_sizes_without_proximal_term(seed):
    problems, values, weights = problem(seed, proximal=0.0, n_terms=40)
    weights = weights * 10.0 ** np.random.default_rng(seed).uniform(-2, 2, weights.shape)
    assert problems.solve(values, weights, SOLVER).residual.max() < 1e-9


def test_second_order_steps_reach_the_minimum_alone():
    """The last attempt, for problems on which ADMM does not show the tight rows."""
    problems, values, weights = problem(3)
    expected = problems.solve(values, weights, SOLVER)
    x, _ = problems._run_newton(expected.const, expected.weight)
    assert x == pytest.approx(expected.x, abs=1e-6)


def test_several_minima_have_the_gradient_of_least_norm():
    """max(0, x0 + x1 - v): with v = 1/2 every pair below it is a minimum; of weights nothing depends."""
    rows = LinearRows([0, 3, 6], [0, 1, 2] * 2, [1.0, 1.0, -1.0, -1.0, -1.0, 1.0], [0.0, 0.0])
    problems = HingeProblems(HingeLossMRF(3, rows, 1.0, 1), np.array([2]))
    solutions = problems.solve(np.array([[0.5]]), np.ones((1, 2)), SOLVER)
    assert solutions.x.sum() == pytest.approx(0.5)
    of_values, of_weights = solutions.pull(np.array([[1.0, 0.0]]))
    assert of_values[0, 0] == pytest.approx(0.5)  # both move equally
    assert not of_weights.any()


def test_rows_without_free_variables_and_weights_of_zero():
    rows = LinearRows([0, 1, 2, 4], [1, 0, 0, 1], [1.0, -1.0, 1.0, -1.0], [0.3, 0.5, 0.0])
    problems = HingeProblems(HingeLossMRF(2, rows, 1.0, 2), np.array([1]))
    solutions = problems.solve(np.array([[0.1]]), np.array([[1.0, 1.0, 0.0]]), SOLVER)
    assert solutions.x[0, 0] >= 0.5
    assert solutions.residual[0] < 1e-10
    of_values, of_weights = problems.solve(np.array([[0.1]]), np.ones((1, 3)), SOLVER).pull(np.ones((1, 1)))
    assert of_values[0, 0] == pytest.approx(0.5)  # x = (1/2 + v) / 2
    assert of_weights[0] == pytest.approx([0.0, 0.1, -0.1])


@pytest.mark.filterwarnings("ignore:.*no point satisfies:intarsia.exceptions.ConvergenceWarning")
def test_observed_values_that_violate_a_constraint_are_named():
    """A fixed constraint (v <= 1/2), and one with a free variable (x = v + 1/2)."""
    term = LinearRows([0, 1], [0], [1.0], [0.0])
    fixed = HingeLossMRF(
        2, term, 1.0, 1, inequalities=LinearRows([0, 1], [1], [1.0], [-0.5]), inequality_group=[0], group_names=["cap"]
    )
    with pytest.raises(InvalidInputError, match=r"example 1 alone violate a constraint by 0\.4: inequality 0 of 'cap'"):
        HingeProblems(fixed, np.array([1])).solve(np.array([[0.5], [0.9]]), np.ones((2, 1)), SOLVER)
    joint = HingeLossMRF(2, term, 1.0, 1, equalities=LinearRows([0, 2], [0, 1], [1.0, -1.0], [-0.5]))
    with pytest.raises(InvalidInputError, match=r"contradict the constraints.*Give the rule a weight"):
        HingeProblems(joint, np.array([1])).solve(np.array([[0.9]]), np.ones((1, 1)), SOLVER)


@pytest.mark.parametrize("n_batch", [0, 3])
def test_no_examples_and_no_free_variables(n_batch):
    model = HingeLossMRF(1, LinearRows([0, 1], [0], [1.0], [0.0]), 1.0, 2)
    solutions = HingeProblems(model, np.array([0])).solve(np.ones((n_batch, 1)), np.ones((n_batch, 1)), SOLVER)
    assert solutions.x.shape == (n_batch, 0)
    assert [g.shape for g in solutions.pull(np.zeros((n_batch, 0)))] == [(n_batch, 1), (n_batch, 1)]
