"""Predictions of fitted chain models without the weight of the library, and their export to CRFsuite."""
