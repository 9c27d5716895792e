"""The papers' tables and figures, one module per experiment."""
