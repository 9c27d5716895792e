"""Learners of rule weights."""
