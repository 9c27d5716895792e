"""From what users give to what a learner of chain models needs: features, labels, weights, constraints, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, as_float_array, check_choice, check_sample_weight
from intarsia.exceptions import InvalidInputError
from intarsia.models.chain_scores import ChainLayout, observed_pairs
from intarsia.models.labelling import Labels, check_classes, find_classes, weigh_classes, weights_of_states
from intarsia.models.sequence_features import SequenceVectorizer
from intarsia.sequences.chain_data import ChainData, ChainExamples, ChainTruth, make_data, make_truth, read_chain_labels
from intarsia.sequences.chain_risk import check_feasible
from intarsia.sequences.tag_schemes import find_constraints

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a fit begins with; nothing of the estimator has been changed yet."""

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
    known: ChainCRF | None,
    every_pair: bool = False,
) -> Prepared:
    """Everything a learner needs; of a fitted model (`known`) with its features and labels.

    `every_pair`: by default every feature has a weight with every label, since more data will follow.
    """
    check_choice(crf.weights, ("auto", "all", "observed"), "weights")
    if known is None:
        vectorizer = SequenceVectorizer(min_count=crf.min_count)
        data = make_data(*vectorizer.fit_transform_stacked(X), edge_features)
        labels = read_chain_labels(y, data)
        if not labels:
            raise InvalidInputError("X has no position at all. Give at least one sequence with some.")
        found = find_classes(labels) if classes is None else check_classes(classes)
        constraints = find_constraints(found, crf.forbidden, crf.scheme)
    else:
        vectorizer, found = known.vectorizer_, known.classes_
        constraints = find_constraints(found, crf.forbidden, crf.scheme)
        data = read_known(X, edge_features, vectorizer, known.layout_)
        labels = read_chain_labels(y, data)
    weight = check_sample_weight(sample_weight, data.n_given)[data.kept]
    truth = _weighted_truth(crf, data, labels, found, weight)
    layout = _layout(crf, data, truth, found.size, every_pair) if known is None else known.layout_
    examples = ChainExamples(data, truth, layout, constraints)
    if examples.mass == 0.0:
        raise InvalidInputError("all labels are hidden, or of sequences without weight. Give labels of some positions.")
    check_feasible(examples)
    return Prepared(examples, vectorizer, found)


def prepare_validation(crf: ChainCRF, validation: Any, prepared: Prepared, name: str = "validation") -> ChainExamples:
    """Sequences for early stopping or for strengths of energies, with the features and labels of the others."""
    if not isinstance(validation, tuple) or len(validation) not in (2, 3):
        raise InvalidInputError(f"{name} must be (X, y) or (X, y, edge_features), got {type(validation).__name__}.")
    layout = prepared.examples.layout
    with errors_in(name):
        data = read_known(validation[0], (*validation, None)[2], prepared.vectorizer, layout)
        labels = read_chain_labels(validation[1], data)
        truth = _weighted_truth(crf, data, labels, prepared.classes, np.ones(len(labels)))
        found = ChainExamples(data, truth, layout, prepared.examples.constraints)
        if found.mass == 0.0:
            raise InvalidInputError("all labels are hidden. Give labels of some positions.")
        check_feasible(found)
    return found


def read_known(X: Any, edge_features: Any, vectorizer: SequenceVectorizer, layout: ChainLayout) -> ChainData:
    """Sequences with the features of a fitted model."""
    data = make_data(*vectorizer.transform_stacked(X), edge_features)
    n_given = 0 if data.edges is None else int(data.edges.shape[1])
    if layout.n_edge_features != n_given and int(data.ptr[-1]) > data.kept.size:  # there are steps
        got = "none were given" if data.edges is None else f"{n_given} were given"
        raise InvalidInputError(
            f"the model has {layout.n_edge_features} features of steps, but {got}. Give edge_features= as in fit."
        )
    return data


def check_start(given: Any, layout: ChainLayout) -> FloatArray:
    """Weights to begin with, checked."""
    start = as_float_array(given, "start")
    if start.shape != (layout.n_weights,) or not np.isfinite(start).all():
        raise InvalidInputError(
            f"start has shape {start.shape}, but the model has {layout.n_weights} weights. Give as many "
            f"finite numbers, such as weights_ of a model of the same form."
        )
    return start.copy()


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


def _layout(crf: ChainCRF, data: ChainData, truth: ChainTruth, n_labels: int, every_pair: bool) -> ChainLayout:
    pair_ptr, pair_label = None, None
    dense = isinstance(data.matrix, np.ndarray)
    if crf.weights == "observed" or (crf.weights == "auto" and not dense and not every_pair):
        counted = truth.possible(n_labels) & truth.tells[:, None]  # a hidden label says nothing
        pair_ptr, pair_label = observed_pairs(data.matrix, counted)
    n_edge = 0 if data.edges is None else int(data.edges.shape[1])
    return ChainLayout(int(data.matrix.shape[1]), n_labels, pair_ptr, pair_label, bool(crf.ends), n_edge)
