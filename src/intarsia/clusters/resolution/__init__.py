"""Entities from scored pairs: correlation clustering with a certificate."""
