"""Entities from the pair scores of Splink: `resolve` without labels compared with other clusterings of the scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters import best_threshold, connected_components
from intarsia.exceptions import MissingDataError
from intarsia.metrics import clustering_scores
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.clustering_baselines import (
    Linkage,
    LinkageTree,
    best_cut,
    best_links,
    greedy_merging,
    greedy_one_to_one,
)
from intarsia_reproduction.workloads.linkage_workloads import linkage_records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {
    "cora": "Cora",
    "febrl1": "Febrl 1",
    "febrl2": "Febrl 2",
    "febrl3": "Febrl 3",
    "historical": "historical persons",
    "fake": "Splink's fake persons",
    "sites": "childhood sites",
    "customers": "make_customers",
    "products": "products, two tables",
}
_QUICK = ("fake", "products")
_FIGURES = ("pairwise F1", "B-cubed F1", "processor s", "gap")
_ONE_TO_ONE = ("single-best-links", "greedy-one-to-one", "resolve-competition", "resolve-source-odds")
_PROBABILITIES = np.array(
    [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 0.99999, 0.999999]
)
_DEDUPE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class Scored:
    """Records of a set with the pairs that Splink scored.

    Attributes
    ----------
    truth : int array (n_records,)
        Entity of each record.
    pairs : int array (n_pairs, 2)
        Scored pairs, with the smaller record first.
    match_weight : float array (n_pairs,)
        Splink's match weight of each pair: log odds to the base 2, prior included.
    source : list of str, optional
        Table of each record, if there are several.
    splink : Peer, optional
        Process of Splink, which still has the scores.
    """

    truth: IntArray
    pairs: IntArray
    match_weight: FloatArray
    source: list[str] | None = None
    splink: Peer | None = None

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.truth)

    @property
    def log_odds(self) -> FloatArray:
        """Natural log odds of each pair."""
        return np.asarray(self.match_weight * np.log(2.0))

    @property
    def probability(self) -> FloatArray:
        """Match probability of each pair."""
        return np.asarray(1.0 / (1.0 + np.exp2(-self.match_weight)))


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of a method, its processor seconds, and its threshold or gap if it has one."""

    labels: IntArray
    seconds: float
    threshold: float | None = None
    gap: float | None = None


