"""Learners of models with latent variables: primal subgradients, point EM, and the latent structured SVM."""

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
    """Base of the learners of latent variables, whose surrogate of the entropy is a setting.

    Parameters
    ----------
    surrogate : str, EntropySurrogate or None
        What keeps the weights from falling to 0: "entropy_pair", "quadratic_prior", "label_loss", or an object.
    symmetry_breaking : float
        Share by which each weight is changed at random before learning, where there are latent variables: such as could
        change places stay alike otherwise.
    random_state : int, None or numpy.random.Generator
        Seed of these changes.
    l2, optimizer, inference, evaluate, time_limit, verbose
        As for every `SubgradientLearner`.
    """

    def __init__(
        self,
        *,
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
            l2=l2, optimizer=optimizer, inference=inference, evaluate=evaluate, time_limit=time_limit, verbose=verbose
        )
        self.surrogate = surrogate
        self.symmetry_breaking = symmetry_breaking
        self.random_state = random_state

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.symmetry_breaking, f"{type(self).__name__}: symmetry_breaking", low=0.0, high=1.0)

    def _entropy(self) -> EntropySurrogate | None:
        return None if self.surrogate is None else SURROGATES.resolve(self.surrogate)

    def _shaken(self, weights: FloatArray, learned: NDArray[np.bool_]) -> FloatArray:
        return break_symmetry(weights, learned, float(self.symmetry_breaking), as_generator(self.random_state))


class PrimalSubgradient(LatentLearner):
    r"""Exact subgradients :math:`\lambda w + \phi(\hat y, z') - \phi(y, z)`, z' and (y, z) inferred to convergence.

    The traditional way, `PairedDual` with N without bound: sure and slow. Choose it to check the others, or where
    inference is cheap beside everything else. Inference starts from the answer at the weights before.

    Parameters
    ----------
    surrogate, l2, optimizer, inference, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`.

    References
    ----------
    Bach2015, section 2.3.

    Examples
    --------
    The label keeps the rule max(0, 1 - y)^2, so that its weight rises from 1. At w the free y is
    (w + 1) / (w + 2), and the objective's slope 0.05 w - 1 / (w + 2)^2 is 0 at w = 1.57.

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
    summary: ClassVar[str] = "latent variables, exact subgradients: two full inferences for each update"

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        return free.problem.gradient(weights, clamped.solve(weights), free.solve(weights), float(self.l2))


class PointEM(LatentLearner):
    r"""Latent variables fixed at their best, then several steps of the weights as if they were observed; and again.

    Expectation maximisation in which a point stands for the distribution (Bach2015, section 2.3): with z' fixed, the
    objective is convex in w, and falls with the true one (concave-convex procedure). Both inferences run to
    convergence, warm from the last answer.

    Parameters
    ----------
    n_inner_iter : int
        Updates of the weights for each estimate of the latent variables.
    surrogate, l2, optimizer, inference, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`.

    References
    ----------
    Bach2015, sections 2.3 and 4; Neal1998.

    Examples
    --------
    Nothing is latent here, so that it does as `PrimalSubgradient` does.

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
    summary: ClassVar[str] = "latent variables, estimated to convergence between several updates"

    def __init__(
        self,
        *,
        n_inner_iter: int = 10,
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

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.n_inner_iter, "PointEM: n_inner_iter", low=1, integer=True)

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        if turn % int(self.n_inner_iter) == 0:
            clamped.solve(weights)
        return free.problem.gradient(weights, clamped.features, free.solve(weights), float(self.l2))


class LatentSVM(LatentLearner):
    r"""Labels must beat all other states by their loss: :math:`h = \Delta(\hat y, y)` in the free problem only.

    .. math:: \min_w \tfrac{\lambda}{2} |w|^2 + \min_{z'} w \cdot \phi(\hat y, z')
              - \min_{y, z} [w \cdot \phi(y, z) - c \sum_i |y_i - \hat y_i|]

    Solved as its authors do: the latent variables at their best for the labels, then several subgradient steps with
    loss-augmented inference. Choose it where labels are 0 and 1 and only the decision matters. `PairedDual` with
    `surrogate="label_loss"` minimises the same objective in fewer iterations.

    Parameters
    ----------
    loss_weight : float
        c > 0: by how much a wrong label must lose.
    n_inner_iter : int
        Updates of the weights for each estimate of the latent variables.
    l2, optimizer, inference, symmetry_breaking, random_state, evaluate, time_limit, verbose
        As for every `LatentLearner`.

    Raises
    ------
    InvalidInputError
        If a label is neither 0 nor 1: minus the loss would not be convex.

    References
    ----------
    Yu2009; Bach2015, section 3.1.

    Examples
    --------
    Label 1 and the rule max(0, 1 - y): any weight above c = 1 keeps y at 1 although the loss pulls it to 0. Steps of
    0.4 lead from 0.1 to 1.3, and no further.

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
        optimizer: ProjectedSubgradient | None = None,
        inference: ConsensusADMM | None = None,
        symmetry_breaking: float = 0.1,
        random_state: int | np.random.Generator | None = 0,
        evaluate: bool = False,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            l2=l2,
            optimizer=optimizer,
            inference=inference,
            symmetry_breaking=symmetry_breaking,
            random_state=random_state,
            evaluate=evaluate,
            time_limit=time_limit,
            verbose=verbose,
        )
        self.loss_weight = loss_weight
        self.n_inner_iter = n_inner_iter

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.n_inner_iter, "LatentSVM: n_inner_iter", low=1, integer=True)

    def _entropy(self) -> EntropySurrogate | None:
        return LabelLoss(weight=self.loss_weight)

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        if turn % int(self.n_inner_iter) == 0:
            clamped.solve(weights)
        return free.problem.gradient(weights, clamped.features, free.solve(weights), float(self.l2))
