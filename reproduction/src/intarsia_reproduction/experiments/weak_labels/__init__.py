"""Experiments with few labels, or with other knowledge about labels."""
