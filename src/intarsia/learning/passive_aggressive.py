"""Steps just long enough to put a mistake right."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._validation import check_choice, check_number
from intarsia.learning.online_learner import OnlineLearner, Rule


class PassiveAggressive(OnlineLearner):
    r"""After each mistake the smallest step that would make the truth win by a margin.

    With :math:`\delta = \phi(x, y) - \phi(x, \hat y)` and the loss :math:`\ell = \rho - w \cdot \delta`, where
    :math:`\rho` is the root of the number of wrong labels (1 unless `error_sensitive`), the step is
    :math:`w \leftarrow w + \tau \delta`, with

    * "pa": :math:`\tau = \ell / |\delta|^2`,
    * "pa1": the same, but at most `c`,
    * "pa2": :math:`\tau = \ell / (|\delta|^2 + 1 / (2 c))`.

    Choose it as the averaged perceptron, whose steps do not depend on how wrong a labelling is. "pa" follows noisy
    labels too far.

    Parameters
    ----------
    variant : {"pa", "pa1", "pa2"}
        How the step is bounded.
    c : float
        Aggressiveness, for the last two.
    error_sensitive : bool
        Whether the margin grows with the number of wrong labels.
    averages : bool
        Whether the result is the mean of the weights after each sequence, or the last ones.
    max_epochs, validation_share, patience, random_state, verbose
        As in `AveragedPerceptron`.

    References
    ----------
    Crammer2006.

    Examples
    --------
    >>> from intarsia.learning.chain_crf import ChainCRF
    >>> crf = ChainCRF(learner=PassiveAggressive(c=0.5)).fit([[["sun"], ["rain"]]], [["good", "bad"]])
    >>> crf.predict([[["sun"], ["rain"]]])[0].tolist()
    ['good', 'bad']
    """

    name: ClassVar[str] = "passive_aggressive"
    summary: ClassVar[str] = "as the averaged perceptron, with steps by how wrong a labelling is"

    def __init__(
        self,
        *,
        variant: str = "pa1",
        c: float = 1.0,
        error_sensitive: bool = True,
        averages: bool = True,
        max_epochs: int = 20,
        validation_share: float = 0.0,
        patience: int = 5,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.variant = variant
        self.c = c
        self.error_sensitive = error_sensitive
        self.averages = averages
        self.max_epochs = max_epochs
        self.validation_share = validation_share
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_choice(self.variant, ("pa", "pa1", "pa2"), "PassiveAggressive: variant")
        check_number(self.c, "PassiveAggressive: c", low=0.0, open_low=True, high=np.inf, open_high=True)

    def rule(self) -> Rule:
        """How long a step is (Crammer2006, Fig. 1)."""
        return Rule(
            most=self.c if self.variant == "pa1" else np.inf,
            slack=1.0 / (2.0 * self.c) if self.variant == "pa2" else 0.0,
            loss=1 if self.error_sensitive else 0,
            averages=bool(self.averages),
        )
