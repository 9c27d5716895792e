"""Linear and integer programs by HiGHS: arrays in, arrays out, and every way to end has a name of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import IntarsiaError

# Costs are scaled to this size: HiGHS compares reduced costs with absolute tolerances of 1e-7.
_LARGEST_COST = 1e3
_SHORTEST = 1e-3


@dataclass
class Program:
    """`max cost @ x` subject to `lower <= matrix @ x <= upper` and `0 <= x <= 1`; `integer` columns are 0 or 1."""

    cost: FloatArray
    matrix: csc_array
    lower: FloatArray
    upper: FloatArray
    integer: IntArray | None = None


@dataclass
class Solution:
    """How a program ended.

    Attributes
    ----------
    status : Status
        CONVERGED, INFEASIBLE, TIME_LIMIT or INTERRUPTED.
    x : float array or None
        The optimum, or the best point so far; None where there is none.
    dual : float array or None
        Multipliers of the rows; at INFEASIBLE those of a proof, if one was asked for.
    bound : float
        The solver's upper bound on the optimum (integer programs only).
    basis : int array or None
        Where the simplex method ended: state of each column, then of each row.
    """

    status: Status
    x: FloatArray | None = None
    dual: FloatArray | None = None
    bound: float = np.inf
    basis: IntArray | None = None


def solve_program(
    program: Program, clock: Clock, *, basis: IntArray | None = None, start: FloatArray | None = None
) -> Solution:
    """Solve a linear program to a vertex by the simplex method, or an integer program by branch and cut.

    Parameters
    ----------
    program : Program
        What to maximise.
    clock : Clock
        Its limit is handed on.
    basis : int array, optional
        `Solution.basis` of a program of the same size, to start from.
    start : float array, optional
        A feasible point for an integer program to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csc_array
    >>> one = np.ones(1)
    >>> solve_program(Program(np.array([1.0, 2.0]), csc_array([[1.0, 1.0]]), one, one), Clock()).x
    array([0., 1.])
    """
    if clock.expired:
        return Solution(Status.TIME_LIMIT)
    import highspy

    scale = _LARGEST_COST / max(float(np.abs(program.cost).max(initial=0.0)), 1e-300)
    solver = _prepared(highspy, program, scale, clock)
    if basis is not None and basis.size == sum(program.matrix.shape):
        _put_basis(highspy, solver, basis, program.cost.size)
        solver.setOptionValue("simplex_strategy", 4)  # primal: the old vertex stays feasible when only scores change
    if start is not None:
        point = highspy.HighsSolution()
        point.col_value = start.tolist()
        solver.setSolution(point)
    solver.HandleKeyboardInterrupt = True
    solver.solve()
    return _read(highspy, solver, program, scale)


def prove_infeasible(program: Program, clock: Clock) -> FloatArray | None:
    """Multipliers of the rows that prove a linear program infeasible, or None if there was no time."""
    if clock.expired:
        return None
    import highspy

    solver = _prepared(highspy, program, 0.0, clock)
    solver.setOptionValue("presolve", "off")
    solver.HandleKeyboardInterrupt = True
    solver.solve()
    _, there, ray = solver.getDualRay()
    return np.asarray(ray, dtype=np.float64) if there else None


def _prepared(highspy: Any, program: Program, scale: float, clock: Clock) -> Any:
    """A silent, serial solver with the program in it, as a minimisation."""
    n_rows, n_columns = program.matrix.shape
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n_columns, n_rows
    lp.col_cost_ = -scale * program.cost
    lp.col_lower_, lp.col_upper_ = np.zeros(n_columns), np.ones(n_columns)
    if program.integer is None:
        lp.col_upper_ = np.full(n_columns, highspy.kHighsInf)  # follows from the rows
    lp.row_lower_, lp.row_upper_ = program.lower, program.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = program.matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = program.matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = program.matrix.data
    if program.integer is not None:
        kinds = np.zeros(n_columns, dtype=bool)
        kinds[program.integer] = True
        names = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        lp.integrality_ = [names[flag] for flag in kinds.tolist()]
    solver = highspy.Highs()
    solver.silent()
    options: dict[str, Any] = {"threads": 1, "parallel": "off"}
    if program.integer is not None:
        options |= {"mip_rel_gap": 0.0, "mip_abs_gap": 1e-9 * max(scale, 1e-300)}
    if clock.limit is not None:
        options["time_limit"] = max(clock.limit - clock.seconds, _SHORTEST)
    for name, value in options.items():
        solver.setOptionValue(name, value)
    if solver.passModel(lp) == highspy.HighsStatus.kError:
        raise IntarsiaError(f"HiGHS did not take the program of {n_rows} rows and {n_columns} columns.")
    return solver


def _put_basis(highspy: Any, solver: Any, states: IntArray, n_columns: int) -> None:
    names = [highspy.HighsBasisStatus(k) for k in range(5)]
    basis = highspy.HighsBasis()
    basis.col_status = [names[k] for k in states[:n_columns].tolist()]
    basis.row_status = [names[k] for k in states[n_columns:].tolist()]
    basis.valid = True
    solver.setBasis(basis)


def _read(highspy: Any, solver: Any, program: Program, scale: float) -> Solution:
    """Say in our words how the solver ended."""
    ended = highspy.HighsModelStatus
    known = {
        ended.kOptimal: Status.CONVERGED,
        ended.kInfeasible: Status.INFEASIBLE,
        ended.kUnboundedOrInfeasible: Status.INFEASIBLE,  # bounded columns cannot be unbounded
        ended.kTimeLimit: Status.TIME_LIMIT,
        ended.kInterrupt: Status.INTERRUPTED,
        ended.kHighsInterrupt: Status.INTERRUPTED,
    }
    status = solver.getModelStatus()
    if status not in known:
        raise IntarsiaError(
            f"HiGHS ended with {solver.modelStatusToString(status)!r}. Scores of very different sizes are the usual "
            f"cause; bring them closer together, or use dual_decomposition."
        )
    solution, info = solver.getSolution(), solver.getInfo()
    answer = Solution(known[status])
    if solution.value_valid and info.primal_solution_status == 2:
        answer.x = np.clip(np.asarray(solution.col_value), 0.0, 1.0)
    if program.integer is not None:
        if np.isfinite(info.mip_dual_bound):
            answer.bound = -info.mip_dual_bound / scale
        return answer
    if solution.dual_valid:
        answer.dual = -np.asarray(solution.row_dual) / scale  # of the maximisation
    basis = solver.getBasis()
    if basis.valid:
        answer.basis = np.array([int(k) for k in (*basis.col_status, *basis.row_status)])
    return answer
