"""Inputs and decisions of `EntityClusterer`: one or two tables, scored pairs, and how clusters are decided."""
