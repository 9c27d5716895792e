"""`intarsia tour`: every method beside the exact answer, on a picture that comes with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intarsia.cli.output import (
    check_folder,
    check_folder_of,
    difference,
    log_partition_text,
    note,
    number,
    seconds,
    show_table,
    write_json,
)


def tour_command(
    output: Annotated[Path, typer.Option(help="Folder for the picture; made if it is not there.")] = Path("tour"),
    seed: Annotated[int, typer.Option(help="Seed of the noise and of the sampler.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Restore a noisy picture with every method, beside the exact answer: a table here, a picture on disk.

    Example: `intarsia tour --output tour`
    """
    from intarsia.experiments.tour import run_tour
    from intarsia.report.plots import save_figure

    check_folder(output)
    output.mkdir(parents=True, exist_ok=True)
    picture = output / "inference.png"
    check_folder_of(picture)
    show_progress = note if not json else None
    tour = run_tour(seed=seed, report=show_progress)
    save_figure(tour.figure(), picture)
    if json:
        write_json({"name": "tour", "rows": tour.rows, "model": tour.model, "picture": str(picture)})
        return
    columns = ["method", "log Z", "max\nerror", "mean\nerror", "pixels\nwrong", "MAP\nscore", "time\n(s)", "status"]
    cells = [
        [
            row["method"], log_partition_text(row["log_partition"], row["log_partition_is"], 6),
            difference(row["max_marginal_error"]), difference(row["mean_marginal_error"]),
            "-" if row["pixels_wrong"] is None else str(row["pixels_wrong"]), number(row["map_score"], 6),
            seconds(row["seconds"]), row["status"] or "refused",
        ]
        for row in tour.rows
    ]  # fmt: skip
    notes = [f"{row['method']} refused: {row['error']}" for row in tour.rows if row["error"]]
    notes.append(
        "Errors: marginals against the exact ones. Pixels: against the clean picture. Times: compiled already."
    )
    show_table(tour.title, columns, cells, [row["exact"] for row in tour.rows], notes)
    typer.echo(f"Picture: {picture}")
