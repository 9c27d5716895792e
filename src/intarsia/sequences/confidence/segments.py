"""Exact probabilities of segments of label sequences."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray, read_only
from intarsia._kernels.chain_segments import sum_over_segments
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import chain_log_partition, chain_marginals, log_forward_messages
from intarsia.inference.chains.forward_backward import full_tables
from intarsia.metrics.segments import TagJoins, join_tags, scheme_of_labels
from intarsia.sequences.chain_prediction import Work


class Segment(NamedTuple):
    """Segment of a label sequence with its probability; returned by `ChainCRF.predict_segments`.

    Attributes
    ----------
    start, end : int
        First position, and the position after the last.
    label : hashable
        Label of the segment, without the prefix of BIO or BIOES tags.
    probability : float
        Probability that exactly this segment is in the labelling: same start, same end, same label.

    Examples
    --------
    >>> Segment(0, 2, "title", 0.75).label
    'title'
    """

    start: int
    end: int
    label: Hashable
    probability: float


def joins_of_classes(classes: NDArray[Any], scheme: str | None, outside: Any) -> TagJoins:
    """Return which labels belong to one segment; without `scheme`, it is recognised from the labels."""
    labels = classes.tolist()
    return join_tags(labels, scheme_of_labels(labels, outside) if scheme is None else scheme, outside)


def segments_of_states(states: IntArray, ptr: IntArray, joins: TagJoins) -> IntArray:
    """Return the segments of a batch of labellings as rows: sequence, start, end (positions of the batch), field.

    Examples
    --------
    >>> segments_of_states(np.array([0, 1, 0, 2]), np.array([0, 3, 4]), join_tags(["B-x", "I-x", "O"]))
    array([[0, 0, 2, 0],
           [0, 2, 3, 0]])
    """
    fields = joins.fields[states]
    begins = np.ones(states.size, dtype=bool)
    begins[1:] = ~joins.continues[states[:-1], states[1:]]
    begins[ptr[:-1]] = True
    ends = np.roll(begins, -1)
    starts, stops = np.flatnonzero(begins & (fields >= 0)), np.flatnonzero(ends & (fields >= 0)) + 1
    sequence = np.searchsorted(ptr, starts, side="right") - 1
    return np.stack([sequence, starts, stops, fields[starts]], axis=1).astype(np.int64)


def segment_log_probabilities(batch: ChainBatch, segments: IntArray, joins: TagJoins) -> FloatArray:
    """Return the exact log-probability that each segment is in the labelling of its sequence.

    The sum over all labellings with the segment is computed by one recursion through the segment, from the marginals at
    its end and the forward messages. It takes time proportional to the length of the segment.

    Parameters
    ----------
    batch : ChainBatch
        Sequences with their scores.
    segments : (n, 4) int array
        Sequence, start, end (positions of the batch, end exclusive) and field of each segment.
    joins : TagJoins
        Meaning of the labels.

    Examples
    --------
    Labellings 00, 01, 10, 11 have weights 2, 1, 3, 6; the run of label 1 at position 0 alone is only in 10:

    >>> batch = ChainBatch(np.log([[1, 3], [1, 1]]), [0, 2], np.log([[2, 1], [1, 2]]))
    >>> joins = join_tags([0, 1], "runs")
    >>> np.exp(segment_log_probabilities(batch, np.array([[0, 0, 1, 1], [0, 0, 2, 1]]), joins)).round(12)
    array([0.25, 0.5 ])
    """
    log_probabilities = np.empty(len(segments))
    sum_over_segments(
        batch.ptr,
        read_only(np.ascontiguousarray(segments)),
        read_only(log_forward_messages(batch)),
        read_only(chain_marginals(batch, transitions=None).nodes),
        full_tables(batch),
        read_only(joins.fields),
        read_only(joins.continues),
        np.empty((3, batch.n_labels)),
        log_probabilities,
    )
    return np.minimum(log_probabilities, 0.0)  # sums may exceed 1 by rounding


def clamp_segment(batch: ChainBatch, start: int, end: int, field: int, joins: TagJoins) -> ChainBatch:
    """Return a batch of one sequence in which only labellings with this segment are possible.

    With it, the probability of a segment is available for every model with a log partition function; see
    `restricted_log_probability`.
    """
    n, k = batch.nodes.shape
    allowed = np.ones((n, k), dtype=bool)
    allowed[start:end] = joins.fields == field
    tables = np.array(np.broadcast_to(full_tables(batch), (n - 1, k, k)))
    for step in range(max(start - 1, 0), min(end, n - 1)):
        is_inside = start <= step < end - 1
        tables[step][joins.continues != is_inside] = -np.inf
    return ChainBatch(np.where(allowed, batch.nodes, -np.inf), batch.ptr, tables, batch.start, batch.end)


def restricted_log_probability(
    batch: ChainBatch,
    segment: IntArray,
    joins: TagJoins,
    log_partition: Callable[[ChainBatch], float] | None = None,
) -> float:
    """Return the log-probability of a segment of a batch of one sequence, by two log partition functions.

    It is log Z of the model in which only labellings with the segment are possible, minus log Z of the model.

    Parameters
    ----------
    batch : ChainBatch
        One sequence.
    segment : (4,) int array
        As a row of `segment_log_probabilities`, with sequence 0.
    joins : TagJoins
        Meaning of the labels.
    log_partition : callable, optional
        Log partition function of a restricted model, such as the sum over the labellings that satisfy hard rules; by
        default the sum over all labellings.
    """

    def plain(chain: ChainBatch) -> float:
        return float(chain_log_partition(chain)[0])

    log_z = plain if log_partition is None else log_partition
    _, start, end, field = segment.tolist()
    clamped = log_z(clamp_segment(batch, start, end, field, joins))
    return min(clamped - log_z(batch), 0.0) if clamped > -np.inf else -np.inf


@dataclass(frozen=True)
class PredictedSegments:
    """Function of a batch that returns the segments of each sequence with their probabilities.

    Parameters
    ----------
    joins : TagJoins
        Meaning of the labels.
    decoder : callable
        Function that returns the states of each sequence of a batch, such as `best_labels`.
    required : SequenceRules, optional
        Rules that labellings must satisfy; without them, all labellings are possible.
    """

    joins: TagJoins
    decoder: Work
    required: Any = None

    def _log_probabilities(self, batch: ChainBatch, first: int, rows: IntArray) -> FloatArray:
        """Return the log-probability of each segment, among the labellings that satisfy the rules if there are any."""
        if self.required is None:
            return segment_log_probabilities(batch, rows, self.joins)
        from intarsia.sequences.constraints.chain_rules import chains_of

        values = np.empty(len(rows))
        for s in range(batch.n_sequences):
            sequence, is_of_sequence = batch.part(s, s + 1), rows[:, 0] == s
            of_sequence = rows[is_of_sequence] - [s, batch.ptr[s], batch.ptr[s], 0]

            def log_partition(chain: ChainBatch, s: int = s) -> float:
                posterior = self.required.posterior(chains_of(chain)[0], first + s)
                return -np.inf if posterior is None else posterior.log_partition

            if log_partition(sequence) == -np.inf:  # the rules clash, and the labels are a compromise
                values[is_of_sequence] = segment_log_probabilities(sequence, of_sequence, self.joins)
            else:
                values[is_of_sequence] = [
                    restricted_log_probability(sequence, row, self.joins, log_partition) for row in of_sequence
                ]
        return values

    def __call__(self, batch: ChainBatch, first: int) -> list[Any]:
        """Return a list of `Segment` for each sequence of the batch."""
        states = np.concatenate(self.decoder(batch, first))
        rows = segments_of_states(states, batch.ptr, self.joins)
        probabilities = np.exp(self._log_probabilities(batch, first, rows)).tolist()
        results: list[list[Segment]] = [[] for _ in range(batch.n_sequences)]
        name_of = dict(zip(self.joins.fields.tolist(), self.joins.labels, strict=True))
        offsets = batch.ptr.tolist()
        for (s, start, end, field), probability in zip(rows.tolist(), probabilities, strict=True):
            results[s].append(Segment(start - offsets[s], end - offsets[s], name_of[field], probability))
        return results


@dataclass(frozen=True)
class FixedStates:
    """Function of a batch that returns given labellings instead of predicted ones."""

    states: list[IntArray]

    def __call__(self, batch: ChainBatch, first: int) -> list[Any]:
        """Return the states of the sequences `first` to `first` + `batch.n_sequences` - 1."""
        return self.states[first : first + batch.n_sequences]
