"""Line plots in panels: colours, scales and the common legend."""

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.report.line_plots import COLOURS, REFERENCE, Line, LinePanel, plot_lines


def test_label_has_one_colour_in_all_panels_and_one_legend_entry():
    first = LinePanel("a", [Line("p", [1, 2], [1, 2]), Line("q", [1, 2], [2, 1])])
    second = LinePanel("b", [Line("q", [1, 2], [3, 1]), Line("true", [1, 2], [0, 0], colour=REFERENCE)])
    figure = plot_lines([first, second], x_label="x", y_label="y")
    drawn = [[line.get_color() for line in axes.lines] for axes in figure.axes]
    assert drawn == [[COLOURS[0], COLOURS[1]], [COLOURS[1], REFERENCE]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["p", "q", "true"]


def test_points_band_and_scales_are_those_of_the_arguments():
    band = Line("p", [1.0, 10.0], [0.1, 0.2], low=[0.05, 0.1], high=[0.2, 0.4])
    figure = plot_lines([LinePanel("a", [band])], x_label="x", y_label="y", log_x=True, log_y=True, y_range=(0.01, 1))
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylim()) == ("log", "log", (0.01, 1.0))
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[1.0, 0.1], [10.0, 0.2]])
    (corners,) = (path.vertices for path in axes.collections[0].get_paths())
    assert {(1.0, 0.05), (10.0, 0.4)} <= {tuple(corner) for corner in corners}


def test_unused_axes_are_hidden():
    one = LinePanel("a", [Line("p", [1, 2], [1, 2])])
    figure = plot_lines([one] * 4, x_label="x", y_label="y", n_columns=3)
    assert [axes.get_visible() for axes in figure.axes] == [True] * 4 + [False] * 2


def test_empty_panels_raise():
    with pytest.raises(InvalidInputError, match="panels is empty"):
        plot_lines([], x_label="x", y_label="y")
