"""`intarsia tour`: run five systems on data that come with the package, and write a report page."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intarsia.cli.interrupts import Interrupted
from intarsia.cli.output import check_folder, note, number, seconds, show_table, write_json
from intarsia.exceptions import CompatibilityWarning, ConvergenceWarning

if TYPE_CHECKING:
    from intarsia.tour.tour import Stop


def tour_command(
    output: Annotated[
        Path | None, typer.Option(help="Folder for a report page with plots. By default no file is written.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """See five systems at work on small data: prints a table, and with `--output` writes a page with plots.

    Ctrl-C ends the tour early; the table and the page then show the systems that finished.

    Example: `intarsia tour --output report`
    """
    from intarsia.tour.tour import run_tour

    check_folder(output)
    page = None if output is None else output / "index.html"
    stops: list[Stop] = []
    ended = False
    try:
        with warnings.catch_warnings():
            for category in (CompatibilityWarning, ConvergenceWarning):  # the tour shows failures on purpose
                warnings.simplefilter("ignore", category)
            for stop in run_tour(seed, None if json else note):
                stops.append(stop)  # noqa: PERF402, so that after Ctrl-C the list holds the finished stops
    except (KeyboardInterrupt, Interrupted):
        if not stops:
            raise
        ended = True
    if page is not None:
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
        typer.echo("No file was written. Use --output FOLDER to write a page." if page is None else f"Report: {page}")
    if ended:
        raise typer.Exit(130)


def _show(stops: list[Stop]) -> None:
    cells = [
        [stop.title, row.label, row.value if isinstance(row.value, str) else number(row.value, 3), row.unit]
        for stop in stops
        for row in stop.rows
    ]
    times = ", ".join(f"{stop.key} {seconds(stop.seconds)}" for stop in stops)
    show_table(
        "A tour of Intarsia",
        ["system", "quantity", "result", "unit"],
        cells,
        [False] * len(cells),
        [f"Seconds: {times}."],
    )


def _write(page: Path, stops: list[Stop]) -> None:
    from intarsia.report.page import write_page
    from intarsia.tour.tour import tour_sections

    lead = (
        "Structured prediction in which learning and inference work together: five published systems, each on data "
        "that come with the package. Every number was computed on this machine."
    )
    write_page(page, "A tour of Intarsia", lead, tour_sections(stops))
