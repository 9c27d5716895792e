"""Tour of five systems, each on data that come with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from intarsia.report.page import versions
from intarsia.report.page_parts import Section, Table


@dataclass(frozen=True)
class Row:
    """Result of a stop: a number or a verdict with its label.

    Attributes
    ----------
    label, unit : str
        Name and unit of the result.
    value : float or str
        Number or verdict.
    """

    label: str
    value: float | str
    unit: str = ""


@dataclass(frozen=True, eq=False)
class Stop:
    """Results of one of the five systems, with its section of the report page."""

    key: str
    title: str
    rows: list[Row]
    section: Section
    seconds: float


# The stop KEY is made by the function `KEY_stop(seed)` of the module `intarsia.tour.KEY`.
STOPS = {
    "strings": "sequences that spell known codes",
    "picture": "a noisy photograph",
    "counterexamples": "learning that fails",
    "groups": "latent groups by soft logic",
    "customers": "entity resolution of records",
}


def run_tour(seed: int = 0, report: Callable[[str], None] | None = None) -> Iterator[Stop]:
    """Run the stops one after another and yield each as soon as it is finished.

    Parameters
    ----------
    seed : int
        Random seed.
    report : callable, optional
        Function that is called with one line about the next stop.
    """
    for number, (key, description) in enumerate(STOPS.items(), start=1):
        if report is not None:
            report(f"{number} of {len(STOPS)}: {description} ...")
        make: Callable[[int], Stop] = getattr(import_module(f"intarsia.tour.{key}"), f"{key}_stop")
        yield make(seed)


def tour_sections(stops: list[Stop]) -> list[Section]:
    """Return the sections of the page: one per stop, and a table of all results.

    The last section also lists the versions of the libraries.
    """
    rows = [[stop.title, row.label, row.value, row.unit] for stop in stops for row in stop.rows]
    table = Table(["system", "quantity", "result", "unit"], rows)
    facts = {"Total seconds": f"{sum(stop.seconds for stop in stops):.1f}", "Versions": versions()}
    question = "All results of this page, computed on this machine."
    return [*(stop.section for stop in stops), Section("all", "All results", question, [table], facts)]
