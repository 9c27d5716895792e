"""How good an answer is: labels, segments, clusterings, rankings."""

from intarsia.metrics.clusterings import Agreement, ClusteringScores, clustering_scores
from intarsia.metrics.counts import PrecisionRecall
from intarsia.metrics.labelling import LabellingScores, labelling_scores
from intarsia.metrics.ranking import RankingScores, ranking_scores
from intarsia.metrics.segments import SegmentScores, find_segments, scheme_names, segment_scores

__all__ = [
    "Agreement",
    "ClusteringScores",
    "LabellingScores",
    "PrecisionRecall",
    "RankingScores",
    "SegmentScores",
    "clustering_scores",
    "find_segments",
    "labelling_scores",
    "ranking_scores",
    "scheme_names",
    "segment_scores",
]
