"""Base class and registry of the learners of chain models, and the labelled examples that `fit` passes to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_in, without_warnings
from intarsia._core.registry import Registry
from intarsia._core.settings import Settings, clone
from intarsia._core.validation import (
    FloatArray,
    IntArray,
    as_float_array,
    as_generator,
    check_choice,
    check_number,
    check_sample_weight,
)
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.inference.chains.chain_inference import chain_log_partition
from intarsia.learning.minimum import Minimum
from intarsia.models.chain_scores import ChainLayout, observed_pairs
from intarsia.models.labelling import (
    Labels,
    check_classes,
    find_classes,
    read_labels,
    weigh_classes,
    weights_of_states,
)
from intarsia.models.sequence_features import SequenceVectorizer
from intarsia.sequences.chain_data import (
    ChainData,
    ChainExamples,
    ChainScores,
    ChainTruth,
    Constraints,
    cut_in_chunks,
    make_data,
    make_truth,
    read_chain_labels,
    read_known,
)
from intarsia.sequences.tag_schemes import find_constraints

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF


class ChainLearner(Settings, ABC):
    """Base class of the learners of `ChainCRF`: settings objects that are passed as `learner=`."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to use the learner, in one line."""
    validation_fraction: float
    patience: int
    random_state: int | np.random.Generator | None

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings; subclasses extend this method."""
        name = type(self).__name__
        check_number(self.validation_fraction, f"{name}: validation_fraction", low=0.0, high=1.0, open_high=True)
        check_number(self.patience, f"{name}: patience", low=1, integer=True)
        with errors_in(name):
            as_generator(self.random_state)

    @abstractmethod
    def check_examples(self, examples: ChainExamples) -> None:
        """Raise if the settings are invalid for these examples, before any computation."""

    @abstractmethod
    def minimize(
        self,
        examples: ChainExamples,
        start: FloatArray,
        *,
        validation: ChainExamples | None = None,
        title: str = "",
    ) -> Minimum:
        """Return the weights fitted to the examples, starting from `start`."""

    def step(self, examples: ChainExamples, weights: FloatArray, state: Any) -> tuple[FloatArray, Any, float]:
        """Return new weights, the state for the next call (None at first) and the risk, after one pass."""
        raise NotSupportedError(f"{type(self).__name__} cannot learn incrementally. Use fit with all data.")

    def hold_out(
        self, examples: ChainExamples, validation: ChainExamples | None, seed: int
    ) -> tuple[ChainExamples, ChainExamples | None]:
        """Return training examples and validation examples: `validation`, or a random fraction of the examples."""
        if validation is not None or self.validation_fraction == 0.0:
            return examples, validation
        n = len(examples)
        if n < 2:
            raise InvalidInputError(
                f"{type(self).__name__}: validation_fraction={self.validation_fraction} needs at least 2 sequences, "
                f"got 1. Pass more sequences, or set validation_fraction=0."
            )
        order = np.random.default_rng(seed).permutation(n)
        n_held_out = min(max(1, round(self.validation_fraction * n)), n - 1)
        return examples.subset(np.sort(order[n_held_out:])), examples.subset(np.sort(order[:n_held_out]))


CHAIN_LEARNERS: Registry[ChainLearner] = Registry(
    "learner",
    "intarsia.sequences",
    {
        "maximum_likelihood": "MaximumLikelihood",
        "averaged_perceptron": "online_learners:AveragedPerceptron",
        "passive_aggressive": "online_learners:PassiveAggressive",
        "arow": "online_learners:AROW",
    },
    ChainLearner,  # type: ignore[type-abstract]
)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Examples, features and labels at the start of a fit; the estimator is not changed yet."""

    examples: ChainExamples
    vectorizer: SequenceVectorizer
    classes: NDArray[Any]


