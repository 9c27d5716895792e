"""What a fitted chain model says of sequences: chunk by chunk, and an answer for each, whatever is forbidden."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains import best_paths, chain_log_partition, chain_marginals, sample_paths, viterbi
from intarsia.learning.chain_data import TILTED_CHUNK, ChainScores, cut_in_chunks
from intarsia.learning.worker_threads import run_in_threads

Work = Callable[[ChainBatch, int], list[Any]]
"""From a batch and the number of its first sequence to an answer for each of its sequences."""

Tilt = Callable[[ChainBatch, int], ChainBatch]
"""From a batch and the number of its first sequence to the batch with what energies take from its scores."""


def for_each_sequence(
    scores: ChainScores,
    weights: FloatArray,
    work: Work,
    allowed: NDArray[np.bool_] | None,
    where: str,
    n_jobs: int | None,
    tilt: Tilt | None = None,
) -> list[Any]:
    """Answers for all sequences, in chunks fixed by the data.

    A sequence for which everything is forbidden, without the user having forced labels on it, is worked as if nothing
    were: a tagger always answers. With `tilt` the answers are those of the tilted models.

    Raises
    ------
    InvalidInputError
        `allowed` leaves a sequence no labelling.
    """

    def answer(batch: ChainBatch, first: int) -> list[Any]:
        return work(batch if tilt is None else tilt(batch, first), first)

    def chunk(first: int, last: int) -> list[Any]:
        batch = scores.batch(weights, first, last)
        a, b = int(scores.data.ptr[first]), int(scores.data.ptr[last])
        own = None if allowed is None else allowed[a:b]
        if own is not None:
            batch = batch.restricted(own)
        if own is None and not scores.constraints.any:
            return answer(batch, first)
        possible = chain_log_partition(batch) > -np.inf
        if possible.all():
            return answer(batch, first)
        found = []
        for s in range(batch.n_sequences):
            one = batch.part(s, s + 1)
            if not possible[s]:
                if own is not None and not own[batch.ptr[s] : batch.ptr[s + 1]].all():
                    i = int(scores.data.kept[first + s])
                    raise InvalidInputError(
                        f"{where}: allowed[{i}] leaves X[{i}] no labelling that forbidden= and scheme= permit. Allow "
                        f"more labels there."
                    )
                one = scores.batch(weights, first + s, first + s + 1, constrained=False)
            found += answer(one, first + s)
        return found

    calls = [partial(chunk, first, last) for first, last in _chunks(scores, tilt)]
    return [one for part in run_in_threads(calls, n_jobs) for one in part]


def _chunks(scores: ChainScores, tilt: Tilt | None) -> list[tuple[int, int]]:
    # Tilting is many small operations for each chunk.
    return cut_in_chunks(scores.data.ptr) if tilt is None else cut_in_chunks(scores.data.ptr, TILTED_CHUNK)


def _cut(batch: ChainBatch, flat: NDArray[Any]) -> list[NDArray[Any]]:
    return np.split(flat, batch.ptr[1:-1], axis=-1) if flat.ndim == 2 else np.split(flat, batch.ptr[1:-1])


def best_labels(batch: ChainBatch, first: int) -> list[Any]:
    """The best labelling of each sequence."""
    return _cut(batch, viterbi(batch)[0])


def likely_labels(batch: ChainBatch, first: int) -> list[Any]:
    """The most probable label of each position."""
    return _cut(batch, chain_marginals(batch, transitions=None).nodes.argmax(axis=1))


def label_probabilities(batch: ChainBatch, first: int) -> list[Any]:
    """Marginals (T, n_labels) of each sequence."""
    return np.split(chain_marginals(batch, transitions=None).nodes, batch.ptr[1:-1])


def several_best(n_best: int) -> Work:
    """For each sequence, labellings with their log-probabilities, the best first."""

    def work(batch: ChainBatch, first: int) -> list[Any]:
        paths, scores = best_paths(batch, n_best)
        log_partition = chain_log_partition(batch)
        found = []
        for s, rows in enumerate(_cut(batch, paths)):
            n = int((scores[:, s] > -np.inf).sum())
            found.append([(rows[r], float(scores[r, s] - log_partition[s])) for r in range(n)])
        return found

    return work


def draws(n_samples: int, seed: int) -> Work:
    """For each sequence, labellings (n_samples, T) drawn by their probabilities."""

    def work(batch: ChainBatch, first: int) -> list[Any]:
        return _cut(batch, sample_paths(batch, n_samples, np.random.default_rng([seed, first])))

    return work


def log_probabilities(
    scores: ChainScores,
    weights: FloatArray,
    allowed: NDArray[np.bool_],
    n_jobs: int | None,
    tilt: Tilt | None = None,
) -> FloatArray:
    """Log-probability that the labels of each sequence are among those allowed; -inf where that is forbidden."""

    def chunk(first: int, last: int) -> FloatArray:
        batch = scores.batch(weights, first, last)
        batch = batch if tilt is None else tilt(batch, first)
        a, b = int(scores.data.ptr[first]), int(scores.data.ptr[last])
        clamped, free = chain_log_partition(batch.restricted(allowed[a:b])), chain_log_partition(batch)
        possible = clamped > -np.inf
        # The difference of two sums may exceed 0 by rounding.
        return np.where(possible, np.minimum(clamped - np.where(possible, free, 0.0), 0.0), -np.inf)

    calls = [partial(chunk, first, last) for first, last in _chunks(scores, tilt)]
    return np.concatenate([np.empty(0), *run_in_threads(calls, n_jobs)])
