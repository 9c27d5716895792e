"""Plots of reliability curves and of transitions between labels."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.metrics import reliability_curve
from intarsia.report import plot_reliability, plot_transitions, save_figure


def test_reliability_shows_every_curve_and_its_error(tmp_path):
    rng = np.random.default_rng(0)
    confidence = rng.random(300)
    curves = {
        "before": reliability_curve(rng.random(300) < 0.5, confidence),
        "after": reliability_curve(rng.random(300) < confidence, confidence),
    }
    figure = plot_reliability(curves, title="tokens")
    upper, lower = figure.axes
    np.testing.assert_array_equal(upper.lines[1].get_ydata(), curves["before"].accuracy)
    assert [text.get_text() for text in upper.get_legend().get_texts()] == [
        f"{name}: calibration error {curve.error:.3f}" for name, curve in curves.items()
    ]
    assert len(lower.patches) == sum(curve.count.size for curve in curves.values())
    save_figure(figure, tmp_path / "reliability.png")
    with pytest.raises(InvalidInputError, match="curves is empty"):
        plot_reliability({})


def test_transitions_show_scores_and_forbidden_pairs():
    figure = plot_transitions([[1.0, -2.5], [-np.inf, 0.0]], ["B-x", "I-x"])
    axes = figure.axes[0]
    assert sorted(text.get_text() for text in axes.texts) == ["-2.5", "0.0", "1.0", "×"]
    assert axes.images[0].get_clim() == (-2.5, 2.5)
    with pytest.raises(InvalidInputError, match="there are 3 labels"):
        plot_transitions(np.zeros((2, 2)), ["a", "b", "c"])
