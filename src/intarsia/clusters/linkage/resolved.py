"""Results of an `EntityClusterer`: clusters by `resolve`, and sampled probabilities of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia._core.worker_threads import run_by_workers
from intarsia.clusters.components import Links, split_into_batches
from intarsia.clusters.entity_worlds import TrainedWeights, sample_batch, world_values
from intarsia.clusters.linkage.inputs import SidedId, read_model_input
from intarsia.clusters.partition import canonical_labels
from intarsia.clusters.record_pairs import RecordPairs, ids_of
from intarsia.clusters.resolution.pair_columns import in_type_of
from intarsia.clusters.resolution.resolve import Resolution, resolve
from intarsia.clusters.resolution.scored_pairs import ScoredPairs, read_scored_pairs

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

# Weights of the model that `resolve` optimizes; the weight of absent pairs is that of the calibration.
RESOLVED_WEIGHTS = {"within match": 1.0, "absent": 0.0}


def resolve_records(
    record_pairs: RecordPairs,
    log_odds: FloatArray,
    links: Links,
    time_limit: float | None = None,
) -> Resolution:
    """Cluster records by the log odds of their candidate pairs; ids of the result are the numbers of the records.

    Examples
    --------
    >>> none = np.empty((0, 2), np.int64)
    >>> three = RecordPairs(list("abc"), np.arange(3), np.array([[0, 2]]), np.ones((1, 1)), ("f",))
    >>> resolve_records(three, np.array([2.0]), Links(none, none)).labels
    array([0, 1, 0])
    """
    source = None
    if links.source is not None:
        source = {record: int(code) for record, code in enumerate(links.source) if code >= 0}
    return resolve(
        ScoredPairs(list(range(record_pairs.n_records)), record_pairs.pairs, log_odds, None, "log_odds", 0),
        source=source,
        must_link=links.must.tolist(),
        cannot_link=links.cannot.tolist(),
        time_limit=time_limit,
    )


def edge_resolution(
    model: EntityClusterer, X: Any, right: Any, edges: Any, must_link: Sequence[Any], cannot_link: Sequence[Any]
) -> Resolution:
    """Resolve records by scored pairs alone."""
    sources = read_model_input(model, X, right, edges, reads_columns=False).sources
    ids = ids_of(X, model.id_column)
    score_column = None if model.edge_scores is None else model.edge_scores[0]
    pairs = read_scored_pairs(edges, ids, id_columns=model.edge_ids, score_column=score_column, with_tables=False)
    return resolve(
        pairs,
        source=None if sources is None else dict(zip(ids, sources, strict=True)),
        must_link=must_link,
        cannot_link=cannot_link,
    )


def resolve_edges(
    model: EntityClusterer, X: Any, right: Any, edges: Any, must_link: Sequence[Any], cannot_link: Sequence[Any]
) -> IntArray:
    """Return the entity of each record from scored pairs alone, as integers from 0 by first occurrence."""
    resolution = edge_resolution(model, X, right, edges, must_link, cannot_link)
    label_of = dict(zip(resolution.pairs.ids, resolution.labels.tolist(), strict=True))
    ids = in_type_of(ids_of(X, model.id_column), resolution.pairs.ids)
    return canonical_labels(np.array([label_of[name] for name in ids], dtype=np.int64))


def sampled_probabilities(
    record_pairs: RecordPairs,
    log_odds: FloatArray,
    links: Links,
    trained: TrainedWeights,
    rng: np.random.Generator,
    n_jobs: int | None,
    *,
    n_samples: int,
    temperature: float,
) -> FloatArray:
    """Return the fraction of sampled clusterings in which the records of each candidate pair are together."""
    values = world_values(record_pairs, log_odds, trained.features)
    batches = split_into_batches(record_pairs, links, log_odds)
    calls = [
        partial(sample_batch, batch, values[batch.rows], trained, stream, n_samples=n_samples, temperature=temperature)
        for batch, stream in zip(batches, rng.spawn(len(batches)), strict=True)
    ]
    probability = np.zeros(len(record_pairs.pairs))
    for batch, fractions in zip(batches, run_by_workers(calls, n_jobs), strict=True):
        probability[batch.rows] = fractions
    return probability


def pair_table(record_pairs: RecordPairs, probability: FloatArray) -> dict[str, list[Any]]:
    """Return the candidate pairs and the pairs of equal rows as columns, in the order of the rows."""
    copies = np.setdiff1d(np.arange(len(record_pairs.ids)), record_pairs.first_row)
    ends = np.concatenate(
        [
            record_pairs.first_row[record_pairs.pairs],
            np.column_stack([record_pairs.first_row[record_pairs.record_of[copies]], copies]),
        ]
    )
    of_pairs = np.concatenate([probability, np.ones(len(copies))])
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ids = [name[1] if isinstance(name, SidedId) else name for name in record_pairs.ids]
    return {
        "id1": [ids[row] for row in ends[order, 0]],
        "id2": [ids[row] for row in ends[order, 1]],
        "probability": of_pairs[order].tolist(),
    }
