"""Entity resolution on Cora citations and Febrl persons, compared with connected components and agglomeration."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import IntArray
from intarsia.clusters import EntityClusterer, ThresholdClusterer
from intarsia.clusters.blocking import SharedTokens
from intarsia.datasets.customers import EntityRecords
from intarsia.exceptions import InvalidInputError
from intarsia.learning.sample_rank import SampleRank
from intarsia.metrics import clustering_scores
from intarsia_reproduction.experiment import Experiment, Finding, Task, load_findings

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
    "cora": {"mean": range(13, 21), "chosen": range(13)},
    "febrl1": {"mean": range(13, 18)},
    "febrl2": {"mean": range(13, 18)},
    "febrl3": {"mean": range(13, 18)},
}
_QUICK = {"cora": {"mean": range(13, 15)}, "febrl1": {"mean": range(13, 15)}}
_LABEL_OF_GROUP = {"mean": "", "chosen": " that settings were chosen on"}
_METRICS = ("b_cubed", "pairwise")
_TITLES = {"b_cubed": "B-cubed F1", "pairwise": "pairwise F1"}
_METHODS = ("ours", "components", "agglomeration")
ABOVE = "splits above components"


def entities(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the F1 of three clustering methods, each learned on one half of the entities.

    All methods have the same pair features. Halves are drawn by entity, so that the test half has no entity of the
    training half. Components are cut at the log odds that were best on the training half, by B-cubed and by pairwise
    F1; the table shows the better result on the test half. Agglomeration merges greedily by the log odds. The quick
    version has two splits of two data sets.

    Examples
    --------
    >>> [task.key for task in entities(quick=True).tasks]
    ['cora-13', 'cora-14', 'cora-mean', 'febrl1-13', 'febrl1-14', 'febrl1-mean']
    """

    @cache
    def records(name: str) -> EntityRecords:
        return _load(name, data)

    tasks = []
    columns: dict[str, float | None] = {_column(metric, method): None for metric in _METRICS for method in _METHODS}
    for name, groups in (_QUICK if quick else _SPLITS).items():
        for group, seeds in groups.items():
            splits = [
                Task(f"{name}-{k}", f"{_NAMES[name]}, split {k}", columns, "F1", partial(_run, name, k, records))
                for k in seeds
            ]
            label = f"{_NAMES[name]}, mean of {len(seeds)} splits{_LABEL_OF_GROUP[group]}"
            mean = Task(f"{name}-{group}", label, {**columns, ABOVE: None}, "F1", partial(_mean, splits))
            tasks += [*splits, mean]
    return Experiment(
        "entities",
        "Records into entities: EntityClusterer beside connected components and agglomeration",
        tasks,
        _figures,
        "1,295 citations of 112 papers (Cora); made-up persons (Febrl), 1,000 and twice 5,000 records; split by entity",
        question="Do learned clusterings of records beat connected components with the same pair scores?",
    )


def _column(metric: str, method: str) -> str:
    return f"{_TITLES[metric]}, {method}"


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


def compare_methods(train: EntityRecords, test: EntityRecords, **features: Any) -> dict[str, float]:
    """Return the F1 of all methods on `test` after learning on `train`; `features` are comparisons and blocking."""
    # Without an epoch the weights are the initial ones: the log odds, and -1 for pairs that are not candidates.
    greedy = EntityClusterer(learner=SampleRank(max_iter=0), decoder="agglomeration", **features)
    contenders: dict[str, list[Any]] = {
        "ours": [EntityClusterer(**features)],
        "components": [ThresholdClusterer(metric=metric, **features) for metric in _METRICS],
        "agglomeration": [greedy],
    }
    values = {}
    for method, models in contenders.items():
        results = [
            clustering_scores(test.entity, model.fit(train.columns, train.entity).predict(test.columns))
            for model in models
        ]
        for metric in _METRICS:
            values[_column(metric, method)] = max(getattr(scores, metric).f1 for scores in results)
    return values


def _run(name: str, seed: int, records: Any, checkpoint: Path) -> Finding:
    table = records(name)
    train, test = split_by_entity(table.entity, seed)
    features: dict[str, Any] = {"comparisons": _FEBRL}
    if name == "cora":
        blocking = SharedTokens(["title", "authors"], max_records=150, min_shared=2)
        features = {"comparisons": _CORA, "blocking": blocking}
    values = compare_methods(table.take(train), table.take(test), **features)
    return Finding(values, len(test), settings={"seed": seed, "train": len(train), "test": len(test)})


def _mean(splits: list[Task], checkpoint: Path) -> Finding:
    findings = list(load_findings(splits, checkpoint.parent).values())
    if not findings:
        raise InvalidInputError(
            f"reproduce entities: the mean needs the results of its splits, such as {splits[0].key}. Run these first."
        )
    values = {name: float(np.mean([finding.values[name] for finding in findings])) for name in findings[0].values}
    above = [
        all(split.values[_column(metric, "ours")] > split.values[_column(metric, "components")] for metric in _METRICS)
        for split in findings
    ]
    return Finding({**values, ABOVE: float(sum(above))}, len(findings), settings={"splits": len(findings)})


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
        for method in _METHODS:
            values = np.array([splits[int(seed)].values[_column(metric, method)] for seed in seeds])
            lines.append(Line(method, seeds, values, marker="o", dashes=""))
        panels.append(LinePanel(f"Cora, {_TITLES[metric]}", lines))
    return {"entities-cora": plot_lines(panels, x_label="split", y_label="F1 on the test half", n_columns=2)}
