"""Entity resolution on Cora citations and Febrl persons, compared with connected components and agglomeration.

On Cora, training with features of whole clusters is compared too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import IntArray
from intarsia.clusters import (
    AllEqual,
    ClusterFeature,
    DistinctValues,
    EntityClusterer,
    PairAggregate,
    ThresholdClusterer,
)
from intarsia.clusters.blocking import SharedTokens
from intarsia.datasets.customers import EntityRecords
from intarsia.exceptions import InvalidInputError
from intarsia.learning.sample_rank import SampleRank
from intarsia.metrics import clustering_scores
from intarsia_reproduction.experiment import Experiment, Finding, Task, load_findings
from intarsia_reproduction.models.intervals import bootstrap_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CORA: dict[str, Any] = {
    "authors": "token_overlap",
    "title": ["token_overlap", "jaro_winkler"],
    "venue": "token_overlap",
    "year": "jaro_winkler",
    "pages": "token_overlap",
    "volume": "exact",
    "publisher": "token_overlap",
    "address": "token_overlap",
    "institution": "token_overlap",
}
_FEBRL: dict[str, Any] = {
    "given_name": "jaro_winkler",
    "surname": "jaro_winkler",
    "street_number": "exact",
    "address_1": "jaro_winkler",
    "address_2": "jaro_winkler",
    "suburb": "jaro_winkler",
    "postcode": "jaro_winkler",
    "state": "exact",
    "date_of_birth": "date",
    "soc_sec_id": "jaro_winkler",
}
_NAMES = {"cora": "Cora", "febrl1": "Febrl 1", "febrl2": "Febrl 2", "febrl3": "Febrl 3"}
# The defaults of the estimator were chosen on splits 0 to 12 of Cora; splits from 13 on were not used before.
_SPLITS = {
    "cora": {"mean": range(13, 29), "chosen": range(13)},
    "febrl1": {"mean": range(13, 18)},
    "febrl2": {"mean": range(13, 18)},
    "febrl3": {"mean": range(13, 18)},
}
_QUICK = {"cora": {"mean": range(13, 15)}, "febrl1": {"mean": range(13, 15)}}
_LABEL_OF_GROUP = {"mean": "", "chosen": " that settings were chosen on"}
_METRICS = ("b_cubed", "pairwise")
_TITLES = {"b_cubed": "B-cubed F1", "pairwise": "pairwise F1"}
_METHODS = ("ours", "components", "agglomeration")
_WITH_FEATURES = "with cluster features"
_CLUSTER_FEATURES = [
    DistinctValues("year"),
    DistinctValues("volume"),
    DistinctValues("pages"),
    AllEqual("title"),
    PairAggregate("representative"),
    PairAggregate("between"),
]
_DECISIONS = ("ranking", "resolve", "agglomeration")  # ways that training chooses from
ABOVE = "splits above components"


def entities(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the F1 of three clustering methods, each learned on one half of the entities.

    All methods have the same pair features; on Cora, ours is trained with features of clusters, too. Halves are drawn
    by entity, so that the test half has no entity of the training half. Components are cut at the log odds that were
    best on the training half, by B-cubed and by pairwise F1; the table shows the better result on the test half.
    Agglomeration merges greedily by the log odds. The quick version has two splits of two data sets.

    Examples
    --------
    >>> [task.key for task in entities(quick=True).tasks]
    ['cora-13', 'cora-14', 'cora-mean', 'cora-mean-gain', 'febrl1-13', 'febrl1-14', 'febrl1-mean', 'febrl1-mean-gain']
    """

    @cache
    def records(name: str) -> EntityRecords:
        return _load(name, data)

    tasks: list[Task] = []
    for name, groups in (_QUICK if quick else _SPLITS).items():
        methods = (*_METHODS, _WITH_FEATURES) if name == "cora" else _METHODS
        columns = _columns(methods)
        all_splits: list[Task] = []
        for group, seeds in groups.items():
            splits = [
                Task(f"{name}-{k}", f"{_NAMES[name]}, split {k}", columns, "F1", partial(_run, name, k, records))
                for k in seeds
            ]
            label = f"{_NAMES[name]}, mean of {len(seeds)} splits{_LABEL_OF_GROUP[group]}"
            tasks += [*splits, *_summaries(f"{name}-{group}", label, methods, splits)]
            all_splits += splits
        if len(groups) > 1:
            label = f"{_NAMES[name]}, mean of all {len(all_splits)} splits"
            tasks += _summaries(f"{name}-all", label, methods, all_splits)
    return Experiment(
        "entities",
        "Records into entities: EntityClusterer beside connected components and agglomeration",
        tasks,
        _figures,
        "1,295 citations of 112 papers (Cora); made-up persons (Febrl), 1,000 and twice 5,000 records; split by entity",
        question="Do learned clusterings of records beat connected components with the same pair scores?",
    )


