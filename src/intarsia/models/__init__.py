"""How data becomes scores: feature maps, and the way back of a gradient."""

from intarsia.models.linear_scores import LinearScores

__all__ = ["LinearScores"]
