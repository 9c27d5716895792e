"""Coreference in LitBank: `CoreferenceResolver` beside logistic regression with equal features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import InvalidInputError
from intarsia.metrics import clustering_scores
from intarsia_reproduction.coreference import CoreferenceResolver, Document
from intarsia_reproduction.coreference import Mention as DocumentMention
from intarsia_reproduction.coreference.document import entity_codes
from intarsia_reproduction.coreference.pair_features import AntecedentPairs, antecedent_pairs
from intarsia_reproduction.datasets import CoreferenceText
from intarsia_reproduction.experiment import Experiment, Finding, Task, load_findings
from intarsia_reproduction.models.cluster_costs import COSTS, gains_of_costs
from intarsia_reproduction.models.intervals import N_BOOTSTRAP, bootstrap_interval
from intarsia_reproduction.models.mention_features import cut_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAINS = ("pairwise F1", "B-cubed F1", "CoNLL score")
METRICS = ("pairwise F1", "B-cubed F1", "MUC F1", "CEAF-e F1", "CoNLL score")
LOGISTIC, TUNED, RANKING, RESOLVER = "logistic", "logistic-tuned", "ranking", "resolver"
SYSTEMS = {
    LOGISTIC: "baseline: logistic regression, best antecedent",
    TUNED: "baseline: the same with a threshold chosen on the training texts",
    RANKING: "latent antecedents, best antecedent",
    RESOLVER: "CoreferenceResolver",
}
_SHORT = {
    LOGISTIC: "logistic regression",
    TUNED: "logistic regression with chosen threshold",
    RANKING: "best antecedent",
}
_N_FOLDS, _N_INNER, _N_PASSAGES = 5, 3, 30
_DISTANCE = CoreferenceResolver().max_distance
_THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)

Split = tuple[list[Document], list[Document]]


def coreference(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the scores of four systems on whole books and on passages, and their differences.

    The quick version has six books in two folds, and passages of six books.

    Examples
    --------
    >>> [task.key for task in coreference(quick=True).tasks][:4]
    ['books-fold0', 'books-fold1', 'books-logistic', 'books-logistic-tuned']
    """
    n_folds, n_books, n_passages = (2, 6, 3) if quick else (_N_FOLDS, 100, _N_PASSAGES)

    @cache
    def texts() -> list[CoreferenceText]:
        from intarsia_reproduction.datasets import load_litbank

        return load_litbank(data)

    def fold(k: int) -> Split:
        documents = [as_document(text) for text in texts()[:n_books]]
        fold_of = np.random.default_rng(0).permutation(len(documents)) % n_folds
        train = [document for document, number in zip(documents, fold_of, strict=True) if number != k]
        return train, [document for document, number in zip(documents, fold_of, strict=True) if number == k]

    def passages(_: int) -> Split:
        return split_passages(texts(), n_passages)

    tasks: list[Task] = []
    for name, n, split in (("books", n_folds, fold), ("passages", 1, passages)):
        figures: dict[str, float | None] = {SYSTEMS[RESOLVER]: None}
        folds = [
            Task(
                f"{name}-fold{k}",
                f"{name}, fold {k}",
                figures,
                "CoNLL score",
                partial(_compare, split, k),
            )
            for k in range(n)
        ]
        tasks += folds
        for system, label in SYSTEMS.items():
            run = partial(_mean, folds, system)
            tasks.append(Task(f"{name}-{system}", f"{name}, {label}", dict.fromkeys(METRICS), "mean over texts", run))
        for system in (LOGISTIC, TUNED, RANKING):
            gains = {f"{metric}{end}": None for metric in GAINS for end in ("", ", low", ", high")}
            label = f"{name}, gain over {_SHORT[system]}"
            tasks.append(Task(f"{name}-gain-{system}", label, gains, "difference", partial(_gain, folds, system)))
    costs = dict.fromkeys(f"{name}{end}" for name in ("search only", *COSTS) for end in ("", ", low", ", high"))
    label = "books, gain by the best of two costs of a feature of clusters, within the training books of fold 0"
    run = partial(_cluster_costs, fold)
    tasks.append(
        Task("books-cluster-costs", label, costs, "difference in CoNLL score", run, significant=2, separate=True)
    )
    return Experiment(
        "coreference",
        "Coreference in LitBank: latent antecedents with correlation clustering, and logistic regression",
        tasks,
        _figures,
        "LitBank, 100 books in five folds; and the 30 passages of `reproduce samplerank`, learned from 30 others",
        question="Do clusters from all pairs beat the best antecedent of each mention, with the same features?",
    )


