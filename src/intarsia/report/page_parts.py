"""Building blocks of a report page: sortable tables, curves that show their values, images, sliders over a grid."""

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

_LONG_TEXT = 60  # characters; a longer cell would be a thin and very tall column on a phone
_WIDTH, _HEIGHT = 720, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 46
_DASHES = {"--": "7 4", ":": "2 4", "-.": "7 3 2 3"}  # matplotlib's line style -> SVG's dash lengths


class Part(ABC):
    """Element of a section that can be written as HTML."""

    @abstractmethod
    def html(self) -> str:
        """Return the element as HTML; text is escaped."""


@dataclass(frozen=True)
class Words(Part):
    """Paragraph of plain text.

    Examples
    --------
    >>> Words("a < b").html()
    '<p>a &lt; b</p>'
    """

    text: str

    def html(self) -> str:
        """Return the paragraph as HTML."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Table(Part):
    """Table with headings; a click on a heading sorts the rows.

    Examples
    --------
    >>> '<button type="button">error</button>' in Table(["error"], [[0.25]]).html()
    True
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    def html(self) -> str:
        """Return the table in a box that scrolls on its own, so that the page does not."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidInputError(
                    f"Table: a row has {len(row)} cells, but there are {len(self.columns)} columns. Pass one cell per "
                    f"column."
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
    """Return the class attribute that aligns a heading with its numbers."""
    kinds = [type(row[column]) for row in rows if row[column] is not None]
    return ' class="number"' if kinds and all(issubclass(kind, (int, float, Rounded)) for kind in kinds) else ""


@dataclass(frozen=True)
class Rounded:
    """Number with the number of significant digits to show."""

    value: float
    digits: int


def _cell(value: Any) -> str:
    """Return the HTML of a table cell."""
    if isinstance(value, (bool, np.bool_)):
        return f"<td>{'yes' if value else 'no'}</td>"
    if value is None or (isinstance(value, (float, np.floating)) and not math.isfinite(value)):
        return '<td class="number" data-value="">–</td>'
    if isinstance(value, Rounded):
        return f'<td class="number" data-value="{value.value:.12g}">{value.value:.{value.digits}g}</td>'
    if isinstance(value, (int, float, np.integer, np.floating)):
        return f'<td class="number" data-value="{float(value):.12g}">{short_number(float(value))}</td>'
    text = str(value)
    kind = ' class="long"' if len(text) > _LONG_TEXT else ""
    return f"<td{kind}>{escape(text)}</td>"


def short_number(value: float) -> str:
    """Format a number with four significant digits, or as an integer if it is one.

    Examples
    --------
    >>> short_number(0.123456), short_number(12345.0), short_number(1e-7)
    ('0.1235', '12345', '1e-07')
    """
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class Picture(Part):
    """Image of a matplotlib figure, or of the bytes of a PNG file, embedded in the page."""

    figure: Any
    caption: str
    dpi: int = 80

    def html(self) -> str:
        """Return an image with its data inside."""
        content = self.figure
        if not isinstance(content, bytes):
            buffer = io.BytesIO()
            self.figure.savefig(buffer, format="png", dpi=self.dpi)
            content = buffer.getvalue()
        data = base64.b64encode(content).decode("ascii")
        return (
            f'<figure><img src="data:image/png;base64,{data}" alt="{escape(self.caption)}" loading="lazy">'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


@dataclass(frozen=True, eq=False)
class Curves(Part):
    """Curves in one plot; the pointer shows their values."""

    lines: Sequence[Line]
    x_label: str
    y_label: str
    caption: str = ""
    log_x: bool = False
    log_y: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None

    def html(self) -> str:
        """Return an SVG drawing, with the numbers for the pointer as JSON."""
        curves = [_finite(line, self.log_x, self.log_y) for line in self.lines]
        curves = [(x, y, line) for x, y, line in curves if x.size]
        if not curves:
            return f"<p>{escape(self.caption or self.y_label)}: no points.</p>"
        x_scale = _Scale(self.x_range or _span([x for x, _, _ in curves]), self.log_x, _LEFT, _WIDTH - _RIGHT)
        y_scale = _Scale(self.y_range or _span([y for _, y, _ in curves]), self.log_y, _HEIGHT - _BOTTOM, _TOP)
        shapes, records = [*_axes(x_scale, y_scale, self.x_label, self.y_label)], []
        colours = line_colours([LinePanel("", [line for _, _, line in curves])])
        for x, y, line in curves:
            colour, positions, heights = colours[line.label], x_scale(x), y_scale(y)
            shapes += _band(line, x_scale, y_scale, colour)
            dashes = f' stroke-dasharray="{_DASHES[line.dashes]}"' if line.dashes in _DASHES else ""
            shapes.append(
                f'<polyline points="{_points(positions, heights)}" fill="none" stroke="{colour}" '
                f'stroke-width="2"{dashes}/>'
            )
            if x.size < 2:
                shapes.append(f'<circle cx="{positions[0]:.1f}" cy="{heights[0]:.1f}" r="3.5" fill="{colour}"/>')
            records.append(
                {
                    "label": line.label,
                    "colour": colour,
                    "at": positions.round(2).tolist(),
                    "x": x.tolist(),
                    "y": y.tolist(),
                }
            )
        shapes.append(f'<line class="guide" x1="0" x2="0" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
        legend = " ".join(
            f'<span><span class="key" style="background:{colour}"></span>{escape(label)}</span>'
            for label, colour in colours.items()
        )
        caption = f"{escape(self.caption)}<br>{legend}" if self.caption else legend
        return (
            f'<figure><div class="curves"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(self.caption or self.y_label)}">{"".join(shapes)}</svg><div class="tip"></div>'
            f"{_data({'width': _WIDTH, 'lines': records})}</div><figcaption>{caption}</figcaption></figure>"
        )


@dataclass(frozen=True, eq=False)
class Chart(Part):
    """Panels of `plot_lines` as interactive curves, all on the same scale."""

    chart: LineChart

    def html(self) -> str:
        """Return a drawing for each panel, side by side where there is room."""
        chart = self.chart
        curves = [_finite(line, chart.log_x, chart.log_y) for panel in chart.panels for line in panel.lines]
        x_range, y_range = (_span([curve[axis] for curve in curves if curve[0].size]) for axis in (0, 1))
        colours = line_colours(chart.panels)
        plots = "".join(
            Curves(
                [replace(line, colour=colours[line.label], label=" ".join(line.label.split())) for line in panel.lines],
                chart.x_label, chart.y_label, panel.title, chart.log_x, chart.log_y, x_range, chart.y_range or y_range,
            ).html()
            for panel in chart.panels
        )  # fmt: skip
        title = f"<h3>{escape(chart.title)}</h3>" if chart.title else ""
        return f'{title}<div class="multiples">{plots}</div>' if len(chart.panels) > 1 else title + plots


def _span(values: Sequence[Any]) -> tuple[float, float] | None:
    """Return the smallest and the largest of all values, or None if there are none."""
    numbers = np.concatenate(values) if values else np.zeros(0)
    return (float(numbers.min()), float(numbers.max())) if numbers.size else None


def _points(positions: Any, heights: Any) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(positions, heights, strict=True))


def _band(line: Line, x_scale: _Scale, y_scale: _Scale, colour: str) -> list[str]:
    """Return the polygon between the lower and the upper end of a line's band."""
    if line.low is None or line.high is None:
        return []
    x, low, high = (np.asarray(values, dtype=float).ravel() for values in (line.x, line.low, line.high))
    valid = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    if y_scale.log:
        valid &= low > 0
    if x_scale.log:
        valid &= x > 0
    positions = x_scale(x[valid])
    points = f"{_points(positions, y_scale(low[valid]))} {_points(positions[::-1], y_scale(high[valid])[::-1])}"
    return [f'<polygon points="{points}" fill="{colour}" fill-opacity="0.15"/>']


