"""Expectation maximisation with point estimates of the latent variables."""

from __future__ import annotations

from typing import ClassVar

from intarsia._validation import FloatArray, check_number
from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.entropy_surrogate import EntropySurrogate
from intarsia.softlogic.latent_learner import LatentLearner
from intarsia.softlogic.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.side_run import SideRun


class PointEM(LatentLearner):
    r"""Latent variables fixed at their best, then several steps of the weights as if they were observed; and again.

    Expectation maximisation in which a point stands for the distribution (Bach2015, section 2.3): with z' fixed, the
    objective is convex in w, and falls with the true one (concave-convex procedure). Both inferences run to
    convergence, warm from the last answer.

    Parameters
    ----------
    n_inner : int
        Steps of the weights for each estimate of the latent variables.
    surrogate, ridge, steps, inference, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`.

    References
    ----------
    Bach2015, sections 2.3 and 4; Neal1998.

    Examples
    --------
    Nothing is latent here, so that it does as `PrimalSubgradient` does.

    >>> from intarsia.softlogic import EntropyPair, HingeLossMRF, LinearRows
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    >>> steps = ProjectedSubgradient(step_size=5.0, adagrad=False, max_iter=50, average=False)
    >>> learner = PointEM(surrogate=EntropyPair(weight=1.0), ridge=0.05, steps=steps)
    >>> round(float(learner.fit(rule, [1.0]).weights[0]), 2)
    1.57
    """

    name: ClassVar[str] = "em"
    summary: ClassVar[str] = "latent variables, estimated to convergence between several updates"

    def __init__(
        self,
        *,
        n_inner: int = 10,
        surrogate: str | EntropySurrogate | None = "entropy_pair",
        ridge: float = 1e-2,
        steps: ProjectedSubgradient | None = None,
        inference: ConsensusADMM | None = None,
        symmetry_breaking: float = 0.1,
        random_state: int = 0,
        evaluate: bool = False,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            surrogate=surrogate,
            ridge=ridge,
            steps=steps,
            inference=inference,
            symmetry_breaking=symmetry_breaking,
            random_state=random_state,
            evaluate=evaluate,
            time_limit=time_limit,
            verbose=verbose,
        )
        self.n_inner = n_inner

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.n_inner, "PointEM: n_inner", low=1, integer=True)

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        if turn % int(self.n_inner) == 0:
            clamped.solve(weights)
        return free.problem.gradient(weights, clamped.features, free.solve(weights), float(self.ridge))
