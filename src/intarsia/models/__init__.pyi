"""Feature maps: from data and weights to scores (log-potentials), and the backward pass of a gradient."""

from .image_features import edge_features as edge_features
from .image_features import histogram_of_gradients as histogram_of_gradients
from .image_features import pixel_features as pixel_features
from .image_features import sinusoidal_expansion as sinusoidal_expansion
from .linear_scores import LinearScores as LinearScores
from .linear_scores import MatrixScores as MatrixScores
from .sequence_features import SequenceVectorizer as SequenceVectorizer
from .template_scores import Templates as Templates
from .template_scores import TemplateScores as TemplateScores
from .template_scores import template_graph as template_graph
from .tokens import token_features as token_features
from .tokens import word_shape as word_shape
