"""Linear and integer programs from arrays, solved by HiGHS."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from intarsia._core.clock import Clock
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import IntarsiaError

# Costs are scaled to this size: HiGHS compares reduced costs with absolute tolerances of 1e-7.
_LARGEST_COST = 1e3
_MIN_SECONDS = 1e-3
_QUICK_COLUMNS = 2_000  # smaller linear programs are solved so quickly that Ctrl-C can wait


@dataclass
class Program:
    """Program `max cost @ x` with `lower <= matrix @ x <= upper` and `0 <= x <= 1`; `integer` columns are 0 or 1.

    A linear program is solved without the bounds `x <= 1` if the rows imply them (`rows_imply_bounds`).
    """

    cost: FloatArray
    matrix: csc_array
    lower: FloatArray
    upper: FloatArray
    integer: IntArray | None = None
    rows_imply_bounds: bool = True


@dataclass
class Solution:
    """Solution of a linear or integer program.

    Attributes
    ----------
    status : Status
        CONVERGED, INFEASIBLE, TIME_LIMIT or INTERRUPTED.
    x : float array or None
        Optimum, or the best feasible point so far; None if there is none.
    dual : float array or None
        Multipliers of the rows (linear programs only).
    bound : float
        Upper bound on the optimum from the solver (integer programs only).
    basis : int array or None
        Final basis of the simplex method at the optimum: state of each column, then of each row.
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
        Program to solve.
    clock : Clock
        Timer of the run; its limit is passed to the solver.
    basis : int array, optional
        `Solution.basis` of a program of the same size, to start from.
    start : float array, optional
        A feasible point for an integer program to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csc_array, csr_array
    >>> one = np.ones(1)
    >>> solve_program(Program(np.array([1.0, 2.0]), csc_array([[1.0, 1.0]]), one, one), Clock()).x
    array([0., 1.])
    """
    if clock.expired:
        return Solution(Status.TIME_LIMIT)
    import highspy

    scale = _scale(program.cost)
    solver = _make_solver(highspy, program, scale)
    if basis is not None and basis.size == sum(program.matrix.shape):
        _set_basis(highspy, solver, basis, program.cost.size)
        solver.setOptionValue(
            "simplex_strategy", 4
        )  # primal simplex: the old vertex stays feasible if only scores change
    if start is not None:
        point = highspy.HighsSolution()
        point.col_value = start.tolist()
        solver.setSolution(point)
    _run(solver, clock)
    return _make_solution(highspy, solver, program, scale)


def _scale(cost: FloatArray) -> float:
    """Return the factor that brings the largest cost to the size that the tolerances of HiGHS are made for."""
    return _LARGEST_COST / max(float(np.abs(cost).max(initial=0.0)), 1e-300)


def prove_infeasible(program: Program, clock: Clock) -> FloatArray | None:
    """Return multipliers of the rows (a dual ray) that prove a linear program infeasible, or None without a proof."""
    if clock.expired:
        return None
    import highspy

    solver = _make_solver(highspy, program, 0.0)
    solver.setOptionValue("presolve", "off")
    _run(solver, clock)
    _, has_ray, ray = solver.getDualRay()
    return np.asarray(ray, dtype=np.float64) if has_ray else None


def _make_solver(highspy: Any, program: Program, scale: float) -> Any:
    """Return a silent single-threaded HiGHS solver loaded with the program as a minimisation."""
    n_rows, n_columns = program.matrix.shape
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n_columns, n_rows
    lp.col_cost_ = -scale * program.cost
    lp.col_lower_, lp.col_upper_ = np.zeros(n_columns), np.ones(n_columns)
    if program.integer is None and program.rows_imply_bounds:
        lp.col_upper_ = np.full(n_columns, highspy.kHighsInf)
    lp.row_lower_, lp.row_upper_ = program.lower, program.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = program.matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = program.matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = program.matrix.data
    if program.integer is not None:
        is_integer = np.zeros(n_columns, dtype=bool)
        is_integer[program.integer] = True
        types = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        lp.integrality_ = [types[flag] for flag in is_integer.tolist()]
    solver = highspy.Highs()
    solver.silent()
    options: dict[str, Any] = {"threads": 1, "parallel": "off"}
    if program.integer is not None:
        options |= {"mip_rel_gap": 0.0, "mip_abs_gap": 1e-9 * max(scale, 1e-300)}
    for name, value in options.items():
        solver.setOptionValue(name, value)
    if solver.passModel(lp) == highspy.HighsStatus.kError:
        raise IntarsiaError(
            f"HiGHS rejected the program of {n_rows} rows and {n_columns} columns. Check for extreme scores, "
            "or use dual_decomposition."
        )
    return solver


def _run(solver: Any, clock: Clock, *, interruptible: bool = True) -> None:
    """Run the solver for the remaining time, so that Ctrl-C, which only the main thread receives, ends it.

    HiGHS handles Ctrl-C by one lock for all solvers of the process, so that other threads must do without.
    """
    if clock.limit is not None:  # the solver counts the seconds of all its runs
        seconds = max(clock.limit - clock.seconds, _MIN_SECONDS)
        solver.setOptionValue("time_limit", solver.getRunTime() + seconds)
    solver.HandleKeyboardInterrupt = interruptible and threading.current_thread() is threading.main_thread()
    solver.solve()


class GrowingProgram:
    """Linear program `max cost @ x` with `0 <= x <= 1` that gains rows; each solve starts from the last basis.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> program = GrowingProgram(np.array([1.0, 2.0]))
    >>> program.solve(Clock()).x.tolist()
    [1.0, 1.0]
    >>> program.add_rows(np.ones(1), csr_array([[1.0, 1.0]]))
    >>> solution = program.solve(Clock())
    >>> solution.x.round().astype(int).tolist(), solution.dual.tolist()
    ([0, 1], [1.0])
    """

    def __init__(self, cost: FloatArray) -> None:
        import highspy

        n = cost.size
        no_rows = np.empty(0)
        self._program = Program(cost, csc_array((0, n)), no_rows, no_rows, rows_imply_bounds=False)
        self._scale = _scale(cost)
        self._highspy = highspy
        self._solver = _make_solver(highspy, self._program, self._scale)

    def add_rows(self, upper: FloatArray, rows: csr_array) -> None:
        """Add the rows `rows @ x <= upper`."""
        n_rows = len(upper)
        starts, columns = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
        self._solver.addRows(n_rows, np.full(n_rows, -np.inf), upper, rows.nnz, starts, columns, rows.data)

    def solve(self, clock: Clock) -> Solution:
        """Solve the program with all rows so far."""
        if clock.expired:
            return Solution(Status.TIME_LIMIT)
        _run(self._solver, clock, interruptible=self._program.cost.size > _QUICK_COLUMNS)
        return _make_solution(self._highspy, self._solver, self._program, self._scale)


def _set_basis(highspy: Any, solver: Any, states: IntArray, n_columns: int) -> None:
    """Set the basis from which the simplex method starts."""
    names = [highspy.HighsBasisStatus(k) for k in range(5)]
    basis = highspy.HighsBasis()
    basis.col_status = [names[k] for k in states[:n_columns].tolist()]
    basis.row_status = [names[k] for k in states[n_columns:].tolist()]
    basis.valid = True
    solver.setBasis(basis)


def _make_solution(highspy: Any, solver: Any, program: Program, scale: float) -> Solution:
    """Convert the final state of the solver to a Solution; raise for an unexpected status."""
    model_status = highspy.HighsModelStatus
    status_of = {
        model_status.kOptimal: Status.CONVERGED,
        model_status.kInfeasible: Status.INFEASIBLE,
        model_status.kUnboundedOrInfeasible: Status.INFEASIBLE,  # bounded columns cannot be unbounded
        model_status.kTimeLimit: Status.TIME_LIMIT,
        model_status.kInterrupt: Status.INTERRUPTED,
        model_status.kHighsInterrupt: Status.INTERRUPTED,
    }
    status = solver.getModelStatus()
    if status not in status_of:
        raise IntarsiaError(
            f"HiGHS ended with status {solver.modelStatusToString(status)!r}. Scores of very different magnitudes "
            f"are the usual cause. Rescale them, or use dual_decomposition."
        )
    solution, info = solver.getSolution(), solver.getInfo()
    answer = Solution(status_of[status])
    if solution.value_valid and info.primal_solution_status == 2:
        answer.x = np.clip(np.asarray(solution.col_value), 0.0, 1.0)
    if program.integer is not None:
        if np.isfinite(info.mip_dual_bound):
            answer.bound = -info.mip_dual_bound / scale
        return answer
    if solution.dual_valid:
        answer.dual = -np.asarray(solution.row_dual) / scale  # sign of the maximisation
    basis = solver.getBasis()
    if basis.valid and answer.status is Status.CONVERGED:  # its conversion takes as long as a short time limit
        answer.basis = np.array([int(k) for k in (*basis.col_status, *basis.row_status)])
    return answer