def split_passages(texts: Sequence[CoreferenceText], n_passages: int = _N_PASSAGES) -> Split:
    """Return the passages from which `reproduce samplerank` learns, and its test passages."""
    documents = [as_document(text) for text in cut_texts(texts, 2 * n_passages)]
    return documents[n_passages:], documents[:n_passages]


def as_document(text: CoreferenceText) -> Document:
    """Return a text of LitBank as a document, with its kinds and categories.

    Examples
    --------
    >>> from intarsia_reproduction.datasets import Mention
    >>> as_document(CoreferenceText("a", [["Ann"]], [Mention(0, 0, 0, 5, "PROP", "PER")])).entities
    [5]
    """
    mentions = [DocumentMention(m.sentence, m.start, m.end, m.kind, m.category) for m in text.mentions]
    return Document(text.name, text.sentences, mentions, [m.entity for m in text.mentions])


# ---------------------------------------------------------------- baseline


def fit_logistic(pairs: Sequence[AntecedentPairs], entities: Sequence[IntArray]) -> FloatArray:
    """Return the weights of scikit-learn's logistic regression of coreferent pairs on the features of the resolver."""
    from sklearn.linear_model import LogisticRegression

    features = vstack([document.features for document in pairs]).tocsr()
    is_match = np.concatenate(
        [entity[p.antecedent] == entity[p.mention] for p, entity in zip(pairs, entities, strict=True)]
    )
    # The regularization equals the resolver's l2=1; one of the features is a constant.
    model = LogisticRegression(C=1.0, fit_intercept=False, max_iter=200, tol=1e-3)
    return np.asarray(model.fit(features, is_match).coef_[0])


def best_antecedents(pairs: AntecedentPairs, weights: FloatArray, threshold: float = 0.5) -> IntArray:
    """Return the clusters in which each mention joins its most probable antecedent, if that exceeds the threshold."""
    scores = pairs.features @ weights
    labels = np.arange(pairs.table.n_mentions)
    for mention in range(labels.size):
        first, last = pairs.ptr[mention], pairs.ptr[mention + 1]
        if last > first:
            best = first + int(np.argmax(scores[first:last]))
            if scores[best] > np.log(threshold / (1.0 - threshold)):
                labels[mention] = labels[pairs.antecedent[best]]
    return labels


def choose_threshold(pairs: Sequence[AntecedentPairs], entities: Sequence[IntArray]) -> float:
    """Return the threshold with the highest CoNLL score in cross-validation over the training texts."""
    totals = dict.fromkeys(_THRESHOLDS, 0.0)
    for fold in range(_N_INNER):
        train = [k for k in range(len(pairs)) if k % _N_INNER != fold]
        weights = fit_logistic([pairs[k] for k in train], [entities[k] for k in train])
        for k in range(fold, len(pairs), _N_INNER):
            for threshold in _THRESHOLDS:
                labels = best_antecedents(pairs[k], weights, threshold)
                totals[threshold] += clustering_scores(entities[k], labels).conll
    return max(totals, key=lambda threshold: totals[threshold])


def link_antecedents(documents: Sequence[Document], weights: FloatArray, threshold: float) -> list[IntArray]:
    """Return the clusters of each document in which each mention joins its most probable antecedent."""
    clusters = []
    for document in documents:
        pairs = antecedent_pairs(document, _DISTANCE)
        labels = np.empty(document.n_mentions, dtype=np.int64)
        labels[pairs.table.order] = best_antecedents(pairs, weights, threshold)
        clusters.append(labels)
    return clusters


def score_logistic(split: Split) -> FloatArray:
    """Return the scores of logistic regression with best antecedents on the test texts, (n_texts, n_metrics)."""
    train, test = split
    pairs = [antecedent_pairs(document, _DISTANCE) for document in train]
    entities = [entity_codes(document)[p.table.order] for document, p in zip(train, pairs, strict=True)]
    clusters = link_antecedents(test, fit_logistic(pairs, entities), 0.5)
    return np.array([_scores(document, labels) for document, labels in zip(test, clusters, strict=True)])


