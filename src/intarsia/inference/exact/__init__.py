"""Exact inference by enumeration, variable elimination and minimum cuts."""
