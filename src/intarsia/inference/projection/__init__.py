"""Bethe projections: marginal inference with global energies."""
