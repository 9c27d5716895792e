"""Batches of label sequences: scores of the labels at each position and of the transitions, in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import LARGEST_SCORE, FloatArray, IntArray, as_float_array, as_int_array, read_only
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class ChainBatch:
    """Batch of label sequences (linear chains) with scores for labels and transitions; -inf forbids a label.

    The score of labels y for sequence s, whose positions are `ptr[s] .. ptr[s + 1] - 1`, is

    `start[y_first] + sum_t nodes[t, y_t] + sum_t transitions[y_(t-1), y_t] + end[y_last]`.

    Pass it to the functions of `intarsia.inference.chains.chain_inference`. Arrays are not copied: the batch holds
    read-only views, so do not change the arrays while the batch is in use.

    Parameters
    ----------
    nodes : (n_positions, n_labels) float array
        Scores of the labels at each position, with the sequences concatenated.
    ptr : (n_sequences + 1,) int array
        First position of each sequence, followed by n_positions. Every sequence has at least one position; the batch
        may have no sequences.
    transitions : (n_labels, n_labels) or (n_steps, n_labels, n_labels) float array
        Scores of a label (row) followed by another label (column): one table for all steps, or one table per step.
        Steps are numbered through the batch, n_positions - n_sequences in all: the step from position t to t + 1 in
        sequence s has index t - s.
    start, end : (n_labels,) float arrays, optional
        Scores of the first and the last label of a sequence.

    Raises
    ------
    InvalidInputError
        If shapes are mismatched, a sequence is empty, or a score is NaN, +inf or too large.

    Examples
    --------
    A sequence of 2 positions and a sequence of 1 position; label 0 must not follow label 1:

    >>> batch = ChainBatch([[0, 1], [2, 3], [4, 5]], [0, 2, 3], [[0, 0], [-np.inf, 0]])
    >>> batch
    ChainBatch(2 sequences, 3 positions, 2 labels)
    >>> batch.part(1, 2).nodes
    array([[4., 5.]])
    """

    nodes: FloatArray
    ptr: IntArray
    transitions: FloatArray
    start: FloatArray | None = None
    end: FloatArray | None = None

    def __post_init__(self) -> None:
        ptr = as_int_array(self.ptr, "ChainBatch: ptr")
        nodes = as_float_array(self.nodes, "ChainBatch: nodes")
        transitions = as_float_array(self.transitions, "ChainBatch: transitions")
        if nodes.ndim != 2 or nodes.shape[1] == 0:
            raise InvalidInputError(
                f"ChainBatch: nodes has shape {nodes.shape}. Pass one row per position and one column per label."
            )
        check_lengths(ptr, nodes.shape[0])
        k = nodes.shape[1]
        n_steps = nodes.shape[0] - (ptr.size - 1)
        if transitions.shape not in ((k, k), (n_steps, k, k)):
            raise InvalidInputError(
                f"ChainBatch: transitions has shape {transitions.shape}. Pass ({k}, {k}) for one table, or "
                f"({n_steps}, {k}, {k}) for one per step."
            )
        arrays = {"nodes": nodes, "transitions": transitions}
        for name in ("start", "end"):
            scores: ArrayLike | None = getattr(self, name)
            if scores is not None:
                arrays[name] = as_float_array(scores, f"ChainBatch: {name}")
                if arrays[name].shape != (k,):
                    raise InvalidInputError(
                        f"ChainBatch: {name} has shape {arrays[name].shape}. Pass shape ({k},), one score per label."
                    )
        for name, array in arrays.items():
            _check_scores(array, name)
            object.__setattr__(self, name, read_only(array))
        object.__setattr__(self, "ptr", read_only(ptr))

    @property
    def n_sequences(self) -> int:
        """Number of sequences in the batch."""
        return self.ptr.size - 1

    @property
    def n_positions(self) -> int:
        """Total number of positions of all sequences."""
        return self.nodes.shape[0]

    @property
    def n_labels(self) -> int:
        """Number of labels at each position."""
        return self.nodes.shape[1]

    @property
    def n_steps(self) -> int:
        """Total number of transitions of all sequences."""
        return self.n_positions - self.n_sequences

    @property
    def has_table_per_step(self) -> bool:
        """Whether `transitions` has a separate table for each step."""
        return self.transitions.ndim == 3

    def with_scores(self, nodes: FloatArray, transitions: FloatArray) -> ChainBatch:
        """Return a batch with the same sequences and other scores of the same shapes, without checking the scores.

        Use it in loops that repeatedly add finite amounts to scores that have already been checked.

        Examples
        --------
        >>> batch = ChainBatch([[1, 2], [3, 4]], [0, 2], np.zeros((2, 2)))
        >>> batch.with_scores(batch.nodes - 1.0, batch.transitions).nodes
        array([[0., 1.],
               [2., 3.]])
        """
        batch = object.__new__(ChainBatch)
        arrays = {"nodes": read_only(nodes), "ptr": self.ptr, "transitions": read_only(transitions)}
        for name, value in {**arrays, "start": self.start, "end": self.end}.items():
            object.__setattr__(batch, name, value)
        return batch

    def part(self, first: int, last: int) -> ChainBatch:
        """Return the sequences `first .. last - 1` as a batch, without copying scores.

        Examples
        --------
        >>> ChainBatch(np.zeros((5, 2)), [0, 1, 3, 5], np.zeros((2, 2))).part(1, 3).ptr
        array([0, 2, 4])
        """
        if not 0 <= first <= last <= self.n_sequences:
            raise InvalidInputError(
                f"ChainBatch.part: there are no sequences {first} .. {last - 1}. Pass a range within "
                f"0 .. {self.n_sequences - 1}."
            )
        a, b = int(self.ptr[first]), int(self.ptr[last])
        transitions = self.transitions[a - first : b - last] if self.has_table_per_step else self.transitions
        return ChainBatch(self.nodes[a:b], self.ptr[first : last + 1] - a, transitions, self.start, self.end)

    def subset(self, sequences: IntArray) -> ChainBatch:
        """Return the sequences with these indices as a batch, in this order; scores are copied.

        Examples
        --------
        >>> ChainBatch([[0, 1], [2, 3], [4, 5]], [0, 2, 3], np.zeros((2, 2))).subset(np.array([1, 0])).nodes
        array([[4., 5.],
               [0., 1.],
               [2., 3.]])
        """
        rows, ptr = rows_of(self.ptr, sequences)
        transitions = self.transitions
        if self.has_table_per_step:
            step_ptr = self.ptr - np.arange(self.ptr.size)  # a sequence has one step fewer than positions
            transitions = transitions[rows_of(step_ptr, sequences)[0]]
        return ChainBatch(self.nodes[rows], ptr, transitions, self.start, self.end)

    def restricted(self, allowed: ArrayLike) -> ChainBatch:
        """Return a batch in which only some labels are allowed at each position, such as observed labels.

        Parameters
        ----------
        allowed : (n_positions, n_labels) bool array
            False where a label is forbidden. If all labels of a position are forbidden, its sequence is infeasible.

        Examples
        --------
        >>> batch = ChainBatch([[1, 2], [3, 4]], [0, 2], np.zeros((2, 2)))
        >>> batch.restricted([[False, True], [True, True]]).nodes
        array([[-inf,   2.],
               [  3.,   4.]])
        """
        mask = np.asarray(allowed)
        if mask.dtype != np.bool_ or mask.shape != self.nodes.shape:
            raise InvalidInputError(
                f"ChainBatch.restricted: expected a bool array of shape {self.nodes.shape}, got {mask.dtype} of "
                f"shape {mask.shape}."
            )
        nodes = np.where(mask, self.nodes, -np.inf)
        return ChainBatch(nodes, self.ptr, self.transitions, self.start, self.end)

    def __repr__(self) -> str:
        tables = ", a table per step" if self.has_table_per_step else ""
        return f"ChainBatch({self.n_sequences} sequences, {self.n_positions} positions, {self.n_labels} labels{tables})"


def rows_of(ptr: IntArray, sequences: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of some sequences, in their order, and the position where each sequence begins among them.

    Examples
    --------
    >>> rows_of(np.array([0, 2, 3, 5]), np.array([2, 0]))
    (array([3, 4, 0, 1]), array([0, 2, 4]))
    """
    lengths = ptr[sequences + 1] - ptr[sequences]  # np.diff(ptr) would be slow for few of many sequences
    new_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.repeat(ptr[sequences] - new_ptr[:-1], lengths) + np.arange(new_ptr[-1]), new_ptr


