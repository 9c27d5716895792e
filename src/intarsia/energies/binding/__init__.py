"""Energies bound to graphs and batches: internals behind the public energies."""
