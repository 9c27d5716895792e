"""Tour stop on entity resolution: records of customers with typos are clustered into people."""

from __future__ import annotations

import time

import numpy as np

from intarsia._core.validation import IntArray
from intarsia.clusters.entity_clusterer import EntityClusterer
from intarsia.clusters.threshold_clusterer import ThresholdClusterer
from intarsia.datasets.customers import EntityRecords, make_customers
from intarsia.metrics.clusterings import clustering_scores
from intarsia.report.page_parts import Section, Table
from intarsia.tour.tour import Row, Stop

# Many records of each person, so that connected components can chain wrong links.
_N_PERSONS, _COPIES, _SLIPS, _MISSING = 300, 8, 3.0, 0.3
_COMPARED = {
    "first_name": "jaro_winkler",
    "last_name": "jaro_winkler",
    "street": "token_overlap",
    "birth_date": "date",
}


def customers_stop(seed: int = 0) -> Stop:
    """Train on some customers and resolve others; compare with connected components of the same pairs."""
    start = time.perf_counter()
    train, test = (
        make_customers(_N_PERSONS, _COPIES, typos=_SLIPS, missing=_MISSING, random_state=seed + k) for k in (0, 1)
    )
    predictions: dict[str, IntArray] = {}
    for label, clusterer in (
        ("connected components, best threshold", ThresholdClusterer(_COMPARED)),
        ("EntityClusterer", EntityClusterer(_COMPARED, random_state=seed)),
    ):
        predictions[label] = clusterer.fit(train.columns, train.entity).predict(test.columns)
    cells, rows = [], []
    for label, entities in predictions.items():
        scores = clustering_scores(test.entity, entities)
        cells.append([label, scores.pairwise.f1, scores.b_cubed.f1, int(np.unique(entities).size)])
        rows.append(Row(f"B-cubed F1, {label}", float(scores.b_cubed.f1)))
    seconds = time.perf_counter() - start
    section = Section(
        "customers",
        "Entity resolution of customer records",
        f"{len(test)} records of {test.n_entities} people, with typos and missing values: which records belong to the "
        "same person?",
        [
            Table(["method", "pairwise F1", "B-cubed F1", "predicted people"], cells),
            Table(
                ["entity", *_COMPARED], _largest(test, predictions["EntityClusterer"]), "The largest predicted entity."
            ),
        ],
        {
            "Data": f"generated, {_SLIPS:g} typos per copy on average",
            "Learned": "log odds of pairs by logistic regression, weights of clusters by SampleRank",
            "Seed": str(seed),
            "Seconds": f"{seconds:.1f}",
        },
    )
    return Stop("customers", section.title, rows, section, seconds)


def _largest(records: EntityRecords, entities: IntArray) -> list[list[str]]:
    """Return the rows of the largest predicted entity."""
    rows = np.flatnonzero(entities == np.bincount(entities).argmax())
    return [[f"person {records.entity[k]}", *(records.columns[name][k] or "" for name in _COMPARED)] for k in rows]
