"""Exact inference: enumeration, elimination, minimum cuts."""
