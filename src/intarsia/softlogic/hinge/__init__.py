"""Hinge-loss Markov random fields as flat arrays."""
