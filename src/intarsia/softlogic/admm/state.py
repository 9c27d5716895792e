"""State of consensus ADMM between iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia._kernels.hinge_admm import local_rows
from intarsia._kernels.hinge_steps import consensus_blocks, usual_steps
from intarsia.softlogic.admm.plan import AdmmPlan, plan_admm
from intarsia.softlogic.hinge.mrf import HingeLossMRF

MIDDLE = 0.5  # initial value of variables, and final value of variables without rows


@dataclass(eq=False, repr=False)
class AdmmState:
    """State of consensus ADMM: consensus, local copies and multipliers, in the order of the plan.

    Local copies and multipliers are not stored individually, because a number per row and a number per variable
    determine them (see `intarsia._kernels.hinge_admm`); `local_copies` and `scaled_duals` compute them. Iterations
    change a state in place.

    Attributes
    ----------
    plan : AdmmPlan
        Order of variables and rows.
    z, base, y : float arrays
        Consensus; consensus before the update by the rows; multiplier of each row.
    ahead, change : float arrays
        Quantities per variable and per row from which the last iteration computed the local copies.
    step : float array (n_blocks,)
        Step size rho of each independent block.
    n_iter : int
        Number of iterations.

    Examples
    --------
    >>> from intarsia.softlogic.admm.consensus import ConsensusADMM
    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> model = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)     # (1 - x)^2
    >>> solver = ConsensusADMM(step_size=2.0, over_relaxation=1.0)
    >>> state = solver.start(model)
    >>> _ = solver.advance(model, state, 1)
    >>> state.consensus, state.local_copies()                  # argmin of (1 - x)^2 + (x - 1/2)^2
    (array([0.75]), array([0.75]))
    """

    plan: AdmmPlan
    z: FloatArray
    base: FloatArray
    y: FloatArray
    ahead: FloatArray
    change: FloatArray
    step: FloatArray
    n_iter: int = 0

    @property
    def consensus(self) -> FloatArray:
        """Consensus in the order of the variables of the model."""
        return self.plan.to_model(self.z, MIDDLE)

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Arrays of the state, as arguments of kernels."""
        return self.z, self.base, self.y, self.ahead, self.change

    def copy(self) -> AdmmState:
        """Return an independent copy of the state."""
        z, base, y, ahead, change = (array.copy() for array in self.arrays)
        return AdmmState(self.plan, z, base, y, ahead, change, self.step.copy(), self.n_iter)

    def local_copies(self) -> FloatArray:
        """Return the local copy of every entry, in the order of the plan."""
        row = self.plan.row_of_entry()
        return self.ahead[self.plan.idx] + self.change[row] * self.plan.coef / self._step_of_row()[row]

    def scaled_duals(self) -> FloatArray:
        """Return the scaled multiplier u of every entry after the last iteration."""
        row = self.plan.row_of_entry()
        return (self.base - self.z)[self.plan.idx] - self.y[row] * self.plan.coef / self._step_of_row()[row]

    def row_values(self) -> FloatArray:
        """Return the value of every row of the model at its local copies; rows without variables are constants."""
        plan = self.plan
        values = plan.constants.copy()
        local_rows(plan.blocks, plan.unweighted_rows, self.ahead, self.change, self.step, plan.row_of, values)
        return values

    def multipliers(self) -> FloatArray:
        """Return the multiplier y of every row of the model: terms, then equalities, then inequalities."""
        out = np.zeros(self.plan.constants.size)
        out[self.plan.row_of] = self.y
        return out

    def _step_of_row(self) -> FloatArray:
        """Return the step size of the block of each row."""
        return np.repeat(self.step, np.diff(self.plan.row_start))

    def __repr__(self) -> str:
        return f"AdmmState({self.z.size} variables, {self.y.size} rows; {self.n_iter} iterations)"


def fresh_state(model: HingeLossMRF, step: float | None, plan: AdmmPlan | None = None) -> AdmmState:
    """Return the initial state: variables at 1/2, multipliers 0, step sizes of the order of the force of a hinge."""
    plan = plan_admm(model) if plan is None else plan
    n, m = plan.variables.size, plan.const.size
    if step is None:
        steps = usual_steps(plan.blocks, plan.ptr, plan.coef, plan.kind, plan.row_of, model.weight)
    else:
        steps = np.full(plan.n_blocks, float(step))
    return AdmmState(plan, np.full(n, MIDDLE), np.full(n, MIDDLE), np.zeros(m), np.full(n, MIDDLE), np.zeros(m), steps)


def carried_state(model: HingeLossMRF, earlier: AdmmState, rows: tuple[Any, ...], plan: AdmmPlan) -> AdmmState:
    """Convert a state to another model with the same number of variables and rows; coefficients may differ."""
    n, m = model.n_variables, earlier.plan.constants.size
    base, y = np.full(n, MIDDLE), np.zeros(m)
    base[earlier.plan.variables] = earlier.base
    y[earlier.plan.row_of] = earlier.y
    state = fresh_state(model, None, plan)
    state.base, state.y = base[plan.variables], y[plan.row_of]
    work = np.empty(plan.variables.size)
    consensus_blocks(plan.blocks, rows, plan.degree, state.arrays, work, state.step)
    return state
