"""Location of the data sets, and a summary line with the number of tests that were skipped without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.modules import missing_rooms

# The first file runs in the environment of PSL; the second runs the tests.
collect_ignore = ["oracles/psl_peer.py", "mutate.py"]

REASON = "needs the data folder: set INTARSIA_DATA to its path (conformance models are expected beside it)"


def data_folder() -> Path | None:
    """Return the folder in INTARSIA_DATA, or None if it does not exist."""
    named = os.environ.get("INTARSIA_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def conformance_folder() -> Path | None:
    """Return the folder of models with answers of independent programs, or None if it does not exist."""
    data = data_folder()
    folder = data.resolve().parent / "conformance" if data else None
    return folder if folder and folder.is_dir() else None


@pytest.fixture(scope="session")
def data() -> Path:
    folder = data_folder()
    if folder is None:
        pytest.skip(REASON)
    return folder


@pytest.fixture(scope="session")
def conformance() -> Path:
    folder = conformance_folder()
    if folder is None:
        pytest.skip(REASON)
    return folder


def pytest_collection_modifyitems(items):
    if data_folder() is not None:
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason=REASON))


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    without_data = sum(REASON in str(report.longrepr) for report in skipped)
    if skipped:
        terminalreporter.write_line(
            f"{len(skipped)} tests skipped, {without_data} of them because INTARSIA_DATA is not set"
        )
    for room, package in missing_rooms().items():
        terminalreporter.write_line(f"tests that walk over all modules left out {room}: {package} is not installed")
