"""Many sequences side by side: scores of labels by position and of transitions, in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import LARGEST_SCORE, FloatArray, IntArray, as_float_array, as_int_array, read_only
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class ChainBatch:
    """Sequences of labels with scores for labels and for transitions; -inf marks what is forbidden.

    The score of labels y for sequence s, whose positions are `ptr[s] .. ptr[s + 1] - 1`, is

    `start[y_first] + sum_t nodes[t, y_t] + sum_t transitions[y_(t-1), y_t] + end[y_last]`.

    The functions of `intarsia.inference.chains.chain_inference` take it. Arrays are not copied but read through views
    that cannot be written to: do not change them as long as the batch is in use.

    Parameters
    ----------
    nodes : (n_positions, n_labels) float array
        Scores of the labels at each position, sequence after sequence.
    ptr : (n_sequences + 1,) int array
        Where the sequences begin, then n_positions. No sequence is empty; there may be none at all.
    transitions : (n_labels, n_labels) or (n_steps, n_labels, n_labels) float array
        Scores of a label (row) followed by another (column): one table for all steps, or one per step. Steps are
        counted through the batch, n_positions - n_sequences in all: the one from position t to t + 1 of sequence s
        is number t - s.
    start, end : (n_labels,) float arrays, optional
        Scores of the first and of the last label of a sequence.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a sequence is empty, or a score is NaN, +inf or too large.

    Examples
    --------
    Two sequences, of 2 positions and of 1, with labels 0 and 1 of which 0 must not follow 1:

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
                f"ChainBatch: nodes has shape {nodes.shape}. Give a row per position and a column per label."
            )
        check_lengths(ptr, nodes.shape[0])
        k = nodes.shape[1]
        n_steps = nodes.shape[0] - (ptr.size - 1)
        if transitions.shape not in ((k, k), (n_steps, k, k)):
            raise InvalidInputError(
                f"ChainBatch: transitions has shape {transitions.shape}. Give ({k}, {k}) for one table, or "
                f"({n_steps}, {k}, {k}) for one per step."
            )
        arrays = {"nodes": nodes, "transitions": transitions}
        for name in ("start", "end"):
            given: ArrayLike | None = getattr(self, name)
            if given is not None:
                arrays[name] = as_float_array(given, f"ChainBatch: {name}")
                if arrays[name].shape != (k,):
                    raise InvalidInputError(
                        f"ChainBatch: {name} has shape {arrays[name].shape}. Give ({k},), a score per label."
                    )
        for name, array in arrays.items():
            _check_scores(array, name)
            object.__setattr__(self, name, read_only(array))
        object.__setattr__(self, "ptr", read_only(ptr))

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return self.ptr.size - 1

    @property
    def n_positions(self) -> int:
        """Number of positions of all sequences together."""
        return self.nodes.shape[0]

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.nodes.shape[1]

    @property
    def n_steps(self) -> int:
        """Number of transitions of all sequences together."""
        return self.n_positions - self.n_sequences

    @property
    def has_table_per_step(self) -> bool:
        """Whether `transitions` holds a table for each step."""
        return self.transitions.ndim == 3

    def with_scores(self, nodes: FloatArray, transitions: FloatArray) -> ChainBatch:
        """The same sequences with other scores of the same shapes, which are not checked.

        For searches that take finite amounts from scores which have been checked, again and again.

        Examples
        --------
        >>> batch = ChainBatch([[1, 2], [3, 4]], [0, 2], np.zeros((2, 2)))
        >>> batch.with_scores(batch.nodes - 1.0, batch.transitions).nodes
        array([[0., 1.],
               [2., 3.]])
        """
        made = object.__new__(ChainBatch)
        given = {"nodes": read_only(nodes), "ptr": self.ptr, "transitions": read_only(transitions)}
        for name, value in {**given, "start": self.start, "end": self.end}.items():
            object.__setattr__(made, name, value)
        return made

    def part(self, first: int, last: int) -> ChainBatch:
        """Sequences `first .. last - 1` as a batch of their own, without copying scores.

        Examples
        --------
        >>> ChainBatch(np.zeros((5, 2)), [0, 1, 3, 5], np.zeros((2, 2))).part(1, 3).ptr
        array([0, 2, 4])
        """
        if not 0 <= first <= last <= self.n_sequences:
            raise InvalidInputError(
                f"ChainBatch.part: there are no sequences {first} .. {last - 1}; they are numbered "
                f"0 .. {self.n_sequences - 1}."
            )
        a, b = int(self.ptr[first]), int(self.ptr[last])
        transitions = self.transitions[a - first : b - last] if self.has_table_per_step else self.transitions
        return ChainBatch(self.nodes[a:b], self.ptr[first : last + 1] - a, transitions, self.start, self.end)

    def subset(self, chosen: IntArray) -> ChainBatch:
        """Some of the sequences as a batch of their own, in the order given; scores are copied.

        Examples
        --------
        >>> ChainBatch([[0, 1], [2, 3], [4, 5]], [0, 2, 3], np.zeros((2, 2))).subset(np.array([1, 0])).nodes
        array([[4., 5.],
               [0., 1.],
               [2., 3.]])
        """
        rows, ptr = rows_of(self.ptr, chosen)
        transitions = self.transitions
        if self.has_table_per_step:
            before = self.ptr - np.arange(self.ptr.size)  # a sequence has one step less than positions
            transitions = transitions[rows_of(before, chosen)[0]]
        return ChainBatch(self.nodes[rows], ptr, transitions, self.start, self.end)

    def restricted(self, allowed: ArrayLike) -> ChainBatch:
        """The same batch with labels forbidden by position: sets of labels, or labels that are known.

        Parameters
        ----------
        allowed : (n_positions, n_labels) bool array
            False where a label is impossible. A position may lose all its labels: its sequence is infeasible then.

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
                f"ChainBatch.restricted: expected True and False in shape {self.nodes.shape}, got {mask.dtype} in "
                f"shape {mask.shape}."
            )
        nodes = np.where(mask, self.nodes, -np.inf)
        return ChainBatch(nodes, self.ptr, self.transitions, self.start, self.end)

    def __repr__(self) -> str:
        tables = ", a table per step" if self.has_table_per_step else ""
        return f"ChainBatch({self.n_sequences} sequences, {self.n_positions} positions, {self.n_labels} labels{tables})"


def rows_of(ptr: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of the chosen sequences in their order, and where each begins among them.

    Examples
    --------
    >>> rows_of(np.array([0, 2, 3, 5]), np.array([2, 0]))
    (array([3, 4, 0, 1]), array([0, 2, 4]))
    """
    lengths = ptr[chosen + 1] - ptr[chosen]  # those of all sequences would take long where few of many are chosen
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.repeat(ptr[chosen] - new[:-1], lengths) + np.arange(new[-1]), new


