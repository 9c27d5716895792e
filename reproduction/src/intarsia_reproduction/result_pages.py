"""Sections of the report from what experiments found: rows beside the paper's, pictures, settings, versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intarsia.report.line_plots import LineFigure
from intarsia.report.page import versions
from intarsia.report.page_parts import Chart, Part, Picture, Rounded, Section, Table, Words
from intarsia_reproduction.experiment import Experiment, Finding


def experiment_section(
    experiment: Experiment, found: Mapping[str, Finding], pictures: Mapping[Path, Any], quick: bool
) -> Section:
    """One section: every row beside the paper's, then the pictures.

    Parameters
    ----------
    experiment : Experiment
        As `load_experiment` gives it.
    found : dict of str -> Finding
        What its tasks found; the others are told as not run.
    pictures : dict of path -> Figure
        PNG files and what they were drawn from, in this order; figures of curves are drawn anew, to tell their values.
    quick : bool
        Whether the small version was run, whose figures are not the paper's.
    """
    parts: list[Part] = []
    if quick:
        parts.append(Words("Small version: fewer and smaller examples, so that figures differ from the paper's."))
    rows = experiment.rows(found)
    units = {row["unit"] for row in rows}
    columns = ["row", "paper", "ours", "n", "seconds", "status"]
    cells = [
        [row["label"], _digits(row, "paper"), _digits(row, "ours"), row["n"], row["seconds"], row["status"]]
        for row in rows
    ]
    if len(units) > 1:
        columns.insert(3, "unit")
        for line, row in zip(cells, rows, strict=True):
            line.insert(3, row["unit"])
    parts.append(Table(columns, cells, "" if len(units) > 1 else f"Unit: {units.pop()}." if units else ""))
    parts += [_shown(path, figure) for path, figure in pictures.items()]
    facts = {"Data": experiment.data, "Repeat it": f"intarsia reproduce {experiment.name}{' --quick' if quick else ''}"}
    settings = common_settings([finding.settings for finding in found.values()])
    if settings:
        facts["Settings of all rows"] = ", ".join(f"{key} {value}" for key, value in settings.items())
    facts["Seconds in all"] = f"{sum(finding.seconds for finding in found.values()):.1f}"
    facts["Versions"] = versions()
    return Section(
        experiment.name,
        experiment.title,
        f"{experiment.question} {len(found)} of {len(experiment.tasks)} rows run.",
        parts,
        facts,
    )


def _shown(path: Path, figure: Any) -> Part:
    # Points alone are no curves: their places have names, which a scale would lose.
    if isinstance(figure, LineFigure) and all(line.dashes for panel in figure.chart.panels for line in panel.lines):
        return Chart(figure.chart)
    return Picture(path.read_bytes(), path.stem.replace("-", " ").replace("_", " "))


def left_out_section(reasons: Mapping[str, str]) -> Section:
    """What could not be run, and why.

    Examples
    --------
    >>> left_out_section({"horses": "no pictures here"}).title
    'Left out'
    """
    table = Table(["experiment", "reason"], [[name, reason] for name, reason in reasons.items()])
    return Section("left-out", "Left out", "Experiments whose data are not on this machine.", [table])


def common_settings(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """What all of them have in common.

    Examples
    --------
    >>> common_settings([{"ridge": 0.1, "sweeps": 5}, {"ridge": 0.1, "sweeps": 10}])
    {'ridge': 0.1}
    """
    if not settings:
        return {}
    first, *others = settings
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _digits(row: Mapping[str, Any], whose: str) -> Any:
    value, digits = row[whose], row["significant"]
    return value if value is None or digits is None else Rounded(float(value), int(digits))
