"""Plots of results."""

from intarsia.report.plots import detect_grid, plot_comparison, plot_marginals, save_figure

__all__ = ["detect_grid", "plot_comparison", "plot_marginals", "save_figure"]
