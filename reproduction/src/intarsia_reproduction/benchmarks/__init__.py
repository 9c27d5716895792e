"""Benchmarks of speed, memory and quality, compared with other libraries."""
