"""Sequences and their labels as flat arrays: the data to which chain models are fitted and applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch, rows_of
from intarsia.models.chain_scores import ChainLayout, StateFeatures
from intarsia.models.feature_matrix import check_features
from intarsia.models.labelling import Labels, as_states, read_labels
from intarsia.models.sequence_features import SequenceVectorizer, named_values
from intarsia.sequences.serving.chain_arrays import allowed_labels

if TYPE_CHECKING:
    from intarsia.sequences.constraints.likelihood import RequiredTrellises

# Minimum number of positions of a chunk of sequences for inference with energies.
TILTED_CHUNK = 16384


@dataclass(frozen=True, eq=False)
class ChainData:
    """Features of sequences, stacked; empty sequences are left out, but their number and place are stored.

    Attributes
    ----------
    matrix : (n_positions, n_features) array or CSR
        Features of positions.
    ptr : (n_sequences + 1,) int array
        First position of each sequence, and the number of positions.
    edges : (n_steps, n_edge_features) array, optional
        Features of steps from one position to the next.
    source_index : (n_sequences,) int array
        Index of each sequence in X.
    n_inputs : int
        Number of sequences in X, including empty ones.
    """

    matrix: Any
    ptr: IntArray
    edges: Any
    source_index: IntArray
    n_inputs: int

    @property
    def lengths(self) -> IntArray:
        """Number of positions of each sequence."""
        return np.diff(self.ptr)

    @cached_property
    def _step_ptr(self) -> IntArray:
        """First step of each sequence; a sequence has one step fewer than positions."""
        return self.ptr - np.arange(self.ptr.size)

    def subset(self, indices: IntArray) -> ChainData:
        """Return the data of some sequences."""
        rows, ptr = rows_of(self.ptr, indices)
        edges = self.edges
        if edges is not None:
            edges = edges[rows_of(self._step_ptr, indices)[0]]
        return ChainData(self.matrix[rows], ptr, edges, self.source_index[indices], self.n_inputs)

    def spread(self, results: Sequence[Any], empty: Any) -> list[Any]:
        """Return the results in the order of X, with `empty` for empty sequences."""
        in_order = [empty] * self.n_inputs
        for i, result in zip(self.source_index.tolist(), results, strict=True):
            in_order[i] = result
        return in_order

    def cut(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        """Split rows of positions into one array per sequence."""
        return np.split(flat, self.ptr[1:-1]) if self.source_index.size else []


def make_data(matrix: Any, ptr: IntArray, edge_features: Any) -> ChainData:
    """Return the data of a stacked feature matrix, with features of steps if there are any."""
    lengths = np.diff(ptr)
    source_index = np.flatnonzero(lengths)
    full_ptr = np.concatenate([[0], np.cumsum(lengths[source_index])]).astype(np.int64)
    edges = None if edge_features is None else _stack_edges(edge_features, lengths)
    return ChainData(matrix, full_ptr, edges, source_index.astype(np.int64), lengths.size)


def _stack_edges(edge_features: Any, lengths: IntArray) -> FloatArray:
    is_list = hasattr(edge_features, "__len__") and not isinstance(edge_features, (str, bytes, Mapping))
    if not is_list or len(edge_features) != lengths.size:
        size = len(edge_features) if hasattr(edge_features, "__len__") else type(edge_features).__name__
        raise InvalidInputError(
            f"X has {lengths.size} sequences, but edge_features has {size}. Pass one array (T - 1, n_edge_features) "
            f"per sequence."
        )
    blocks: list[FloatArray] = []
    for i, (features, length) in enumerate(zip(edge_features, lengths.tolist(), strict=True)):
        if length < 2 and np.size(features) == 0:
            continue
        n_steps = max(length - 1, 0)
        block = check_features(features, f"edge_features[{i}]", n_steps, f"X[{i}] has {n_steps} steps")
        block = np.asarray(block.toarray() if hasattr(block, "toarray") else block, dtype=np.float64)
        if blocks and block.shape[1] != blocks[0].shape[1]:
            raise InvalidInputError(
                f"edge_features[{i}] has {block.shape[1]} columns, but the arrays before it have "
                f"{blocks[0].shape[1]}. Pass the same features for every sequence."
            )
        blocks.append(block)
    return np.concatenate(blocks) if blocks else np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class ChainTruth:
    """Labels of sequences, some of which may be hidden or sets.

    Attributes
    ----------
    states : (n_positions,) int array
        Label of each position, -1 if it is hidden or a set.
    allowed : (n_positions, n_labels) bool array, optional
        Possible labels; None if every position has a single label.
    weight : (n_sequences,) float array
        Weight of each sequence.
    """

    states: IntArray
    allowed: NDArray[np.bool_] | None
    weight: FloatArray

    @property
    def is_labelled(self) -> NDArray[np.bool_]:
        """Whether each position has a label or a set of labels."""
        return np.asarray(self.states >= 0 if self.allowed is None else ~self.allowed.all(axis=1))

    def possible(self, n_labels: int) -> NDArray[np.bool_]:
        """Return `allowed`, computed from `states` if every position has a single label."""
        return self.states[:, None] == np.arange(n_labels) if self.allowed is None else self.allowed


def read_chain_labels(y: Any, data: ChainData, name: str = "y") -> list[Labels]:
    """Return the labels of the sequences that are not empty, before the classes are determined."""
    if y is None:
        raise InvalidInputError(f"{name} is missing. Pass labels for each sequence, or expectations= to learn without.")
    if isinstance(y, (str, bytes, Mapping)) or not hasattr(y, "__len__") or len(y) != data.n_inputs:
        size = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise InvalidInputError(
            f"X has {data.n_inputs} sequences, but {name} has {size}. Pass labels for each sequence. If X is a single "
            f"sequence, pass [X]."
        )
    lengths = np.zeros(data.n_inputs, dtype=np.int64)
    lengths[data.source_index] = data.lengths
    labels = []
    for i, (sequence, length) in enumerate(zip(y, lengths.tolist(), strict=True)):
        if isinstance(sequence, (str, bytes)) or sequence is None:
            raise InvalidInputError(
                f"{name}[{i}] is {sequence!r:.60}; expected one label for each of the {length} positions of X[{i}]. "
                f"If X is a single sequence, pass [X] and [{name}]."
            )
        reason = f"X[{i}] has {length} positions. Pass one label for each"
        checked_labels = read_labels(sequence if length or np.size(sequence) else [], (length,), reason, f"{name}[{i}]")
        if length:
            labels.append(checked_labels)
    return labels


def make_truth(labels: list[Labels], classes: NDArray[Any], weight: FloatArray) -> ChainTruth:
    """Convert labels to states of known classes."""
    states = [as_states(sequence, classes) for sequence in labels]
    if all(sequence.ndim == 1 and (sequence >= 0).all() for sequence in states):
        return ChainTruth(np.concatenate([np.empty(0, dtype=np.int64), *states]), None, weight)
    allowed = np.concatenate([allowed_labels(sequence, classes.size) for sequence in states])
    single = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1)
    return ChainTruth(single, None if (single >= 0).all() else allowed, weight)


@dataclass(frozen=True, eq=False)
class Constraints:
    """Scores of 0 for possible and -inf for forbidden labels and transitions, added to the scores of a model.

    Attributes
    ----------
    transitions : (n_labels, n_labels) float array
        A label (row) followed by another (column).
    start, end : (n_labels,) float arrays
        First and last labels.
    """

    transitions: FloatArray
    start: FloatArray
    end: FloatArray

    @classmethod
    def none(cls, n_labels: int) -> Constraints:
        """Return constraints that forbid nothing."""
        return cls(np.zeros((n_labels, n_labels)), np.zeros(n_labels), np.zeros(n_labels))

    @property
    def any(self) -> bool:
        """Whether at least one label or transition is forbidden."""
        return bool((self.transitions < 0).any() or (self.start < 0).any() or (self.end < 0).any())

    def added_to(
        self, transitions: FloatArray, start: FloatArray | None, end: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return the scores of a model with -inf for forbidden transitions and ends, or unchanged if there are none."""
        if not self.any:
            return transitions, start, end
        return (
            transitions + self.transitions,
            self.start if start is None else start + self.start,
            self.end if end is None else end + self.end,
        )


