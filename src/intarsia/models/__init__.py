"""How data becomes scores: feature maps, and the way back of a gradient."""

from intarsia.models.histogram_of_gradients import histogram_of_gradients
from intarsia.models.image_features import edge_features, pixel_features, sinusoidal_expansion
from intarsia.models.linear_scores import LinearScores
from intarsia.models.matrix_scores import MatrixScores
from intarsia.models.sequence_features import SequenceVectorizer
from intarsia.models.template_scores import Templates, TemplateScores, template_graph
from intarsia.models.token_features import token_features, word_shape

__all__ = [
    "LinearScores",
    "MatrixScores",
    "SequenceVectorizer",
    "TemplateScores",
    "Templates",
    "edge_features",
    "histogram_of_gradients",
    "pixel_features",
    "sinusoidal_expansion",
    "template_graph",
    "token_features",
    "word_shape",
]
