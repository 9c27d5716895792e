"""Entity resolution: comparisons, blocking, partitions, worlds, proposers, decoding and the estimators."""

from intarsia.clusters.adaptive import AdaptiveSplitMerge
from intarsia.clusters.blocking import AllPairs, SharedTokens, SharedValues, SortedNeighbourhood
from intarsia.clusters.choices import Choices, ProposalWeights, choices_of
from intarsia.clusters.cluster_features.cluster_feature import (
    AllEqual,
    ClusterFeature,
    DistinctValues,
    NoKnownValue,
    PairAggregate,
    Span,
)
from intarsia.clusters.cluster_model import ClusterModel, PairFeatures, dense_pair_features, pair_features
from intarsia.clusters.comparisons import Date, Embedding, ExactMatch, JaroWinkler, Numeric, TokenOverlap
from intarsia.clusters.components import best_threshold, connected_components
from intarsia.clusters.constraints import Constraints, link_constraints
from intarsia.clusters.decoding import Agglomeration, Clustering
from intarsia.clusters.entity_clusterer import EntityClusterer
from intarsia.clusters.entity_worlds import sample_coreference
from intarsia.clusters.partition import Move, Partition, PartitionMetric
from intarsia.clusters.proposers import SplitMerge
from intarsia.clusters.resolution.by_component import label_components, resolve_component
from intarsia.clusters.resolution.resolve import Resolution, resolve
from intarsia.clusters.reviewing.answers import Answers, read_answers
from intarsia.clusters.reviewing.review import review
from intarsia.clusters.threshold_clusterer import ThresholdClusterer
from intarsia.clusters.world import ClusterWorld
from intarsia.worlds.cem_decode import CEMDecode
from intarsia.worlds.decoder import Decoder, decode
from intarsia.worlds.hill_climbing import HillClimbing
from intarsia.worlds.jump_proposer import JumpProposer
from intarsia.worlds.metropolis_hastings import MetropolisHastings

__all__ = [
    "AdaptiveSplitMerge", "Agglomeration", "AllEqual", "AllPairs", "Answers", "CEMDecode", "Choices",
    "ClusterFeature", "ClusterModel", "ClusterWorld", "Clustering", "Constraints", "Date", "Decoder",
    "DistinctValues", "Embedding", "EntityClusterer", "ExactMatch", "HillClimbing", "JaroWinkler", "JumpProposer",
    "MetropolisHastings", "Move", "NoKnownValue", "Numeric", "PairAggregate", "PairFeatures", "Partition",
    "PartitionMetric", "ProposalWeights", "Resolution", "SharedTokens", "SharedValues", "SortedNeighbourhood",
    "Span", "SplitMerge", "ThresholdClusterer", "TokenOverlap", "best_threshold", "choices_of",
    "connected_components", "decode", "dense_pair_features", "label_components", "link_constraints",
    "pair_features", "read_answers", "resolve", "resolve_component", "review", "sample_coreference",
]  # fmt: skip
