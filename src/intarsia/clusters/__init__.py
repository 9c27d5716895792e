"""Records into entities: partitions, worlds, proposers, decoding."""

from intarsia.clusters.adaptive import AdaptiveSplitMerge
from intarsia.clusters.cem_decode import CEMDecode
from intarsia.clusters.choices import Choices, ProposalWeights, choices_of
from intarsia.clusters.cluster_model import ClusterModel
from intarsia.clusters.constraints import Constraints, link_constraints
from intarsia.clusters.coreference import sample_coreference
from intarsia.clusters.decoding import Agglomeration, Clustering, Decoder, HillClimbing, MetropolisHastings, decode
from intarsia.clusters.metric import PartitionMetric
from intarsia.clusters.pair_features import PairFeatures, dense_pair_features, pair_features
from intarsia.clusters.partition import Move, Partition
from intarsia.clusters.proposers import SplitMerge
from intarsia.clusters.world import ClusterWorld

__all__ = [
    "AdaptiveSplitMerge",
    "Agglomeration",
    "CEMDecode",
    "Choices",
    "ClusterModel",
    "ClusterWorld",
    "Clustering",
    "Constraints",
    "Decoder",
    "HillClimbing",
    "MetropolisHastings",
    "Move",
    "PairFeatures",
    "Partition",
    "PartitionMetric",
    "ProposalWeights",
    "SplitMerge",
    "choices_of",
    "decode",
    "dense_pair_features",
    "link_constraints",
    "pair_features",
    "sample_coreference",
]
