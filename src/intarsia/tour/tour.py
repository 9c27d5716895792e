"""The tour: the five systems, each on data that come with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from intarsia.report.page import versions
from intarsia.report.page_parts import Section, Table


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


# Each is a function `KEY_stop(seed)` of the module `tour_KEY`.
STOPS = {
    "strings": "sequences that spell known codes",
    "picture": "a noisy photograph",
    "counterexamples": "learning that cannot work",
    "groups": "groups that nobody labelled, by rules",
    "customers": "records into entities",
}


def run_tour(seed: int = 0, report: Callable[[str], None] | None = None) -> Iterator[Stop]:
    """Make the stops one after the other; each is there as soon as it is done.

    Parameters
    ----------
    seed : int
        Of everything random.
    report : callable, optional
        Is told in a line what comes next.
    """
    for number, (key, about) in enumerate(STOPS.items(), start=1):
        if report is not None:
            report(f"{number} of {len(STOPS)}: {about} ...")
        make: Callable[[int], Stop] = getattr(import_module(f"intarsia.tour.{key}"), f"{key}_stop")
        yield make(seed)


def tour_sections(stops: list[Stop]) -> list[Section]:
    """What the page shows: the stops, and all their figures in one table."""
    rows = [[stop.title, row.label, row.value, row.unit] for stop in stops for row in stop.rows]
    table = Table(["stop", "what", "found", "unit"], rows)
    facts = {"Seconds in all": f"{sum(stop.seconds for stop in stops):.1f}", "Versions": versions()}
    asked = "Every figure of this page, computed on this machine."
    return [*(stop.section for stop in stops), Section("all", "All figures", asked, [table], facts)]
