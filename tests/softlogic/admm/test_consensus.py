"""Consensus ADMM compared with an interior-point solver, a linear program, and ADMM with explicit copies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.oracles.hinge_qp import minimise_hinges
from tests.softlogic.random_hinges import random_mrf

from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.inference import Status
from intarsia.softlogic import ConsensusADMM, HingeLossMRF, LinearRows

TIGHT = ConsensusADMM(tol=1e-7, max_iter=200_000)


def agrees(model, result, value):
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(value, abs=1e-5 * (1.0 + abs(value)))
    assert result.lower_bound <= value + 1e-8 * (1.0 + abs(value))
    assert result.max_violation <= 1e-6
    assert model.max_violation(result.x) == result.max_violation
    assert ((result.x >= 0.0) & (result.x <= 1.0)).all()


@given(
    seed=st.integers(0, 2**31),
    n_equalities=st.integers(0, 3),
    n_inequalities=st.integers(0, 4),
    powers=st.sampled_from([(1,), (2,), (1, 2)]),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_agrees_with_an_interior_point_solver(seed, n_equalities, n_inequalities, powers):
    model = random_mrf(seed, n_equalities=n_equalities, n_inequalities=n_inequalities, powers=powers)
    agrees(model, TIGHT.solve(model), minimise_hinges(model)[1])


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("powers", [(1,), (1, 2), (2,)])
def test_larger_models_agree_with_an_interior_point_solver(powers, anchored):
    model = random_mrf(3, n=60, n_terms=240, n_equalities=8, n_inequalities=12, powers=powers, density=0.05)
    solver = ConsensusADMM(tol=1e-7, max_iter=300_000, anchored=anchored)
    agrees(model, solver.solve(model), minimise_hinges(model)[1])


def test_linear_hinges_are_a_linear_program():
    model = random_mrf(5, n=30, n_terms=90, powers=(1,), density=0.1)
    n, m = model.n_variables, model.n_terms
    value = linprog(
        np.concatenate([np.zeros(n), model.weight]),
        A_ub=np.block(
            [
                [model.terms.to_scipy(n).toarray(), -np.eye(m)],
                [model.inequalities.to_scipy(n).toarray(), np.zeros((model.inequalities.n_rows, m))],
            ]
        ),
        b_ub=np.concatenate([-model.terms.const, -model.inequalities.const]),
        A_eq=np.hstack([model.equalities.to_scipy(n).toarray(), np.zeros((model.equalities.n_rows, m))]),
        b_eq=-model.equalities.const,
        bounds=[(0, 1)] * n + [(0, None)] * m,
    ).fun
    agrees(model, TIGHT.solve(model), value)


def written_out(model, rho, alpha, n_iter):
    """Run ADMM of Boyd2011, sections 3.4.3 and 7.1, with arrays of copies and multipliers for every row."""
    n = model.n_variables
    kinds = {1: "linear", 2: "squared"}
    rows = [(model.terms, j, kinds[int(model.power[j])], model.weight[j]) for j in range(model.n_terms)]
    rows += [(model.equalities, j, "equal", None) for j in range(model.equalities.n_rows)]
    rows += [(model.inequalities, j, "at most", None) for j in range(model.inequalities.n_rows)]
    rows = [row for row in rows if row[0].ptr[row[1]] < row[0].ptr[row[1] + 1]]
    z = np.full(n, 0.5)
    duals = [np.zeros(r.ptr[j + 1] - r.ptr[j]) for r, j, _, _ in rows]
    values, apart, moved = [], 0.0, 0.0
    for _ in range(n_iter):
        total, degree = np.zeros(n), np.zeros(n)
        copies, hats, values = [], [], []
        for (r, j, kind, w), u in zip(rows, duals, strict=True):
            part = slice(r.ptr[j], r.ptr[j + 1])
            i, a, b = r.idx[part], r.coef[part], r.const[j]
            v = z[i] - u
            s, q = a @ v + b, a @ a / rho
            move = {
                "linear": lambda s=s, q=q, w=w: min(max(s / q, 0.0), w or 0.0),
                "squared": lambda s=s, q=q, w=w: max(s, 0.0) * 2.0 * (w or 0.0) / (1.0 + 2.0 * (w or 0.0) * q),
                "equal": lambda s=s, q=q: s / q,
                "at most": lambda s=s, q=q: max(s / q, 0.0),
            }[kind]()
            x = v - move * a / rho
            hat = alpha * x + (1.0 - alpha) * z[i]
            np.add.at(total, i, hat + u)
            np.add.at(degree, i, 1.0)
            copies.append(x)
            hats.append(hat)
            values.append(a @ x + b)
        new = np.where(degree > 0, np.clip(total / np.maximum(degree, 1), 0.0, 1.0), 0.5)
        apart = sum(
            ((x - new[r.idx[r.ptr[j] : r.ptr[j + 1]]]) ** 2).sum() for (r, j, _, _), x in zip(rows, copies, strict=True)
        )
        moved = (degree * (new - z) ** 2).sum()
        z = new
        for k, ((r, j, _, _), hat) in enumerate(zip(rows, hats, strict=True)):
            duals[k] = duals[k] + hat - z[r.idx[r.ptr[j] : r.ptr[j + 1]]]
    n_copies = sum(len(u) for u in duals)
    return z, np.array(values), np.sqrt(apart / n_copies), rho * np.sqrt(moved / n_copies), np.concatenate(duals)


@pytest.mark.parametrize("alpha", [1.0, 1.6])
@pytest.mark.parametrize("n_iter", [1, 2, 7])
def test_iterations_equal_those_of_admm_with_explicit_copies(alpha, n_iter):
    model = random_mrf(11, n=10, n_terms=25, density=0.25)
    solver = ConsensusADMM(step_size=0.7, over_relaxation=alpha)
    state = solver.start(model)
    residuals = solver.advance(model, state, n_iter)
    z, values, primal, dual, duals = written_out(model, 0.7, alpha, n_iter)
    np.testing.assert_allclose(state.consensus, z, atol=1e-12)
    np.testing.assert_allclose(residuals, (primal, dual), atol=1e-12)
    filled = np.diff(model.terms.ptr) > 0
    np.testing.assert_allclose(solver.local_values(model, state)[filled], values[: filled.sum()], atol=1e-12)
    np.testing.assert_allclose(np.sort(state.scaled_duals()), np.sort(duals), atol=1e-12)
    assert state.n_iter == n_iter


def test_advancing_twice_equals_advancing_once_with_all_iterations():
    model = random_mrf(12)
    solver = ConsensusADMM()
    once, parts = solver.start(model), solver.start(model)
    solver.advance(model, once, 6)
    for n_iter in (1, 2, 3):
        solver.advance(model, parts, n_iter)
    np.testing.assert_array_equal(once.consensus, parts.consensus)


def test_weights_may_change_between_iterations():
    model = random_mrf(13, n_equalities=0, n_inequalities=0)
    heavier = model.with_weights(2.0 * model.weight)
    solver = ConsensusADMM(step_size=1.0)
    state = solver.start(model)
    for _ in range(3000):
        solver.advance(heavier, state, 1)
    best = TIGHT.solve(heavier).objective
    assert heavier.objective(state.consensus) == pytest.approx(best, rel=1e-3)
    with pytest.raises(InvalidInputError, match="another model"):
        solver.advance(random_mrf(13), state, 1)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_weights_does_not_matter(scale):
    model = random_mrf(14, n=20, n_terms=60, density=0.15)
    plain = ConsensusADMM().solve(model)
    scaled = ConsensusADMM().solve(model.with_weights(scale * model.weight))
    assert scaled.n_iter == plain.n_iter
    np.testing.assert_allclose(scaled.x, plain.x, atol=1e-9)


def test_a_warm_start_saves_iterations_and_is_not_changed():
    model = random_mrf(15, n=40, n_terms=160, n_equalities=0, n_inequalities=0, density=0.1)
    model = model.with_weights(0.5 + model.weight)
    first = ConsensusADMM(tol=1e-7).solve(model)
    before = first.state.z.copy()
    assert ConsensusADMM().solve(model, warm_start=first).n_iter <= 21  # the first check
    heavier = model.with_weights(1.01 * model.weight)
    cold, warm = ConsensusADMM().solve(heavier), ConsensusADMM().solve(heavier, warm_start=first)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_array_equal(first.state.z, before)
    rebuilt = HingeLossMRF(model.n_variables, LinearRows(*vars(model.terms).values()), model.weight, model.power)
    again = ConsensusADMM().solve(rebuilt, warm_start=first.state)
    assert again.n_iter < cold.n_iter
    assert again.objective == pytest.approx(first.objective, rel=1e-4)


def test_blocks_are_independent_and_threads_do_not_change_the_result():
    parts = [random_mrf(seed, n=5, n_terms=8, n_equalities=1, n_inequalities=1) for seed in range(12)]

    def stacked(name):
        rows = [getattr(part, name) for part in parts]
        matrix = np.zeros((sum(r.n_rows for r in rows), 60))
        at = 0
        for k, r in enumerate(rows):
            matrix[at : at + r.n_rows, 5 * k : 5 * k + 5] = r.to_scipy(5).toarray()
            at += r.n_rows
        return LinearRows.from_scipy(matrix, np.concatenate([r.const for r in rows]))

    whole = HingeLossMRF(
        60,
        stacked("terms"),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.power for part in parts]),
        equalities=stacked("equalities"),
        inequalities=stacked("inequalities"),
    )
    expected = sum(minimise_hinges(part)[1] for part in parts)
    one, two = (ConsensusADMM(tol=1e-7, max_iter=200_000, n_jobs=k).solve(whole) for k in (1, 2))
    agrees(whole, one, expected)
    np.testing.assert_array_equal(one.x, two.x)


def test_a_large_block_by_threads_gives_the_same_numbers(monkeypatch):
    monkeypatch.setattr("intarsia.softlogic.admm.run._LARGE", 100)
    for powers in ((1,), (1, 2)):
        model = random_mrf(16, n=60, n_terms=240, n_equalities=4, n_inequalities=4, powers=powers, density=0.05)
        one, two = (ConsensusADMM(n_jobs=k).solve(model) for k in (1, 2))
        assert one.n_iter == two.n_iter
        np.testing.assert_allclose(one.x, two.x, atol=1e-12)


# ---------------------------------------------------------------- constraints


@pytest.mark.filterwarnings("ignore:ConsensusADMM. no point satisfies:intarsia.exceptions.ConvergenceWarning")
def test_contradictory_constraints_are_proved_and_listed():
    rows = LinearRows([0, 2, 3], [0, 1, 2], [1.0, 1.0, 1.0], [-1.5, -0.5])  # x0 + x1 = 1.5, x2 = 0.5
    below = LinearRows([0, 2, 3], [0, 1, 2], [1.0, 1.0, 1.0], [-1.2, -0.9])  # x0 + x1 <= 1.2, x2 <= 0.9
    model = HingeLossMRF(
        3,
        LinearRows([0, 1], [0], [1.0], [0.0]),
        1.0,
        2,
        equalities=rows,
        inequalities=below,
        equality_group=[0, 1],
        inequality_group=[2, 1],
        group_names=["sum", "fine", "cap"],
    )
    result = ConsensusADMM().solve(model)
    assert result.status is Status.INFEASIBLE
    assert not result.converged
    assert "equality 0 of 'sum', inequality 0 of 'cap'" in result.note
    assert "fine" not in result.note


@given(seed=st.integers(0, 2**31))
@settings(max_examples=20, deadline=None, derandomize=True)
@pytest.mark.filterwarnings("ignore:ConsensusADMM. no point satisfies:intarsia.exceptions.ConvergenceWarning")
def test_status_infeasible_agrees_with_the_interior_point_solver(seed):
    rng = np.random.default_rng(seed)
    model = random_mrf(seed, n=5, n_terms=6, n_equalities=0, n_inequalities=0)
    matrix = rng.standard_normal((5, 5)) * (rng.random((5, 5)) < 0.6)
    rows = LinearRows.from_scipy(matrix, rng.normal(0.0, 0.6, 5) * (matrix != 0).any(axis=1))
    model = HingeLossMRF(5, model.terms, model.weight, model.power, inequalities=rows)
    x, value = minimise_hinges(model)
    result = TIGHT.solve(model)
    if x is None:
        assert result.status is Status.INFEASIBLE
        assert result.note.startswith(("Infeasible constraint:", "Contradictory constraints:"))
    else:
        agrees(model, result, value)


@pytest.mark.filterwarnings("ignore:ConsensusADMM. no point satisfies:intarsia.exceptions.ConvergenceWarning")
def test_constraints_without_variables():
    def model(const):
        return HingeLossMRF(1, LinearRows.empty(), [], [], equalities=LinearRows([0, 0], [], [], [const]))

    assert ConsensusADMM().solve(model(0.0)).status is Status.CONVERGED
    bad = ConsensusADMM().solve(model(0.5))
    assert bad.status is Status.INFEASIBLE
    assert bad.note == "Infeasible constraint: equality 0."


def test_model_with_constraints_only():
    model = HingeLossMRF(3, LinearRows.empty(), [], [], equalities=LinearRows([0, 3], [0, 1, 2], [1.0] * 3, [-2.9]))
    result = ConsensusADMM().solve(model)
    assert result.converged
    assert result.x.sum() == pytest.approx(2.9, abs=1e-9)


# ---------------------------------------------------------------- edge cases


def test_models_without_terms_or_variables():
    nothing = ConsensusADMM().solve(HingeLossMRF(0, LinearRows.empty(), [], []))
    assert nothing.converged
    assert nothing.objective == 0.0
    free = ConsensusADMM().solve(HingeLossMRF(2, LinearRows([0, 0, 1], [1], [1.0], [3.0, 0.0]), 2.0, 2))
    assert free.converged
    assert free.objective == pytest.approx(18.0, abs=1e-4)
    assert free.lower_bound <= 18.0 <= free.objective + 1e-9


def test_terms_of_weight_0_have_no_effect():
    rows = LinearRows([0, 1, 2, 3], [0, 0, 0], [-1.0, 1.0, -1.0], [1.0, 0.0, 0.7])
    model = HingeLossMRF(1, rows, [0.0, 0.0, 1.0], [1, 2, 2])
    result = ConsensusADMM().solve(model)
    assert result.converged
    assert result.objective == pytest.approx(0.0, abs=1e-5)


def test_stopping_early_warns_and_returns_the_best_point():
    model = random_mrf(17, n=40, n_terms=160, powers=(1,), density=0.1)
    with pytest.warns(ConvergenceWarning, match=r"max_iter or tol"):
        short = ConsensusADMM(max_iter=5).solve(model)
    assert short.status is Status.MAX_ITER
    assert short.n_iter == 5
    assert model.objective(short.x) == short.objective
    with pytest.warns(ConvergenceWarning, match=r"time_limit or tol"):
        late = ConsensusADMM(tol=0.0).solve(model, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT


def test_keyboard_interrupt_returns_the_best_point():
    model = random_mrf(18, n=40, n_terms=160, powers=(1,), density=0.1)
    seen = []

    def stop(n_iter, gap):
        seen.append(gap)
        if len(seen) == 4:
            raise KeyboardInterrupt

    result = ConsensusADMM(tol=0.0).solve(model, report=stop)
    assert result.status is Status.INTERRUPTED
    assert result.objective <= result.history["objective"][0]
    assert result.max_violation <= 1e-6


def test_history_brackets_the_optimum():
    model = random_mrf(19, n=40, n_terms=160, density=0.1)
    result = ConsensusADMM(tol=1e-6).solve(model)
    history = result.history
    assert (np.diff(history["lower_bound"]) >= 0).all()
    assert (history["lower_bound"] <= result.objective + 1e-9).all()
    assert set(history) >= {"n_iter", "primal_residual", "dual_residual", "seconds", "max_violation"}
    assert result.primal_residual < 0.1 * history["primal_residual"][0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_iter": -1}, "max_iter"),
        ({"tol": np.nan}, "tol"),
        ({"step_size": 0.0}, "step_size"),
        ({"over_relaxation": 2.0}, "over_relaxation"),
        ({"check_every": 0}, "check_every"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_invalid_settings_raise(changes, message):
    with pytest.raises(InvalidInputError, match=f"ConsensusADMM: {message}"):
        ConsensusADMM(**changes).solve(random_mrf(20))


def test_invalid_warm_starts_raise():
    model = random_mrf(21)
    with pytest.raises(InvalidInputError, match="got ndarray"):
        ConsensusADMM().solve(model, warm_start=np.zeros(8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = ConsensusADMM(max_iter=1).solve(random_mrf(21, n=9))
    with pytest.raises(InvalidInputError, match="9 variables and 25 rows, but the model has 8 and 25"):
        ConsensusADMM().solve(model, warm_start=other)


_WITHOUT_JIT = """
import json
from intarsia.softlogic import ConsensusADMM
from tests.softlogic.random_hinges import random_mrf
model = random_mrf(11, n=60, n_terms=120, density=0.05)
solver = ConsensusADMM(step_size=0.7)
state = solver.start(model)
residuals = solver.advance(model, state, 5)
print(json.dumps([state.consensus.tolist(), residuals, solver.local_values(model, state).tolist()]))
"""


def test_jit_on_and_off_agree():
    """Run the kernels as plain Python, without prefetching."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_JIT],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    model = random_mrf(11, n=60, n_terms=120, density=0.05)
    solver = ConsensusADMM(step_size=0.7)
    state = solver.start(model)
    residuals = solver.advance(model, state, 5)
    for plain, compiled in zip(
        json.loads(done.stdout), (state.consensus, residuals, solver.local_values(model, state)), strict=True
    ):
        np.testing.assert_allclose(plain, compiled, atol=1e-12)