def _finite(line: Line, log_x: bool, log_y: bool) -> tuple[Any, Any, Line]:
    """Return the points of a line that are finite, and positive on logarithmic axes."""
    x, y = np.asarray(line.x, dtype=float).ravel(), np.asarray(line.y, dtype=float).ravel()
    if x.shape != y.shape:
        raise InvalidInputError(
            f"Curves: {line.label} has {x.size} x values and {y.size} y values. Pass arrays of equal length."
        )
    valid = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not log_x)) & ((y > 0) | (not log_y))
    return x[valid], y[valid], line


class _Scale:
    """Map from values to coordinates of the drawing, with round ticks."""

    def __init__(self, ends: Any, log: bool, first: float, last: float) -> None:
        self.log, self.first, self.last = log, first, last
        self.low, self.high = (float(end) for end in (np.log10(ends) if log else ends))
        if self.high - self.low < 1e-12 * max(1.0, abs(self.high)):
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def __call__(self, values: Any) -> Any:
        clipped = np.clip(np.log10(values) if self.log else np.asarray(values, dtype=float), self.low, self.high)
        return self.first + (clipped - self.low) / (self.high - self.low) * (self.last - self.first)

    @property
    def ticks(self) -> list[float]:
        """Round numbers inside the range."""
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4.0))
        step *= next(factor for factor in (1, 2, 5, 10) if (self.high - self.low) / (step * factor) <= 6)
        if self.log:
            step = max(1.0, round(step))
        start = math.ceil(self.low / step - 1e-9) * step
        positions = [start + k * step for k in range(int((self.high - start) / step + 1e-9) + 1)]
        return [10.0**value for value in positions] if self.log else positions