def _summaries(key: str, label: str, methods: Sequence[str], splits: list[Task]) -> list[Task]:
    """Return the tasks with the means over some splits, and with the gains over agglomeration."""
    gains = dict.fromkeys(column for method in methods for column in _gain_columns(method))
    unit = "difference in F1 with 95 % interval over splits; number of splits"
    return [
        Task(key, label, {**_columns(methods), ABOVE: None}, "F1", partial(_mean, splits)),
        Task(f"{key}-gain", f"{label}: gain over agglomeration", gains, unit, partial(_gains, splits), separate=True),
    ]


def _columns(methods: Sequence[str]) -> dict[str, float | None]:
    return {_column(metric, method): None for metric in _METRICS for method in methods}


def _column(metric: str, method: str) -> str:
    return f"{_TITLES[metric]}, {method}"


def _gain_columns(method: str) -> list[str]:
    """Return the columns that compare one of our methods with agglomeration; none for the other methods."""
    if method not in ("ours", _WITH_FEATURES):
        return []
    gains = [f"{_column(metric, method)}, gain{end}" for metric in _METRICS for end in ("", ", low", ", high")]
    sides = [f"splits {side} agglomeration, {method}" for side in ("above", "below")]
    return [*gains, *sides, *(f"splits decided by {decision}, {method}" for decision in _DECISIONS)]


def _load(name: str, data: Path | None) -> EntityRecords:
    from intarsia_reproduction.datasets import load_cora_citations, load_febrl

    return load_cora_citations(data) if name == "cora" else load_febrl(int(name[-1]), data)


def split_by_entity(entity: IntArray, seed: int) -> tuple[IntArray, IntArray]:
    """Return the rows of a random half of the entities, and the other rows.

    Examples
    --------
    >>> train, test = split_by_entity(np.array([0, 1, 0, 1]), 0)
    >>> sorted([train.tolist(), test.tolist()])
    [[0, 2], [1, 3]]
    """
    n_entities = int(entity.max()) + 1
    first = np.random.default_rng(seed).permutation(n_entities) < n_entities // 2
    return np.flatnonzero(first[entity]), np.flatnonzero(~first[entity])


