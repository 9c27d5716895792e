"""File formats: PSL programs, files of atoms, and saved models."""
