"""Predictions of a fitted chain model for many sequences, chunk by chunk, with an answer for every sequence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia._core.worker_threads import run_by_workers
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch, rows_of
from intarsia.inference.chains.chain_inference import (
    best_paths,
    chain_log_partition,
    chain_marginals,
    sample_paths,
    viterbi,
)
from intarsia.learning.energy_risk import ProjectionReport, warn_unless_all_converged
from intarsia.models.chain_scores import ChainLayout
from intarsia.sequences.chain_data import TILTED_CHUNK, ChainData, ChainScores, Constraints, cut_in_chunks

Work = Callable[[ChainBatch, int], list[Any]]
"""Function of a batch and the index of its first sequence that returns one result per sequence."""


Piece = tuple[IntArray, ChainBatch]
"""Indices of sequences in a batch, and these sequences as a batch under energies."""


class Tilt(Protocol):
    """Function that subtracts the slopes of energies from the scores of a batch."""

    @property
    def method(self) -> Any:
        """Inference method for marginals under the energies."""

    def __call__(self, batch: ChainBatch, first: int) -> tuple[list[Piece], ProjectionReport]:
        """Return the changed sequences of a batch, whose first has index `first`, and a report of convergence."""

    def part(self, first: int, last: int) -> Tilt:
        """Return the function for sequences `first` .. `last` - 1, with indices from 0."""


class _Chunk:
    """Range of sequences and the model that predicts them; only this range is sent to a worker.

    `offset` is the index of the first sequence in the complete data, if the data of the chunk were cut out. `table` is
    `scores.features.spread`, which the chunks of one process share.
    """

    def __init__(
        self,
        scores: ChainScores,
        allowed: NDArray[np.bool_] | None,
        tilt: Tilt | None,
        first: int,
        last: int,
        offset: int = 0,
        table: FloatArray | None = None,
    ) -> None:
        self.scores, self.all_allowed, self.tilt, self.table = scores, allowed, tilt, table
        self.first, self.last, self.offset = first, last, offset
        self.reports: list[ProjectionReport] = []

    def __reduce__(self) -> tuple[Any, ...]:
        scores, first, last = self.scores, self.first, self.last
        tilt = None if self.tilt is None else self.tilt.part(first, last)
        data = scores.data.subset(np.arange(first, last))
        return _restore_chunk, (data, scores.layout, scores.constraints, self.allowed, tilt, self.offset + first)

    @property
    def allowed(self) -> Any:
        """Possible labels of the positions of this chunk, or None."""
        ptr = self.scores.data.ptr
        return None if self.all_allowed is None else self.all_allowed[int(ptr[self.first]) : int(ptr[self.last])]

    def tilted(self, batch: ChainBatch, first: int) -> list[Piece]:
        """Return the batch under the energies in pieces; unchanged without energies."""
        if self.tilt is None:
            return [(np.arange(batch.n_sequences), batch)]
        pieces, report = self.tilt(batch, first)
        self.reports.append(report)
        return pieces


def _restore_chunk(
    data: ChainData,
    layout: ChainLayout,
    constraints: Constraints,
    allowed: NDArray[np.bool_] | None,
    tilt: Tilt | None,
    offset: int,
) -> _Chunk:
    """Return a chunk that was sent to a worker."""
    return _Chunk(ChainScores(data, layout, constraints), allowed, tilt, 0, data.source_index.size, offset)


def for_each_sequence(
    scores: ChainScores,
    weights: FloatArray,
    work: Work,
    allowed: NDArray[np.bool_] | None,
    n_jobs: int | None,
    tilt: Tilt | None = None,
) -> list[Any]:
    """Return one result per sequence, computed in chunks that do not depend on the number of workers.

    If the constraints exclude every labelling of a sequence, and `allowed` does not restrict it, the constraints are
    ignored for that sequence, so that every sequence has a result. With `tilt`, the results are those under energies.

    Raises
    ------
    InvalidInputError
        If `allowed` and the constraints exclude every labelling of a sequence.
    """
    calls = [partial(_work_on_chunk, chunk, weights, work) for chunk in _chunks(scores, weights, allowed, tilt)]
    return [result for results in _gather(calls, n_jobs, tilt) for result in results]


def _gather(calls: list[Any], n_jobs: int | None, tilt: Tilt | None) -> list[Any]:
    """Return the results of all chunks; warn if inference under energies did not converge in a chunk."""
    pairs = run_by_workers(calls, n_jobs)
    if tilt is not None:
        reports = [report for _, reports in pairs for report in reports]
        warn_unless_all_converged(reports, "sequences", tilt.method)
    return [results for results, _ in pairs]


def _work_on_chunk(chunk: _Chunk, weights: FloatArray, work: Work) -> tuple[list[Any], list[ProjectionReport]]:
    return _results(chunk, weights, work), chunk.reports


def _results(chunk: _Chunk, weights: FloatArray, work: Work) -> list[Any]:
    scores, first, allowed = chunk.scores, chunk.first, chunk.allowed

    def results_of(batch: ChainBatch, index: int) -> list[Any]:
        results = [None] * batch.n_sequences
        for indices, piece in chunk.tilted(batch, index):
            for i, result in zip(indices.tolist(), work(piece, chunk.offset + index + int(indices[0])), strict=True):
                results[i] = result
        return results

    batch = scores.batch(weights, first, chunk.last, table=chunk.table)
    if allowed is not None:
        batch = batch.restricted(allowed)
    if allowed is None and not scores.constraints.any:
        return results_of(batch, first)
    is_possible = chain_log_partition(batch) > -np.inf
    if is_possible.all():
        return results_of(batch, first)
    results = []
    for s in range(batch.n_sequences):
        sequence = batch.part(s, s + 1)
        if not is_possible[s]:
            if allowed is not None and not allowed[batch.ptr[s] : batch.ptr[s + 1]].all():
                i = int(scores.data.source_index[first + s])
                raise InvalidInputError(
                    f"allowed[{i}] excludes every labelling of X[{i}] that forbidden= and scheme= permit. Allow more "
                    f"labels for this sequence."
                )
            sequence = scores.batch(weights, first + s, first + s + 1, constrained=False, table=chunk.table)
        results += results_of(sequence, first + s)
    return results


def _chunks(
    scores: ChainScores, weights: FloatArray, allowed: NDArray[np.bool_] | None, tilt: Tilt | None
) -> list[_Chunk]:
    # Inference under energies is many small operations per chunk, so its chunks are larger.
    ptr = scores.data.ptr
    ranges = cut_in_chunks(ptr) if tilt is None else cut_in_chunks(ptr, TILTED_CHUNK)
    table = scores.features.spread(scores.layout.unpack(weights).states)
    return [_Chunk(scores, allowed, tilt, first, last, table=table) for first, last in ranges]


def _cut(batch: ChainBatch, flat: NDArray[Any]) -> list[NDArray[Any]]:
    return np.split(flat, batch.ptr[1:-1], axis=-1) if flat.ndim == 2 else np.split(flat, batch.ptr[1:-1])


def best_labels(batch: ChainBatch, first: int) -> list[Any]:
    """Return the most probable labelling of each sequence (MAP, by Viterbi)."""
    return _cut(batch, viterbi(batch)[0])


def likely_labels(batch: ChainBatch, first: int) -> list[Any]:
    """Return the most probable label of each position."""
    return _cut(batch, chain_marginals(batch, transitions=None).nodes.argmax(axis=1))


def label_probabilities(batch: ChainBatch, first: int) -> list[Any]:
    """Return the posterior marginals (T, n_labels) of each sequence."""
    return np.split(chain_marginals(batch, transitions=None).nodes, batch.ptr[1:-1])


def several_best(n_best: int) -> Work:
    """Return a function that returns labellings with their log-probabilities, the most probable first."""
    return partial(_several_best, n_best=n_best)


def _several_best(batch: ChainBatch, first: int, n_best: int) -> list[Any]:
    paths, scores = best_paths(batch, n_best)
    log_partition = chain_log_partition(batch)
    results = []
    for s, rows in enumerate(_cut(batch, paths)):
        n = int((scores[:, s] > -np.inf).sum())
        results.append([(rows[r], float(scores[r, s] - log_partition[s])) for r in range(n)])
    return results


def draws(n_samples: int, seed: int) -> Work:
    """Return a function that draws labellings (n_samples, T) of each sequence from the posterior."""
    return partial(_draws, n_samples=n_samples, seed=seed)


def _draws(batch: ChainBatch, first: int, n_samples: int, seed: int) -> list[Any]:
    return _cut(batch, sample_paths(batch, n_samples, np.random.default_rng([seed, first])))


def log_probabilities(
    scores: ChainScores, weights: FloatArray, allowed: NDArray[np.bool_], n_jobs: int | None, tilt: Tilt | None = None
) -> FloatArray:
    """Return the log-probability that all labels of each sequence are allowed; -inf if that is forbidden."""
    calls = [partial(_log_probabilities, chunk, weights) for chunk in _chunks(scores, weights, allowed, tilt)]
    return np.concatenate([np.empty(0), *_gather(calls, n_jobs, tilt)])


def _log_probabilities(chunk: _Chunk, weights: FloatArray) -> tuple[FloatArray, list[ProjectionReport]]:
    scores = chunk.scores.batch(weights, chunk.first, chunk.last, table=chunk.table)
    clamped, free = np.empty(scores.n_sequences), np.empty(scores.n_sequences)
    for indices, piece in chunk.tilted(scores, chunk.first):
        allowed = chunk.allowed[rows_of(scores.ptr, indices)[0]]
        clamped[indices], free[indices] = chain_log_partition(piece.restricted(allowed)), chain_log_partition(piece)
    is_possible = clamped > -np.inf
    # The difference of two sums may exceed 0 by rounding.
    result = np.where(is_possible, np.minimum(clamped - np.where(is_possible, free, 0.0), 0.0), -np.inf)
    return result, chunk.reports
