"""Coreference with features of whole clusters: candidate sets of features, chosen inside the training passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters import (
    AllEqual,
    ClusterFeature,
    ClusterModel,
    ClusterWorld,
    DistinctValues,
    NoKnownValue,
    decode,
)
from intarsia.clusters.cluster_features.feature_world import make_feature_world
from intarsia.learning import SampleRank
from intarsia.metrics import clustering_scores
from intarsia_reproduction.models.mention_features import Passage

PAIRS_ONLY = "sums over pairs only"
_AGREEMENT = [DistinctValues(column) for column in ("gender", "number", "category", "person")]
_NAMES = [DistinctValues("name"), AllEqual("name"), DistinctValues("description")]
_NO_NAME, _NO_WORD = [NoKnownValue("name")], [NoKnownValue("word")]
_SIZES = (1, 2, 3, 5, 10)
# Sizes that are counted, and features of clusters, of each candidate model.
CANDIDATES: dict[str, tuple[Sequence[int], list[ClusterFeature]]] = {
    PAIRS_ONLY: ((), []),
    "sizes": (_SIZES, []),
    "distinct genders, numbers, categories and persons": ((), [*_AGREEMENT]),
    "distinct and equal names, distinct descriptions": ((), [*_NAMES]),
    "entities without a name": ((), [*_NO_NAME]),
    "entities of pronouns only": ((), [*_NO_WORD]),
    "all": (_SIZES, [*_AGREEMENT, *_NAMES, *_NO_NAME, *_NO_WORD]),
}
N_FOLDS, N_SEEDS, N_PASSES = 5, 2, 3


def make_world(passage: Passage, candidate: str = PAIRS_ONLY, **settings: Any) -> ClusterWorld:
    """Return the world of a passage with the features of a candidate model.

    Examples
    --------
    >>> from intarsia.clusters import dense_pair_features
    >>> columns = {"name": ["ann", None]}
    >>> passage = Passage("a", dense_pair_features(np.ones((2, 2, 1))), np.zeros(2, dtype=np.int64), columns)
    >>> make_world(passage, "entities without a name").feature_names
    ('within f0', 'unknown name')
    """
    sizes, features = CANDIDATES[candidate]
    model = ClusterModel(absent=False, sizes=sizes)
    return make_feature_world(passage.pairs, model, features, passage.columns, **settings)


def learn_weights(
    passages: Sequence[Passage], n_passes: int, candidate: str = PAIRS_ONLY, random_state: int = 0
) -> FloatArray:
    """Learn weights by SampleRank with default settings in `n_passes` passes over labelled passages."""
    worlds = [make_world(passage, candidate, truth=passage.entity) for passage in passages]
    return SampleRank(max_iter=n_passes, random_state=random_state).fit_worlds(worlds).point


def cluster_mentions(passages: Sequence[Passage], weights: FloatArray, candidate: str = PAIRS_ONLY) -> list[IntArray]:
    """Return the clusters of each passage by hill climbing under the weights of a candidate model."""
    return [decode(make_world(passage, candidate), weights).state for passage in passages]


def cross_validate(passages: Sequence[Passage], candidate: str) -> float:
    """Return the mean of pairwise and B-cubed F1 of a candidate model in cross-validation over labelled passages."""
    scores = []
    for fold in range(N_FOLDS):
        train, test = [p for k, p in enumerate(passages) if k % N_FOLDS != fold], passages[fold::N_FOLDS]
        for seed in range(N_SEEDS):
            weights = learn_weights(train, N_PASSES, candidate, seed)
            for passage, labels in zip(test, cluster_mentions(test, weights, candidate), strict=True):
                score = clustering_scores(passage.entity, labels)
                scores.append((score.pairwise.f1 + score.b_cubed.f1) / 2.0)
    return float(np.mean(scores))


def choose_features(passages: Sequence[Passage]) -> tuple[str, dict[str, float]]:
    """Return the candidate with the highest score in cross-validation over labelled passages, and all scores."""
    scores = {candidate: cross_validate(passages, candidate) for candidate in CANDIDATES}
    return max(scores, key=lambda candidate: scores[candidate]), scores
