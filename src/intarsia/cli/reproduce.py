"""`intarsia reproduce`: the papers' tables and figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from intarsia.cli.output import note, number, save_json, show_table, write_json


def reproduce_command(
    name: Annotated[str, typer.Argument(help="Which table or figure.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="A small version, within two minutes.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets; by default $INTARSIA_DATA.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results; by default reproduce/NAME or reproduce/NAME-quick.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only tasks whose key or label contains this text.")] = None,
    draw: Annotated[bool, typer.Option("--draw", help="Run nothing; rows and figures of what is there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """A table or figure of a paper beside ours.

    Names: misspecification, perturbation, denoising, horses, backgrounds, truncation, collective, birds,
    separability, margin, chunking, citations, ocr. Each row is kept as soon as it is done, so a run that was ended
    goes on where it was when the command is given again.

    Example: `intarsia reproduce denoising --quick`
    """
    from intarsia.experiments.reproduction import choose_tasks, load_experiment, load_findings, run_tasks

    experiment = load_experiment(name, quick=quick, data=data)
    tasks = choose_tasks(experiment, only)
    folder = output if output is not None else Path("reproduce") / (name + ("-quick" if quick else ""))
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(20, "is a file; give a folder", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    if not draw:
        run_tasks(tasks, folder, report=note)
    found = load_findings(experiment.tasks, folder)
    document = {"name": name, "rows": experiment.rows(found), "data": experiment.data}
    save_json(folder / f"{name}-rows.json", document)
    pictures = _draw(experiment.figures(found), folder)
    if json:
        write_json(document)
        return
    _show(experiment.title, document["rows"], experiment.data)
    for picture in pictures:
        typer.echo(f"Picture: {picture}")


def _draw(figures: dict[str, Any], folder: Path) -> list[Path]:
    from intarsia.report.plots import save_figure

    made = []
    for stem, figure in figures.items():
        path = folder / f"{stem}.png"
        save_figure(figure, path, dpi=90)  # many pictures of noise: more would be megabytes
        made.append(path)
    return made


def _show(title: str, rows: Any, data: str) -> None:
    cells = [
        [
            row["label"], *(number(row[whose], row["significant"] or 3) for whose in ("paper", "ours")), row["unit"],
            "-" if row["n"] is None else str(row["n"]), "-" if row["seconds"] is None else f"{row['seconds']:.0f}",
            row["status"],
        ]
        for row in rows
    ]  # fmt: skip
    columns = ["row", "paper", "ours", "unit", "n", "time\n(s)", "status"]
    show_table(title, columns, cells, [False] * len(cells), [f"Data: {data}"])
