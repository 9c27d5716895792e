"""What a stop of the tour is: rows for the terminal and a section of the report."""

from __future__ import annotations

from dataclasses import dataclass

from intarsia.report.page_parts import Section


@dataclass(frozen=True)
class Row:
    """One figure of a stop.

    Attributes
    ----------
    label, unit : str
        What it is.
    value : float or str
        A number, or a verdict.
    """

    label: str
    value: float | str
    unit: str = ""


@dataclass(frozen=True, eq=False)
class Stop:
    """What one of the five systems did on data that come with the package."""

    key: str
    title: str
    rows: list[Row]
    section: Section
    seconds: float
