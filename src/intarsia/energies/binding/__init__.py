"""Energies bound to graphs and batches of sequences; internal."""
