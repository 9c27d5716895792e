"""Scores of predicted clusters of mentions over all documents, as by the official scorer of CoNLL-2012."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from intarsia._core.error_context import errors_from
from intarsia._core.validation import IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.clusterings import ClusteringScores, clustering_scores
from intarsia_reproduction.coreference.document import Document, entity_codes


@errors_from("score_clusters")
def score_clusters(documents: Sequence[Document], clusters: Sequence[Sequence[int] | IntArray]) -> ClusteringScores:
    """Score predicted clusters over the mentions of all documents; mentions of unknown entity are ignored.

    Parameters
    ----------
    documents : list of Document
        Documents with true entities.
    clusters : list of integer sequences
        Cluster of each mention of each document.

    Examples
    --------
    >>> from intarsia_reproduction.coreference.document import Mention
    >>> text = Document("a", [["Ann", "lost", "her", "hat"]], [Mention(0, 0, 0), Mention(0, 2, 2)], ["Ann", "Ann"])
    >>> score_clusters([text], [[0, 0]]).conll
    1.0
    """
    if len(documents) != len(clusters):
        raise InvalidInputError(
            f"there are {len(documents)} documents, but clusters of {len(clusters)}. Pass one list for each document."
        )
    true: list[Any] = []
    predicted: list[Any] = []
    for k, (document, labels) in enumerate(zip(documents, clusters, strict=True)):
        if len(labels) != document.n_mentions:
            raise InvalidInputError(
                f"document {document.name!r} has {document.n_mentions} mentions, but {len(labels)} clusters. Pass one "
                f"cluster per mention."
            )
        true += [None if code < 0 else (k, int(code)) for code in entity_codes(document)]
        predicted += [(k, label) for label in labels]
    return clustering_scores(true, predicted)


@errors_from("score_documents")
def score_documents(true: Sequence[Document], predicted: Sequence[Document]) -> ClusteringScores:
    """Score predicted documents, whose mentions can differ from the true ones; documents match by name and part.

    Examples
    --------
    >>> from intarsia_reproduction.coreference.document import Mention
    >>> text = Document("a", [["Ann", "lost", "her", "hat"]], [Mention(0, 0, 0), Mention(0, 2, 2)], [1, 1])
    >>> missed = Document("a", text.sentences, [Mention(0, 0, 0)], [7])
    >>> score_documents([text], [missed]).b_cubed
    Agreement(precision=1.0, recall=0.25)
    """
    names, predicted_names = (
        {(document.name, document.part_number) for document in side} for side in (true, predicted)
    )
    if names != predicted_names:
        name, part_number = sorted(names ^ predicted_names)[0]
        raise InvalidInputError(
            f"document {name!r}, part {part_number}, is in one file only. Predict all documents of the true file, and "
            f"keep their names."
        )
    return clustering_scores(_labels_of_mentions(true), _labels_of_mentions(predicted))


def _labels_of_mentions(documents: Sequence[Document]) -> dict[Hashable, Any]:
    """Return the entity of each mention, by document and place."""
    labels: dict[Hashable, Any] = {}
    for document in documents:
        key = (document.name, document.part_number)
        for mention, code in zip(document.mentions, entity_codes(document), strict=True):
            if code >= 0:
                labels[(*key, *mention[:3])] = (key, int(code))
    return labels
