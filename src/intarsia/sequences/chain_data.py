"""Sequences and their labels as flat arrays, read and checked: the data that chain models are fitted to and used on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray, as_float_array, check_choice, check_sample_weight
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch, rows_of
from intarsia.inference.chains.chain_inference import chain_log_partition
from intarsia.models.chain_scores import ChainLayout, StateFeatures, observed_pairs
from intarsia.models.feature_matrix import check_features
from intarsia.models.labelling import (
    Labels,
    as_states,
    check_classes,
    find_classes,
    read_labels,
    weigh_classes,
    weights_of_states,
)
from intarsia.models.sequence_features import SequenceVectorizer
from intarsia.sequences.tag_schemes import Constraints, find_constraints

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF

# Positions of a chunk of sequences that are tilted by energies, at least.
TILTED_CHUNK = 16384


@dataclass(frozen=True, eq=False)
class ChainData:
    """Features of sequences, one below the other; empty sequences are left out and remembered.

    Attributes
    ----------
    matrix : (n_positions, n_features) array or CSR
        Features of positions.
    ptr : (n_sequences + 1,) int array
        Where the sequences begin.
    edges : (n_steps, n_edge_features) array, optional
        Features of steps.
    kept : (n_sequences,) int array
        Which of the given sequences they are.
    n_given : int
        Number of given sequences, empty ones among them.
    """

    matrix: Any
    ptr: IntArray
    edges: Any
    kept: IntArray
    n_given: int

    @property
    def lengths(self) -> IntArray:
        """Number of positions of each sequence."""
        return np.diff(self.ptr)

    @cached_property
    def _step_ptr(self) -> IntArray:
        """Where the steps of each sequence begin; a sequence has one step less than positions."""
        return self.ptr - np.arange(self.ptr.size)

    def subset(self, chosen: IntArray) -> ChainData:
        """Some of the sequences."""
        rows, ptr = rows_of(self.ptr, chosen)
        edges = self.edges
        if edges is not None:
            edges = edges[rows_of(self._step_ptr, chosen)[0]]
        return ChainData(self.matrix[rows], ptr, edges, self.kept[chosen], self.n_given)

    def spread(self, parts: Sequence[Any], empty: Any) -> list[Any]:
        """What was found for each sequence, with `empty` for those left out."""
        found = [empty] * self.n_given
        for i, part in zip(self.kept.tolist(), parts, strict=True):
            found[i] = part
        return found

    def cut(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        """The rows of each sequence."""
        return np.split(flat, self.ptr[1:-1]) if self.kept.size else []


def make_data(matrix: Any, ptr: IntArray, edge_features: Any) -> ChainData:
    """Data from a stacked matrix, with features of steps if there are any."""
    lengths = np.diff(ptr)
    kept = np.flatnonzero(lengths)
    full = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64)
    edges = None if edge_features is None else _stack_edges(edge_features, lengths)
    return ChainData(matrix, full, edges, kept.astype(np.int64), lengths.size)


def _stack_edges(given: Any, lengths: IntArray) -> FloatArray:
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__len__") or len(given) != lengths.size:
        found = len(given) if hasattr(given, "__len__") else type(given).__name__
        raise InvalidInputError(
            f"X has {lengths.size} sequences, but edge_features has {found}. Give an array (T - 1, "
            f"n_edge_features) for each."
        )
    parts: list[FloatArray] = []
    for i, (one, length) in enumerate(zip(given, lengths.tolist(), strict=True)):
        if length < 2 and np.size(one) == 0:
            continue
        n_steps = max(length - 1, 0)
        part = check_features(one, f"edge_features[{i}]", n_steps, f"X[{i}] has {n_steps} steps")
        part = np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)
        if parts and part.shape[1] != parts[0].shape[1]:
            raise InvalidInputError(
                f"edge_features[{i}] has {part.shape[1]} columns, but others have {parts[0].shape[1]}. Give "
                f"the same features everywhere."
            )
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class ChainTruth:
    """What is known of the labels of some sequences.

    Attributes
    ----------
    states : (n_positions,) int array
        The label of each position, -1 where it is not a single one.
    allowed : (n_positions, n_labels) bool array, optional
        Labels that are possible; None where every position has a single one.
    weight : (n_sequences,) float array
        How much each sequence counts.
    """

    states: IntArray
    allowed: NDArray[np.bool_] | None
    weight: FloatArray

    @property
    def tells(self) -> NDArray[np.bool_]:
        """Where the labels are not hidden altogether."""
        return np.asarray(self.states >= 0 if self.allowed is None else ~self.allowed.all(axis=1))

    def possible(self, n_labels: int) -> NDArray[np.bool_]:
        """`allowed`, also where every position has a single label."""
        return self.states[:, None] == np.arange(n_labels) if self.allowed is None else self.allowed


def read_chain_labels(y: Any, data: ChainData, name: str = "y") -> list[Labels]:
    """Labels of the sequences that are not empty, before it is known which classes there are."""
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__") or len(y) != data.n_given:
        size = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise InvalidInputError(
            f"X has {data.n_given} sequences, but {name} has {size}. Give labels for each. If X is a single "
            f"sequence, pass [X]."
        )
    lengths = np.zeros(data.n_given, dtype=np.int64)
    lengths[data.kept] = data.lengths
    found = []
    for i, (given, length) in enumerate(zip(y, lengths.tolist(), strict=True)):
        if isinstance(given, (str, bytes)) or given is None:
            raise InvalidInputError(
                f"{name}[{i}] is {given!r:.60}; expected a label for each of the {length} positions of X[{i}]."
                f" If X is a single sequence, pass [X] and [{name}]."
            )
        reason = f"X[{i}] has {length} positions. Give one label for each"
        labels = read_labels(given if length or np.size(given) else [], (length,), reason, f"{name}[{i}]")
        if length:
            found.append(labels)
    return found


def make_truth(labels: list[Labels], classes: NDArray[Any], weight: FloatArray) -> ChainTruth:
    """Labels as states of known classes."""
    parts = [as_states(one, classes) for one in labels]
    k = classes.size
    nothing = np.empty(0, dtype=np.int64)
    if all(part.ndim == 1 and (part >= 0).all() for part in parts):
        return ChainTruth(np.concatenate([nothing, *parts]), None, weight)
    masks = [
        part if part.ndim == 2 else (part[:, None] == np.arange(k)) | (part < 0)[:, None]  # hidden allows all
        for part in parts
    ]
    allowed = np.concatenate(masks)
    states = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1)
    return ChainTruth(states, None if (states >= 0).all() else allowed, weight)


@dataclass(frozen=True, eq=False)
class ChainExamples:
    """What a learner gets: sequences, what is known of their labels, which weights there are, what is forbidden."""

    data: ChainData
    truth: ChainTruth
    layout: ChainLayout
    constraints: Constraints

    @property
    def mass(self) -> float:
        """Weighted number of labelled positions."""
        return float(np.repeat(self.truth.weight, self.data.lengths) @ self.truth.tells)

    def __len__(self) -> int:
        """Number of sequences."""
        return self.data.kept.size

    def subset(self, chosen: ArrayLike) -> ChainExamples:
        """Some of the sequences."""
        picked = np.asarray(chosen, dtype=np.int64)
        rows, _ = rows_of(self.data.ptr, picked)
        allowed = None if self.truth.allowed is None else self.truth.allowed[rows]
        truth = ChainTruth(self.truth.states[rows], allowed, self.truth.weight[picked])
        return replace(self, data=self.data.subset(picked), truth=truth)


class ChainScores:
    """Batches of a model's scores: features and weights of parts of the data, with what is forbidden.

    Parameters
    ----------
    data : ChainData
        The sequences.
    layout : ChainLayout
        Which weights there are.
    constraints : Constraints
        What is forbidden.
    """

    def __init__(self, data: ChainData, layout: ChainLayout, constraints: Constraints) -> None:
        self.data = data
        self.layout = layout
        self.constraints = constraints
        self.features = StateFeatures(data.matrix, layout)

    def batch(
        self, weights: FloatArray, first: int, last: int, constrained: bool = True, table: FloatArray | None = None
    ) -> ChainBatch:
        """Scores of sequences `first` .. `last` - 1; `table` is `features.spread`, from whoever asks for many parts."""
        data, parts = self.data, self.layout.unpack(weights)
        a, b = int(data.ptr[first]), int(data.ptr[last])
        nodes = self.features.scores(parts.states, a, b, table)
        table, start, end = parts.transitions, parts.start, parts.end
        if constrained:
            table, start, end = self.constraints.added_to(table, start, end)
        if parts.edges is not None and b - a > last - first:  # there are steps
            m, k = self.layout.n_edge_features, self.layout.n_labels
            own = data.edges[a - first : b - last] @ parts.edges.reshape(m, k * k)
            table = table + own.reshape(-1, k, k)
        return ChainBatch(nodes, data.ptr[first : last + 1] - a, table, start, end)


def cut_in_chunks(ptr: IntArray, least: int = 4096, most: int = 65536) -> list[tuple[int, int]]:
    """Ranges of sequences with about equally many positions: set by the data alone, whatever the number of workers.

    They are sixteen, or so many that a chunk has between `least` and `most` positions: a chunk takes some 0.2 ms
    besides its work, and memory for its scores.

    Examples
    --------
    >>> cut_in_chunks(np.array([0, 3, 5, 9, 10]), least=5)
    [(0, 2), (2, 4)]
    """
    n = int(ptr[-1])
    size = max(least, min(-(-n // 16), most))
    ends = np.unique(np.searchsorted(ptr, np.arange(size, n + size, size).clip(max=n)))
    edges = [0, *ends[ends > 0].tolist()]
    return list(pairwise(edges))


def check_feasible(examples: ChainExamples) -> None:
    """Raise if the constraints forbid every labelling that the labels of a sequence allow."""
    if not examples.constraints.any:
        return
    scores = ChainScores(examples.data, examples.layout, examples.constraints)
    possible, ptr = examples.truth.possible(examples.layout.n_labels), examples.data.ptr
    for first, last in cut_in_chunks(ptr):
        batch = scores.batch(np.zeros(examples.layout.n_weights), first, last)
        feasible = chain_log_partition(batch.restricted(possible[ptr[first] : ptr[last]])) > -np.inf
        if not feasible.all():
            s = int(examples.data.kept[first + int(np.argmin(feasible))])
            raise InvalidInputError(
                f"no labelling of X[{s}] is left by y[{s}] together with forbidden= and scheme=. Correct the "
                f"labels, or allow the transitions they have."
            )


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
