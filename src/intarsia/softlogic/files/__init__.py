"""PSL programs, files of atoms, and saved models."""
