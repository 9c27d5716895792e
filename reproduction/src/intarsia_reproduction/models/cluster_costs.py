"""Costs of features of whole clusters, added to the correlation clustering of `CoreferenceResolver`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters import ClusterModel, ClusterWorld, SplitMerge, dense_pair_features
from intarsia.metrics import clustering_scores
from intarsia_reproduction.coreference import CoreferenceResolver, Document
from intarsia_reproduction.coreference.document import entity_codes
from intarsia_reproduction.coreference.mentions import NOM, PRON, PROP, MentionTable, mention_table
from intarsia_reproduction.coreference.resolver import contradictions, correlation_clusters

# Two costs of each feature of a cluster; a negative cost is a reward.
COSTS: dict[str, tuple[float, ...]] = {
    "unknown word": (0.5, 1.5),
    "unknown name": (0.1, 0.3),
    "distinct name": (0.3, 1.0),
    "distinct description": (0.2, -0.2),
    "distinct gender": (0.5, 2.0),
    "distinct number": (0.5, 2.0),
    "distinct category": (0.5, 1.0),
    "size >= 1": (0.2, -0.2),
    "size >= 2": (0.2, -0.2),
}
_MODEL = ClusterModel(
    absent=False,
    sizes=(1, 2),
    distinct=["name", "description", "gender", "number", "category"],
    unknown=["word", "name"],
)
_PROPOSALS = 40  # per mention
_N_FOLDS = 3


def gains_of_costs(
    documents: Sequence[Document], threshold: float, conflict_cost: float, costs: Mapping[str, Sequence[float]] = COSTS
) -> dict[str, FloatArray]:
    """Return the gain in the CoNLL score of each document by each cost, and without one ("search only").

    The probabilities come from resolvers that were fitted to the other two thirds of the documents. The search starts
    from the correlation clustering and climbs, so "search only" shows the effect of the search alone.
    """
    costs_by_name: dict[str, dict[str, float]] = {"search only": {}} | {
        f"{name}, cost {cost:g}": {name: cost} for name in costs for cost in costs[name]
    }
    gains: dict[str, list[float]] = {name: [] for name in costs_by_name}
    for fold in range(_N_FOLDS):
        train = [document for k, document in enumerate(documents) if k % _N_FOLDS != fold]
        resolver = CoreferenceResolver(threshold=threshold, conflict_cost=conflict_cost).fit(train)
        for document in documents[fold::_N_FOLDS]:
            table = mention_table(document)
            order = table.order
            probabilities = resolver.predict_marginals([document])[0][np.ix_(order, order)]
            entity = entity_codes(document)[order]
            labels = correlation_clusters(table, probabilities, threshold, conflict_cost)
            base = clustering_scores(entity, labels).conll
            world = make_world(table, probabilities, labels, threshold, conflict_cost)
            for name, costs_of_clusters in costs_by_name.items():
                gains[name].append(_score(world, entity, costs_of_clusters) - base)
    return {name: np.array(values) for name, values in gains.items()}


def make_world(
    table: MentionTable, probabilities: FloatArray, labels: IntArray, threshold: float, conflict_cost: float
) -> ClusterWorld:
    """Return a world whose first feature is the objective of correlation clustering, with features of clusters."""
    attributes = {
        "word": np.where(table.kind == PRON, -1, table.head),
        "name": np.where(table.kind == PROP, table.head, -1),
        "description": np.where(table.kind == NOM, table.head, -1),
        "gender": np.where(table.gender > 0, table.gender, -1),
        "number": np.where(table.number > 0, table.number, -1),
        "category": table.category,
    }
    pairs = dense_pair_features(probabilities - threshold - conflict_cost * contradictions(table), ["gain"])
    proposer = SplitMerge(random=1.0, sequential=2.0, move_one=2.0)
    return ClusterWorld(pairs, _MODEL, attributes=attributes, start=labels, proposer=proposer)


def _score(world: ClusterWorld, entity: IntArray, costs: Mapping[str, float]) -> float:
    """Return the CoNLL score after hill climbing from the initial clustering."""
    weights = np.array([1.0 if name == "within gain" else -costs.get(name, 0.0) for name in world.feature_names])
    world.reset()
    world.search(weights, _PROPOSALS * world.n_sites, np.random.default_rng(0), 0.0)
    return clustering_scores(entity, world.labels).conll
