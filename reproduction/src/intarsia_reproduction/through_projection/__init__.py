"""Energies learned by gradients through the projection that predicts, instead of the surrogate likelihood."""

from intarsia_reproduction.through_projection.learner import ThroughProjection

__all__ = ["ThroughProjection"]
