"""Chunking quality (F1) of CRFsuite and of Intarsia on the same sentences with the same features."""

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

C2 = 0.7  # CRFsuite's c2: as in `intarsia reproduce chunking`, where it was chosen on training sentences
# Stopping rule of CRFsuite: norm of the gradient relative to the norm of the weights, and maximum number of iterations.
_EPSILON, _MAX_ITERATIONS = 5e-4, 1000


class Sentences(NamedTuple):
    """Features and tags of training and test sentences."""

    X: list[Any]
    y: list[list[str]]
    test_X: list[Any]
    test_y: list[list[str]]


def chunk_sentences() -> Sentences:
    """Load the features and tags of all sentences of CoNLL-2000.

    Raises
    ------
    MissingDataError
        The files are missing.
    """
    data = load_conll2000()
    fields: list[Any] = []
    for subset in (data.train, data.test):
        fields += [[chunk_features(*pair) for pair in zip(subset.words, subset.pos or [], strict=True)], subset.tags]
    return Sentences(*fields)


def chunk_row(sentences: Sentences) -> Row:
    """Measure training time and test F1 of both programs with the same L2 regularization; each is fitted once.

    Segments are counted as conlleval does. Both models have weights only for labels that occur with a feature. Ours
    also has scores of first and last labels, and never predicts an invalid sequence of tags.
    """
    start = time.perf_counter()
    crf = ChainCRF(learner=MaximumLikelihood(l2=2.0 * C2), scheme="bio").fit(sentences.X, sentences.y)
    ours = time.perf_counter() - start
    seconds, peer_fields = None, dict[str, Any]()
    peer = find_peer("crfsuite")
    if peer is not None:
        with peer:
            seconds, peer_fields = _train_peer(peer, crf, sentences)
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
        **peer_fields,
    )


def _train_peer(peer: Peer, crf: ChainCRF, sentences: Sentences) -> tuple[float, Row]:
    """Train CRFsuite and tag the test sentences; return the seconds of training and the other fields of its row."""
    matrix, ptr = crf.vectorizer_.transform_stacked(sentences.X)
    rows = sparse.csr_array(matrix)
    labels = np.searchsorted(crf.classes_, np.concatenate([np.asarray(tags) for tags in sentences.y]))
    loaded = peer.load(row_ptr=rows.indptr, columns=rows.indices, ptr=ptr, labels=labels, every_pair=False)
    training = peer.ask("train", c2=C2, max_iterations=_MAX_ITERATIONS, epsilon=_EPSILON)
    matrix, ptr = crf.vectorizer_.transform_stacked(sentences.test_X)  # neither model has weights for new features
    rows = sparse.csr_array(matrix)
    peer.hand("tag", row_ptr=rows.indptr, columns=rows.indices, ptr=ptr)
    tags = np.split(crf.classes_[peer.fetch("tags").astype(int)], ptr[1:-1])
    seconds = float(loaded["seconds"]) + float(training["seconds"][-1])
    return seconds, {
        "peer_quality": _f1(sentences, [sequence.tolist() for sequence in tags]),
        "peer_iterations": len(training["losses"]),
        "peer_version": loaded["version"],
    }


def _f1(sentences: Sentences, predicted: list[list[str]]) -> float:
    return 100.0 * segment_scores(sentences.test_y, predicted).f1
