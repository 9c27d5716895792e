"""Paired-dual learning: weights move while both inferences are still under way."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.validation import FloatArray, check_choice, check_number
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.learning.latent import LatentLearner
from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.learning.side_run import SideRun
from intarsia.softlogic.learning.surrogates import EntropySurrogate

_PLACES = ("copies", "consensus")


class PairedDual(LatentLearner):
    r"""N iterations of ADMM on each of the two problems, then a step of the weights (Bach2015, Algorithm 1).

    .. math:: \min_w \tfrac{\lambda}{2} |w|^2 + [\min_{z'} w \cdot \phi(\hat y, z') - h(\hat y, z')]
              - [\min_{y, z} w \cdot \phi(y, z) - h(y, z)]

    Both minima stand as augmented Lagrangians, whose derivative by a weight is the value of its terms at their own
    copies of the variables, converged or not: the weights and both inferences move to a saddle point together. An
    update costs 2 N iterations of ADMM instead of hundreds. Choose it first wherever there are latent variables;
    there is no proof that it converges, so compare a few updates of `PrimalSubgradient` where doubt remains.

    Parameters
    ----------
    n_inner_iter : int
        N: iterations of ADMM on each problem between updates; fewer where an inference has converged.
    warm_up : int
        K: rounds of N iterations before the first update.
    gradient_at : {"copies", "consensus"}
        Where terms are evaluated. "consensus" is the naive interleaving of section 3.3, which follows no objective: for
        comparison.
    surrogate, l2, optimizer, inference, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`; `inference` is ADMM without over-relaxation by default. Where weights swing, give
        a smaller `optimizer__step_size` or a larger `step_size` of ADMM, which ties the copies to the consensus.

    Warns
    -----
    ConvergenceWarning
        If the latent variables did not move, or are all alike.

    Notes
    -----
    The paper's Eq. 3 to 5 have the two brackets with the opposite sign, which would lower the likelihood of the labels;
    here a rule that the labels keep gains weight.

    References
    ----------
    Bach2015, Algorithm 1 and section 3.

    Examples
    --------
    The label keeps the rule, so that its weight rises from 1 to where 0.05 w = 1 / (w + 2)^2
    (`PrimalSubgradient` has the same example).

    >>> from intarsia.softlogic.learning.surrogates import EntropyPair
    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    >>> optimizer = ProjectedSubgradient(step_size=5.0, adagrad=False, max_iter=200, average=False)
    >>> learner = PairedDual(surrogate=EntropyPair(weight=1.0), l2=0.05, optimizer=optimizer)
    >>> round(float(learner.fit(rule, [1.0]).weights[0]), 2)
    1.57
    """

    name: ClassVar[str] = "paired_dual"
    summary: ClassVar[str] = "latent variables; no inference is waited for"

    def __init__(
        self,
        *,
        n_inner_iter: int = 1,
        warm_up: int = 0,
        gradient_at: str = "copies",
        surrogate: str | EntropySurrogate | None = "entropy_pair",
        l2: float = 1e-2,
        optimizer: ProjectedSubgradient | None = None,
        inference: ConsensusADMM | None = None,
        symmetry_breaking: float = 0.1,
        random_state: int | np.random.Generator | None = 0,
        evaluate: bool = False,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            surrogate=surrogate,
            l2=l2,
            optimizer=optimizer,
            inference=inference,
            symmetry_breaking=symmetry_breaking,
            random_state=random_state,
            evaluate=evaluate,
            time_limit=time_limit,
            verbose=verbose,
        )
        self.n_inner_iter = n_inner_iter
        self.warm_up = warm_up
        self.gradient_at = gradient_at

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.n_inner_iter, "PairedDual: n_inner_iter", low=1, integer=True)
        check_number(self.warm_up, "PairedDual: warm_up", low=0, integer=True)
        check_choice(self.gradient_at, _PLACES, "PairedDual: gradient_at")

    def _default_inference(self) -> ConsensusADMM:
        # Algorithm 1 is plain ADMM. Over-relaxed copies run ahead of the weights, which then swing.
        return ConsensusADMM(over_relaxation=1.0)

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        copies = self.gradient_at == "copies"
        of_free, of_clamped = (side.advance(weights, int(self.n_inner_iter), copies) for side in (free, clamped))
        if turn < int(self.warm_up):
            return None
        return free.problem.gradient(weights, of_clamped, of_free, float(self.l2))
