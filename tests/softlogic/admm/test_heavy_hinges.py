"""Hinges whose weights differ by orders of magnitude: status CONVERGED promises atoms, not only the objective."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.exact_hinges import solve_exactly
from tests.oracles.hinge_qp import minimise_hinges

from intarsia.inference import Status
from intarsia.softlogic import ConsensusADMM, HingeLossMRF, LinearRows, Program, SoftLogic

pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")


def spread_mrf(seed, n, weights):
    """Return a model with a unique optimum: random clauses of one to three atoms, and a squared prior per atom."""
    rng = np.random.default_rng([seed, n])
    m = int(n * rng.uniform(1.0, 3.0))
    dense, const = np.zeros((m, n)), np.zeros(m)
    for j in range(m):
        atoms = rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False)
        dense[j, atoms] = rng.choice([-1.0, 1.0], atoms.size)
        const[j] = rng.choice(
            [0.9 * rng.random() - (dense[j] > 0).sum(), rng.normal(0.0, 0.5) - dense[j] @ rng.random(n)]
        )
    const = np.round(const * 1024.0) / 1024.0
    prior = np.round(rng.random(n) * 1024.0) / 1024.0
    rows = np.vstack([dense, np.eye(n), -np.eye(n)])
    weight = np.append(weights(rng, m), np.tile(weights(rng, n), 2))
    power = np.append(rng.integers(1, 3, m), np.full(2 * n, 2))
    return HingeLossMRF(n, LinearRows.from_scipy(rows, np.concatenate([const, -prior, prior])), weight, power)


def one_heavy(rng, size):
    weight = np.ones(size)
    weight[rng.integers(size)] = 10.0 ** rng.uniform(0.0, 8.0)
    return weight


def some_heavy(rng, size):
    return np.where(rng.random(size) < 0.2, 10.0 ** rng.uniform(0.0, 6.0, size), rng.uniform(0.1, 1.0, size))


def of_all_sizes(rng, size):
    return 10.0 ** rng.uniform(-8.0, 8.0, size)


@pytest.mark.parametrize("heavy", [1.0, 1e3, 1e5, 1e6, 1e8])
def test_light_rules_decide_between_the_atoms_that_a_heavy_rule_ties(heavy):
    program = (
        Program()
        .predicate("Up", 1)
        .predicate("Down", 1)
        .rule("1: Up(A) = 1 ^2")
        .rule("1: Down(A) = -0.4 ^2")
        .rule(f"{heavy}: Up(A) -> Down(A)")
        .target("Up", ["a"])
        .target("Down", ["a"])
    )
    inferred = SoftLogic(program).infer()
    assert inferred.result.status is Status.CONVERGED
    # The minimum of (1 - u)^2 + (d + 0.4)^2 + heavy max(0, u - d); the weight 1 is too light to close the gap.
    up, down = (0.5, 0.1) if heavy == 1.0 else (0.3, 0.3)
    assert inferred.x == pytest.approx([up, down], abs=1e-3)
    assert inferred.result.objective - inferred.result.lower_bound <= 1e-5 * (inferred.result.objective + 1.0)


@pytest.mark.parametrize("weights", [one_heavy, some_heavy, of_all_sizes])
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("seed", range(8))
def test_converged_atoms_are_those_of_the_exact_optimum(seed, n, weights):
    model = spread_mrf(seed, n, weights)
    exact = [float(value) for value in solve_exactly(model)[1]]
    result = ConsensusADMM().solve(model)
    assert result.status is Status.CONVERGED or (weights is of_all_sizes and result.status is Status.MAX_ITER)
    if result.converged:
        assert result.x == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("weights", [one_heavy, some_heavy])
@pytest.mark.parametrize("n", [30, 200, 1000])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_converged_atoms_are_those_of_an_interior_point_solver(n, weights, scale):
    model = spread_mrf(n, n, weights)
    x, _ = minimise_hinges(model, 1e-11)
    model = model.with_weights(scale * model.weight)
    result = ConsensusADMM().solve(model)
    assert result.status in (Status.CONVERGED, Status.MAX_ITER)
    if result.converged:
        assert result.x == pytest.approx(x, abs=1e-3)
    assert result.converged or weights is some_heavy