@dataclass(frozen=True, eq=False)
class ChainExamples:
    """Input of a learner: sequences, their labels, the layout of the weights, constraints and valid labellings."""

    data: ChainData
    truth: ChainTruth
    layout: ChainLayout
    constraints: Constraints
    required: RequiredTrellises | None = None

    @property
    def mass(self) -> float:
        """Weighted number of labelled positions."""
        return float(np.repeat(self.truth.weight, self.data.lengths) @ self.truth.is_labelled)

    def __len__(self) -> int:
        """Return the number of sequences."""
        return self.data.source_index.size

    def subset(self, indices: ArrayLike) -> ChainExamples:
        """Return the examples of some sequences."""
        order = np.asarray(indices, dtype=np.int64)
        rows, _ = rows_of(self.data.ptr, order)
        allowed = None if self.truth.allowed is None else self.truth.allowed[rows]
        truth = ChainTruth(self.truth.states[rows], allowed, self.truth.weight[order])
        required = None if self.required is None else self.required.subset(order)
        return replace(self, data=self.data.subset(order), truth=truth, required=required)


class ChainScores:
    """Scores of a chain model for ranges of sequences, including constraints.

    Parameters
    ----------
    data : ChainData
        Sequences.
    layout : ChainLayout
        Layout of the weights.
    constraints : Constraints
        Forbidden labels and transitions.
    """

    def __init__(self, data: ChainData, layout: ChainLayout, constraints: Constraints) -> None:
        self.data = data
        self.layout = layout
        self.constraints = constraints
        self.features = StateFeatures(data.matrix, layout)

    def batch(
        self, weights: FloatArray, first: int, last: int, constrained: bool = True, table: FloatArray | None = None
    ) -> ChainBatch:
        """Return the scores of sequences `first` .. `last` - 1; `table` is `features.spread`, computed only once."""
        data, views = self.data, self.layout.unpack(weights)
        a, b = int(data.ptr[first]), int(data.ptr[last])
        nodes = self.features.scores(views.states, a, b, table)
        transitions, start, end = views.transitions, views.start, views.end
        if constrained:
            transitions, start, end = self.constraints.added_to(transitions, start, end)
        if views.edges is not None and b - a > last - first:  # at least one sequence has two positions
            m, k = self.layout.n_edge_features, self.layout.n_labels
            by_step = data.edges[a - first : b - last] @ views.edges.reshape(m, k * k)
            transitions = transitions + by_step.reshape(-1, k, k)
        return ChainBatch(nodes, data.ptr[first : last + 1] - a, transitions, start, end)


