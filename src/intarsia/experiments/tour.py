"""The tour: one noisy picture, every method, each beside the exact answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._validation import FloatArray
from intarsia.datasets.images import NoisyImage, load_noisy_image
from intarsia.exceptions import ConvergenceWarning, IntarsiaError
from intarsia.inference import InferenceResult, infer, method_class, method_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXACT = "junction_tree"
_TIME_LIMIT = 10.0


@dataclass
class Tour:
    """What the tour found: a row per method, and the images for the figure."""

    image: NoisyImage
    rows: list[dict[str, Any]] = field(default_factory=list)
    beliefs: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def model(self) -> dict[str, Any]:
        """Size of the model and how many pixels the noise turned over."""
        height, width = self.image.clean.shape
        wrong = int((self.image.clean != (self.image.noisy > 0)).sum())
        return {"height": height, "width": width, "n_variables": height * width, "pixels_wrong_before": wrong}

    @property
    def title(self) -> str:
        """One line on the model."""
        size = self.model
        return (
            f"A noisy {size['height']} x {size['width']} picture; {size['pixels_wrong_before']} of its "
            f"{size['n_variables']} pixels are turned over"
        )

    def figure(self) -> Figure:
        """Truth, observation and the marginals of each method."""
        from intarsia.report.plots import Panel, plot_comparison

        wrong = f"{self.model['pixels_wrong_before']} of {self.model['n_variables']} pixels turned over"
        panels = [
            Panel("clean picture", "what the methods should find", self.image.clean.astype(float)),
            Panel("noisy picture", wrong, -self.image.noisy, kind="input"),
        ]
        for row in sorted(self.rows, key=lambda row: not row["exact"]):
            if row["method"] in self.beliefs:
                caption = f"{row['pixels_wrong']} pixels wrong"
                if row["exact"]:
                    caption += ", exact"
                elif row["max_marginal_error"] is not None:
                    caption += f"; marginals off by up to {row['max_marginal_error']:.2g}"
                panels.append(Panel(row["method"], caption, self.beliefs[row["method"]]))
        return plot_comparison(panels, title=self.title)


def run_tour(*, height: int = 16, width: int = 24, seed: int = 0, report: Callable[[str], None] | None = None) -> Tour:
    """Run every method of the registry on the noisy picture and compare each with the exact answer.

    Methods that refuse the model (a forest method on a grid, enumeration) get a row that says why.

    Examples
    --------
    >>> tour = run_tour(height=4, width=6)
    >>> next(row["max_marginal_error"] for row in tour.rows if row["method"] == "junction_tree")
    0.0
    """
    tour = Tour(load_noisy_image(height, width, random_state=seed))
    small = load_noisy_image(3, 4, random_state=seed)
    exact: InferenceResult | IntarsiaError | None = None
    for name in [EXACT, *(name for name in method_names() if name != EXACT)]:
        if report is not None:
            report(f"running {name} ...")
        found = method_class(name)
        marginals = map_result = None
        refusal = ""
        # The first call compiles; a small picture takes that out of the times shown.
        if found.gives_marginals:
            _attempt(small, name, "marginals", seed)
            marginals = _attempt(tour.image, name, "marginals", seed)
        if found.gives_map and not isinstance(marginals, IntarsiaError):
            _attempt(small, name, "map", seed)
            map_result = _attempt(tour.image, name, "map", seed)
        if name == EXACT:
            exact = marginals
        for outcome in (marginals, map_result):
            if isinstance(outcome, IntarsiaError):
                refusal = str(outcome)
        tour.rows.append(_row(tour, name, marginals, map_result, exact, refusal))
    return tour


def _attempt(image: NoisyImage, name: str, task: str, seed: int) -> InferenceResult | IntarsiaError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the status is in the table
            limit = None if method_class(name).exact else _TIME_LIMIT
            return infer(image.graph, image.theta, name, task, random_state=seed, time_limit=limit)
    except IntarsiaError as error:
        return error


def _row(tour: Tour, name: str, marginals: Any, map_result: Any, exact: Any, refusal: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": name, "exact": name == EXACT, "log_partition": None, "log_partition_is": None,
        "max_marginal_error": None, "mean_marginal_error": None, "pixels_wrong": None, "map_score": None,
        "status": None, "seconds": None, "error": refusal or None,
    }  # fmt: skip
    clean = tour.image.clean
    seconds = 0.0
    labels = None
    for result in (map_result, marginals):
        if isinstance(result, InferenceResult):
            row["status"] = result.status.name
            seconds += result.seconds
            labels = result.assignment
    if isinstance(map_result, InferenceResult):
        row["map_score"] = map_result.score
    if isinstance(marginals, InferenceResult) and marginals.mu is not None:
        split = int(marginals.graph.variable_ptr[-1])
        row |= {"log_partition": marginals.log_partition, "log_partition_is": marginals.log_partition_is}
        tour.beliefs[name] = marginals.mu[:split].reshape(*clean.shape, 2)[..., 1]
        if isinstance(exact, InferenceResult) and exact.mu is not None:
            gap = np.abs(marginals.mu[:split] - exact.mu[:split])
            row |= {"max_marginal_error": float(gap.max()), "mean_marginal_error": float(gap.mean())}
    elif labels is not None:
        tour.beliefs[name] = labels.reshape(clean.shape).astype(float)
    if labels is not None:
        row["pixels_wrong"] = int((labels.reshape(clean.shape) != clean).sum())
        row["seconds"] = seconds
    return row