def prepare_fit(
    crf: ChainCRF,
    X: Any,
    y: Any,
    edge_features: Any,
    sample_weight: Any,
    classes: Any,
    fitted: ChainCRF | None,
    every_pair: bool = False,
    tokens: Any = None,
    expected_labels: list[Any] | None = None,
) -> Prepared:
    """Read and check the data of a fit; with `fitted`, use the features and labels of that model.

    With `every_pair`, every feature has a weight with every label by default, because more data will follow. With
    `expected_labels`, the labels that expectations name, all labels of y may be hidden, and y may be None.
    """
    check_choice(crf.weights, ("auto", "all", "observed"), "weights")
    if fitted is None:
        vectorizer = SequenceVectorizer(min_count=crf.min_count)
        data = make_data(*vectorizer.fit_transform_stacked(X), edge_features)
        labels = read_chain_labels(y if expected_labels is None else _with_hidden(y, data), data)
        if not labels:
            raise InvalidInputError("X has no position. Pass at least one sequence that is not empty.")
        expected = (
            [read_labels(expected_labels, (len(expected_labels),), "", "expectations")] if expected_labels else []
        )
        label_set = find_classes([*labels, *expected]) if classes is None else check_classes(classes)
        constraints = _constraints(crf, label_set)
    else:
        vectorizer, label_set = fitted.vectorizer_, fitted.classes_
        constraints = _constraints(crf, label_set)
        data = read_known(X, edge_features, vectorizer, fitted.layout_)
        labels = read_chain_labels(y if expected_labels is None else _with_hidden(y, data), data)
    weight = check_sample_weight(sample_weight, data.n_inputs)[data.source_index]
    truth = _weighted_truth(crf, data, labels, label_set, weight)
    layout = make_layout(crf, data, truth, label_set.size, every_pair) if fitted is None else fitted.layout_
    examples = ChainExamples(data, truth, layout, constraints)
    if examples.mass == 0.0 and expected_labels is None:
        raise InvalidInputError(
            "all labels are hidden, or belong to sequences with weight 0. Pass labels of at least one position."
        )
    check_feasible(examples)
    if crf.require is not None:
        from intarsia.sequences.constraints.likelihood import with_rules

        examples = with_rules(examples, crf.require, label_set, tokens)
    return Prepared(examples, vectorizer, label_set)


def _with_hidden(y: Any, data: ChainData) -> Any:
    """Return y with hidden labels for the sequences without labels: all of them if y is None."""
    lengths = np.zeros(data.n_inputs, dtype=np.int64)
    lengths[data.source_index] = data.lengths
    if y is None:
        return [[None] * length for length in lengths.tolist()]
    if not isinstance(y, (list, tuple)) or len(y) != data.n_inputs:
        return y
    return [[None] * length if labels is None else labels for labels, length in zip(y, lengths.tolist(), strict=True)]


def prepare_validation(crf: ChainCRF, validation: Any, inputs: Prepared, name: str = "validation") -> ChainExamples:
    """Read and check sequences for early stopping or for learning psi, with the features and labels of the fit."""
    if not isinstance(validation, tuple) or len(validation) not in (2, 3):
        raise InvalidInputError(f"{name} must be (X, y) or (X, y, edge_features), got {type(validation).__name__}.")
    layout = inputs.examples.layout
    with errors_in(name):
        data = read_known(validation[0], (*validation, None)[2], inputs.vectorizer, layout)
        labels = read_chain_labels(validation[1], data)
        truth = _weighted_truth(crf, data, labels, inputs.classes, np.ones(len(labels)))
        examples = ChainExamples(data, truth, layout, inputs.examples.constraints)
        if examples.mass == 0.0:
            raise InvalidInputError("all labels are hidden. Pass labels of at least one position.")
        check_feasible(examples)
    return examples


def check_feasible(examples: ChainExamples) -> None:
    """Raise if the constraints exclude every labelling that agrees with the labels of a sequence."""
    if not examples.constraints.any:
        return
    scores = ChainScores(examples.data, examples.layout, examples.constraints)
    possible, ptr = examples.truth.possible(examples.layout.n_labels), examples.data.ptr
    for first, last in cut_in_chunks(ptr):
        batch = scores.batch(np.zeros(examples.layout.n_weights), first, last)
        feasible = chain_log_partition(batch.restricted(possible[ptr[first] : ptr[last]])) > -np.inf
        if not feasible.all():
            s = int(examples.data.source_index[first + int(np.argmin(feasible))])
            raise InvalidInputError(
                f"no labelling of X[{s}] agrees with both y[{s}] and the constraints forbidden= and scheme=. Correct "
                f"the labels, or allow their transitions."
            )


