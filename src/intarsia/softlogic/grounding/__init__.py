"""Grounding: turn a program and its data into a hinge-loss Markov random field."""
