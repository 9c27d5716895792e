"""Gibbs sampling, iterated conditional modes, and search for feasible assignments."""
