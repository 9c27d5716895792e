"""`intarsia reproduce`: rebuild the papers' tables and figures and compare them with ours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intarsia._files.atomic_file import make_folder, remove_folder, temporary_folder
from intarsia.cli.output import check_folder, note, number, save_json, show_table, write_json
from intarsia.exceptions import InvalidInputError, MissingDataError

if TYPE_CHECKING:
    from intarsia_reproduction.experiment import Experiment, Finding


def reproduce_command(
    name: Annotated[
        str | None, typer.Argument(help="Name of a table or figure, see above.", show_default=False)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Run all of them, except those whose data are not on this machine.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small version that takes less than two minutes.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets; by default $INTARSIA_DATA.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder to save rows and plots; a second run resumes from it. By default nothing is saved."),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Run only the task with this key or label; '*' stands for any text.")
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Rebuild tables and figures from saved results without running anything.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compute a cheap row of the table (without a name: of every table) again and compare it with the one "
            "stored in --output, by default docs/results of the repository. The exit code is 1 if a row differs.",
        ),
    ] = False,
    status: Annotated[
        bool,
        typer.Option(
            "--status",
            help="Count the rows in --output that are missing, have no commit, or whose code has changed since. "
            "Nothing is computed. The exit code is 1 if the recorded code of a row has changed, or a row was edited.",
        ),
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Folder for an HTML page with all rows and plots.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Rebuild a table or figure of a paper and compare it with ours.

    Names: misspecification, perturbation, denoising, horses, backgrounds, truncation, collective, birds,
    flow-intervals, separability, margin, chunking, citations, ocr, groups, trust, faces, entities, resolve, samplerank,
    coreference, wrong-cluster, decoders, no-harm, expectations, through-projection. With `--output` each row is saved
    as soon as it is finished, and the same command resumes from there; with `--all` each name has its own folder.
    Without `--output` rows are only printed. Ctrl-C ends the run; finished rows are printed, and the page shows them.

    Examples: `intarsia reproduce denoising --quick`, `intarsia reproduce --all --output results --report report`,
    `intarsia reproduce --check`, `intarsia reproduce --status`
    """
    from intarsia_reproduction.experiment import EXPERIMENTS

    if check or status:
        option = "--check" if check else "--status"
        if quick or draw or only is not None or report is not None or (check and status):
            raise InvalidInputError(
                f"reproduce: {option} reads stored rows of full runs. Drop --quick, --draw, --only and --report, and "
                f"use either --check or --status."
            )
        names = EXPERIMENTS if name is None else [name]
        root = _stored_results(names, output, option)
        if check:
            _check_stored(names, root, data, json)
        else:
            _show_status(names, root, json)
        return
    if everything == (name is not None):
        raise InvalidInputError("reproduce: expected one name or --all. Pass the name of a table or figure, or --all.")
    if everything and only is not None:
        raise InvalidInputError("reproduce: --only selects tasks of one name. Drop --all or --only.")
    if draw and output is None:
        raise InvalidInputError(
            "reproduce: --draw needs the results of an earlier run. Pass their folder with --output."
        )
    check_folder(report)
    check_folder(output)
    with temporary_folder() as temporary:
        root = Path(temporary) if output is None else output
        runs, skipped = _run_all(EXPERIMENTS if name is None else [name], root, everything, quick, data, only, draw)
        page = None if report is None else _write_report(report, runs, skipped, quick)
    if json:
        documents = [item.document for item in runs]
        write_json(documents[0] if not everything else {"name": "all", "experiments": documents, "left_out": skipped})
    else:
        for item in runs:
            _show(item.experiment.title, item.document["rows"], item.experiment.data)
            for picture in item.pictures if output is not None else ():
                typer.echo(f"Plot: {picture}")
        rows_text = (
            "not saved. Use --output FOLDER to save them; a second run resumes from there."
            if output is None
            else output
        )
        typer.echo(f"Rows: {rows_text}")
        if page is not None:
            typer.echo(f"Report: {page}")
    if runs and runs[-1].ended:
        raise typer.Exit(130)


def _stored_results(names: Sequence[str], output: Path | None, option: str) -> Path:
    """Return the folder of stored results, and raise if it or a name does not exist."""
    from intarsia._core.validation import check_choice
    from intarsia_reproduction.experiment import EXPERIMENTS

    root = Path(__file__).parents[4] / "docs" / "results" if output is None else output
    for name in names:
        check_choice(name, EXPERIMENTS, "reproduce")
    if not root.is_dir():
        raise InvalidInputError(
            f"reproduce {option}: {root} is not a folder of stored results. Pass the folder with a subfolder for each "
            f"name with --output."
        )
    return root


