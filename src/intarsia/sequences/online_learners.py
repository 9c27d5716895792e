"""Online learners of chain models: averaged perceptron, passive-aggressive and AROW."""

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
    """Step size rule, as the arguments of the kernel `learn_sequences`, and the initial variance of each weight."""

    fixed: bool = False
    max_step: float = np.inf
    slack: float = 0.0
    loss: int = 1
    gamma: float = 0.0
    variance: float = 1.0
    average: bool = True


class OnlineLearner(ChainLearner):
    """Base class of online learners, which update the weights after each wrong prediction, in random order.

    One iteration is one pass over the sequences. The risk is the fraction of labels that were predicted wrong during
    the pass. If labels are hidden or sets, the best labelling that agrees with them replaces the true labelling. The
    weight of a sequence multiplies its step size. Learning stops after a pass without errors (CONVERGED), or after
    `max_iter` passes without a warning, because data that are not separable always end this way.
    """

    max_iter: int
    verbose: bool

    @abstractmethod
    def rule(self) -> Rule:
        """Return the step size rule."""

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings; subclasses extend this method."""
        super().check_settings()
        check_number(self.max_iter, f"{type(self).__name__}: max_iter", low=0, integer=True)

    def check_examples(self, examples: ChainExamples) -> None:
        """Raise if the settings are invalid, or the examples have edge features."""
        self.check_settings()
        if examples.layout.n_edge_features:
            raise NotSupportedError(
                f"{type(self).__name__} does not support edge_features. Remove edge_features, or use "
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
        """Return the weights after the last pass, or after the pass with the fewest errors on held-out sequences."""
        self.check_examples(examples)
        seed = as_seed(self.random_state)
        train, held_out = self.hold_out(examples, validation, seed)
        state, weights, status = self._initial_state(start), np.array(start), Status.MAX_ITER
        rows: list[tuple[float, ...]] = []
        validation_errors: list[float] = []
        best, start_time = weights, time.perf_counter()
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                while len(rows) < int(self.max_iter):
                    error, weights = self._pass(train, state, seed)
                    rows.append((error, np.nan, time.perf_counter() - start_time, len(rows) + 1.0))
                    if report is not None:
                        report(len(rows), error, np.nan, len(rows) / int(self.max_iter))
                    if held_out is not None:
                        validation_errors.append(_error_rate(held_out, weights))
                        first_best = int(np.argmin(validation_errors))
                        best = weights if first_best == len(validation_errors) - 1 else best
                        if len(validation_errors) - 1 - first_best >= int(self.patience):
                            status = Status.STALLED
                            break
                    if error == 0.0:
                        status = Status.CONVERGED
                        break
            except KeyboardInterrupt:
                if not rows:
                    raise
                status = Status.INTERRUPTED
        history = dict(zip(COLUMNS, np.array(rows).reshape(-1, len(COLUMNS)).T, strict=True))
        if validation_errors:
            history["validation_risk"], weights = np.array(validation_errors), best
        error = rows[-1][0] if rows else np.nan
        return Minimum(weights, error, np.nan, status, len(rows), start=np.array(start), history=history)

    def step(self, examples: ChainExamples, weights: FloatArray, state: Any = None) -> tuple[FloatArray, Any, float]:
        """Return new weights, state and fraction of wrong labels after one pass; `state` is that of the last call."""
        self.check_examples(examples)
        new_state = {name: array.copy() for name, array in (state or self._initial_state(weights)).items()}
        error, new_weights = self._pass(examples, new_state, as_seed(self.random_state))
        return new_weights, new_state, error

    def _initial_state(self, start: FloatArray) -> State:
        return {
            "weights": np.array(start),
            "total": np.zeros_like(start),
            "variance": np.full_like(start, self.rule().variance),
            "count": np.zeros(1),
            "epochs": np.zeros(1, dtype=np.int64),
        }

    def _pass(self, examples: ChainExamples, state: State, seed: int) -> tuple[float, FloatArray]:
        """Make one pass, which changes the state; return the fraction of wrong labels and weights for predictions."""
        data, truth, layout, limits = examples.data, examples.truth, examples.layout, examples.constraints
        rule = self.rule()
        matrix = sparse.csr_array(data.matrix)
        allowed = np.zeros((0, layout.n_labels), dtype=bool) if truth.allowed is None else truth.allowed
        order = np.random.default_rng([seed, int(state["epochs"][0])]).permutation(len(examples))
        pair_ptr, pair_label = layout.pairs()
        sequences = SparseSequences(
            read_only(data.ptr), read_only(matrix.indptr), read_only(matrix.indices), read_only(matrix.data),
            read_only(truth.states), read_only(allowed), read_only(truth.weight),
        )  # fmt: skip
        features = LabelFeatures(
            read_only(pair_ptr), read_only(pair_label), layout.ends, read_only(limits.transitions),
            read_only(limits.start), read_only(limits.end),
        )  # fmt: skip
        update = UpdateRule(rule.fixed, float(rule.max_step), float(rule.slack), int(rule.loss), float(rule.gamma))
        arrays = LearnedWeights(state["weights"], state["total"], state["variance"], state["count"])
        n_wrong = learn_sequences(read_only(order), sequences, features, update, arrays)
        state["epochs"] += 1
        return float(n_wrong) / max(1, int(data.ptr[-1])), predicting_weights(state, rule)


def predicting_weights(state: Mapping[str, NDArray[Any]], rule: Rule) -> FloatArray:
    """Return the present weights, or the mean of the weights after each sequence."""
    count = float(state["count"][0])
    if not rule.average or count == 0.0:
        return state["weights"].copy()
    return np.asarray(state["weights"] - state["total"] / count)


def _error_rate(examples: ChainExamples, weights: FloatArray) -> float:
    """Return the fraction of known labels that the best labellings predict wrong."""
    batch = ChainScores(examples.data, examples.layout, examples.constraints).batch(weights, 0, len(examples))
    states = examples.truth.states
    is_known = states >= 0
    return float((viterbi(batch)[0][is_known] != states[is_known]).mean()) if is_known.any() else 0.0


class AveragedPerceptron(OnlineLearner):
    r"""Averaged structured perceptron: after each error, :math:`w \leftarrow w + \phi(x, y) - \phi(x, \hat y)`.

    :math:`\hat y` is the best labelling with the present weights, :math:`\phi` the statistics (sums of features by
    label, counts of transitions). The result is the mean of the weights after each sequence, which predicts much better
    than the last weights. Use it to learn in seconds if no probabilities are needed; its marginals and probabilities
    are not calibrated. An epoch costs one Viterbi pass.

    Parameters
    ----------
    max_iter : int
        Maximum number of passes over the data.
    validation_fraction : float
        Fraction of the sequences that is held out; the result is the pass with the fewest errors on them.
    patience : int
        Number of passes without improvement after which learning stops.
    random_state : int, Generator or None
        Seed of the order of the sequences and of the held-out sequences.
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
    summary: ClassVar[str] = "fast, for labels without probabilities"

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
        """Return the step size rule."""
        return Rule(fixed=True)


