"""Feasibility of constraints over the unit box, compared with SciPy's linear program."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from intarsia._core.clock import Clock
from intarsia._kernels.hinge_checks import polish_block
from intarsia.softlogic import HingeLossMRF, LinearRows
from intarsia.softlogic.admm.feasibility import BlockConstraints
from intarsia.softlogic.admm.plan import plan_admm


def constrained(seed, n=6, n_equalities=2, n_inequalities=3):
    rng = np.random.default_rng(seed)
    inside = rng.random(n)

    def rows(count, slack):
        matrix = rng.standard_normal((count, n))
        return LinearRows.from_scipy(matrix, -matrix @ inside - slack)

    return HingeLossMRF(
        n, LinearRows.empty(), [], [], equalities=rows(n_equalities, 0.0), inequalities=rows(n_inequalities, 0.05)
    )


@pytest.mark.parametrize("seed", range(5))
def test_nearest_point_has_the_distance_of_linprog(seed):
    model = constrained(seed)
    plan = plan_admm(model)
    constraints = BlockConstraints(plan, 0)
    x = np.random.default_rng(100 + seed).random(6)
    found = constraints.nearest(x, Clock())
    assert constraints.violation(found) <= 1e-7
    equal, rest = constraints.equality, ~constraints.equality
    matrix, const = constraints.matrix.toarray(), constraints.const
    both = np.hstack([matrix, -matrix])
    expected = linprog(
        np.ones(12),
        A_ub=both[rest],
        b_ub=-(const + matrix @ x)[rest],
        A_eq=both[equal],
        b_eq=-(const + matrix @ x)[equal],
        bounds=[(0, up) for up in 1.0 - x] + [(0, down) for down in x],
    ).fun
    assert np.abs(found - x).sum() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("corner", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("equality", [True, False])
def test_polishing_a_single_constraint_is_the_projection(seed, equality, corner):
    """Also from points at the ends of the box, where inference often is; `corner` is their fraction."""
    rng = np.random.default_rng(seed)
    coef, inside, x = rng.standard_normal(5), rng.random(5), rng.random(5)
    x = np.where(rng.random(5) < corner, np.round(x), x)
    rows = LinearRows([0, 5], np.arange(5), coef, [-coef @ inside])
    kind = {"equalities": rows} if equality else {"inequalities": rows}
    plan = plan_admm(HingeLossMRF(5, LinearRows.empty(), [], [], **kind))
    polished = x[plan.variables].copy()
    polish_block(0, 1, plan.constraints, plan.weighted_rows(plan.model), polished, 1)
    polished = plan.to_model(polished, np.nan)
    value = coef @ (polished - inside)
    assert abs(value) <= 1e-9 if equality else value <= 1e-9
    best = minimize(
        lambda p: ((p - x) ** 2).sum(),
        inside,
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq" if equality else "ineq", "fun": lambda p: -coef @ (p - inside)},
        options={"ftol": 1e-12},
    )
    assert ((polished - x) ** 2).sum() == pytest.approx(best.fun, abs=1e-6)


def test_feasible_constraints_have_no_contradiction():
    constraints = BlockConstraints(plan_admm(constrained(9)), 0)
    assert constraints.contradiction(Clock()) is None
    assert constraints.nearest(np.full(6, 0.5), Clock(0.0)) is None  # the time limit is 0


def test_proof_lists_only_the_constraints_that_it_needs():
    rows = LinearRows([0, 2, 4, 6], [0, 1, 1, 2, 0, 2], [1.0] * 6, [-0.4, -0.5, -0.6])  # upper bounds on sums of pairs
    least = LinearRows([0, 1], [1], [-1.0], [0.7])  # x1 >= 0.7
    joined = LinearRows(
        np.concatenate([rows.ptr, rows.ptr[-1] + least.ptr[1:]]),
        np.concatenate([rows.idx, least.idx]),
        np.concatenate([rows.coef, least.coef]),
        np.concatenate([rows.const, least.const]),
    )
    plan = plan_admm(HingeLossMRF(3, LinearRows.empty(), [], [], inequalities=joined))
    rows, margin = BlockConstraints(plan, 0).contradiction(Clock())
    assert set(plan.row_of[rows].tolist()) == {0, 3}
    assert margin == pytest.approx(0.15)  # halfway between 0.4 and 0.7
