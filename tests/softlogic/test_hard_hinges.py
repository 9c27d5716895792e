"""ADMM on difficult hinge-loss MRFs from many starting points, compared with the exact rational optimum."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.oracles.exact_hinges import exact_objective, solve_exactly
from tests.oracles.hinge_program import solve_hinge_program
from tests.oracles.hinge_qp import minimise_hinges
from tests.softlogic.hard_hinges import KINDS, dyadic, hard_mrf
from tests.softlogic.random_hinges import random_mrf

from intarsia._core.clock import Clock
from intarsia._kernels.hinge_admm import EQUALITY, INEQUALITY, SQUARED
from intarsia._kernels.hinge_checks import BOUND
from intarsia.inference import Status
from intarsia.softlogic import ConsensusADMM
from intarsia.softlogic.admm.newton import NewtonSteps
from intarsia.softlogic.admm.run import AdmmRun, BlockRules
from intarsia.softlogic.admm.state import fresh_state

TOLS = (1e-3, 1e-5, 1e-6, 1e-8)
# Seeds with earlier faults: a false CONVERGED, no convergence, a bound above the optimum by a rounding error, or a
# missed contradiction.
ONCE_WRONG = (71, 105, 125, 1023, 1030, 1068, 1143, 1439, 1462, 1655, 2001, 2035, 2896, 3320, 3749, 4532)


def check(model, result, exact, tol):
    """Check all guarantees of a result; only the rounding of the objective is tolerated."""
    if exact is None:
        assert result.status is Status.INFEASIBLE or (result.converged and 0.0 < result.max_violation <= tol)
        return
    optimum, _, pulls = exact
    if result.objective * 2.0**-44 > 1e-7 * model.weight[model.weight > 0].min(initial=np.inf):
        # The rounding errors of the heavy hinges hide what light ones could gain: there may be no proof.
        assert result.status in (Status.CONVERGED, Status.MAX_ITER)
        assert abs(result.objective - float(optimum)) <= tol * result.objective
        return
    assert result.status is Status.CONVERGED
    assert Fraction(result.lower_bound) <= optimum
    assert result.max_violation <= tol
    limit = tol * (result.objective + model.weight.mean()) * (1.0 + 1e-9)
    assert result.lower_bound <= result.objective <= result.lower_bound + limit
    assert abs(result.objective - float(optimum)) <= limit + float(sum(pulls)) * min(result.max_violation, 1e-9)


@pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [*range(160), *ONCE_WRONG])
def test_every_start_leads_to_the_exact_optimum(seed):
    model, _ = hard_mrf(seed)
    rng = np.random.default_rng(seed)
    exact, tol = solve_exactly(model), TOLS[seed % 4]
    solver = ConsensusADMM(tol=tol)
    first = solver.solve(model)
    check(model, first, exact, tol)
    check(model, solver.solve(model, warm_start=first), exact, tol)
    if exact is None:
        return
    other = model.with_weights(dyadic(model.weight * 10.0 ** rng.uniform(-2.0, 2.0, model.n_terms), 16))
    second = solver.solve(other, warm_start=first)
    check(other, second, solve_exactly(other), tol)
    check(model, ConsensusADMM(tol=TOLS[seed // 4 % 4]).solve(model, warm_start=second), exact, TOLS[seed // 4 % 4])
    state = first.state.copy()
    state.y += rng.normal(0.0, 1.0, state.y.size) * np.abs(state.y).max(initial=1.0)
    state.base += rng.normal(0.0, 1.0, state.base.size)
    check(model, solver.solve(model, warm_start=state), exact, tol)


@pytest.mark.parametrize("seed", range(12))
def test_three_independent_solvers_agree_on_the_optimum(seed):
    model = random_mrf(seed, n=5, n_terms=9, n_equalities=1, n_inequalities=2)
    optimum, x, _ = solve_exactly(model)
    assert all(0 <= value <= 1 for value in x)
    assert exact_objective(model, x) == optimum
    assert float(optimum) == pytest.approx(minimise_hinges(model)[1], abs=1e-8)
    assert float(optimum) == pytest.approx(solve_hinge_program(model)[0], abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_solver_and_a_linear_program_agree_on_what_is_infeasible(kind):
    for seed in range(20):
        model, _ = hard_mrf(seed, kind)
        exact = solve_exactly(model)
        assert (exact is None) == kind.endswith("infeasible")
        if exact is None:
            assert least_violation(model) > 1e-6
        else:
            assert least_violation(model) <= 1e-9


def least_violation(model):
    """Return the smallest possible largest violation in the box, by SciPy's linear program."""
    n = model.n_variables
    parts = [(model.inequalities, 1.0), (model.equalities, 1.0), (model.equalities, -1.0)]
    parts = [(sign * rows.to_scipy(n).toarray(), sign * rows.const) for rows, sign in parts if rows is not None]
    if not parts:
        return 0.0
    matrix, const = np.vstack([rows for rows, _ in parts]), np.concatenate([const for _, const in parts])
    matrix = np.hstack([matrix, -np.ones((len(matrix), 1))])
    return linprog(np.append(np.zeros(n), 1.0), A_ub=matrix, b_ub=-const, bounds=[(0, 1)] * n + [(0, None)]).fun


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_of_any_multipliers_is_at_most_their_exact_dual(seed):
    rng = np.random.default_rng(seed)
    model = random_mrf(seed, n=6, n_terms=30, n_equalities=8, n_inequalities=8, density=0.6)
    state = fresh_state(model, None)
    plan = state.plan
    state.y[:] = rng.normal(0.0, 1.0, state.y.size) * 10.0 ** rng.uniform(-3.0, 6.0, state.y.size)
    run = AdmmRun(model, state, BlockRules(1, 0.0, 1.0, False, None, 20, None), Clock())
    run.figures[:, BOUND] = -np.inf  # remove the trivial bound 0
    run._check(0, plan.n_blocks)
    exact = sum(exact_dual(plan, run.rows, state.y), Fraction(0))
    assert Fraction(float(run.figures[:, BOUND].sum())) <= exact
    assert float(run.figures[:, BOUND].sum()) == pytest.approx(float(exact), rel=1e-9)


