"""How good an answer is: labels, segments, clusterings, rankings."""

from .clusterings import Agreement as Agreement
from .clusterings import ClusteringScores as ClusteringScores
from .clusterings import clustering_scores as clustering_scores
from .counts import PrecisionRecall as PrecisionRecall
from .labelling import LabellingScores as LabellingScores
from .labelling import labelling_scores as labelling_scores
from .ranking import RankingScores as RankingScores
from .ranking import ranking_scores as ranking_scores
from .segments import SegmentScores as SegmentScores
from .segments import find_segments as find_segments
from .segments import scheme_names as scheme_names
from .segments import segment_scores as segment_scores
