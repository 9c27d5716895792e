"""Numba loops of all packages: arrays in, arrays out, no objects and no input checks."""
