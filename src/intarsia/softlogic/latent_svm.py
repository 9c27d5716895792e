"""The latent structured SVM over hinge-loss models."""

from __future__ import annotations

from typing import ClassVar

from intarsia._validation import FloatArray, check_number
from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.entropy_surrogate import EntropySurrogate, LabelLoss
from intarsia.softlogic.latent_learner import LatentLearner
from intarsia.softlogic.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.side_run import SideRun


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
    n_inner : int
        Steps of the weights for each estimate of the latent variables.
    ridge, steps, inference, symmetry_breaking, random_state, evaluate, time_limit, verbose
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

    >>> from intarsia.softlogic import HingeLossMRF, LinearRows
    >>> rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 0.1, 1)
    >>> steps = ProjectedSubgradient(step_size=0.4, adagrad=False, max_iter=10, average=False)
    >>> round(float(LatentSVM(ridge=0.0, steps=steps).fit(rule, [1.0]).weights[0]), 6)
    1.3
    """

    name: ClassVar[str] = "latent_svm"
    summary: ClassVar[str] = "latent variables and labels 0 and 1: a margin instead of a likelihood"

    def __init__(
        self,
        *,
        loss_weight: float = 1.0,
        n_inner: int = 10,
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
            ridge=ridge,
            steps=steps,
            inference=inference,
            symmetry_breaking=symmetry_breaking,
            random_state=random_state,
            evaluate=evaluate,
            time_limit=time_limit,
            verbose=verbose,
        )
        self.loss_weight = loss_weight
        self.n_inner = n_inner

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.n_inner, "LatentSVM: n_inner", low=1, integer=True)

    def _entropy(self) -> EntropySurrogate | None:
        return LabelLoss(weight=self.loss_weight)

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        if turn % int(self.n_inner) == 0:
            clamped.solve(weights)
        return free.problem.gradient(weights, clamped.features, free.solve(weights), float(self.ridge))
