"""What a fitted chain model says of sequences: chunk by chunk, and an answer for each, whatever is forbidden."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import run_by_workers
from intarsia.exceptions import InvalidInputError
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import (
    best_paths,
    chain_log_partition,
    chain_marginals,
    sample_paths,
    viterbi,
)
from intarsia.learning.projection_report import ProjectionReport, warn_unless_all_converged
from intarsia.models.chain_scores import ChainLayout
from intarsia.sequences.chain_data import TILTED_CHUNK, ChainData, ChainScores, Constraints, cut_in_chunks

Work = Callable[[ChainBatch, int], list[Any]]
"""From a batch and the number of its first sequence to an answer for each of its sequences."""


class Tilt(Protocol):
    """From a batch and the number of its first sequence to the batch with what energies take from its scores."""

    @property
    def method(self) -> Any:
        """Method of inference under the energies."""

    def __call__(self, batch: ChainBatch, first: int) -> tuple[ChainBatch, ProjectionReport]:
        """The tilted batch, and whether inference under the energies converged."""

    def part(self, first: int, last: int) -> Tilt:
        """The same for sequences `first` .. `last` - 1, numbered from 0."""


class _Asked:
    """Some of the sequences, and the model they are asked about; only these travel to workers.

    `before` is the number of the first one among all, where they are no more with the others.
    """

    def __init__(
        self,
        scores: ChainScores,
        allowed: NDArray[np.bool_] | None,
        tilt: Tilt | None,
        first: int,
        last: int,
        before: int = 0,
    ) -> None:
        self.scores, self.allowed, self.tilt = scores, allowed, tilt
        self.first, self.last, self.before = first, last, before
        self.reports: list[ProjectionReport] = []

    def __reduce__(self) -> tuple[Any, ...]:
        scores, first, last = self.scores, self.first, self.last
        own = None if self.allowed is None else self.own_allowed
        tilt = None if self.tilt is None else self.tilt.part(first, last)
        chosen = scores.data.subset(np.arange(first, last))
        return _asked, (chosen, scores.layout, scores.constraints, own, tilt, self.before + first)

    @property
    def own_allowed(self) -> Any:
        """Labels that are possible in these sequences, or None."""
        ptr = self.scores.data.ptr
        return None if self.allowed is None else self.allowed[int(ptr[self.first]) : int(ptr[self.last])]

    def tilted(self, batch: ChainBatch, first: int) -> ChainBatch:
        """The batch under the energies, if there are any."""
        if self.tilt is None:
            return batch
        found, report = self.tilt(batch, first)
        self.reports.append(report)
        return found


def _asked(
    data: ChainData,
    layout: ChainLayout,
    constraints: Constraints,
    allowed: NDArray[np.bool_] | None,
    tilt: Tilt | None,
    before: int,
) -> _Asked:
    """The sequences as they arrive."""
    return _Asked(ChainScores(data, layout, constraints), allowed, tilt, 0, data.kept.size, before)


def for_each_sequence(
    scores: ChainScores,
    weights: FloatArray,
    work: Work,
    allowed: NDArray[np.bool_] | None,
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
    calls = [partial(_answer, asked, weights, work) for asked in _chunks(scores, allowed, tilt)]
    return [one for part in _gather(calls, n_jobs, tilt) for one in part]


def _gather(calls: list[Any], n_jobs: int | None, tilt: Tilt | None) -> list[Any]:
    """Answers of all chunks; warns if inference under energies did not converge in some."""
    found = run_by_workers(calls, n_jobs)
    if tilt is not None:
        reports = [report for _, reports in found for report in reports]
        warn_unless_all_converged(reports, "sequences", tilt.method, "projection")
    return [answers for answers, _ in found]


def _answer(asked: _Asked, weights: FloatArray, work: Work) -> tuple[list[Any], list[ProjectionReport]]:
    return _answers(asked, weights, work), asked.reports


def _answers(asked: _Asked, weights: FloatArray, work: Work) -> list[Any]:
    scores, first, own = asked.scores, asked.first, asked.own_allowed

    def answer(batch: ChainBatch, at: int) -> list[Any]:
        return work(asked.tilted(batch, at), asked.before + at)

    batch = scores.batch(weights, first, asked.last)
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
                    f"allowed[{i}] leaves X[{i}] no labelling that forbidden= and scheme= permit. Allow "
                    f"more labels there."
                )
            one = scores.batch(weights, first + s, first + s + 1, constrained=False)
        found += answer(one, first + s)
    return found


def _chunks(scores: ChainScores, allowed: NDArray[np.bool_] | None, tilt: Tilt | None) -> list[_Asked]:
    # Tilting is many small operations for each chunk.
    ptr = scores.data.ptr
    cuts = cut_in_chunks(ptr) if tilt is None else cut_in_chunks(ptr, TILTED_CHUNK)
    return [_Asked(scores, allowed, tilt, first, last) for first, last in cuts]


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
    return partial(_several_best, n_best=n_best)


def _several_best(batch: ChainBatch, first: int, n_best: int) -> list[Any]:
    paths, scores = best_paths(batch, n_best)
    log_partition = chain_log_partition(batch)
    found = []
    for s, rows in enumerate(_cut(batch, paths)):
        n = int((scores[:, s] > -np.inf).sum())
        found.append([(rows[r], float(scores[r, s] - log_partition[s])) for r in range(n)])
    return found


def draws(n_samples: int, seed: int) -> Work:
    """For each sequence, labellings (n_samples, T) drawn by their probabilities."""
    return partial(_draws, n_samples=n_samples, seed=seed)


def _draws(batch: ChainBatch, first: int, n_samples: int, seed: int) -> list[Any]:
    return _cut(batch, sample_paths(batch, n_samples, np.random.default_rng([seed, first])))


def log_probabilities(
    scores: ChainScores, weights: FloatArray, allowed: NDArray[np.bool_], n_jobs: int | None, tilt: Tilt | None = None
) -> FloatArray:
    """Log-probability that the labels of each sequence are among those allowed; -inf where that is forbidden."""
    calls = [partial(_log_probabilities, asked, weights) for asked in _chunks(scores, allowed, tilt)]
    return np.concatenate([np.empty(0), *_gather(calls, n_jobs, tilt)])


def _log_probabilities(asked: _Asked, weights: FloatArray) -> tuple[FloatArray, list[ProjectionReport]]:
    batch = asked.tilted(asked.scores.batch(weights, asked.first, asked.last), asked.first)
    clamped, free = chain_log_partition(batch.restricted(asked.own_allowed)), chain_log_partition(batch)
    possible = clamped > -np.inf
    # The difference of two sums may exceed 0 by rounding.
    found = np.where(possible, np.minimum(clamped - np.where(possible, free, 0.0), 0.0), -np.inf)
    return found, asked.reports
