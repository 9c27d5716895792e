"""Features of clusters on Cora citations: labelled training beside greedy merging, on 29 splits."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from intarsia.clusters import AllEqual, DistinctValues, EntityClusterer, PairAggregate
from intarsia.clusters.blocking import SharedTokens
from intarsia.datasets.customers import EntityRecords
from intarsia.exceptions import InvalidInputError
from intarsia.learning.sample_rank import SampleRank
from intarsia.metrics import clustering_scores
from intarsia_reproduction.experiment import Experiment, Finding, Task, load_findings
from intarsia_reproduction.experiments.entities import _CORA, split_by_entity

_METRICS = {"b_cubed": "B-cubed F1", "pairwise": "pairwise F1"}
_METHODS = ("with cluster features", "without", "greedy merging")
ABOVE, BELOW, LOW, HIGH = "splits above greedy", "splits below greedy", "gain, low end", "gain, high end"
_N_SPLITS = 29


def cluster_features(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the F1 of training with cluster features, without them, and of greedy merging.

    Examples
    --------
    >>> [task.key for task in cluster_features(quick=True).tasks]
    ['cora-0', 'cora-1', 'cora-all']
    """

    @cache
    def records() -> EntityRecords:
        from intarsia_reproduction.datasets import load_cora_citations

        return load_cora_citations(data)

    names = [f"{metric}, {method}" for metric in _METRICS.values() for method in _METHODS]
    columns: dict[str, float | None] = dict.fromkeys(names)
    splits = [
        Task(f"cora-{k}", f"Cora, split {k}", columns, "F1", partial(_run, k, records))
        for k in range(2 if quick else _N_SPLITS)
    ]
    summary: dict[str, float | None] = dict.fromkeys((*names, ABOVE, BELOW, LOW, HIGH))
    mean = Task("cora-all", f"Cora, mean of {len(splits)} splits", summary, "F1", partial(_mean, splits))
    return Experiment(
        "cluster-features",
        "Features of clusters: labelled training beside greedy merging",
        [*splits, mean],
        lambda findings: {},
        "1,295 citations of 112 papers (Cora), split by entity",
        question="Is labelled training with features of clusters above greedy merging by the log odds of pairs?",
    )


def _run(seed: int, records: Any, checkpoint: Path) -> Finding:
    table = records()
    rows = split_by_entity(table.entity, seed)
    train, test = (table.take(half) for half in rows)
    settings: dict[str, Any] = {
        "comparisons": _CORA,
        "blocking": SharedTokens(["title", "authors"], max_records=150, min_shared=2),
    }
    features = [
        DistinctValues("year"),
        DistinctValues("volume"),
        DistinctValues("pages"),
        AllEqual("title"),
        PairAggregate("representative"),
        PairAggregate("between"),
    ]
    models = (
        EntityClusterer(cluster_features=features, **settings),
        EntityClusterer(**settings),
        EntityClusterer(learner=SampleRank(max_iter=0), decoder="agglomeration", **settings),
    )
    values, decisions = {}, {}
    for method, model in zip(_METHODS, models, strict=True):
        scores = clustering_scores(test.entity, model.fit(train.columns, train.entity).predict(test.columns))
        for metric, title in _METRICS.items():
            values[f"{title}, {method}"] = float(getattr(scores, metric).f1)
        decisions[method] = model.decision_
    return Finding(values, len(test), settings={"seed": seed, "train": len(train), "test": len(test), **decisions})


def _mean(splits: list[Task], checkpoint: Path) -> Finding:
    """Return the means, the number of splits above greedy merging by both measures, and an interval of the gain."""
    findings = list(load_findings(splits, checkpoint.parent).values())
    if not findings:
        raise InvalidInputError(
            f"reproduce cluster-features: the mean needs the results of its splits, such as {splits[0].key}. Run "
            f"these first."
        )
    values: dict[str, float] = {
        name: float(np.mean([finding.values[name] for finding in findings])) for name in findings[0].values
    }
    ours, greedy = (
        np.array([[finding.values[f"{title}, {method}"] for title in _METRICS.values()] for finding in findings])
        for method in (_METHODS[0], _METHODS[2])
    )
    gains = ours - greedy
    rng = np.random.default_rng(0)
    means = gains[rng.integers(0, len(gains), (2000, len(gains)))].mean(axis=1)[:, 0]
    values[ABOVE], values[BELOW] = float((gains > 0).all(axis=1).sum()), float((gains < 0).all(axis=1).sum())
    values[LOW], values[HIGH] = (float(np.quantile(means, q)) for q in (0.025, 0.975))
    return Finding(values, len(findings), settings={"splits": len(findings)})