def _show_status(names: Sequence[str], root: Path, json: bool) -> None:
    """Print how many rows are missing, edited or of older code; the exit code is 1 if code has changed or rows have."""
    from intarsia_reproduction.table_status import table_status

    tables = table_status(names, root)
    if json:
        write_json({"name": "status", "tables": [asdict(table) for table in tables]})
    else:
        columns = ["name", "stored", "missing", "current\ncode", "older\ncode", "ac-\ncepted", "no\ncode"]
        columns += ["maybe\nolder", "no\ncommit"]
        cells = [
            [table.name, str(table.n_stored), str(len(table.missing)), str(len(table.current)),
             str(len(table.changed)), str(len(table.accepted)), str(len(table.no_code)),
             str(len(table.probably_changed)), str(len(table.no_commit))]
            for table in tables
        ]  # fmt: skip
        changed = [
            f"Older code: {table.name}/{key}, the code is now {fingerprint}"
            for table in tables
            for key, fingerprint in table.fingerprints.items()
        ]
        missing = [f"Missing: {table.name} {', '.join(table.missing)}" for table in tables if table.missing]
        edited = [f"Edited: {table.name} {', '.join(table.edited)}" for table in tables if table.edited]
        lines = [*missing, *changed, *edited, f"Results: {root}"]
        show_table("Stored rows", columns, cells, [False] * len(cells), lines)
    if any(table.changed or table.edited for table in tables):
        raise typer.Exit(1)


def _check_stored(names: Sequence[str], root: Path, data: Path | None, json: bool) -> None:
    """Compare cheap rows with the stored ones, print them, and exit with code 1 if any differs."""
    from intarsia_reproduction.checks import DIFFERENT, check_results

    rows = [row for name in names for row in check_results([name], root, data)]
    if json:
        write_json({"name": "check", "rows": [asdict(row) for row in rows]})
    else:
        cells = [
            [
                row.name,
                row.row or "-",
                number(row.stored_value, 6),
                number(row.computed_value, 6),
                f"{row.seconds:.0f}",
                row.status,
            ]
            for row in rows
        ]
        columns = ["name", "row", "stored", "computed", "time\n(s)", "status"]
        show_table("Stored rows, computed again", columns, cells, [False] * len(cells), [f"Results: {root}"])
    if any(row.status == DIFFERENT for row in rows):
        raise typer.Exit(1)


def _run_all(
    names: Sequence[str],
    root: Path,
    everything: bool,
    quick: bool,
    data: Path | None,
    only: str | None,
    draw: bool,
) -> tuple[list[_Run], dict[str, str]]:
    """Run experiments until one is interrupted; return the runs, and the reasons why others were skipped."""
    runs: list[_Run] = []
    skipped: dict[str, str] = {}
    for name in names:
        folder = root / (name + ("-quick" if quick else "")) if everything else root
        try:
            runs.append(_run(name, quick, data, folder, only, draw))
        except MissingDataError as missing:
            if not everything:
                raise
            note(f"{name} is skipped: {missing}")
            skipped[name] = str(missing)
            with suppress(OSError):  # the folder was created before the data were needed; it stays if it is not empty
                remove_folder(folder)
        if runs and runs[-1].ended:
            break
    return runs, skipped


@dataclass(frozen=True)
class _Run:
    """Results of one experiment."""

    experiment: Experiment
    findings: dict[str, Finding]
    document: dict[str, Any]
    pictures: dict[Path, Any]
    ended: bool  # by Ctrl-C, so rows may be missing


def _run(name: str, quick: bool, data: Path | None, folder: Path, only: str | None, draw: bool) -> _Run:
    from intarsia_reproduction.experiment import choose_tasks, load_experiment, load_findings, run_tasks

    experiment = load_experiment(name, quick=quick, data=data)
    tasks = choose_tasks(experiment, only)
    check_folder(folder)
    make_folder(folder)
    ended = False
    if not draw:
        try:
            run_tasks(tasks, folder, report=note)
        except KeyboardInterrupt:
            ended = True
            note("interrupted; finished results are written ...")
    findings = load_findings(experiment.tasks, folder)
    document = {"name": name, "rows": experiment.rows(findings), "data": experiment.data}
    save_json(folder / f"{name}-rows.json", document)
    return _Run(experiment, findings, document, _draw(experiment.figures(findings), folder), ended)


def _write_report(folder: Path, runs: list[_Run], skipped: dict[str, str], quick: bool) -> Path:
    from intarsia.report.page import write_page
    from intarsia.tour.counterexamples import diamond_section
    from intarsia_reproduction.result_pages import experiment_section, left_out_section

    sections = []
    for item in runs:
        sections.append(experiment_section(item.experiment, item.findings, item.pictures, quick))
        if item.experiment.name == "separability":
            sections.append(diamond_section())
    if skipped:
        sections.append(left_out_section(skipped))
    page = folder / "index.html"
    lead = "Tables and figures of five papers, with the values of the papers; rows that were not run are marked."
    write_page(page, "Intarsia compared with the papers", lead, sections)
    return page


def _draw(figures: dict[str, Any], folder: Path) -> dict[Path, Any]:
    from intarsia.report.plots import save_figure

    pictures = {}
    for stem, figure in figures.items():
        path = folder / f"{stem}.png"
        save_figure(figure, path, dpi=90)  # plots of noisy images would take megabytes at a higher resolution
        pictures[path] = figure
    return pictures


def _show(title: str, rows: Any, data: str) -> None:
    cells = [
        [
            row["label"], *(number(row[key], row["significant"] or 3) for key in ("paper", "ours")), row["unit"],
            "-" if row["n"] is None else str(row["n"]), "-" if row["seconds"] is None else f"{row['seconds']:.0f}",
            row["status"], row["commit"] or "-",
        ]
        for row in rows
    ]  # fmt: skip
    columns = ["row", "paper", "ours", "unit", "n", "time\n(s)", "status", "commit"]
    show_table(title, columns, cells, [False] * len(cells), [f"Data: {data}"])
