"""Plots and report pages of results."""

from intarsia.report.confidence_plots import plot_reliability, plot_transitions
from intarsia.report.diagnosis_plots import plot_diagnosis
from intarsia.report.plots import detect_grid, plot_comparison, plot_marginals, save_figure
from intarsia.report.resolution_report import plot_explanation, report_resolution

__all__ = [
    "detect_grid", "plot_comparison", "plot_diagnosis", "plot_explanation", "plot_marginals", "plot_reliability",
    "plot_transitions", "report_resolution", "save_figure",
]  # fmt: skip