def resolve(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with F1, processor seconds and gap of clusterings of the same scored pairs.

    Splink 5 scores the pairs without labels. Thresholds called best are chosen on the truth, in favour of the method.
    The quick version has two small sets.

    Examples
    --------
    >>> [task.key for task in resolve(quick=True).tasks][:3]
    ['fake-components-best', 'fake-components-50', 'fake-components-95']
    """

    scored = cache(partial(score_records, data=data))
    tasks = []
    for name in _QUICK if quick else _NAMES:
        for method, (label, _) in METHODS.items():
            if method in _ONE_TO_ONE and name != "products":
                continue
            figures = {figure: None for figure in _FIGURES if figure != "gap" or method.startswith("resolve")}
            run = partial(_run, name, method, scored)
            tasks.append(Task(f"{name}-{method}", f"{_NAMES[name]}: {label}", figures, "F1, s, fraction", run))
    return Experiment(
        "resolve",
        "Entities from Splink's pair scores: resolve beside other clusterings",
        tasks,
        _figures,
        "1,295 citations (Cora), synthetic persons (Febrl, Splink's fake_1000, make_customers), 50,578 historical "
        "persons (Splink), 3,337 childhood sites (dedupe), two synthetic product catalogues",
        question="Are clusters without labels and threshold as good as those of other methods at their best threshold?",
    )


def score_records(name: str, data: Path | None = None) -> Scored:
    """Score the pairs of a set with Splink, in its own environment, which stays alive for its clusterings.

    Raises
    ------
    MissingDataError
        Splink's environment does not exist.
    """
    model, records = linkage_records(name, data)
    peer = find_peer("splink")
    if peer is None:
        raise MissingDataError(
            "reproduce resolve: the environment of Splink does not exist. Create it with "
            "`python reproduction/setup_peers.py splink`."
        )
    peer.__enter__()  # it ends with this process
    columns = {key: np.array([value or "" for value in values]) for key, values in records.columns.items()}
    peer.load(model=model, **columns)
    sources = records.columns.get("source_dataset")
    source = None if sources is None else [str(value) for value in sources]
    return Scored(records.entity, peer.fetch("pairs"), peer.fetch("match_weight"), source, peer)


def _timed(cluster: Callable[[], IntArray]) -> Clusters:
    """Return the clusters of a function and the processor seconds of the faster of two runs: the first may compile."""
    seconds = []
    for _ in range(2):
        start = time.process_time()
        labels = cluster()
        seconds.append(time.process_time() - start)
    return Clusters(labels, min(seconds))


def _components_best(scored: Scored) -> Clusters:
    threshold, _ = best_threshold(scored.n_records, scored.pairs, scored.match_weight, scored.truth, "pairwise")
    clusters = _timed(lambda: connected_components(scored.n_records, scored.pairs, scored.match_weight, threshold))
    return Clusters(clusters.labels, clusters.seconds, threshold)


def _by_splink(do: str, scored: Scored, threshold: float) -> Clusters:
    """Cluster with Splink at a match probability."""
    if scored.splink is None:
        raise MissingDataError(f"reproduce resolve: {do} needs the process of Splink. Score the records with it.")
    seconds = scored.splink.ask(do, threshold=threshold)["processor_seconds"]
    return Clusters(scored.splink.fetch("labels"), float(seconds), threshold)


def _single_best_links(scored: Scored) -> Clusters:
    seconds: dict[float, float] = {}

    def cut(threshold: float) -> IntArray:
        clusters = _by_splink("single_best_links", scored, threshold)
        seconds[threshold] = clusters.seconds
        return clusters.labels

    threshold, labels = best_cut(scored.truth, _PROBABILITIES[:-3], cut)
    return Clusters(labels, seconds[threshold], threshold)


def _tree(method: Linkage, scored: Scored) -> Clusters:
    arguments = (scored.n_records, scored.pairs, scored.probability, method)
    tree = LinkageTree(*arguments, _PROBABILITIES)
    threshold = best_cut(scored.truth, _PROBABILITIES, tree.cut)[0]
    clusters = _timed(lambda: LinkageTree(*arguments, np.array([tree.lowest])).cut(threshold))
    return Clusters(clusters.labels, clusters.seconds, threshold)


def _cut_of_links(cluster: Callable[..., IntArray], scored: Scored) -> Clusters:
    cut = partial(cluster, scored.n_records, scored.pairs, scored.match_weight)
    weights = np.log2(_PROBABILITIES / (1 - _PROBABILITIES))
    threshold = best_cut(scored.truth, weights, cut)[0]
    clusters = _timed(lambda: cut(threshold))
    return Clusters(clusters.labels, clusters.seconds, threshold)


def _greedy(scored: Scored) -> Clusters:
    return _timed(lambda: greedy_merging(scored.n_records, scored.pairs, scored.log_odds))


def _dedupe(scored: Scored) -> Clusters:
    peer = find_peer("dedupe")
    if peer is None:
        raise MissingDataError(
            "reproduce resolve: the environment of dedupe does not exist. Create it with "
            "`python reproduction/setup_peers.py dedupe`."
        )
    seconds: dict[float, float] = {}
    with peer:
        peer.load(n_records=scored.n_records, pairs=scored.pairs, probability=scored.probability)

        def cut(threshold: float) -> IntArray:
            seconds[threshold] = float(peer.ask("cluster", threshold=threshold)["processor_seconds"])
            return np.asarray(peer.fetch("labels"))

        threshold, labels = best_cut(scored.truth, np.array(_DEDUPE), cut)
    return Clusters(labels, seconds[threshold], threshold)


def _resolve(scored: Scored, **settings: Any) -> Clusters:
    from intarsia.clusters import resolve as resolve_pairs

    edges = {"id_l": scored.pairs[:, 0], "id_r": scored.pairs[:, 1], "match_weight": scored.match_weight}
    gaps = []

    def cluster() -> IntArray:
        result = resolve_pairs(edges, np.arange(scored.n_records), **settings)
        gaps.append(result.gap)
        return np.asarray(result.table["entity"])[np.argsort(result.table["id"])]

    clusters = _timed(cluster)
    return Clusters(clusters.labels, clusters.seconds, gap=gaps[-1])


def _resolve_source(scored: Scored, **settings: Any) -> Clusters:
    return _resolve(scored, source=dict(enumerate(scored.source or [])), **settings)


METHODS: dict[str, tuple[str, Callable[[Scored], Clusters]]] = {
    "components-best": ("components, best threshold", _components_best),
    "components-50": ("components, Splink at 0.5", partial(_by_splink, "components", threshold=0.5)),
    "components-95": ("components, Splink at 0.95", partial(_by_splink, "components", threshold=0.95)),
    "best-links": ("best link of each record, best threshold", partial(_cut_of_links, best_links)),
    "complete": ("complete linkage, best threshold", partial(_tree, "complete")),
    "average": ("average linkage, best threshold", partial(_tree, "average")),
    "greedy": ("greedy merging of log odds", _greedy),
    "dedupe": ("dedupe's clustering, best threshold", _dedupe),
    "single-best-links": ("Splink's single best links, best threshold", _single_best_links),
    "greedy-one-to-one": ("one-to-one, best first, best threshold", partial(_cut_of_links, greedy_one_to_one)),
    "resolve": ("resolve, automatic calibration", partial(_resolve, calibrate="auto")),
    "resolve-competition": (
        "resolve, one record per table, by competition",
        partial(_resolve_source, calibrate="competition"),
    ),
    "resolve-source-odds": (
        "resolve, one record per table, scores as they are",
        partial(_resolve_source, calibrate=None),
    ),
}


def _run(name: str, method: str, scored: Callable[[str], Scored], checkpoint: Path) -> Finding:
    records = scored(name)
    clusters = METHODS[method][1](records)
    scores = clustering_scores(records.truth, clusters.labels)
    values = dict(zip(_FIGURES, (scores.pairwise.f1, scores.b_cubed.f1, clusters.seconds), strict=False))
    settings: dict[str, Any] = {"n_pairs": len(records.pairs), "n_clusters": len(np.unique(clusters.labels))}
    if clusters.threshold is not None:
        settings["threshold"] = clusters.threshold
    if clusters.gap is not None:
        values["gap"] = clusters.gap
    return Finding(values, records.n_records, settings=settings)


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    """Draw nothing: the table has all results."""
    return {}
