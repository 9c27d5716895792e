"""Sections of the report with results of experiments: rows beside those of the paper, figures, settings, versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intarsia.report.line_plots import LineFigure
from intarsia.report.page import versions
from intarsia.report.page_parts import Chart, Part, Picture, Rounded, Section, Table, Words
from intarsia_reproduction.experiment import Experiment, Finding


def experiment_section(
    experiment: Experiment, findings: Mapping[str, Finding], pictures: Mapping[Path, Any], quick: bool
) -> Section:
    """Return a section with every row beside that of the paper, and the figures.

    Parameters
    ----------
    experiment : Experiment
        An experiment of `load_experiment`.
    findings : dict of str -> Finding
        Results of its tasks; other tasks are shown as not run.
    pictures : dict of path -> Figure
        PNG files and their figures, in this order; curves become interactive charts that show their values.
    quick : bool
        Whether the small version was run, whose figures differ from those of the paper.
    """
    parts: list[Part] = []
    if quick:
        parts.append(Words("Small version: fewer and smaller examples, so that figures differ from the paper's."))
    rows = experiment.rows(findings)
    units = {row["unit"] for row in rows}
    columns = ["row", "paper", "ours", "n", "seconds", "status", "commit"]
    cells = [
        [row["label"], _digits(row, "paper"), _digits(row, "ours"), *(row[key] for key in columns[3:])] for row in rows
    ]
    if len(units) > 1:
        columns.insert(3, "unit")
        for line, row in zip(cells, rows, strict=True):
            line.insert(3, row["unit"])
    parts.append(Table(columns, cells, "" if len(units) > 1 else f"Unit: {units.pop()}." if units else ""))
    parts += [_plot(path, figure) for path, figure in pictures.items()]
    facts = {"Data": experiment.data, "Repeat it": f"intarsia reproduce {experiment.name}{' --quick' if quick else ''}"}
    settings = common_settings([finding.settings for finding in findings.values()])
    if settings:
        facts["Settings of all rows"] = ", ".join(f"{key} {value}" for key, value in settings.items())
    facts["Seconds in all"] = f"{sum(finding.seconds for finding in findings.values()):.1f}"
    facts["Versions"] = versions()
    return Section(
        experiment.name,
        experiment.title,
        f"{experiment.question} {len(findings)} of {len(experiment.tasks)} rows run.",
        parts,
        facts,
    )


def _plot(path: Path, figure: Any) -> Part:
    """Return an interactive chart of curves, or the picture of any other figure."""
    # Figures of points alone have named positions, which a numeric axis would lose.
    if isinstance(figure, LineFigure) and all(line.dashes for panel in figure.chart.panels for line in panel.lines):
        return Chart(figure.chart)
    return Picture(path.read_bytes(), path.stem.replace("-", " ").replace("_", " "))


def left_out_section(reasons: Mapping[str, str]) -> Section:
    """Return a section that lists the experiments that could not be run, with the reasons.

    Examples
    --------
    >>> left_out_section({"horses": "no pictures here"}).title
    'Left out'
    """
    table = Table(["experiment", "reason"], [[name, reason] for name, reason in reasons.items()])
    return Section("left-out", "Left out", "Experiments whose data are not on this machine.", [table])


def common_settings(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the settings that are equal in all dictionaries.

    Examples
    --------
    >>> common_settings([{"ridge": 0.1, "sweeps": 5}, {"ridge": 0.1, "sweeps": 10}])
    {'ridge': 0.1}
    """
    if not settings:
        return {}
    first, *others = settings
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _digits(row: Mapping[str, Any], column: str) -> Any:
    """Return a value of a row, with its number of significant digits if the row has one."""
    value, digits = row[column], row["significant"]
    return value if value is None or digits is None else Rounded(float(value), int(digits))
