"""Gibbs sampling, iterated conditional modes, and the search for feasible assignments."""
