"""Blocking, comparison and estimation of many records by SQL, in a temporary DuckDB database."""
