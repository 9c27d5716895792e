"""Online learners of chain models: averaged perceptron, passive-aggressive, and AROW."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._core.progress import fit_progress
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, as_seed, check_choice, check_number, read_only
from intarsia._kernels.chain_arguments import LabelFeatures, LearnedWeights, SparseSequences, UpdateRule
from intarsia._kernels.online_updates import learn_sequences
from intarsia.exceptions import NotSupportedError
from intarsia.inference.chains.chain_inference import viterbi
from intarsia.learning.minimum import COLUMNS, Minimum
from intarsia.sequences.chain_data import ChainExamples, ChainScores
from intarsia.sequences.chain_learner import ChainLearner

State = dict[str, NDArray[Any]]


class Rule(NamedTuple):
    """How long a step is, in the words of the kernel `learn_sequences`, and the variance each weight begins with."""

    fixed: bool = False
    most: float = np.inf
    slack: float = 0.0
    loss: int = 1
    gamma: float = 0.0
    variance: float = 1.0
    average: bool = True


class OnlineLearner(ChainLearner):
    """Base of the mistake-driven learners; an iteration is a pass over the sequences in random order.

    The risk is the share of labels that were wrong when their sequence came. Where labels are hidden or sets, the best
    labelling that agrees with them takes the place of the truth. The weight of a sequence multiplies its steps. The
    search ends when a pass makes no mistake (CONVERGED), or after `max_iter`, without a warning: on data that no
    weights label without mistakes that is how it must end.
    """

    max_iter: int
    verbose: bool

    @abstractmethod
    def rule(self) -> Rule:
        """How long a step is."""

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant; extended by subclasses."""
        super().check_settings()
        check_number(self.max_iter, f"{type(self).__name__}: max_iter", low=0, integer=True)

    def check_examples(self, examples: ChainExamples) -> None:
        """Raise where settings and examples do not fit."""
        self.check_settings()
        if examples.layout.n_edge_features:
            raise NotSupportedError(
                f"{type(self).__name__} learns no features of steps. Leave edge_features out, or use "
                f"learner='maximum_likelihood'."
            )

    def minimize(
        self,
        examples: ChainExamples,
        start: FloatArray,
        *,
        validation: ChainExamples | None = None,
        title: str = "",
    ) -> Minimum:
        """Weights after the last pass, or after the one with the fewest mistakes on the sequences held out."""
        self.check_examples(examples)
        seed = as_seed(self.random_state)
        train, held_out = self.hold_out(examples, validation, seed)
        state, weights, status = self._begin(start), np.array(start), Status.MAX_ITER
        rows: list[tuple[float, ...]] = []
        shares: list[float] = []
        best, begun = weights, time.perf_counter()
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                while len(rows) < int(self.max_iter):
                    share, weights = self._pass(train, state, seed)
                    rows.append((share, np.nan, time.perf_counter() - begun, len(rows) + 1.0))
                    if report is not None:
                        report(len(rows), share, np.nan, len(rows) / int(self.max_iter))
                    if held_out is not None:
                        shares.append(_share_wrong(held_out, weights))
                        first_best = int(np.argmin(shares))
                        best = weights if first_best == len(shares) - 1 else best
                        if len(shares) - 1 - first_best >= int(self.patience):
                            status = Status.STALLED
                            break
                    if share == 0.0:
                        status = Status.CONVERGED
                        break
            except KeyboardInterrupt:
                if not rows:
                    raise
                status = Status.INTERRUPTED
        history = dict(zip(COLUMNS, np.array(rows).reshape(-1, len(COLUMNS)).T, strict=True))
        if shares:
            history["validation_risk"], weights = np.array(shares), best
        share = rows[-1][0] if rows else np.nan
        return Minimum(weights, share, np.nan, status, len(rows), start=np.array(start), history=history)

    def step(self, examples: ChainExamples, weights: FloatArray, state: Any = None) -> tuple[FloatArray, Any, float]:
        """One pass over the examples; `state` goes on from the last call."""
        self.check_examples(examples)
        kept = self._begin(weights) if state is None else {name: array.copy() for name, array in state.items()}
        share, new = self._pass(examples, kept, as_seed(self.random_state))
        return new, kept, share

    def _begin(self, start: FloatArray) -> State:
        return {
            "weights": np.array(start),
            "total": np.zeros_like(start),
            "variance": np.full_like(start, self.rule().variance),
            "count": np.zeros(1),
            "epochs": np.zeros(1, dtype=np.int64),
        }

    def _pass(self, examples: ChainExamples, state: State, seed: int) -> tuple[float, FloatArray]:
        """One pass, which changes the state; share of wrong labels, and the weights to predict with."""
        data, truth, layout, bounds = examples.data, examples.truth, examples.layout, examples.constraints
        rule = self.rule()
        thin = sparse.csr_array(data.matrix)
        allowed = np.zeros((0, layout.n_labels), dtype=bool) if truth.allowed is None else truth.allowed
        order = np.random.default_rng([seed, int(state["epochs"][0])]).permutation(len(examples))
        pair_ptr, pair_label = layout.pairs()
        sequences = SparseSequences(
            read_only(data.ptr), read_only(thin.indptr), read_only(thin.indices), read_only(thin.data),
            read_only(truth.states), read_only(allowed), read_only(truth.weight),
        )  # fmt: skip
        features = LabelFeatures(
            read_only(pair_ptr), read_only(pair_label), layout.ends, read_only(bounds.transitions),
            read_only(bounds.start), read_only(bounds.end),
        )  # fmt: skip
        update = UpdateRule(rule.fixed, float(rule.most), float(rule.slack), int(rule.loss), float(rule.gamma))
        learned = LearnedWeights(state["weights"], state["total"], state["variance"], state["count"])
        n_wrong = learn_sequences(read_only(order), sequences, features, update, learned)
        state["epochs"] += 1
        return float(n_wrong) / max(1, int(data.ptr[-1])), predicting_weights(state, rule)


