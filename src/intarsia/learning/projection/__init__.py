"""Learning through Bethe projections: gradients of losses of the marginals under energies."""
