"""Experiments with collective models of simulated walkers."""