def check_lengths(ptr: IntArray, n_positions: int) -> None:
    """Raise unless `ptr` divides `n_positions` positions into sequences that are not empty."""
    if ptr.ndim != 1 or ptr.size == 0 or ptr[0] != 0 or ptr[-1] != n_positions:
        span = f" from {ptr[0]} to {ptr[-1]}" if ptr.ndim == 1 and ptr.size else ""
        raise InvalidInputError(
            f"ChainBatch: ptr has shape {ptr.shape}{span}, but must increase from 0 to {n_positions}, the number of "
            f"rows of nodes."
        )
    too_short = np.diff(ptr) < 1
    if too_short.any():
        s = int(np.argmax(too_short))
        raise InvalidInputError(
            f"ChainBatch: sequence {s} has {ptr[s + 1] - ptr[s]} positions, but needs at least 1. Leave empty "
            f"sequences out."
        )


def _check_scores(scores: FloatArray, name: str) -> None:
    """Raise if a score is NaN, +inf, or so large that sums of scores could overflow."""
    if not scores.size or (scores.max() <= LARGEST_SCORE and scores.min() >= -LARGEST_SCORE):
        return
    invalid = ~(scores <= LARGEST_SCORE) | ((scores < -LARGEST_SCORE) & (scores > -np.inf))
    if invalid.any():
        position = np.unravel_index(int(np.argmax(invalid)), scores.shape)
        subscript = ", ".join(str(int(i)) for i in position)
        raise InvalidInputError(
            f"ChainBatch: {name}[{subscript}] is {scores[position]}. Pass finite scores of at most {LARGEST_SCORE:g}, "
            f"or -inf for forbidden labels."
        )
