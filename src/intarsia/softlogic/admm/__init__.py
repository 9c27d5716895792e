"""Inference in hinge-loss models by consensus ADMM."""
