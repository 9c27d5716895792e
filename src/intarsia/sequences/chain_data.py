"""Sequences and their labels as flat arrays: what chain models are fitted to and used on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch, rows_of
from intarsia.models.chain_scores import ChainLayout, StateFeatures
from intarsia.models.feature_matrix import check_features
from intarsia.models.labelling import Labels, as_states, read_labels
from intarsia.sequences.tag_schemes import Constraints

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
        if constrained and self.constraints.any:
            table = table + self.constraints.transitions
            start = self.constraints.start if start is None else start + self.constraints.start
            end = self.constraints.end if end is None else end + self.constraints.end
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
