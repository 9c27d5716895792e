"""The report page as text: escaped and self-contained, with errors for invalid content."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from intarsia.exceptions import InvalidInputError
from intarsia.report.line_plots import Line, LinePanel, plot_lines
from intarsia.report.page import render_page, write_page
from intarsia.report.page_parts import Axis, Chart, Curves, Explorer, Picture, Rounded, Section, Table, Words


def data_of(html):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', html, flags=re.S)[1])


def test_text_is_escaped_everywhere():
    hostile = "</script><script>alert(1)</script>"
    parts = [
        Words(hostile),
        Table([hostile], [[hostile]], hostile),
        Curves([Line(hostile, [1.0, 2.0], [1.0, 2.0])], hostile, hostile, hostile),
        Explorer((Axis(hostile, [0.0]), Axis("b", [0.0])), {hostile: [[0]]}, [hostile], hostile),
        Picture(Figure(figsize=(1, 1)), hostile, dpi=20),
    ]
    page = render_page(hostile, hostile, [Section("one", hostile, hostile, parts, {hostile: hostile})])
    assert "<script>alert" not in page
    assert page.count("<script>") == 1  # the script of the page


def test_page_needs_no_network():
    page = render_page("t", "l", [Section("one", "a", "b", [Picture(Figure(figsize=(1, 1)), "x", dpi=20)])])
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_cells_of_a_table():
    html = Table(["x"], [[None], [float("nan")], [True], [2], [np.float64(0.123456)], [Rounded(1.0893389, 7)]]).html()
    assert re.findall(r"<td[^>]*>(.*?)</td>", html) == ["–", "–", "yes", "2", "0.1235", "1.089339"]
    assert re.findall(r'data-value="(.*?)"', html) == ["", "", "2", "0.123456", "1.0893389"]


def test_table_rows_of_wrong_length_raise():
    with pytest.raises(InvalidInputError, match="a row has 1 cells, but there are 2 columns"):
        Table(["a", "b"], [[1]]).html()


def test_curves_drop_points_that_cannot_be_drawn():
    data = data_of(Curves([Line("a", [0, 1, 10, 100], [1, np.nan, 2, 3])], "x", "y", log_x=True).html())
    assert data["lines"][0]["x"] == [10.0, 100.0]
    at = data["lines"][0]["at"]
    assert at[0] < at[1] <= data["width"]
    assert "no points" in Curves([Line("a", [], [])], "x", "y").html()
    with pytest.raises(InvalidInputError, match="2 x values and 1 y values"):
        Curves([Line("a", [1, 2], [1])], "x", "y").html()


def test_chart_panels_have_common_scales_and_colours():
    first = LinePanel(
        "small", [Line("ours", [1, 10], [1.0, 2.0]), Line("best\nknown", [1, 10], [0.0, 0.0], dashes="--")]
    )
    second = LinePanel("large", [Line("best\nknown", [1, 10], [0.0, 0.0]), Line("ours", [1, 10], [4.0, 8.0])])
    html = Chart(plot_lines([first, second], x_label="n", y_label="error", title="Errors <", log_x=True).chart).html()
    assert "<h3>Errors &lt;</h3>" in html
    small, large = (
        {line["label"]: line for line in json.loads(text)["lines"]}
        for text in re.findall(r'<script type="application/json">(.*?)</script>', html, flags=re.S)
    )
    assert small["ours"]["y"] == [1.0, 2.0]
    assert large["best known"]["colour"] == small["best known"]["colour"] != small["ours"]["colour"]
    heights = [float(points.split()[-1].split(",")[1]) for points in re.findall(r'<polyline points="([^"]+)"', html)]
    bottom, top = heights[1], heights[3]  # both panels range from 0 to 8
    assert heights == pytest.approx([bottom + (top - bottom) * part for part in (0.25, 0.0, 0.0, 1.0)], abs=0.1)
    assert html.count("stroke-dasharray") == 1


def test_a_band_stays_inside_the_range():
    line = Line("a", [1, 2, 3], [1.0, 2.0, 3.0], low=[-9.0, 1.0, np.nan], high=[2.0, 9.0, 9.0])
    html = Chart(plot_lines([LinePanel("", [line])], x_label="x", y_label="y", y_range=(0.0, 4.0)).chart).html()
    corners = [tuple(map(float, one.split(","))) for one in re.search(r'<polygon points="([^"]+)"', html)[1].split()]
    heights = [y for _, y in corners]
    assert len(corners) == 4  # points without both ends are dropped
    floor, ceiling = max(heights), min(heights)  # 0 and 4
    assert heights == pytest.approx([floor, floor - (floor - ceiling) / 4, ceiling, (floor + ceiling) / 2], abs=0.1)


@pytest.mark.parametrize("values", [[1.0], [5.0, 5.0], [1e-12, 1e12], [-3.0, 0.0, 7.0]])
def test_every_range_has_ticks_inside(values):
    html = Curves([Line("a", np.arange(len(values)) + 1.0, values)], "x", "y").html()
    heights = [float(y) for y in re.findall(r'x1="64" x2="704" y1="([-\d.]+)"', html)]
    assert heights
    assert all(30 <= y <= 300 for y in heights)


def test_answers_outside_the_words_raise():
    axes = Axis("a", [0.0, 1.0]), Axis("b", [0.0])
    with pytest.raises(InvalidInputError, match=r"of shape \(2, 1\)"):
        Explorer(axes, {"m": [[0], [2]]}, ["x", "y"]).html()
    with pytest.raises(InvalidInputError, match=r"of shape \(2, 1\)"):
        Explorer(axes, {"m": [[0, 0]]}, ["x", "y"]).html()


def test_failed_page_keeps_the_old_file(tmp_path):
    path = tmp_path / "report" / "index.html"
    write_page(path, "old", "l", [])
    before = path.read_text(encoding="utf-8")
    with pytest.raises(InvalidInputError):
        write_page(path, "new", "l", [Section("one", "a", "b", [Table(["a"], [[1, 2]])])])
    assert path.read_text(encoding="utf-8") == before
    assert [one.name for one in path.parent.iterdir()] == ["index.html"]


def test_long_cells_get_more_room():
    text = Table(["verdict", "reason"], [["fails", "because " * 10]]).html()
    assert "<td>fails</td>" in text
    assert '<td class="long">because ' in text
