"""Subgradients of the paired objective, each after two inferences to convergence."""

from __future__ import annotations

from typing import ClassVar

from intarsia._validation import FloatArray
from intarsia.softlogic.latent_learner import LatentLearner
from intarsia.softlogic.side_run import SideRun


class PrimalSubgradient(LatentLearner):
    r"""Exact subgradients :math:`\lambda w + \phi(\hat y, z') - \phi(y, z)`, z' and (y, z) inferred to convergence.

    The traditional way, `PairedDual` with N without bound: sure and slow. Choose it to check the others, or where
    inference is cheap beside everything else. Inference starts from the answer at the weights before.

    Parameters
    ----------
    surrogate, ridge, steps, inference, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`.

    References
    ----------
    Bach2015, section 2.3.

    Examples
    --------
    The label keeps the rule max(0, 1 - y)^2, so that its weight rises from 1. At w the free y is
    (w + 1) / (w + 2), and the objective's slope 0.05 w - 1 / (w + 2)^2 is 0 at w = 1.57.

    >>> from intarsia.softlogic import EntropyPair, HingeLossMRF, LinearRows, ProjectedSubgradient
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    >>> steps = ProjectedSubgradient(step_size=5.0, adagrad=False, max_iter=50, average=False)
    >>> learner = PrimalSubgradient(surrogate=EntropyPair(weight=1.0), ridge=0.05, steps=steps)
    >>> round(float(learner.fit(rule, [1.0]).weights[0]), 2)
    1.57
    """

    name: ClassVar[str] = "primal_subgradient"
    summary: ClassVar[str] = "latent variables, exact subgradients: two full inferences for each update"

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        return free.problem.gradient(weights, clamped.solve(weights), free.solve(weights), float(self.ridge))
