"""Records into entities: partitions, worlds, proposers, decoding."""

from intarsia.clusters.cluster_model import ClusterModel
from intarsia.clusters.constraints import Constraints, link_constraints
from intarsia.clusters.metric import PartitionMetric
from intarsia.clusters.pair_features import PairFeatures, dense_pair_features, pair_features
from intarsia.clusters.partition import Move, Partition
from intarsia.clusters.proposers import SplitMerge
from intarsia.clusters.world import ClusterWorld

__all__ = [
    "ClusterModel",
    "ClusterWorld",
    "Constraints",
    "Move",
    "PairFeatures",
    "Partition",
    "PartitionMetric",
    "SplitMerge",
    "dense_pair_features",
    "link_constraints",
    "pair_features",
]