def predicting_weights(state: Mapping[str, NDArray[Any]], rule: Rule) -> FloatArray:
    """The weights at present, or their mean over all sequences seen, each counted after its step."""
    count = float(state["count"][0])
    if not rule.average or count == 0.0:
        return state["weights"].copy()
    return np.asarray(state["weights"] - state["total"] / count)


def _share_wrong(examples: ChainExamples, weights: FloatArray) -> float:
    """Share of the single labels that the best labellings miss."""
    batch = ChainScores(examples.data, examples.layout, examples.constraints).batch(weights, 0, len(examples))
    known = examples.truth.states >= 0
    return float((viterbi(batch)[0][known] != examples.truth.states[known]).mean()) if known.any() else 0.0


class AveragedPerceptron(OnlineLearner):
    r"""After each mistake a step of length 1: :math:`w \leftarrow w + \phi(x, y) - \phi(x, \hat y)`.

    :math:`\hat y` is the best labelling under the present weights, :math:`\phi` the statistics (sums of features by
    label, counts of transitions). The result is the mean of the weights after each sequence, which predicts much better
    than the last ones. Choose it to learn in seconds where no probabilities are needed: scores of it are none, so
    marginals and probabilities mean little. An epoch costs one Viterbi pass.

    Parameters
    ----------
    max_iter : int
        Most passes over the data.
    validation_fraction : float
        Share of the sequences held out; the pass with the fewest mistakes on them is the result.
    patience : int
        Passes without fewer mistakes after which the search ends.
    random_state : int, Generator or None
        Seed of the order of the sequences, and of what is held out.
    verbose : bool
        Show progress on stderr, only on a terminal.

    References
    ----------
    Collins2002.

    Examples
    --------
    >>> from intarsia.sequences.chain_crf import ChainCRF
    >>> crf = ChainCRF(learner="averaged_perceptron").fit([[["sun"], ["rain"]]], [["good", "bad"]])
    >>> crf.predict([[["sun"], ["rain"]]])[0].tolist(), crf.status_.name
    (['good', 'bad'], 'CONVERGED')
    """

    name: ClassVar[str] = "averaged_perceptron"
    summary: ClassVar[str] = "quick, for labels without probabilities"

    def __init__(
        self,
        *,
        max_iter: int = 20,
        validation_fraction: float = 0.0,
        patience: int = 5,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose

    def rule(self) -> Rule:
        """How long a step is."""
        return Rule(fixed=True)


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
    average : bool
        Whether the result is the mean of the weights after each sequence, or the last ones.
    max_iter, validation_fraction, patience, random_state, verbose
        As in `AveragedPerceptron`.

    References
    ----------
    Crammer2006.

    Examples
    --------
    >>> from intarsia.sequences.chain_crf import ChainCRF
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
        average: bool = True,
        max_iter: int = 20,
        validation_fraction: float = 0.0,
        patience: int = 5,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.variant = variant
        self.c = c
        self.error_sensitive = error_sensitive
        self.average = average
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
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
            average=bool(self.average),
        )


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
    max_iter, validation_fraction, patience, random_state, verbose
        As in `AveragedPerceptron`.

    References
    ----------
    Crammer2009.

    Examples
    --------
    >>> from intarsia.sequences.chain_crf import ChainCRF
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
        max_iter: int = 20,
        validation_fraction: float = 0.0,
        patience: int = 5,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.variance = variance
        self.gamma = gamma
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
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
        return Rule(slack=self.gamma, loss=2, gamma=self.gamma, variance=self.variance, average=False)
