"""What `make test` says at the end: how much was left out for want of data."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    without_data = [report for report in skipped if "INTARSIA_DATA" in str(report.longrepr)]
    if without_data:
        terminalreporter.write_line(
            f"{len(without_data)} tests skipped for missing data; set INTARSIA_DATA to the folder that holds it."
        )
    else:
        terminalreporter.write_line("0 tests skipped for missing data.")
