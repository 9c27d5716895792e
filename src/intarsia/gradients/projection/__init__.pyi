"""Gradients through Bethe projections: from a loss of the marginals to theta and to the parameters of the energies."""

from .pullback import ProjectionPullback as ProjectionPullback
from .pullback import projection_pullback as projection_pullback