def check_start(start: Any, layout: ChainLayout) -> FloatArray:
    """Return initial weights as an array, or raise."""
    weights = as_float_array(start, "start")
    if weights.shape != (layout.n_weights,) or not np.isfinite(weights).all():
        raise InvalidInputError(
            f"start has shape {weights.shape}, but the model has {layout.n_weights} weights. Pass {layout.n_weights} "
            f"finite numbers, such as weights_ of a model with equal features and labels."
        )
    return weights.copy()


def _constraints(crf: ChainCRF, classes: NDArray[Any]) -> Constraints:
    if crf.forbidden is None and crf.scheme is None:
        return Constraints.none(classes.size)
    return find_constraints(classes, crf.forbidden, crf.scheme)


def _weighted_truth(
    crf: ChainCRF, data: ChainData, labels: list[Labels], classes: NDArray[Any], weight: FloatArray
) -> ChainTruth:
    truth = make_truth(labels, classes, weight)
    states = truth.states if truth.allowed is None else truth.allowed
    by_class = weigh_classes([states], classes, crf.class_weight)
    if by_class is None or not labels:
        return truth
    mean = np.add.reduceat(weights_of_states(states, by_class), data.ptr[:-1]) / data.lengths
    return ChainTruth(truth.states, truth.allowed, weight * mean)


def make_layout(
    crf: ChainCRF, data: ChainData, truth: ChainTruth, n_labels: int, every_pair: bool = False
) -> ChainLayout:
    """Return the layout of the weights for these data: all pairs of feature and label, or those that occur."""
    pair_ptr, pair_label = None, None
    is_dense = isinstance(data.matrix, np.ndarray)
    if crf.weights == "observed" or (crf.weights == "auto" and not is_dense and not every_pair):
        is_observed = truth.possible(n_labels) & truth.is_labelled[:, None]  # hidden labels give no evidence
        pair_ptr, pair_label = observed_pairs(data.matrix, is_observed)
    n_edge = 0 if data.edges is None else int(data.edges.shape[1])
    return ChainLayout(int(data.matrix.shape[1]), n_labels, pair_ptr, pair_label, bool(crf.ends), n_edge)


Fold = tuple[IntArray, FloatArray]
"""Indices of sequences, and the weights w of their scores."""

# Cross-fitting: fraction of the labelled sequences in a fold, and number of held-out sequences that is enough.
N_FOLDS = 5
MIN_HELD_OUT = 500


def hold_out_folds(
    learner: ChainLearner, examples: ChainExamples, validation: ChainExamples | None, seed: int
) -> list[Fold]:
    """Fit the weights without each fold of the sequences; return the folds with these weights.

    A fold has a fifth of the labelled sequences. Folds are fitted until `MIN_HELD_OUT` sequences are held out, or all
    of them on small data (cross-fitting), so that psi is learned from scores of sequences that the weights have not
    seen. A single sequence cannot be held out, and the result is empty.
    """
    labelled = np.flatnonzero(np.add.reduceat(examples.truth.is_labelled, examples.data.ptr[:-1]) > 0)
    labelled = labelled[examples.truth.weight[labelled] > 0]
    if labelled.size < 2:
        return []
    if "checkpoint" in learner.get_params(deep=False):
        learner = clone(learner).set_params(checkpoint=None)
    order = np.random.default_rng(seed).permutation(labelled)
    folds: list[Fold] = []
    for block in np.array_split(order, min(N_FOLDS, order.size)):
        rest = examples.subset(np.setdiff1d(np.arange(len(examples)), block))
        with without_warnings(ConvergenceWarning):  # the fit to all sequences has its own warning
            minimum = learner.minimize(rest, np.zeros(examples.layout.n_weights), validation=validation, title="fold")
        folds.append((np.sort(block), minimum.point))
        if sum(indices.size for indices, _ in folds) >= MIN_HELD_OUT:
            break
    return folds
