"""Fixtures and skips of the library's tests hold here too."""

from tests.conftest import conformance, data, pytest_collection_modifyitems  # noqa: F401