def cut_in_chunks(ptr: IntArray, min_size: int = 4096, max_size: int = 65536) -> list[tuple[int, int]]:
    """Return ranges of sequences with about equal numbers of positions, independent of the number of workers.

    There are sixteen ranges, or as many as are needed for `min_size` to `max_size` positions per range. A range costs
    about 0.2 ms of overhead, and memory for its scores.

    Examples
    --------
    >>> cut_in_chunks(np.array([0, 3, 5, 9, 10]), min_size=5)
    [(0, 2), (2, 4)]
    """
    n = int(ptr[-1])
    size = max(min_size, min(-(-n // 16), max_size))
    ends = np.unique(np.searchsorted(ptr, np.arange(size, n + size, size).clip(max=n)))
    edges = [0, *ends[ends > 0].tolist()]
    return list(pairwise(edges))


def read_known(X: Any, edge_features: Any, vectorizer: SequenceVectorizer, layout: ChainLayout) -> ChainData:
    """Return sequences as data with the features of a fitted model."""
    matrix, ptr = vectorizer.transform_stacked(X)
    if vectorizer.vocabulary_ is not None:
        warn_if_unknown(X, matrix.nnz, vectorizer)
    data = make_data(matrix, ptr, edge_features)
    n_edge_features = 0 if data.edges is None else int(data.edges.shape[1])
    has_steps = int(data.ptr[-1]) > data.source_index.size
    if layout.n_edge_features != n_edge_features and has_steps:
        count = "none" if data.edges is None else n_edge_features
        raise InvalidInputError(
            f"the model was fitted with {layout.n_edge_features} edge features, got {count}. Pass edge_features= as in "
            f"fit."
        )
    return data


def warn_if_unknown(X: Any, n_entries: int, vectorizer: SequenceVectorizer) -> None:
    """Warn if X has named features, of which the fitted model has none; `n_entries` is the number of those it has."""
    if n_entries or not vectorizer.vocabulary_ or not isinstance(X, (list, tuple)):
        return
    names = (named_values(token)[0] for sequence in X for token in sequence)
    first = next((name for token_names in names for name in token_names), None)
    if first is None:
        return
    warn_caller(
        f"no feature of X is among the {len(vectorizer.vocabulary_)} features of the training set (X has "
        f"{first!r:.60}, the training set {vectorizer.vocabulary_[0]!r:.60}), so X has no influence on the result. "
        f"Compute the features as in training.",
        UserWarning,
    )
