"""Experiments on record linkage."""
