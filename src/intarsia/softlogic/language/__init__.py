"""The rule language: syntax, reader, checks."""
