"""`intarsia reproduce`: the papers' tables and figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia.cli.output import check_folder, note, number, save_json, show_table, write_json
from intarsia.exceptions import InvalidInputError, MissingDataError

if TYPE_CHECKING:
    from intarsia_reproduction.experiment import Experiment, Finding


def reproduce_command(
    name: Annotated[str | None, typer.Argument(help="Which table or figure.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them; what has no data here is left out.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, within two minutes.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets; by default $INTARSIA_DATA.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps rows and pictures, to go on from; by default nothing is kept."),
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only tasks whose key or label contains this text.")] = None,
    draw: Annotated[bool, typer.Option("--draw", help="Run nothing; rows and figures of what is there.")] = False,
    report: Annotated[Path | None, typer.Option(help="Folder for a page with all rows and pictures.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """A table or figure of a paper beside ours.

    Names: misspecification, perturbation, denoising, horses, backgrounds, truncation, collective, birds,
    separability, margin, chunking, citations, ocr, groups, trust, faces, entities, samplerank, wrong-cluster. With
    `--output` each row is kept as soon as it is done, and the same command goes on from there; with `--all` each name
    has a folder inside. Without it rows are only shown, and lie in a temporary folder while the command runs. Ctrl-C
    ends the run with the rows and the page of what is done.

    Examples: `intarsia reproduce denoising --quick`, `intarsia reproduce --all --output results --report report`
    """
    from intarsia_reproduction.experiment import EXPERIMENTS

    if everything == (name is not None):
        raise InvalidInputError("reproduce: give the name of one table or figure, or --all.")
    if everything and only is not None:
        raise InvalidInputError("reproduce: --only chooses among the tasks of one name; leave out --all or --only.")
    if draw and output is None:
        raise InvalidInputError("reproduce: --draw shows what an earlier run kept. Name its folder with --output.")
    check_folder(report)
    check_folder(output)
    with TemporaryDirectory() as temporary:
        place = Path(temporary) if output is None else output
        done, left_out = _run_all(EXPERIMENTS if name is None else [name], place, everything, quick, data, only, draw)
        page = None if report is None else _write_report(report, done, left_out, quick)
    if json:
        documents = [each.document for each in done]
        write_json(documents[0] if not everything else {"name": "all", "experiments": documents, "left_out": left_out})
    else:
        for each in done:
            _show(each.experiment.title, each.document["rows"], each.experiment.data)
            for picture in each.pictures if output is not None else ():
                typer.echo(f"Picture: {picture}")
        kept = (
            "not kept; --output FOLDER keeps them, and a second run goes on from there." if output is None else output
        )
        typer.echo(f"Rows: {kept}")
        if page is not None:
            typer.echo(f"Report: {page}")
    if done and done[-1].ended:
        raise typer.Exit(130)


def _run_all(
    names: Sequence[str],
    place: Path,
    everything: bool,
    quick: bool,
    data: Path | None,
    only: str | None,
    draw: bool,
) -> tuple[list[_Done], dict[str, str]]:
    """Run experiments until one is interrupted; with the reasons of those whose data are missing."""
    done: list[_Done] = []
    left_out: dict[str, str] = {}
    for one in names:
        folder = place / (one + ("-quick" if quick else "")) if everything else place
        try:
            done.append(_run(one, quick, data, folder, only, draw))
        except MissingDataError as missing:
            if not everything:
                raise
            note(f"{one} is left out: {missing}")
            left_out[one] = str(missing)
            with suppress(OSError):  # made before the data were asked for; one that holds anything stays
                folder.rmdir()
        if done and done[-1].ended:
            break
    return done, left_out


@dataclass(frozen=True)
class _Done:
    experiment: Experiment
    found: dict[str, Finding]
    document: dict[str, Any]
    pictures: dict[Path, Any]
    ended: bool  # by Ctrl-C, so that rows may be missing


def _run(name: str, quick: bool, data: Path | None, folder: Path, only: str | None, draw: bool) -> _Done:
    from intarsia_reproduction.experiment import choose_tasks, load_experiment, load_findings, run_tasks

    experiment = load_experiment(name, quick=quick, data=data)
    tasks = choose_tasks(experiment, only)
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ended = False
    if not draw:
        try:
            run_tasks(tasks, folder, report=note)
        except KeyboardInterrupt:
            ended = True
            note("interrupted; what is done is written ...")
    found = load_findings(experiment.tasks, folder)
    document = {"name": name, "rows": experiment.rows(found), "data": experiment.data}
    save_json(folder / f"{name}-rows.json", document)
    return _Done(experiment, found, document, _draw(experiment.figures(found), folder), ended)


def _write_report(folder: Path, done: list[_Done], left_out: dict[str, str], quick: bool) -> Path:
    from intarsia.report.page import write_page
    from intarsia.tour.counterexamples import diamond_section
    from intarsia_reproduction.result_pages import experiment_section, left_out_section

    sections = []
    for one in done:
        sections.append(experiment_section(one.experiment, one.found, one.pictures, quick))
        if one.experiment.name == "separability":
            sections.append(diamond_section())
    if left_out:
        sections.append(left_out_section(left_out))
    page = folder / "index.html"
    lead = "Tables and figures of five papers, every row beside the paper's own; what was not run says so."
    write_page(page, "Intarsia beside the papers", lead, sections)
    return page


def _draw(figures: dict[str, Any], folder: Path) -> dict[Path, Any]:
    from intarsia.report.plots import save_figure

    made = {}
    for stem, figure in figures.items():
        path = folder / f"{stem}.png"
        save_figure(figure, path, dpi=90)  # many pictures of noise: more would be megabytes
        made[path] = figure
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