def exact_dual(plan, rows, y):
    """Yield the summands of the Lagrangian dual at y, clipped to its bounds, as fractions."""
    ptr, idx, coef, const, curve, top, kind = rows
    slopes = [Fraction(0)] * plan.variables.size
    for j in range(const.size):
        t = float(y[j]) if kind[j] == EQUALITY else min(max(float(y[j]), 0.0), float(top[j]))
        if curve[j] == np.inf or t == 0.0:
            continue
        t = Fraction(t)
        weight = Fraction(float(plan.model.weight[plan.row_of[j]])) if kind[j] == SQUARED else None
        yield t * Fraction(float(const[j])) - (0 if weight is None else t * t / (4 * weight))
        for e in range(int(ptr[j]), int(ptr[j + 1])):
            slopes[idx[e]] += t * Fraction(float(coef[e]))
    for slope in slopes:
        yield min(slope, Fraction(0))


def test_newton_steps_reach_the_exact_optimum_by_themselves():
    model, _ = hard_mrf(1143)
    optimum, _, _ = solve_exactly(model)
    state = fresh_state(model, None)
    plan, rows = state.plan, state.plan.weighted_rows(model)
    point = np.full(plan.variables.size, 0.5)
    for block in range(plan.n_blocks):
        v, r = slice(*plan.variable_start[block : block + 2]), slice(*plan.row_start[block : block + 2])
        steps, y = NewtonSteps(plan, rows, block), np.zeros(r.stop - r.start)
        for _ in range(12):
            point[v], y = steps.advance(point[v], y)
        assert (y[plan.kind[r] <= INEQUALITY] >= 0.0).all()
    found = plan.to_model(point, 0.5)
    assert model.objective(found) == pytest.approx(float(optimum), rel=1e-9)
    assert model.max_violation(found) <= 1e-9
