"""The Numba loops of every room: arrays in, arrays out, no objects, no checks."""
