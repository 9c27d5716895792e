"""Ranking loss and coreference probabilities against enumeration of all choices of antecedents."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from intarsia_reproduction.coreference import Document, Mention, load_tales
from intarsia_reproduction.coreference.antecedents import (
    AntecedentScores,
    RankingCosts,
    RankingLoss,
    coreference_probabilities,
)
from intarsia_reproduction.coreference.mentions import mention_table
from intarsia_reproduction.coreference.pair_features import antecedent_pairs
from intarsia_reproduction.coreference.resolver import correlation_clusters

TEXT = Document(
    "a",
    [["Ann", "saw", "Bob", "and", "his", "sister"], ["She", "told", "Ann", "about", "him"]],
    [Mention(0, 0, 0), Mention(0, 2, 2), Mention(0, 4, 4), Mention(0, 4, 5), Mention(1, 0, 0), Mention(1, 2, 2)],
)
ENTITY = np.array([0, 1, 2, 1, 0, 0])


def scores_of(text: Document, seed: int, max_distance: int = 3) -> AntecedentScores:
    rng = np.random.default_rng(seed)
    pairs = antecedent_pairs(text, max_distance)
    return AntecedentScores(pairs, rng.normal(size=pairs.mention.size), rng.normal(size=pairs.table.n_mentions))


def forests(scores: AntecedentScores):
    """Yield each choice of antecedents (-1: new) with its probability."""
    pairs = scores.pairs
    choices = []
    for j in range(pairs.table.n_mentions):
        candidates = slice(pairs.ptr[j], pairs.ptr[j + 1])
        weights = np.exp(np.append(scores.links[candidates], scores.new[j]))
        weights /= weights.sum()
        choices.append(list(zip([*pairs.antecedent[candidates].tolist(), -1], weights, strict=True)))
    for forest in itertools.product(*choices):
        yield [antecedent for antecedent, _ in forest], float(np.prod([weight for _, weight in forest]))


def trees(antecedents: list[int]) -> np.ndarray:
    labels = list(range(len(antecedents)))
    for j, antecedent in enumerate(antecedents):
        labels[j] = j if antecedent < 0 else labels[antecedent]
    return np.array(labels)


@pytest.mark.parametrize("seed", range(3))
def test_coreference_probabilities_equal_enumeration(seed):
    scores = scores_of(TEXT, seed)
    expected, total = np.zeros((6, 6)), 0.0
    for antecedents, probability in forests(scores):
        labels = trees(antecedents)
        expected += probability * (labels[:, None] == labels)
        total += probability
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(coreference_probabilities(scores), expected, atol=1e-12)


@pytest.mark.parametrize("hidden", [None, 2])
def test_ranking_loss_equals_enumeration(hidden):
    pairs = antecedent_pairs(TEXT, 3)
    entity = ENTITY.copy()
    if hidden is not None:
        entity[hidden] = -1
    rng = np.random.default_rng(0)
    loss = RankingLoss([pairs], [entity], RankingCosts(0.0, 0.0, 0.0), 0.0)
    weights = 0.3 * rng.normal(size=loss.n_weights)
    n = pairs.features.shape[1]
    scores = AntecedentScores(pairs, pairs.features @ weights[:n], pairs.new_features @ weights[n:])
    right = 0.0
    for antecedents, probability in forests(scores):
        correct = True
        for j, antecedent in enumerate(antecedents):
            if j == hidden:
                continue
            candidates = pairs.antecedent[pairs.ptr[j] : pairs.ptr[j + 1]]
            possible = {int(a) for a in candidates if entity[a] == entity[j]} or {-1}
            correct &= antecedent in possible
        right += probability * correct
    assert loss(weights)[0] == pytest.approx(-np.log(right))


def test_gradient_equals_finite_differences():
    tales = load_tales()[:2]
    pairs = [antecedent_pairs(tale, 5) for tale in tales]
    entities = [
        np.unique(np.array(tale.entities)[p.table.order], return_inverse=True)[1]
        for tale, p in zip(tales, pairs, strict=True)
    ]
    entities[0][3] = -1
    loss = RankingLoss(pairs, entities, RankingCosts(0.5, 1.5, 0.7), 0.3)
    rng = np.random.default_rng(1)
    weights = 0.2 * rng.normal(size=loss.n_weights)
    gradient = loss(weights)[1]
    for direction in rng.normal(size=(4, loss.n_weights)):
        step = 1e-5 * direction / np.linalg.norm(direction)
        slope = (loss(weights + step)[0] - loss(weights - step)[0]) / 2e-5
        assert slope == pytest.approx(float(gradient @ direction) / np.linalg.norm(direction), rel=1e-5, abs=1e-6)


def partitions(n: int):
    """Yield all clusterings of n mentions as labels."""

    def extend(labels):
        if len(labels) == n:
            yield np.array(labels)
            return
        for label in range(max(labels, default=-1) + 2):
            yield from extend([*labels, label])

    yield from extend([])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cost", [0.0, 0.4])
def test_clusters_have_the_best_score(seed, cost):
    table = mention_table(TEXT)
    rng = np.random.default_rng(seed)
    probabilities = rng.random((6, 6))
    probabilities = (probabilities + probabilities.T) / 2
    conflict = np.zeros((6, 6), dtype=bool)
    for codes in (table.gender, table.number):
        conflict |= (codes[:, None] != codes) & (codes[:, None] > 0) & (codes > 0)
    assert conflict.any()
    weight = np.triu(probabilities - 0.35 - cost * conflict, 1)

    def score(labels):
        return float((weight * (labels[:, None] == labels)).sum())

    labels = correlation_clusters(table, probabilities, 0.35, cost)
    assert score(labels) == pytest.approx(max(score(candidate) for candidate in partitions(6)))
