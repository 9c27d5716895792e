"""Command-line interface: `intarsia infer`, `intarsia methods`, `intarsia tour` and others, one file per command."""

from intarsia.cli.app import app, main

__all__ = [
    "app", "main",
]  # fmt: skip
