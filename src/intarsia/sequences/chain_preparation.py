"""From what users give to what a learner of chain models needs: features, labels, weights, constraints, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, as_float_array, check_choice, check_sample_weight
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
    where: str,
    every_pair: bool = False,
) -> Prepared:
    """Everything a learner needs; of a fitted model (`known`) with its features and labels.

    `every_pair`: by default every feature has a weight with every label, since more data will follow.
    """
    check_choice(crf.weights, ("auto", "all", "observed"), f"{where}: weights")
    if known is None:
        vectorizer = SequenceVectorizer(min_count=crf.min_count)
        data = make_data(*_stacked(vectorizer.fit_transform_stacked, X, where), edge_features, where)
        labels = read_chain_labels(y, data, where)
        if not labels:
            raise InvalidInputError(f"{where}: X has no position at all. Give at least one sequence with some.")
        found = find_classes(labels, where) if classes is None else check_classes(classes, where)
        constraints = find_constraints(found, crf.forbidden, crf.scheme, where)
    else:
        vectorizer, found = known.vectorizer_, known.classes_
        constraints = find_constraints(found, crf.forbidden, crf.scheme, where)
        data = read_known(X, edge_features, vectorizer, known.layout_, where)
        labels = read_chain_labels(y, data, where)
    weight = check_sample_weight(sample_weight, data.n_given, where)[data.kept]
    truth = _weighted_truth(crf, data, labels, found, weight, where)
    layout = _layout(crf, data, truth, found.size, every_pair) if known is None else known.layout_
    examples = ChainExamples(data, truth, layout, constraints)
    if examples.mass == 0.0:
        raise InvalidInputError(
            f"{where}: all labels are hidden, or of sequences without weight. Give labels of some positions."
        )
    check_feasible(examples, where)
    return Prepared(examples, vectorizer, found)


def prepare_validation(
    crf: ChainCRF, validation: Any, prepared: Prepared, where: str = "ChainCRF.fit: validation"
) -> ChainExamples:
    """Sequences for early stopping or for strengths of energies, with the features and labels of the others."""
    if not isinstance(validation, tuple) or len(validation) not in (2, 3):
        raise InvalidInputError(f"{where} must be (X, y) or (X, y, edge_features), got {type(validation).__name__}.")
    layout = prepared.examples.layout
    data = read_known(validation[0], (*validation, None)[2], prepared.vectorizer, layout, where)
    labels = read_chain_labels(validation[1], data, where)
    truth = _weighted_truth(crf, data, labels, prepared.classes, np.ones(len(labels)), where)
    found = ChainExamples(data, truth, layout, prepared.examples.constraints)
    if found.mass == 0.0:
        raise InvalidInputError(f"{where}: all labels are hidden. Give labels of some positions.")
    check_feasible(found, where)
    return found


def _stacked(read: Callable[[Any], tuple[Any, IntArray]], X: Any, where: str) -> tuple[Any, IntArray]:
    """Sequences in one matrix; what does not fit is told with where it was given."""
    try:
        return read(X)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None


def read_known(
    X: Any, edge_features: Any, vectorizer: SequenceVectorizer, layout: ChainLayout, where: str
) -> ChainData:
    """Sequences with the features of a fitted model."""
    data = make_data(*_stacked(vectorizer.transform_stacked, X, where), edge_features, where)
    n_given = 0 if data.edges is None else int(data.edges.shape[1])
    if layout.n_edge_features != n_given and int(data.ptr[-1]) > data.kept.size:  # there are steps
        got = "none were given" if data.edges is None else f"{n_given} were given"
        raise InvalidInputError(
            f"{where}: the model has {layout.n_edge_features} features of steps, but {got}. Give edge_features= as in "
            f"fit."
        )
    return data


def check_start(given: Any, layout: ChainLayout, where: str) -> FloatArray:
    """Weights to begin with, checked."""
    start = as_float_array(given, f"{where}: start")
    if start.shape != (layout.n_weights,) or not np.isfinite(start).all():
        raise InvalidInputError(
            f"{where}: start has shape {start.shape}, but the model has {layout.n_weights} weights. Give as many "
            f"finite numbers, such as weights_ of a model of the same form."
        )
    return start.copy()


def _weighted_truth(
    crf: ChainCRF, data: ChainData, labels: list[Labels], classes: NDArray[Any], weight: FloatArray, where: str
) -> ChainTruth:
    truth = make_truth(labels, classes, weight)
    states = truth.states if truth.allowed is None else truth.allowed
    by_class = weigh_classes([states], classes, crf.class_weight, where)
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
