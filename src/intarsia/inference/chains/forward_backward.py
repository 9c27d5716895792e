"""Forward and backward passes over a batch of sequences, for chain inference and for the oracle of energies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.chain_arguments import ChainScratch, ChainTables, CountColumns, SequenceScores
from intarsia._kernels.chain_logs import forward_chains_logs, pass_chains_logs
from intarsia._kernels.chain_vectors import project_counts, row_spans
from intarsia._kernels.chains import NEEDS_LOGS, forward_chains, pass_chains
from intarsia.graph.chains import ChainBatch, rows_of


class Forward(NamedTuple):
    """Normalised forward messages (n_positions, n_labels), as logarithms for the sequences `in_logs`, and log Z."""

    messages: FloatArray
    log_partition: FloatArray
    in_logs: NDArray[np.bool_]


class Marginals(NamedTuple):
    """Log Z, probabilities of labels, and the requested expected transitions."""

    log_partition: FloatArray
    nodes: FloatArray
    transitions: FloatArray | None


class ChainPass:
    """Repeated forward and backward passes over one batch with different scores of labels.

    Values that depend on the transitions only, and the work arrays, are created once.

    Parameters
    ----------
    batch : ChainBatch
        Sequences with their scores.

    Examples
    --------
    Subtracting log 2 from the score of label 1 at both positions makes both labels equally probable:

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
        maxima, floors = _exponentiate(weights.reshape(len(tables), -1))
        self._tables = weights
        no_scores = read_only(np.zeros(k))
        self._ends = no_scores if batch.start is None else batch.start, no_scores if batch.end is None else batch.end
        self._transitions = ChainTables(
            read_only(weights), read_only(maxima), read_only(floors), dense, np.ascontiguousarray(weights[0].T)
        )
        self._no_penalty = read_only(np.zeros((1, k)))
        self._scratch = ChainScratch(
            np.empty(longest), np.empty(longest), np.empty(longest), np.empty(k), np.empty((longest, k)),
            np.empty((longest, k)),
        )  # fmt: skip
        self._state = np.zeros(batch.n_sequences, dtype=np.int64)
        self._unit_weight = read_only(np.ones(batch.n_sequences))

    def forward(self, *, keep: bool) -> Forward:
        """Make a forward pass; without `keep` the messages are overwritten and only log Z is valid."""
        batch = self.batch
        messages = np.empty((batch.n_positions if keep else self._longest, batch.n_labels))
        log_z = np.empty(batch.n_sequences)
        forward_chains(*self._leading_arguments(batch.nodes, self._no_penalty, messages, keep, log_z))
        in_logs = self._state == NEEDS_LOGS
        indices = np.flatnonzero(in_logs)
        if indices.size:
            log_rows = messages if keep else np.empty(batch.nodes.shape)
            self._copy_scores(batch.nodes, indices, log_rows)
            forward_chains_logs(
                batch.ptr, indices, log_rows, full_tables(batch), np.empty(batch.n_labels), self._scratch.totals, log_z
            )
        return Forward(messages, log_z, in_logs)

    def marginals(
        self,
        nodes: FloatArray | None = None,
        *,
        transitions: str | None = None,
        weight: FloatArray | None = None,
        out: FloatArray | None = None,
    ) -> Marginals:
        """Compute marginals as `chain_marginals`, with the node scores of the batch or with others.

        `out` is an optional array for the probabilities of labels.
        """
        batch, k = self.batch, self.batch.n_labels
        scores = batch.nodes if nodes is None else read_only(nodes)
        weight = self._unit_weight if weight is None else weight
        node_marginals = np.empty(batch.nodes.shape) if out is None else out
        counts = np.zeros((max(batch.n_steps, 1) if transitions == "steps" else 1, k, k))
        log_z = np.empty(batch.n_sequences)
        arguments = self._leading_arguments(scores, self._no_penalty, node_marginals, True, log_z)
        self._pass(arguments, weight, transitions is not None, counts, np.empty((0, k)))
        if len(self._tables) == len(counts) == 1:  # the kernel leaves this factor, which is equal for all steps
            counts *= self._tables
        indices = np.flatnonzero(self._state == NEEDS_LOGS)
        if indices.size:
            self._copy_scores(scores, indices, node_marginals)
            pass_chains_logs(
                batch.ptr, indices, node_marginals, full_tables(batch), weight, transitions is not None, counts,
                self._scratch.alpha, np.empty(k), np.empty(k), np.empty(k), self._scratch.totals, log_z,
            )  # fmt: skip
        expected = {None: None, "sum": counts[0], "steps": counts[: batch.n_steps]}[transitions]
        return Marginals(log_z, node_marginals, expected)

    def label_counts(self, penalty: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the expected number of each label in each sequence, and log Z, without storing marginals.

        `penalty` (n_sequences, n_labels) is subtracted from the scores of every position of a sequence.
        """
        batch, k = self.batch, self.batch.n_labels
        sums, log_z = np.empty((batch.n_sequences, k)), np.empty(batch.n_sequences)
        penalty = self._no_penalty if penalty is None else read_only(penalty)
        arguments = self._leading_arguments(batch.nodes, penalty, np.empty((self._longest, k)), False, log_z)
        self._pass(arguments, self._unit_weight, False, np.empty((1, k, k)), sums)
        indices = np.flatnonzero(self._state == NEEDS_LOGS)
        if indices.size:
            subset = batch.subset(indices)
            subset_penalty = np.broadcast_to(penalty, sums.shape)[indices]
            scores = subset.nodes - np.repeat(subset_penalty, np.diff(subset.ptr), axis=0)
            result = ChainPass(subset).marginals(scores)
            sums[indices] = np.add.reduceat(result.nodes, subset.ptr[:-1], axis=0)
            log_z[indices] = result.log_partition
        return sums, log_z

    def project_counts(self, columns: CountColumns, *arguments: Any) -> None:
        """Run the kernel of projections under energies of counts, with one table for all steps."""
        scores = SequenceScores(self.batch.ptr, self.batch.nodes, *self._ends, self._no_penalty)
        project_counts(scores, self._transitions, self._scratch, columns, *arguments)

    def _leading_arguments(
        self, scores: FloatArray, penalty: FloatArray, messages: FloatArray, keep: bool, log_z: FloatArray
    ) -> tuple[Any, ...]:
        """Return the leading arguments that the forward kernel and the full kernel share."""
        sequence_scores = SequenceScores(self.batch.ptr, scores, *self._ends, penalty)
        return sequence_scores, self._transitions, keep, messages, self._scratch, log_z, self._state

    def _pass(
        self,
        arguments: tuple[Any, ...],
        weight: FloatArray,
        with_counts: bool,
        counts: FloatArray,
        sums: FloatArray,
    ) -> None:
        """Run the forward-backward kernel."""
        pass_chains(*arguments, weight, with_counts, counts, sums)  # type: ignore[call-arg]

    def _copy_scores(self, nodes: FloatArray, sequences: IntArray, target: FloatArray) -> None:
        """Copy the scores of these sequences, including start and end scores, to their rows of `target`."""
        ptr, (start, end) = self.batch.ptr, self._ends
        rows = rows_of(ptr, sequences)[0]
        target[rows] = nodes[rows]
        target[ptr[sequences]] += start
        target[ptr[sequences + 1] - 1] += end


def full_scores(batch: ChainBatch) -> FloatArray:
    """Return a copy of the scores of all positions, including start and end scores."""
    scores = batch.nodes.copy()
    if batch.start is not None:
        scores[batch.ptr[:-1]] += batch.start
    if batch.end is not None:
        scores[batch.ptr[1:] - 1] += batch.end
    return scores


def full_tables(batch: ChainBatch) -> FloatArray:
    """Return the tables (1 or n_steps, n_labels, n_labels); a table of zeros if there is no step."""
    if batch.has_table_per_step and not batch.n_steps:
        return read_only(np.zeros((1, batch.n_labels, batch.n_labels)))
    return batch.transitions.reshape(-1, batch.n_labels, batch.n_labels)


def _exponentiate(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Subtract the maximum of each row and exponentiate in place; return maxima and smallest positive entries."""
    maxima, span = np.empty(len(rows)), np.empty(len(rows))
    row_spans(read_only(rows), maxima, span)
    maxima[maxima == -np.inf] = 0.0
    np.subtract(rows, maxima[:, None], out=rows)
    np.exp(rows, out=rows)
    return maxima, np.exp(-span)
