"""Steps that are long where little is known of a weight, and short where much is."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._validation import check_number
from intarsia.learning.online_learner import OnlineLearner, Rule


class AROW(OnlineLearner):
    r"""Adaptive regularisation of weights: each weight has a variance, which shrinks where the weight is used.

    With :math:`\delta = \phi(x, y) - \phi(x, \hat y)`, the number of wrong labels n and variances :math:`\Sigma`
    (diagonal), a mistake makes

    .. math:: w \leftarrow w + \frac{n - w \cdot \delta}{\delta^T \Sigma \delta + \gamma} \Sigma \delta, \qquad
              \Sigma_{ii}^{-1} \leftarrow \Sigma_{ii}^{-1} + \delta_i^2 / \gamma.

    Choose it for sparse features of very different frequencies: rare ones keep long steps. Weights are not averaged.

    Parameters
    ----------
    variance : float
        That of every weight at the beginning.
    gamma : float
        How slowly variances shrink and how short steps are.
    max_epochs, validation_share, patience, random_state, verbose
        As in `AveragedPerceptron`.

    References
    ----------
    Crammer2009.

    Examples
    --------
    >>> from intarsia.learning.chain_crf import ChainCRF
    >>> crf = ChainCRF(learner=AROW(gamma=2.0)).fit([[["sun"], ["rain"]]], [["good", "bad"]])
    >>> crf.predict([[["sun"], ["rain"]]])[0].tolist()
    ['good', 'bad']
    """

    name: ClassVar[str] = "arow"
    summary: ClassVar[str] = "quick, for sparse features, many of them rare"

    def __init__(
        self,
        *,
        variance: float = 1.0,
        gamma: float = 1.0,
        max_epochs: int = 20,
        validation_share: float = 0.0,
        patience: int = 5,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.variance = variance
        self.gamma = gamma
        self.max_epochs = max_epochs
        self.validation_share = validation_share
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        for name in ("variance", "gamma"):
            check_number(getattr(self, name), f"AROW: {name}", low=0.0, open_low=True, high=np.inf, open_high=True)

    def rule(self) -> Rule:
        """How long a step is (Crammer2009, Fig. 1, diagonal)."""
        return Rule(slack=self.gamma, loss=2, gamma=self.gamma, variance=self.variance, averages=False)
