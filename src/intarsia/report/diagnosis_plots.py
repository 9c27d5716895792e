"""Plot of a diagnosis: learning curve, risk along the update direction, and gaps to exact inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from intarsia.report.line_plots import COLOURS
from intarsia.report.plots import INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from intarsia.diagnostics.check import Diagnosis

_VERDICT_COLOURS = {"fits": COLOURS[2], "fails": COLOURS[1], "uncertain": COLOURS[4]}


def plot_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Draw a diagnosis: risk by pass, risk along the update, and gaps to exact answers.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> from intarsia.diagnostics import diagnose_examples
    >>> figure = plot_diagnosis(diagnose_examples(diamond_examples(), n_passes=3))
    >>> len(figure.axes)
    3
    """
    figure = Figure(figsize=(11.0, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 3)
    _draw_learning_curve(axes[0], diagnosis)
    _draw_sweep(axes[1], diagnosis)
    _draw_gaps(axes[2], diagnosis)
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(colors=INK, labelsize=8)
    figure.suptitle(
        f"{diagnosis.learner} with {diagnosis.inference}: {diagnosis.verdict}",
        color=_VERDICT_COLOURS[diagnosis.verdict],
        fontsize=11,
    )
    return figure


def _draw_learning_curve(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the fraction of wrong labels and of misled steps by pass."""
    check = diagnosis.check("learning curve")
    axes.set_title("Wrong labels during learning", fontsize=9, color=INK)
    axes.set_xlabel("pass", fontsize=8)
    if check is None:
        return
    risks = check.arrays["risk"]
    axes.plot(
        np.arange(risks.size), risks, color=COLOURS[0], marker="o", markersize=3, label="fraction of wrong labels"
    )
    if "misled" in check.arrays:
        misled_fraction = check.arrays["misled"] / np.maximum(check.arrays["mistakes"], 1.0)
        axes.plot(
            np.arange(1, misled_fraction.size + 1),
            misled_fraction,
            color=COLOURS[1],
            dashes=(3, 2),
            label="fraction of misled steps",
        )
    axes.set_ylim(-0.05, 1.05)
    axes.legend(fontsize=7, frameon=False)


def _draw_sweep(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the fraction of wrong labels along the update direction."""
    check = diagnosis.check("along the update")
    axes.set_title("Wrong labels along the update direction", fontsize=9, color=INK)
    axes.set_xlabel("behind      last weights      ahead", fontsize=8)
    if check is None or not check.arrays:
        return
    axes.plot(check.arrays["step"], check.arrays["risk"], color=COLOURS[0], marker="o", markersize=3)
    axes.axvline(0.0, color=QUIET, linewidth=0.8)
    axes.set_ylim(-0.05, 1.05)


def _draw_gaps(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the gaps to exact inference of all examples, sorted."""
    name = "agreement with the best labelling"
    check = diagnosis.check(name) or diagnosis.check("agreement with exact marginals")
    labellings = check is not None and check.name == name
    axes.set_title("Score below the best, relative" if labellings else "Mean error of marginals", fontsize=9, color=INK)
    axes.set_xlabel("example, sorted", fontsize=8)
    if check is None or "gap" not in check.arrays:
        return
    gaps = np.sort(check.arrays["gap"])
    axes.bar(np.arange(1, gaps.size + 1), gaps, color=COLOURS[3])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not gaps.size or gaps.max() <= 0.0:
        axes.set_ylim(0.0, 1.0)
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=QUIET)