def compare_methods(
    train: EntityRecords, test: EntityRecords, cluster_features: Sequence[ClusterFeature] = (), **features: Any
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the F1 of all methods on `test` after learning on `train`, and what training chose for each of ours.

    `features` are comparisons and blocking. Features of clusters add a method.
    """
    # Without an epoch the weights are the initial ones: the log odds, and -1 for pairs that are not candidates.
    greedy = EntityClusterer(learner=SampleRank(max_iter=0), decoder="agglomeration", **features)
    contenders: dict[str, list[Any]] = {
        "ours": [EntityClusterer(**features)],
        "components": [ThresholdClusterer(metric=metric, **features) for metric in _METRICS],
        "agglomeration": [greedy],
    }
    if cluster_features:
        contenders[_WITH_FEATURES] = [EntityClusterer(cluster_features=list(cluster_features), **features)]
    values, decisions = {}, {}
    for method, models in contenders.items():
        results = [
            clustering_scores(test.entity, model.fit(train.columns, train.entity).predict(test.columns))
            for model in models
        ]
        for metric in _METRICS:
            values[_column(metric, method)] = max(getattr(scores, metric).f1 for scores in results)
        if _gain_columns(method):
            decisions[method] = models[0].decision_
    return values, decisions


def _run(name: str, seed: int, records: Any, checkpoint: Path) -> Finding:
    table = records(name)
    train, test = split_by_entity(table.entity, seed)
    features: dict[str, Any] = {"comparisons": _FEBRL}
    if name == "cora":
        blocking = SharedTokens(["title", "authors"], max_records=150, min_shared=2)
        features = {"comparisons": _CORA, "blocking": blocking, "cluster_features": _CLUSTER_FEATURES}
    values, decisions = compare_methods(table.take(train), table.take(test), **features)
    settings = {"seed": seed, "train": len(train), "test": len(test), "decisions": decisions}
    return Finding(values, len(test), settings=settings)


def _finished(splits: list[Task], checkpoint: Path) -> list[Finding]:
    """Return the results of the splits that were run; raise if there are none."""
    findings = list(load_findings(splits, checkpoint.parent).values())
    if not findings:
        raise InvalidInputError(
            f"reproduce entities: the mean needs the results of its splits, such as {splits[0].key}. Run these first."
        )
    return findings


def _mean(splits: list[Task], checkpoint: Path) -> Finding:
    findings = _finished(splits, checkpoint)
    values = {name: float(np.mean([finding.values[name] for finding in findings])) for name in findings[0].values}
    above = [
        all(split.values[_column(metric, "ours")] > split.values[_column(metric, "components")] for metric in _METRICS)
        for split in findings
    ]
    return Finding({**values, ABOVE: float(sum(above))}, len(findings), settings={"splits": len(findings)})


def _gains(splits: list[Task], checkpoint: Path) -> Finding:
    """Return the gains of our methods over agglomeration, and how many splits are above and below by both measures."""
    findings = _finished(splits, checkpoint)
    values: dict[str, float] = {}
    for method in ("ours", _WITH_FEATURES):
        if _column("b_cubed", method) in findings[0].values:
            gains = np.array([[_gain(finding, metric, method) for metric in _METRICS] for finding in findings])
            numbers = [end for column in gains.T for end in (float(column.mean()), *bootstrap_interval(column))]
            numbers += [float((sign * gains > 0).all(axis=1).sum()) for sign in (1, -1)]
            decisions = [finding.settings.get("decisions", {}).get(method) for finding in findings]
            numbers += [float(decisions.count(decision)) for decision in _DECISIONS]
            values |= dict(zip(_gain_columns(method), numbers, strict=True))
    return Finding(values, len(findings), settings={"splits": len(findings)})


def _gain(finding: Finding, metric: str, method: str) -> float:
    return finding.values[_column(metric, method)] - finding.values[_column(metric, "agglomeration")]


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    """Plot both scores of the three methods on every split of Cora."""
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    splits = {int(key[5:]): split for key, split in findings.items() if key.startswith("cora-") and key[5:].isdigit()}
    if not splits:
        return {}
    seeds = np.array(sorted(splits), dtype=float)
    panels = []
    for metric in _METRICS:
        lines = []
        for method in (*_METHODS, _WITH_FEATURES):
            values = np.array([splits[int(seed)].values[_column(metric, method)] for seed in seeds])
            lines.append(Line(method, seeds, values, marker="o", dashes=""))
        panels.append(LinePanel(f"Cora, {_TITLES[metric]}", lines))
    return {"entities-cora": plot_lines(panels, x_label="split", y_label="F1 on the test half", n_columns=2)}
