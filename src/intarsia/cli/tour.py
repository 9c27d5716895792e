"""`intarsia tour`: the five systems on data that come with the package, and a page to show."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intarsia.cli.output import check_folder, note, number, seconds, show_table, write_json
from intarsia.exceptions import CompatibilityWarning, ConvergenceWarning

if TYPE_CHECKING:
    from intarsia.tour.tour import Stop


def tour_command(
    output: Annotated[
        Path | None, typer.Option(help="Folder for a page with pictures; by default none is written.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """See the five systems work: a table here, and with `--output` a page with pictures on disk.

    Ctrl-C ends the tour; table and page then hold the stops that were made.

    Example: `intarsia tour --output report`
    """
    from intarsia.tour.tour import run_tour

    check_folder(output)
    page = None if output is None else output / "index.html"
    stops: list[Stop] = []
    ended = False
    try:
        with warnings.catch_warnings():
            for told in (CompatibilityWarning, ConvergenceWarning):  # what fails on the tour is meant to
                warnings.simplefilter("ignore", told)
            for stop in run_tour(seed, None if json else note):
                stops.append(stop)  # noqa: PERF402, so that Ctrl-C finds those that were made
    except KeyboardInterrupt:
        if not stops:
            raise
        ended = True
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        _write(page, stops)
    if json:
        rows = [
            {"stop": stop.key, "label": row.label, "value": row.value, "unit": row.unit, "seconds": stop.seconds}
            for stop in stops
            for row in stop.rows
        ]
        write_json({"name": "tour", "rows": rows, "seed": seed, "page": None if page is None else str(page)})
    else:
        _show(stops)
        typer.echo("Nothing was written; --output FOLDER writes a page." if page is None else f"Report: {page}")
    if ended:
        raise typer.Exit(130)


def _show(stops: list[Stop]) -> None:
    cells = [
        [stop.title, row.label, row.value if isinstance(row.value, str) else number(row.value, 3), row.unit]
        for stop in stops
        for row in stop.rows
    ]
    took = ", ".join(f"{stop.key} {seconds(stop.seconds)}" for stop in stops)
    show_table(
        "A tour of Intarsia", ["stop", "what", "found", "unit"], cells, [False] * len(cells), [f"Seconds: {took}."]
    )


def _write(page: Path, stops: list[Stop]) -> None:
    from intarsia.report.page import write_page
    from intarsia.tour.tour import tour_sections

    lead = (
        "Structured prediction in which learning and inference are cut to fit each other: five published systems, each "
        "on data that come with the package. Every number was computed on this machine."
    )
    write_page(page, "A tour of Intarsia", lead, tour_sections(stops))
