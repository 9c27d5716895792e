"""Experiments on learning through Bethe projections."""