# ---------------------------------------------------------------- tasks


def _compare(split: Callable[[int], Split], k: int, _: Path) -> Finding:
    """Score all systems on the test texts of a split."""
    train, test = split(k)
    train_pairs = [antecedent_pairs(document, _DISTANCE) for document in train]
    entities = [entity_codes(document)[p.table.order] for document, p in zip(train, train_pairs, strict=True)]
    weights, threshold = fit_logistic(train_pairs, entities), choose_threshold(train_pairs, entities)
    resolver = CoreferenceResolver().fit(train)
    clusters: dict[str, list[Any]] = {
        LOGISTIC: link_antecedents(test, weights, 0.5),
        TUNED: link_antecedents(test, weights, threshold),
        RESOLVER: resolver.predict(test),
        RANKING: resolver.set_params(decode="best_antecedent").predict(test),
    }
    arrays: dict[str, NDArray[Any]] = {
        system: np.array([_scores(document, labels) for document, labels in zip(test, clusters[system], strict=True)])
        for system in SYSTEMS
    }
    settings = {
        "learned from": len(train), "baseline threshold": threshold, "threshold": resolver.threshold_,
        "conflict_cost": resolver.conflict_cost_, "status": resolver.status_.name, "n_iter": resolver.n_iter_,
    }  # fmt: skip
    return Finding({SYSTEMS[RESOLVER]: float(arrays[RESOLVER][:, -1].mean())}, len(test), arrays, settings)


def _scores(document: Document, labels: IntArray) -> list[float]:
    scores = clustering_scores(entity_codes(document), labels)
    return [scores.pairwise.f1, scores.b_cubed.f1, scores.muc.f1, scores.ceaf_e.f1, scores.conll]


def _all_texts(folds: Sequence[Task], system: str, checkpoint: Path) -> FloatArray:
    """Return the scores of all test texts, (n_texts, n_metrics); raise if a fold was not run."""
    findings = load_findings(folds, checkpoint.parent)
    missing = [task.key for task in folds if task.key not in findings]
    if missing:
        raise InvalidInputError(f"reproduce coreference: {missing[0]} has not been run. Run all folds first.")
    return np.concatenate([findings[task.key].arrays[system] for task in folds])


def _mean(folds: Sequence[Task], system: str, checkpoint: Path) -> Finding:
    scores = _all_texts(folds, system, checkpoint)
    return Finding(dict(zip(METRICS, scores.mean(axis=0).tolist(), strict=True)), len(scores))


def _gain(folds: Sequence[Task], system: str, checkpoint: Path) -> Finding:
    """Return the mean gain of the resolver with 95 % intervals, by a paired bootstrap over the texts."""
    gains = _all_texts(folds, RESOLVER, checkpoint) - _all_texts(folds, system, checkpoint)
    values: dict[str, float] = {}
    for metric in GAINS:
        k = METRICS.index(metric)
        low, high = bootstrap_interval(gains[:, k])
        values |= {metric: float(gains[:, k].mean()), f"{metric}, low": low, f"{metric}, high": high}
    return Finding(values, len(gains), settings={"interval": "95 %, paired bootstrap over texts", "draws": N_BOOTSTRAP})


def _cluster_costs(split: Callable[[int], Split], _: Path) -> Finding:
    """Return the gain of each feature of clusters by its better cost, in cross-validation over training books."""
    train = split(0)[0][::2]  # every second book, to save time
    threshold, conflict_cost = 0.3, 0.3  # as the resolver chose in fold 0
    by_cost = gains_of_costs(train, threshold, conflict_cost)
    values: dict[str, float] = {}
    for feature in ("search only", *COSTS):
        gains = max((g for name, g in by_cost.items() if name.split(", cost")[0] == feature), key=np.mean)
        low, high = bootstrap_interval(gains)
        values |= {feature: float(gains.mean()), f"{feature}, low": low, f"{feature}, high": high}
    means = {name: float(gains.mean()) for name, gains in by_cost.items()}
    settings = {"threshold": threshold, "conflict_cost": conflict_cost, "gains": means}
    return Finding(values, len(train), settings=settings)


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    return {}
