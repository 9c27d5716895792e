"""The structured perceptron whose weights are averaged over all its steps."""

from __future__ import annotations

from typing import ClassVar

from intarsia.learning.online_learner import OnlineLearner, Rule


class AveragedPerceptron(OnlineLearner):
    r"""After each mistake a step of length 1: :math:`w \leftarrow w + \phi(x, y) - \phi(x, \hat y)`.

    :math:`\hat y` is the best labelling under the present weights, :math:`\phi` the statistics (sums of features by
    label, counts of transitions). The result is the mean of the weights after each sequence, which predicts much better
    than the last ones. Choose it to learn in seconds where no probabilities are needed: scores of it are none, so
    marginals and probabilities mean little. An epoch costs one Viterbi pass.

    Parameters
    ----------
    max_epochs : int
        Most passes over the data.
    validation_share : float
        Share of the sequences held out; the pass with the fewest mistakes on them is the result.
    patience : int
        Passes without fewer mistakes after which the search ends.
    random_state : int
        Seed of the order of the sequences, and of what is held out.
    verbose : bool
        Show progress on stderr, only on a terminal.

    References
    ----------
    Collins2002.

    Examples
    --------
    >>> from intarsia.learning.chain_crf import ChainCRF
    >>> crf = ChainCRF(learner="averaged_perceptron").fit([[["sun"], ["rain"]]], [["good", "bad"]])
    >>> crf.predict([[["sun"], ["rain"]]])[0].tolist(), crf.status_.name
    (['good', 'bad'], 'CONVERGED')
    """

    name: ClassVar[str] = "averaged_perceptron"
    summary: ClassVar[str] = "quick, for labels without probabilities"

    def __init__(
        self,
        *,
        max_epochs: int = 20,
        validation_share: float = 0.0,
        patience: int = 5,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.max_epochs = max_epochs
        self.validation_share = validation_share
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose

    def rule(self) -> Rule:
        """How long a step is."""
        return Rule(fixed=True)