def check_lengths(ptr: IntArray, n_positions: int) -> None:
    """Raise unless `ptr` divides `n_positions` positions into sequences, none of them empty."""
    if ptr.ndim != 1 or ptr.size == 0 or ptr[0] != 0 or ptr[-1] != n_positions:
        ends = f" from {ptr[0]} to {ptr[-1]}" if ptr.ndim == 1 and ptr.size else ""
        raise InvalidInputError(
            f"ChainBatch: ptr has shape {ptr.shape}{ends}, but must rise from 0 to {n_positions}, the number of rows "
            f"of nodes."
        )
    short = np.diff(ptr) < 1
    if short.any():
        s = int(np.argmax(short))
        raise InvalidInputError(
            f"ChainBatch: sequence {s} has {ptr[s + 1] - ptr[s]} positions. Leave empty sequences out; each needs at "
            f"least 1."
        )


def _check_scores(scores: FloatArray, name: str) -> None:
    """Raise for NaN, +inf and finite scores so large that sums of them would overflow."""
    if not scores.size or (scores.max() <= LARGEST_SCORE and scores.min() >= -LARGEST_SCORE):
        return
    bad = ~(scores <= LARGEST_SCORE) | ((scores < -LARGEST_SCORE) & (scores > -np.inf))
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), scores.shape)
        place = ", ".join(str(int(i)) for i in at)
        raise InvalidInputError(
            f"ChainBatch: {name}[{place}] is {scores[at]}. Give finite scores of at most {LARGEST_SCORE:g}, or -inf "
            f"for what is forbidden."
        )