class PassiveAggressive(OnlineLearner):
    r"""Passive-aggressive learner: after each error, the smallest step that gives the true labels a margin.

    With :math:`\delta = \phi(x, y) - \phi(x, \hat y)` and the loss :math:`\ell = \rho - w \cdot \delta`, where
    :math:`\rho` is the square root of the number of wrong labels (1 unless `error_sensitive`), the step is
    :math:`w \leftarrow w + \tau \delta`, with

    * "pa": :math:`\tau = \ell / |\delta|^2`,
    * "pa1": as "pa", but at most `c`,
    * "pa2": :math:`\tau = \ell / (|\delta|^2 + 1 / (2 c))`.

    Use it like the averaged perceptron, if the step size should depend on the number of wrong labels. "pa" is sensitive
    to label noise.

    Parameters
    ----------
    variant : {"pa", "pa1", "pa2"}
        Limit of the step size.
    c : float
        Aggressiveness, for "pa1" and "pa2".
    error_sensitive : bool
        Whether the margin grows with the number of wrong labels.
    average : bool
        Whether the result is the mean of the weights after each sequence, or the last weights.
    max_iter, validation_fraction, patience, random_state, verbose
        Settings as in `AveragedPerceptron`.

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
    summary: ClassVar[str] = "like the averaged perceptron, with step sizes by the number of wrong labels"

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
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_choice(self.variant, ("pa", "pa1", "pa2"), "PassiveAggressive: variant")
        check_number(self.c, "PassiveAggressive: c", low=0.0, open_low=True, high=np.inf, open_high=True)

    def rule(self) -> Rule:
        """Return the step size rule (Crammer2006, Fig. 1)."""
        return Rule(
            max_step=self.c if self.variant == "pa1" else np.inf,
            slack=1.0 / (2.0 * self.c) if self.variant == "pa2" else 0.0,
            loss=1 if self.error_sensitive else 0,
            average=bool(self.average),
        )


class AROW(OnlineLearner):
    r"""Adaptive regularization of weights (AROW): each weight has a variance, which decreases with each update.

    With :math:`\delta = \phi(x, y) - \phi(x, \hat y)`, the number of wrong labels n and variances :math:`\Sigma`
    (diagonal), an error makes the update

    .. math:: w \leftarrow w + \frac{n - w \cdot \delta}{\delta^T \Sigma \delta + \gamma} \Sigma \delta, \qquad
              \Sigma_{ii}^{-1} \leftarrow \Sigma_{ii}^{-1} + \delta_i^2 / \gamma.

    Use it for sparse features of very different frequencies: rare features keep a large learning rate. Weights are not
    averaged.

    Parameters
    ----------
    variance : float
        Initial variance of every weight.
    gamma : float
        Regularization: larger values give smaller steps and slower decreasing variances.
    max_iter, validation_fraction, patience, random_state, verbose
        Settings as in `AveragedPerceptron`.

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
    summary: ClassVar[str] = "fast, for sparse features of which many are rare"

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
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        for name in ("variance", "gamma"):
            check_number(getattr(self, name), f"AROW: {name}", low=0.0, open_low=True, high=np.inf, open_high=True)

    def rule(self) -> Rule:
        """Return the step size rule (Crammer2009, Fig. 1, diagonal)."""
        return Rule(slack=self.gamma, loss=2, gamma=self.gamma, variance=self.variance, average=False)
