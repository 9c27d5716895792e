"""What a report page is made of: tables that sort, curves that tell their values, pictures, sliders over a grid."""

from __future__ import annotations

import base64
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np

from intarsia.exceptions import InvalidInputError
from intarsia.report.line_plots import Line, LineChart, LinePanel, line_colours

_LONG = 60  # letters of a cell that would be a thin and endless column on a phone
_WIDTH, _HEIGHT = 720, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 46
_DASHES = {"--": "7 4", ":": "2 4", "-.": "7 3 2 3"}  # matplotlib's names of them, in SVG's lengths


class Part(ABC):
    """A piece of a section, which knows how it is written."""

    @abstractmethod
    def html(self) -> str:
        """The piece as HTML; text is escaped."""


@dataclass(frozen=True)
class Words(Part):
    """A paragraph.

    Examples
    --------
    >>> Words("a < b").html()
    '<p>a &lt; b</p>'
    """

    text: str

    def html(self) -> str:
        """A paragraph."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Table(Part):
    """Rows under headings; a click on a heading sorts.

    Examples
    --------
    >>> '<button type="button">error</button>' in Table(["error"], [[0.25]]).html()
    True
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    def html(self) -> str:
        """A table in a box of its own that scrolls, so that the page does not."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidInputError(
                    f"Table: a row has {len(row)} cells, but there are {len(self.columns)} columns."
                )
        head = "".join(
            f'<th scope="col"{_numeric(k, self.rows)}><button type="button">{escape(name)}</button></th>'
            for k, name in enumerate(self.columns)
        )
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return (
            f'<div class="scroll"><table class="sortable">{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )


def _numeric(column: int, rows: Sequence[Sequence[Any]]) -> str:
    """A heading stands over its numbers."""
    kinds = [type(row[column]) for row in rows if row[column] is not None]
    return ' class="number"' if kinds and all(issubclass(kind, (int, float, Rounded)) for kind in kinds) else ""


@dataclass(frozen=True)
class Rounded:
    """A number shown with so many significant digits."""

    value: float
    digits: int


def _cell(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return f"<td>{'yes' if value else 'no'}</td>"
    if value is None or (isinstance(value, (float, np.floating)) and not math.isfinite(value)):
        return '<td class="number" data-value="">–</td>'
    if isinstance(value, Rounded):
        return f'<td class="number" data-value="{value.value:.12g}">{value.value:.{value.digits}g}</td>'
    if isinstance(value, (int, float, np.integer, np.floating)):
        return f'<td class="number" data-value="{float(value):.12g}">{short_number(float(value))}</td>'
    text = str(value)
    kind = ' class="long"' if len(text) > _LONG else ""
    return f"<td{kind}>{escape(text)}</td>"


def short_number(value: float) -> str:
    """Four significant digits, whole numbers as they are.

    Examples
    --------
    >>> short_number(0.123456), short_number(12345.0), short_number(1e-7)
    ('0.1235', '12345', '1e-07')
    """
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class Picture(Part):
    """A figure of matplotlib, or the bytes of a PNG, inside the page."""

    figure: Any
    caption: str
    dpi: int = 80

    def html(self) -> str:
        """An image as data."""
        content = self.figure
        if not isinstance(content, bytes):
            kept = io.BytesIO()
            self.figure.savefig(kept, format="png", dpi=self.dpi)
            content = kept.getvalue()
        data = base64.b64encode(content).decode("ascii")
        return (
            f'<figure><img src="data:image/png;base64,{data}" alt="{escape(self.caption)}" loading="lazy">'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


@dataclass(frozen=True, eq=False)
class Curves(Part):
    """Lines over one axis; the pointer shows their values."""

    lines: Sequence[Line]
    x_label: str
    y_label: str
    caption: str = ""
    log_x: bool = False
    log_y: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None

    def html(self) -> str:
        """A drawing, with its numbers beside it for the pointer."""
        kept = [_finite(line, self.log_x, self.log_y) for line in self.lines]
        kept = [(x, y, line) for x, y, line in kept if x.size]
        if not kept:
            return f"<p>{escape(self.caption or self.y_label)}: no points.</p>"
        across = _Scale(self.x_range or _span([x for x, _, _ in kept]), self.log_x, _LEFT, _WIDTH - _RIGHT)
        up = _Scale(self.y_range or _span([y for _, y, _ in kept]), self.log_y, _HEIGHT - _BOTTOM, _TOP)
        drawn, told = [*_axes(across, up, self.x_label, self.y_label)], []
        colours = line_colours([LinePanel("", [line for _, _, line in kept])])
        for x, y, line in kept:
            colour, at, height = colours[line.label], across(x), up(y)
            drawn += _band(line, across, up, colour)
            dashes = f' stroke-dasharray="{_DASHES[line.dashes]}"' if line.dashes in _DASHES else ""
            drawn.append(
                f'<polyline points="{_points(at, height)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
            )
            if x.size < 2:
                drawn.append(f'<circle cx="{at[0]:.1f}" cy="{height[0]:.1f}" r="3.5" fill="{colour}"/>')
            told.append(
                {"label": line.label, "colour": colour, "at": at.round(2).tolist(), "x": x.tolist(), "y": y.tolist()}
            )
        drawn.append(f'<line class="guide" x1="0" x2="0" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
        legend = " ".join(
            f'<span><span class="key" style="background:{colour}"></span>{escape(label)}</span>'
            for label, colour in colours.items()
        )
        caption = f"{escape(self.caption)}<br>{legend}" if self.caption else legend
        return (
            f'<figure><div class="curves"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(self.caption or self.y_label)}">{"".join(drawn)}</svg><div class="tip"></div>'
            f"{_data({'width': _WIDTH, 'lines': told})}</div><figcaption>{caption}</figcaption></figure>"
        )


@dataclass(frozen=True, eq=False)
class Chart(Part):
    """The panels of `plot_lines` as curves that tell their values, all on one scale."""

    chart: LineChart

    def html(self) -> str:
        """A drawing for each panel, beside each other where there is room."""
        chart = self.chart
        kept = [_finite(line, chart.log_x, chart.log_y) for panel in chart.panels for line in panel.lines]
        x_range, y_range = (_span([one[axis] for one in kept if one[0].size]) for axis in (0, 1))
        colours = line_colours(chart.panels)
        drawn = "".join(
            Curves(
                [replace(line, colour=colours[line.label], label=" ".join(line.label.split())) for line in panel.lines],
                chart.x_label, chart.y_label, panel.title, chart.log_x, chart.log_y, x_range, chart.y_range or y_range,
            ).html()
            for panel in chart.panels
        )  # fmt: skip
        title = f"<h3>{escape(chart.title)}</h3>" if chart.title else ""
        return f'{title}<div class="multiples">{drawn}</div>' if len(chart.panels) > 1 else title + drawn


def _span(values: Sequence[Any]) -> tuple[float, float] | None:
    """The least and the largest of all; None of nothing."""
    joined = np.concatenate(values) if values else np.zeros(0)
    return (float(joined.min()), float(joined.max())) if joined.size else None


def _points(at: Any, height: Any) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(at, height, strict=True))


def _band(line: Line, across: _Scale, up: _Scale, colour: str) -> list[str]:
    """What lies between the ends that a line has."""
    if line.low is None or line.high is None:
        return []
    x, low, high = (np.asarray(one, dtype=float).ravel() for one in (line.x, line.low, line.high))
    kept = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    if up.log:
        kept &= low > 0
    if across.log:
        kept &= x > 0
    at = across(x[kept])
    points = f"{_points(at, up(low[kept]))} {_points(at[::-1], up(high[kept])[::-1])}"
    return [f'<polygon points="{points}" fill="{colour}" fill-opacity="0.15"/>']


def _finite(line: Line, log_x: bool, log_y: bool) -> tuple[Any, Any, Line]:
    x, y = np.asarray(line.x, dtype=float).ravel(), np.asarray(line.y, dtype=float).ravel()
    if x.shape != y.shape:
        raise InvalidInputError(f"Curves: {line.label} has {x.size} positions and {y.size} values.")
    kept = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not log_x)) & ((y > 0) | (not log_y))
    return x[kept], y[kept], line


class _Scale:
    """From values to places on the drawing, with a few round ticks."""

    def __init__(self, ends: Any, log: bool, first: float, last: float) -> None:
        self.log, self.first, self.last = log, first, last
        self.low, self.high = (float(end) for end in (np.log10(ends) if log else ends))
        if self.high - self.low < 1e-12 * max(1.0, abs(self.high)):
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def __call__(self, values: Any) -> Any:
        used = np.clip(np.log10(values) if self.log else np.asarray(values, dtype=float), self.low, self.high)
        return self.first + (used - self.low) / (self.high - self.low) * (self.last - self.first)

    @property
    def ticks(self) -> list[float]:
        """Round numbers inside the range."""
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4.0))
        step *= next(factor for factor in (1, 2, 5, 10) if (self.high - self.low) / (step * factor) <= 6)
        if self.log:
            step = max(1.0, round(step))
        start = math.ceil(self.low / step - 1e-9) * step
        found = [start + k * step for k in range(int((self.high - start) / step + 1e-9) + 1)]
        return [10.0**value for value in found] if self.log else found


def _axes(across: _Scale, up: _Scale, x_label: str, y_label: str) -> list[str]:
    floor = _HEIGHT - _BOTTOM
    drawn = [f'<path class="axis" d="M{_LEFT} {_TOP}V{floor}H{_WIDTH - _RIGHT}" fill="none"/>']
    for tick, at in zip(across.ticks, map(float, map(across, across.ticks)), strict=True):
        anchor = "middle" if at < _WIDTH - 2 * _RIGHT else "end"  # or the last one would be cut off
        drawn.append(f'<text x="{at:.1f}" y="{floor + 18}" text-anchor="{anchor}">{_tick(tick)}</text>')
    for tick, at in zip(up.ticks, map(float, map(up, up.ticks)), strict=True):
        drawn.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        drawn.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_tick(tick)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    drawn.append(f'<text class="name" x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    drawn.append(f'<text class="name" x="8" y="18">{escape(y_label)}</text>')
    return drawn


def _tick(value: float) -> str:
    return f"{value:.6g}" if value == 0 or 1e-4 <= abs(value) < 1e6 else f"{value:.0e}"


@dataclass(frozen=True)
class Axis:
    """A slider: what it is called, and the values it can stand at."""

    name: str
    ticks: Sequence[float]
    start: int = 0


@dataclass(frozen=True, eq=False)
class Explorer(Part):
    """Two sliders over a grid of answers, computed beforehand; says which methods part from the first.

    Attributes
    ----------
    axes : pair of Axis
        The sliders.
    answers : dict of str -> int array (n_first, n_second)
        For each method, which of `words` it answers at each place.
    words : list of str
        The answers there are.
    """

    axes: tuple[Axis, Axis]
    answers: Mapping[str, Any]
    words: Sequence[str]
    caption: str = ""

    def html(self) -> str:
        """Sliders, a table of answers and a verdict."""
        shape = tuple(len(axis.ticks) for axis in self.axes)
        methods = []
        for name, answers in self.answers.items():
            found = np.asarray(answers)
            if found.shape != shape or found.min() < 0 or found.max() >= len(self.words):
                raise InvalidInputError(f"Explorer: answers of {name} must be places in words, of shape {shape}.")
            methods.append({"name": name, "answers": found.ravel().tolist()})
        sliders = "".join(
            f'<label><span>{escape(axis.name)}</span><input type="range" min="0" max="{len(axis.ticks) - 1}" '
            f'value="{axis.start}" aria-label="{escape(axis.name)}"><output></output></label>'
            for axis in self.axes
        )
        rows = "".join(f'<tr><th scope="row">{escape(name)}</th><td class="answer"></td></tr>' for name in self.answers)
        data = {
            "axes": [{"ticks": [float(tick) for tick in axis.ticks]} for axis in self.axes],
            "methods": methods,
            "words": list(self.words),
        }
        caption = f"<p>{escape(self.caption)}</p>" if self.caption else ""
        return (
            f'<div class="explorer">{caption}{sliders}<p class="verdict" role="status" aria-live="polite"></p>'
            f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>{_data(data)}</div>'
        )


def _data(document: Any) -> str:
    """JSON that no text inside can end."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'


@dataclass(frozen=True, eq=False)
class Section:
    """One experiment: what was asked, what was found, and how to repeat it.

    Attributes
    ----------
    key : str
        Its place in the page; letters, digits and `-`.
    title, asked : str
        What it is, and the question it answers.
    parts : list of Part
        What was found.
    facts : dict of str -> str
        Settings, seed, versions, time.
    """

    key: str
    title: str
    asked: str
    parts: Sequence[Part]
    facts: Mapping[str, str] = field(default_factory=dict)

    def html(self) -> str:
        """A section with a heading."""
        facts = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in self.facts.items())
        listed = f'<dl class="facts">{facts}</dl>' if facts else ""
        body = "".join(part.html() for part in self.parts)
        return (
            f'<section id="{escape(self.key)}"><h2>{escape(self.title)}</h2><p class="asked">{escape(self.asked)}</p>'
            f"{body}{listed}</section>"
        )
