"""Passes over a batch of sequences: what the functions of `chains` and the oracle of global energies run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.arguments import ChainScratch, ChainTables, SequenceScores
from intarsia._kernels.chain_logs import forward_chains_logs, pass_chains_logs
from intarsia._kernels.chains import NEEDS_LOGS, forward_chains, pass_chains
from intarsia._kernels.pairwise_slots import row_spans
from intarsia.graph.chains import ChainBatch, rows_of


class Forward(NamedTuple):
    """Forward messages (n_positions, n_labels), normalised, or as logarithms in the sequences `in_logs`; and log Z."""

    messages: FloatArray
    log_partition: FloatArray
    in_logs: NDArray[np.bool_]


class Marginals(NamedTuple):
    """Log Z, probabilities of labels, and expected transitions as they were asked for."""

    log_partition: FloatArray
    nodes: FloatArray
    transitions: FloatArray | None


class ChainPass:
    """Forward and backward passes over one batch, again and again with other scores of labels.

    What transitions alone decide is worked out once, and the room that passes need is taken once.

    Parameters
    ----------
    batch : ChainBatch
        The sequences.

    Examples
    --------
    Taking log 2 from the score of label 1 at both positions makes both labels alike:

    >>> both = ChainPass(ChainBatch(np.log([[1, 2], [1, 2]]), [0, 2], np.zeros((2, 2))))
    >>> both.marginals().nodes.round(3)
    array([[0.333, 0.667],
           [0.333, 0.667]])
    >>> counts, log_partition = both.label_counts(np.array([[0.0, np.log(2)]]))
    >>> counts.round(12), np.exp(log_partition).round(12)
    (array([[1., 1.]]), array([4.]))
    """

    def __init__(self, batch: ChainBatch) -> None:
        self.batch = batch
        k, tables = batch.n_labels, full_tables(batch)
        self._longest = longest = int(np.diff(batch.ptr).max(initial=0))
        weights = tables.copy()
        dense = bool(tables.min() > -np.inf)
        tops, floors = _exponentiate(weights.reshape(len(tables), -1))
        self._tables = weights
        nothing = read_only(np.zeros(k))
        self._ends = nothing if batch.start is None else batch.start, nothing if batch.end is None else batch.end
        self._transitions = ChainTables(
            read_only(weights), read_only(tops), read_only(floors), dense, np.ascontiguousarray(weights[0].T)
        )
        self._nothing_taken = read_only(np.zeros((1, k)))
        self._scratch = ChainScratch(
            np.empty(longest), np.empty(longest), np.empty(longest), np.empty(k), np.empty((longest, k)),
            np.empty((longest, k)),
        )  # fmt: skip
        self._state = np.zeros(batch.n_sequences, dtype=np.int64)
        self._one_each = read_only(np.ones(batch.n_sequences))

    def forward(self, *, keep: bool) -> Forward:
        """A forward pass; without `keep` only log Z is of use."""
        batch = self.batch
        made = np.empty((batch.n_positions if keep else self._longest, batch.n_labels))
        log_z = np.empty(batch.n_sequences)
        forward_chains(*self._given(batch.nodes, self._nothing_taken, made, keep, log_z))
        in_logs = self._state == NEEDS_LOGS
        chosen = np.flatnonzero(in_logs)
        if chosen.size:
            messages = made if keep else np.empty(batch.nodes.shape)
            self._put_scores(batch.nodes, chosen, messages)
            forward_chains_logs(
                batch.ptr, chosen, messages, full_tables(batch), np.empty(batch.n_labels), self._scratch.totals, log_z
            )
        return Forward(made, log_z, in_logs)

    def marginals(
        self,
        nodes: FloatArray | None = None,
        *,
        transitions: str | None = None,
        weight: FloatArray | None = None,
        into: FloatArray | None = None,
    ) -> Marginals:
        """Marginals with other scores of labels, or with the batch's own; see `chain_marginals`.

        `into` is room for the probabilities of labels.
        """
        batch, k = self.batch, self.batch.n_labels
        scores = batch.nodes if nodes is None else read_only(nodes)
        weight = self._one_each if weight is None else weight
        made = np.empty(batch.nodes.shape) if into is None else into
        counts = np.zeros((max(batch.n_steps, 1) if transitions == "steps" else 1, k, k))
        log_z = np.empty(batch.n_sequences)
        given = self._given(scores, self._nothing_taken, made, True, log_z)
        self._pass(given, weight, transitions is not None, counts, np.empty((0, k)))
        if len(self._tables) == len(counts) == 1:  # then the kernel leaves this to be done once for all steps
            counts *= self._tables
        chosen = np.flatnonzero(self._state == NEEDS_LOGS)
        if chosen.size:
            self._put_scores(scores, chosen, made)
            pass_chains_logs(
                batch.ptr, chosen, made, full_tables(batch), weight, transitions is not None, counts,
                self._scratch.alpha, np.empty(k), np.empty(k), np.empty(k), self._scratch.totals, log_z,
            )  # fmt: skip
        expected = {None: None, "sum": counts[0], "steps": counts[: batch.n_steps]}[transitions]
        return Marginals(log_z, made, expected)

    def label_counts(self, taken: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Expected number of each label in each sequence, and log Z, with less score for labels.

        `taken` (n_sequences, n_labels) goes off the scores of every position of a sequence. No marginal is kept.
        """
        batch, k = self.batch, self.batch.n_labels
        sums, log_z = np.empty((batch.n_sequences, k)), np.empty(batch.n_sequences)
        taken = self._nothing_taken if taken is None else read_only(taken)
        given = self._given(batch.nodes, taken, np.empty((self._longest, k)), False, log_z)
        self._pass(given, self._one_each, False, np.empty((1, k, k)), sums)
        chosen = np.flatnonzero(self._state == NEEDS_LOGS)
        if chosen.size:
            few = batch.subset(chosen)
            own = np.broadcast_to(taken, sums.shape)[chosen]
            left = few.nodes - np.repeat(own, np.diff(few.ptr), axis=0)
            found = ChainPass(few).marginals(left)
            sums[chosen] = np.add.reduceat(found.nodes, few.ptr[:-1], axis=0)
            log_z[chosen] = found.log_partition
        return sums, log_z

    def _given(
        self, scores: FloatArray, taken: FloatArray, made: FloatArray, keep: bool, log_z: FloatArray
    ) -> tuple[Any, ...]:
        """What both kernels take first."""
        return (
            SequenceScores(self.batch.ptr, scores, *self._ends, taken), self._transitions, keep, made, self._scratch,
            log_z, self._state,
        )  # fmt: skip

    def _pass(
        self,
        given: tuple[Any, ...],
        weight: FloatArray,
        with_counts: bool,
        counts: FloatArray,
        sums: FloatArray,
    ) -> None:
        pass_chains(*given, weight, with_counts, counts, sums)  # type: ignore[call-arg]

    def _put_scores(self, nodes: FloatArray, chosen: IntArray, into: FloatArray) -> None:
        """Write the scores of some sequences, those of start and end included, where they stand in `into`."""
        ptr, (start, end) = self.batch.ptr, self._ends
        rows = rows_of(ptr, chosen)[0]
        into[rows] = nodes[rows]
        into[ptr[chosen]] += start
        into[ptr[chosen + 1] - 1] += end


def full_scores(batch: ChainBatch) -> FloatArray:
    """Scores of all positions, those of start and end included, in a new array."""
    scores = batch.nodes.copy()
    if batch.start is not None:
        scores[batch.ptr[:-1]] += batch.start
    if batch.end is not None:
        scores[batch.ptr[1:] - 1] += batch.end
    return scores


def full_tables(batch: ChainBatch) -> FloatArray:
    """Tables (1 or n_steps, n_labels, n_labels); one of zeros where there is no step, so that there is a first."""
    if batch.has_table_per_step and not batch.n_steps:
        return read_only(np.zeros((1, batch.n_labels, batch.n_labels)))
    return batch.transitions.reshape(-1, batch.n_labels, batch.n_labels)


def _exponentiate(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Exponentiate rows in place, less their maxima; return these and each row's smallest positive entry."""
    top, span = np.empty(len(rows)), np.empty(len(rows))
    row_spans(read_only(rows), top, span)
    top[top == -np.inf] = 0.0
    np.subtract(rows, top[:, None], out=rows)
    np.exp(rows, out=rows)
    return top, np.exp(-span)
