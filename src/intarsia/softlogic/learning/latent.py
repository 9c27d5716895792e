"""Weight learners for models with latent variables: primal subgradients, point EM and latent structured SVM."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, as_generator, check_number
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.learning.side_run import SideRun
from intarsia.softlogic.learning.subgradient import SubgradientLearner, break_symmetry
from intarsia.softlogic.learning.surrogates import SURROGATES, EntropySurrogate, LabelLoss


class LatentLearner(SubgradientLearner):
    """Base class of the learners for latent variables, which have a surrogate of the entropy.

    Parameters
    ----------
    surrogate : str, EntropySurrogate or None
        Surrogate of the entropy, which prevents the trivial solution of weights 0: "entropy_pair", "quadratic_prior",
        "label_loss", "by_role", or an object.
    symmetry_breaking : float
        Fraction by which each initial weight is changed at random if there are latent variables. Without it,
        interchangeable latent variables would stay equal.
    random_state : int, None or numpy.random.Generator
        Seed or generator of the random changes.
    l2, optimizer, inference, evaluate, time_limit, verbose
        As for every `SubgradientLearner`.
    """

    def __init__(
        self,
        *,
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
            l2=l2, optimizer=optimizer, inference=inference, evaluate=evaluate, time_limit=time_limit, verbose=verbose
        )
        self.surrogate = surrogate
        self.symmetry_breaking = symmetry_breaking
        self.random_state = random_state

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        super().check_settings()
        check_number(self.symmetry_breaking, f"{type(self).__name__}: symmetry_breaking", low=0.0, high=1.0)

    def _entropy(self) -> EntropySurrogate | None:
        """Return the surrogate of the entropy."""
        return None if self.surrogate is None else SURROGATES.resolve(self.surrogate)

    def _perturbed(self, weights: FloatArray, trainable: NDArray[np.bool_]) -> FloatArray:
        """Return randomly changed initial weights."""
        return break_symmetry(weights, trainable, float(self.symmetry_breaking), as_generator(self.random_state))


class PrimalSubgradient(LatentLearner):
    r"""Weight learning with exact subgradients :math:`\lambda w + \phi(\hat y, z') - \phi(y, z)`.

    Both inference problems, for z' and for (y, z), run to convergence at every update, warm-started from the previous
    weights. This is the traditional method, the limit of `PairedDual` for unlimited N: reliable and slow. Use it to
    check other learners, or if inference is cheap.

    Parameters
    ----------
    inference : str, ConsensusADMM or None
        Solver of both inference problems. None, the default, means `ConsensusADMM()`. `SoftLogic(inference=...)` is
        used for predictions only, so pass the solver for learning here.
    surrogate, l2, optimizer, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`.

    References
    ----------
    Bach2015, section 2.3.

    Examples
    --------
    The label satisfies the rule max(0, 1 - y)^2, so its weight increases from 1. At weight w the inferred y is
    (w + 1) / (w + 2), and the derivative 0.05 w - 1 / (w + 2)^2 of the objective is 0 at w = 1.57.

    >>> from intarsia.softlogic.learning.surrogates import EntropyPair
    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> from intarsia.softlogic.learning.projected_subgradient import ProjectedSubgradient
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    >>> optimizer = ProjectedSubgradient(step_size=5.0, adagrad=False, max_iter=50, average=False)
    >>> learner = PrimalSubgradient(surrogate=EntropyPair(weight=1.0), l2=0.05, optimizer=optimizer)
    >>> round(float(learner.fit(rule, [1.0]).weights[0]), 2)
    1.57
    """

    name: ClassVar[str] = "primal_subgradient"
    summary: ClassVar[str] = "latent variables, exact subgradients: two converged inferences per update"

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        return free.problem.gradient(weights, clamped.solve(weights), free.solve(weights), float(self.l2))


class AlternatingLearner(LatentLearner):
    """Base class of learners that infer the latent variables once for every `n_inner_iter` weight updates."""

    n_inner_iter: int

    def check_settings(self) -> None:
        """Raise if a setting is invalid."""
        super().check_settings()
        check_number(self.n_inner_iter, f"{type(self).__name__}: n_inner_iter", low=1, integer=True)

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        if turn % int(self.n_inner_iter) == 0:
            clamped.solve(weights)
        return free.problem.gradient(weights, clamped.features, free.solve(weights), float(self.l2))


class PointEM(AlternatingLearner):
    r"""Weight learning by expectation maximization with point estimates of the latent variables (hard EM).

    Latent variables are fixed at their most probable values, then several updates of the weights treat them as
    observed (Bach2015, section 2.3). With z' fixed, the objective is convex in w and an upper bound on the true
    objective (concave-convex procedure). Both inference problems run to convergence, warm-started from the previous
    solution. Use it if inferring the latent variables is expensive.

    Parameters
    ----------
    n_inner_iter : int
        Number of weight updates for each inference of the latent variables.
    inference : str, ConsensusADMM or None
        Solver of both inference problems. None, the default, means `ConsensusADMM()`. `SoftLogic(inference=...)` is
        used for predictions only, so pass the solver for learning here.
    surrogate, l2, optimizer, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`.

    References
    ----------
    Bach2015, sections 2.3 and 4; Neal1998.

    Examples
    --------
    Without latent variables the result is that of `PrimalSubgradient`.

    >>> from intarsia.softlogic.learning.surrogates import EntropyPair
    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    >>> optimizer = ProjectedSubgradient(step_size=5.0, adagrad=False, max_iter=50, average=False)
    >>> learner = PointEM(surrogate=EntropyPair(weight=1.0), l2=0.05, optimizer=optimizer)
    >>> round(float(learner.fit(rule, [1.0]).weights[0]), 2)
    1.57
    """

    name: ClassVar[str] = "em"
    summary: ClassVar[str] = "latent variables, inferred to convergence once for several updates"

    def __init__(
        self,
        *,
        n_inner_iter: int = 10,
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


class LatentSVM(AlternatingLearner):
    r"""Latent structured SVM: labels must win by a margin, :math:`h = \Delta(\hat y, y)` in the free problem.

    .. math:: \min_w \tfrac{\lambda}{2} |w|^2 + \min_{z'} w \cdot \phi(\hat y, z')
              - \min_{y, z} [w \cdot \phi(y, z) - c \sum_i |y_i - \hat y_i|]

    It is solved as in Yu2009: latent variables are inferred for the labels, then several subgradient steps use
    loss-augmented inference. Use it for labels 0 and 1 if only the decision matters. `PairedDual` with
    `surrogate="label_loss"` minimizes the same objective in fewer iterations.

    Parameters
    ----------
    loss_weight : float
        Weight c > 0 of the loss, the margin by which the labels must win.
    n_inner_iter : int
        Number of weight updates for each inference of the latent variables.
    inference : str, ConsensusADMM or None
        Solver of both inference problems. None, the default, means `ConsensusADMM()`. `SoftLogic(inference=...)` is
        used for predictions only, so pass the solver for learning here.
    l2, optimizer, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`.

    Raises
    ------
    InvalidInputError
        A label is neither 0 nor 1, so that minus the loss is not convex.

    References
    ----------
    Yu2009; Bach2015, section 3.1.

    Examples
    --------
    With label 1 and the rule max(0, 1 - y), every weight above c = 1 keeps y at 1 although the loss pulls it to 0.
    Steps of 0.4 from 0.1 stop at 1.3.

    >>> from intarsia.softlogic.hinge.mrf import HingeLossMRF
    >>> from intarsia.softlogic.hinge.linear_rows import LinearRows
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 0.1, 1)
    >>> optimizer = ProjectedSubgradient(step_size=0.4, adagrad=False, max_iter=10, average=False)
    >>> round(float(LatentSVM(l2=0.0, optimizer=optimizer).fit(rule, [1.0]).weights[0]), 6)
    1.3
    """

    name: ClassVar[str] = "latent_svm"
    summary: ClassVar[str] = "latent variables and labels 0 and 1: a margin instead of a likelihood"

    def __init__(
        self,
        *,
        loss_weight: float = 1.0,
        n_inner_iter: int = 10,
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
            l2=l2, optimizer=optimizer, inference=inference, symmetry_breaking=symmetry_breaking,
            random_state=random_state, evaluate=evaluate, time_limit=time_limit, verbose=verbose,
        )  # fmt: skip
        self.loss_weight = loss_weight
        self.n_inner_iter = n_inner_iter

    def _entropy(self) -> EntropySurrogate | None:
        """Return the loss of the labels as surrogate."""
        return LabelLoss(weight=self.loss_weight)
