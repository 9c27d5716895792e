"""The structured perceptron over hinge-loss models whose variables all have labels."""

from __future__ import annotations

from typing import ClassVar

from intarsia._validation import FloatArray
from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.side_run import SideRun
from intarsia.softlogic.subgradient_learner import SubgradientLearner


class HingePerceptron(SubgradientLearner):
    r"""Steps :math:`w \leftarrow \max(0, w - \eta (\phi(\hat y) - \phi(y^*)) / n)` from the most probable state y*.

    Maximum likelihood with the most probable state in place of the expectation, as PSL learns by default. Without a
    surrogate of the entropy the objective is lowest at weights 0, so that the number of steps and the mean of the
    weights matter; `PairedDual` has an objective worth reaching. An update costs one inference.

    Parameters
    ----------
    ridge, steps, inference, evaluate, time_limit, verbose
        As for every `SubgradientLearner`; no ridge by default.

    References
    ----------
    Collins2002; Bach2017, section 6.1.

    Examples
    --------
    Two rules quarrel about y, one towards 1 and one towards 0; the label 1 breaks the second, which loses weight
    until it no longer matters.

    >>> from intarsia.softlogic import HingeLossMRF, LinearRows
    >>> rules = HingeLossMRF(1, LinearRows([0, 1, 2], [0, 0], [-1.0, 1.0], [1.0, 0.0]), 1.0, 2)
    >>> steps = ProjectedSubgradient(step_size=1.0, adagrad=False, average=False)
    >>> found = HingePerceptron(steps=steps).fit(rules, [1.0])
    >>> bool(found.weights[0] > 1.0), float(found.weights[1])
    (True, 0.0)
    """

    name: ClassVar[str] = "perceptron"
    summary: ClassVar[str] = "fully labelled data: steps from the most probable state to the labels"
    takes_latent: ClassVar[bool] = False

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        steps: ProjectedSubgradient | None = None,
        inference: ConsensusADMM | None = None,
        evaluate: bool = False,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            ridge=ridge, steps=steps, inference=inference, evaluate=evaluate, time_limit=time_limit, verbose=verbose
        )

    def _gradient(self, free: SideRun, clamped: SideRun, weights: FloatArray, turn: int) -> FloatArray | None:
        return free.problem.gradient(weights, clamped.features, free.solve(weights), float(self.ridge))
