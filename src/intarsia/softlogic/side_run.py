"""ADMM on one of the two problems of learning, warm from weights to weights."""

from __future__ import annotations

import warnings

import numpy as np

from intarsia._validation import FloatArray
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.inference.result import Status
from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.admm_state import MIDDLE, AdmmState
from intarsia.softlogic.group_steps import GroupSteps
from intarsia.softlogic.paired_problem import PairedProblem, Side


class SideRun:
    """The state of inference on one side, which outlives changes of the weights; counts its iterations.

    Attributes
    ----------
    features : float array (n_weights,)
        Of the last `advance` or `solve`.
    objective : float
        Minimum of the side's model at the last `solve`.
    n_iter : int
        ADMM iterations made, as passes over the whole model.
    n_solved, n_stopped : int
        Calls of `solve`, and those that stopped before convergence.
    """

    def __init__(self, problem: PairedProblem, side: Side, method: ConsensusADMM) -> None:
        self.problem, self.side, self.method = problem, side, method
        self.features, self.objective, self.n_iter = side.fixed, 0.0, 0
        self.n_solved = self.n_stopped = 0
        self._found: FloatArray | None = None
        self._state: AdmmState | None = None
        self._steps: GroupSteps | None = None
        # Labels alone decide a side without terms: nothing to infer.
        self._settled = side.model.n_terms == 0 and side.model.n_constraints == 0

    @property
    def point(self) -> FloatArray:
        """Values of the side's variables after the last `advance` or `solve`."""
        if self._found is None:
            self._found = np.full(self.side.model.n_variables, MIDDLE) if self._state is None else self._state.consensus
        return self._found

    def advance(self, weights: FloatArray, n_iter: int, at_copies: bool = True) -> FloatArray:
        """Make so many iterations, fewer where it converges; features at the terms' own copies, or at the consensus."""
        if self._settled:
            return self.features
        if self._state is None:
            self._state = self.method.start(self.problem.weighted(self.side, weights))
        if self._steps is None:
            self._steps = GroupSteps(self.side.model, self._state.plan, float(self.method.over_relaxation))
        by_group = np.concatenate([weights, self.problem.surrogate])
        self.n_iter += self._steps.advance(self._state, by_group, n_iter, float(self.method.tol))
        self._found = None
        if at_copies:
            self.features = self._steps.features(self._state)[: weights.size] + self.side.fixed
        else:
            self.features = self.problem.features(self.side, self.side.model.terms.values(self.point))
        return self.features

    def solve(self, weights: FloatArray) -> FloatArray:
        """Go on to convergence; features at the solution."""
        if self._settled:
            return self.features
        model = self.problem.weighted(self.side, weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = self.method.solve(model, warm_start=self._state)
        if found.status is Status.INFEASIBLE:
            which = "labels clamped" if self.side is self.problem.clamped else "labels free"
            raise InvalidInputError(
                f"Learning: the problem with {which} has no solution. {found.note} Correct the labels, or give one of "
                f"the rules a weight instead of making it hard."
            )
        self.n_solved += 1
        self.n_stopped += not found.converged
        self._state = found.state
        self.n_iter += int(np.ceil(found.n_passes))  # blocks that were done earlier cost nothing more
        self._found, self.objective = found.x, found.objective
        self.features = self.problem.features(self.side, model.terms.values(found.x))
        return self.features
