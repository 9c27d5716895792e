"""Paired-dual learning: update the weights while both inference problems are still running."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.validation import FloatArray, check_choice, check_number
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.learning.latent import LatentLearner
from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.learning.side_run import SideRun
from intarsia.softlogic.learning.surrogates import EntropySurrogate

_GRADIENT_POINTS = ("consensus", "copies")


class PairedDual(LatentLearner):
    r"""Paired-dual learning of weights with latent variables (Bach2015, Algorithm 1).

    .. math:: \min_w \tfrac{\lambda}{2} |w|^2 + [\min_{z'} w \cdot \phi(\hat y, z') - h(\hat y, z')]
              - [\min_{y, z} w \cdot \phi(y, z) - h(y, z)]

    An update of the weights follows N iterations of ADMM on each of the two inference problems, and uses their current
    iterates, converged or not: weights and both inferences approach a saddle point together. An update costs 2 N
    iterations of ADMM instead of hundreds. Use it first if there are latent variables. Convergence is not proved; if in
    doubt, compare with a few updates of `PrimalSubgradient`.

    A rule whose atoms are all latent, such as `Linked(U, V) & Red(U) -> Red(V)`, loses its weight under this objective:
    with free labels its atoms agree with each other, so its violations are larger with the labels clamped. Keep such a
    weight constant (`trainable=` of `fit`), and choose it by a score on held-out data. If the score on new data falls
    while the objective still falls, stop early: pass `validation=` to `fit` or to `SoftLogic.fit`.

    Parameters
    ----------
    n_inner_iter : int
        Number N of ADMM iterations on each problem between updates; fewer if the problem has converged.
    warm_up : int
        Number K of rounds of N iterations before the first update.
    gradient_at : {"consensus", "copies"}
        Where terms are evaluated. "copies" is Algorithm 1 of the paper: the derivative of the augmented Lagrangians
        with respect to a weight is the value of its terms at their local copies. "consensus" is the interleaving that
        section 3.3 of the paper calls naive. Both have the same fixed points. "consensus" is the default, because it
        was never slower in our comparison, and converged with larger learning rates and smaller ADMM steps.
    surrogate, l2, optimizer, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`. If weights oscillate, set a smaller `optimizer__step_size`, or a larger
        `step_size` of ADMM, which keeps the copies closer to the consensus.
    inference : str, ConsensusADMM or None
        Solver of both inference problems. None, the default, means `ConsensusADMM(over_relaxation=1.0)`:
        over-relaxation would make the weights oscillate. `SoftLogic(inference=...)` is used for predictions only, so
        pass the solver for learning here.

    Warns
    -----
    ConvergenceWarning
        The latent variables did not change, or are all equal.

    Notes
    -----
    Eq. 3 to 5 of the paper have the two brackets with the opposite sign, which would decrease the likelihood of the
    labels; here a rule that the labels satisfy gains weight.

    References
    ----------
    Bach2015, Algorithm 1 and section 3.

    Examples
    --------
    The label satisfies the rule, so its weight increases from 1 until 0.05 w = 1 / (w + 2)^2 (`PrimalSubgradient` has
    the same example).

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
    summary: ClassVar[str] = "latent variables; updates do not wait for inference to converge"

    def __init__(
        self,
        *,
        n_inner_iter: int = 1,
        warm_up: int = 0,
        gradient_at: str = "consensus",
        surrogate: str | EntropySurrogate | None = "entropy_pair",
        l2: float = 1e-2,
        optimizer: str | ProjectedSubgradient = "projected_subgradient",
        inference: str | ConsensusADMM | None = None,
        symmetry_breaking: float = 0.1,
        random_state: int | np.random.Generator | None = 0,
        evaluate: bool = False,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            surrogate=surrogate, l2=l2, optimizer=optimizer, inference=inference,
            symmetry_breaking=symmetry_breaking, random_state=random_state, evaluate=evaluate, time_limit=time_limit,
            verbose=verbose,
        )  # fmt: skip
        self.n_inner_iter = n_inner_iter
        self.warm_up = warm_up
        self.gradient_at = gradient_at

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        super().check_settings()
        check_number(self.n_inner_iter, "PairedDual: n_inner_iter", low=1, integer=True)
        check_number(self.warm_up, "PairedDual: warm_up", low=0, integer=True)
        check_choice(self.gradient_at, _GRADIENT_POINTS, "PairedDual: gradient_at")

    def _default_inference(self) -> ConsensusADMM:
        """Return plain ADMM, as in Algorithm 1."""
        # Over-relaxed iterates would run ahead of the weights, which would then oscillate.
        return ConsensusADMM(over_relaxation=1.0)

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        copies = self.gradient_at == "copies"
        free_features, clamped_features = (
            side.advance(weights, int(self.n_inner_iter), copies) for side in (free, clamped)
        )
        if turn < int(self.warm_up):
            return None
        return free.problem.gradient(weights, clamped_features, free_features, float(self.l2))
