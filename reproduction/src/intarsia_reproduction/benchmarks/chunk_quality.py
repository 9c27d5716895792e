"""Chunks that CRFsuite and we find in the same sentences with the same features."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from intarsia.metrics import segment_scores
from intarsia.sequences import ChainCRF, MaximumLikelihood
from intarsia_reproduction.benchmarks.measurement import Row, bench_row
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.datasets.tagged_text import load_conll2000
from intarsia_reproduction.experiments.chunking import chunk_features

C2 = 0.7  # that of `reproduce chunking`, chosen on training sentences; CRFsuite's c2
# Where CRFsuite ends: norm of the gradient relative to that of the weights; and iterations at most.
_EPSILON, _MOST = 5e-4, 1000


class Sentences(NamedTuple):
    """Features and tags of sentences to learn from, and of others."""

    X: list[Any]
    y: list[list[str]]
    test_X: list[Any]
    test_y: list[list[str]]


def chunk_sentences() -> Sentences:
    """All sentences of CoNLL-2000.

    Raises
    ------
    MissingDataError
        The files are not there.
    """
    parts = load_conll2000()
    made: list[Any] = []
    for part in (parts.train, parts.test):
        made += [[chunk_features(*pair) for pair in zip(part.words, part.pos or [], strict=True)], part.tags]
    return Sentences(*made)


def chunk_row(sentences: Sentences) -> Row:
    """F1 on the test sentences, as conlleval counts segments, of both programs with one ridge; each is fitted once.

    Both have weights for the labels that occur with a feature. Ours also has scores of first and last labels, and
    predicts no tags that do not follow each other.
    """
    start = time.perf_counter()
    crf = ChainCRF(learner=MaximumLikelihood(l2=2.0 * C2), scheme="bio").fit(sentences.X, sentences.y)
    ours = time.perf_counter() - start
    seconds, more = None, dict[str, Any]()
    peer = find_peer("crfsuite")
    if peer is not None:
        with peer:
            seconds, more = _theirs(peer, crf, sentences)
    return bench_row(
        f"CoNLL-2000, {len(sentences.X)} sentences: training alone; F1 on {len(sentences.test_X)} others",
        ours,
        "CRFsuite",
        seconds,
        comparison="own rules",
        stopping=f"ours at its default tolerance, CRFsuite at a relative gradient of {_EPSILON:g}",
        wanted="F1 no lower",
        ours_quality=_f1(sentences, [labels.tolist() for labels in crf.predict(sentences.test_X)]),
        quality_is="F1 of segments, in per cent",
        ours_iterations=int(crf.n_iter_),
        **more,
    )


def _theirs(peer: Peer, crf: ChainCRF, sentences: Sentences) -> tuple[float, Row]:
    """Seconds of CRFsuite's training, and the other fields about it."""
    matrix, ptr = crf.vectorizer_.transform_stacked(sentences.X)
    rows = sparse.csr_array(matrix)
    labels = np.searchsorted(crf.classes_, np.concatenate([np.asarray(tags) for tags in sentences.y]))
    loaded = peer.load(row_ptr=rows.indptr, columns=rows.indices, ptr=ptr, labels=labels, every_pair=False)
    found = peer.ask("train", c2=C2, max_iterations=_MOST, epsilon=_EPSILON)
    matrix, ptr = crf.vectorizer_.transform_stacked(sentences.test_X)  # features that are new are no use to either
    rows = sparse.csr_array(matrix)
    peer.hand("tag", row_ptr=rows.indptr, columns=rows.indices, ptr=ptr)
    tags = np.split(crf.classes_[peer.fetch("tags").astype(int)], ptr[1:-1])
    seconds = float(loaded["seconds"]) + float(found["seconds"][-1])
    return seconds, {
        "peer_quality": _f1(sentences, [one.tolist() for one in tags]),
        "peer_iterations": len(found["losses"]),
        "peer_version": loaded["version"],
    }


def _f1(sentences: Sentences, predicted: list[list[str]]) -> float:
    return 100.0 * segment_scores(sentences.test_y, predicted).f1