def _axes(x_scale: _Scale, y_scale: _Scale, x_label: str, y_label: str) -> list[str]:
    """Return the SVG elements of both axes with ticks and labels."""
    floor = _HEIGHT - _BOTTOM
    shapes = [f'<path class="axis" d="M{_LEFT} {_TOP}V{floor}H{_WIDTH - _RIGHT}" fill="none"/>']
    for tick, position in zip(x_scale.ticks, map(float, map(x_scale, x_scale.ticks)), strict=True):
        anchor = "middle" if position < _WIDTH - 2 * _RIGHT else "end"  # otherwise the last label would be cut off
        shapes.append(f'<text x="{position:.1f}" y="{floor + 18}" text-anchor="{anchor}">{_tick_text(tick)}</text>')
    for tick, position in zip(y_scale.ticks, map(float, map(y_scale, y_scale.ticks)), strict=True):
        shapes.append(
            f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{position:.1f}" y2="{position:.1f}"/>'
        )
        shapes.append(f'<text x="{_LEFT - 6}" y="{position + 4:.1f}" text-anchor="end">{_tick_text(tick)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    shapes.append(f'<text class="name" x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    shapes.append(f'<text class="name" x="8" y="18">{escape(y_label)}</text>')
    return shapes


def _tick_text(value: float) -> str:
    return f"{value:.6g}" if value == 0 or 1e-4 <= abs(value) < 1e6 else f"{value:.0e}"


@dataclass(frozen=True)
class Axis:
    """Slider with a name and the values it can take."""

    name: str
    ticks: Sequence[float]
    start: int = 0


@dataclass(frozen=True, eq=False)
class Explorer(Part):
    """Two sliders over a grid of precomputed answers; shows which methods differ from the first one.

    Attributes
    ----------
    axes : pair of Axis
        The two sliders.
    answers : dict of str -> int array (n_first, n_second)
        For each method, the index into `words` of its answer at each grid point.
    words : list of str
        Texts of the possible answers.
    """

    axes: tuple[Axis, Axis]
    answers: Mapping[str, Any]
    words: Sequence[str]
    caption: str = ""

    def html(self) -> str:
        """Return the sliders, a table of answers and a verdict."""
        shape = tuple(len(axis.ticks) for axis in self.axes)
        methods = []
        for name, answers in self.answers.items():
            indices = np.asarray(answers)
            if indices.shape != shape or indices.min() < 0 or indices.max() >= len(self.words):
                raise InvalidInputError(
                    f"Explorer: answers of {name} must be indices into words (0 to {len(self.words) - 1}) of shape "
                    f"{shape}."
                )
            methods.append({"name": name, "answers": indices.ravel().tolist()})
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
    """Return a JSON script element that no text inside can close."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'


@dataclass(frozen=True, eq=False)
class Section:
    """Section of a page: a question, the results, and how to repeat them.

    Attributes
    ----------
    key : str
        Anchor of the section in the page: letters, digits and `-`.
    title, question : str
        Heading, and the question that the section answers.
    parts : list of Part
        Results.
    facts : dict of str -> str
        Settings, seed, versions, time.
    """

    key: str
    title: str
    question: str
    parts: Sequence[Part]
    facts: Mapping[str, str] = field(default_factory=dict)

    def html(self) -> str:
        """Return the section with its heading as HTML."""
        facts = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in self.facts.items())
        facts_list = f'<dl class="facts">{facts}</dl>' if facts else ""
        body = "".join(piece.html() for piece in self.parts)
        return (
            f'<section id="{escape(self.key)}"><h2>{escape(self.title)}</h2>'
            f'<p class="question">{escape(self.question)}</p>{body}{facts_list}</section>'
        )
