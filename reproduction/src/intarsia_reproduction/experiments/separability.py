"""Counterexamples in which learning with approximate inference fails (Kulesza2007): triangle, diamond, Figures 4, 5."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from intarsia._core.validation import FloatArray
from intarsia.datasets.counterexamples import (
    TRIANGLE_INPUTS,
    diamond_examples,
    diamond_graph,
    diamond_theta,
    triangle_examples,
    triangle_scores,
)
from intarsia.diagnostics import algorithmically_separable, mistake_bound, separable
from intarsia.exceptions import CompatibilityWarning, ConvergenceWarning
from intarsia.inference import InferenceMethod, infer
from intarsia.inference.exact.brute_force import BruteForce
from intarsia.inference.messages.belief_propagation import BeliefPropagation
from intarsia.inference.relaxation.lp_relaxation import LPRelaxation
from intarsia.learning.margin_example import WRONG_MASS, MarginExample
from intarsia.learning.structured_perceptron import StructuredPerceptron
from intarsia.report.line_plots import COLOURS
from intarsia.report.plots import INK, QUIET
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.separable_data import data_separability, risk_and_bound

# Colours where no example is labelled correctly, only the first, only the second, or both.
_REGIONS = ("#ffffff", "#d9d9d9", "#bdbdbd", INK)


def plot_path(paths: Mapping[str, FloatArray], *, goal: tuple[float, float] | None = None, title: str = "") -> Figure:
    """Plot the weights of two features after each step; an arrow points to weights that make no mistakes.

    Examples
    --------
    >>> figure = plot_path({"perceptron": np.array([[0.0, 0.0], [1.0, 0.5]])}, goal=(1.0, -1.0))
    >>> figure.axes[0].lines[0].get_label()
    'perceptron'
    """
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (label, path), colour in zip(paths.items(), COLOURS, strict=False):
        axes.plot(path[:, 0], path[:, 1], color=colour, marker="o", markersize=3, linewidth=0.8, label=label)
    if goal is not None:
        end = 0.6 * np.array(goal)
        axes.update_datalim([end])  # an annotation alone does not widen the axes
        axes.autoscale_view()
        axes.annotate("", xy=tuple(end), xytext=(0.0, 0.0), arrowprops={"arrowstyle": "->", "color": COLOURS[1]})
        caption = f"towards ({goal[0]:g}, {goal[1]:g}),\nwhich makes no mistake "
        axes.text(end[0], end[1], caption, color=COLOURS[1], fontsize=8, ha="right", va="top")
    _finish(axes)
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    axes.set_title(title, fontsize=9, color=INK)
    return figure


def plot_regions(ticks: FloatArray, regions: Mapping[str, FloatArray], *, title: str = "") -> Figure:
    """Plot the plane of weights for each inference method: black where both examples are labelled correctly.

    Parameters
    ----------
    ticks : (n,) array
        Values of both weights.
    regions : dict of (n, n) arrays
        Which examples are correct: 0 for none, 1 for the first, 2 for the second, 3 for both. There is a row for each
        value of the second weight.

    Examples
    --------
    >>> figure = plot_regions(np.linspace(-1, 1, 3), {"exact": np.zeros((3, 3)), "loopy": np.ones((3, 3))})
    >>> [axes.get_title() for axes in figure.axes]
    ['exact', 'loopy']
    """
    figure = Figure(figsize=(4.2 * len(regions), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    half = 0.5 * float(ticks[1] - ticks[0])
    span = (float(ticks[0]) - half, float(ticks[-1]) + half)
    for axes, (name, values) in zip(np.atleast_1d(figure.subplots(1, len(regions))), regions.items(), strict=True):
        axes.imshow(values, origin="lower", extent=(*span, *span), cmap=ListedColormap(_REGIONS), vmin=-0.5, vmax=3.5)
        axes.set_title(name, fontsize=9, color=INK)
        _finish(axes)
    figure.suptitle(f"{title}\nblack: both, grey: one of them", fontsize=9, color=INK)
    return figure


def _finish(axes: object) -> None:
    axes.set_xlabel("$w_1$")  # type: ignore[attr-defined]
    axes.set_ylabel("$w_2$")  # type: ignore[attr-defined]
    axes.axhline(0.0, color=QUIET, linewidth=0.6)  # type: ignore[attr-defined]
    axes.axvline(0.0, color=QUIET, linewidth=0.6)  # type: ignore[attr-defined]
    axes.spines[["top", "right"]].set_visible(False)  # type: ignore[attr-defined]


VALUE = ""
_STRONG = 5000.0  # log lambda; weights are of the order of 1
_COUPLINGS = (2.0, 5.0, 10.0, 50.0, _STRONG)
# Each node is labelled by its belief, as in the paper. Near the point where labels flip, messages grow slowly and need
# many sweeps.
_PARALLEL = BeliefPropagation(schedule="parallel", rounding="beliefs", max_iter=20_000, tol=1e-10)
_FORWARD_BACKWARD = BeliefPropagation(schedule="forward_backward", rounding="beliefs", max_iter=20_000, tol=1e-10)


def separability(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the paper's counterexamples, its positive result, and Figures 4 and 5.

    The quick version draws fewer triangles and a coarser Figure 5.

    Examples
    --------
    >>> separability(quick=True).tasks[0].key
    'triangle-exact'
    """
    n_draws, n_grid = (50, 15) if quick else (500, 61)
    diamond, triangle = diamond_examples(_STRONG), triangle_examples()
    rows: list[tuple[str, str, float | None, Callable[[], Finding]]] = [
        ("triangle-exact", "triangles right, of 3: exact, w = (1, 1, 1)", 3.0, partial(_n_right, BruteForce())),
        ("triangle-lp", "triangles right, of 3: relaxed, w = (1, 1, 1)", 0.0, partial(_n_right, LPRelaxation())),
        ("triangle-half", "triangle: mu = 1/2 just where half the sum wins", 1.0, partial(_halves, n_draws)),
        ("triangle-ratio", "triangle: largest relaxed / exact score", 1.5, partial(_ratio, n_draws)),
        ("triangle-separable", "triangle: separable, exact (1 is yes)", 1.0, partial(_separable, False)),
        ("triangle-lp-separable", "triangle: separable, relaxed (1 is yes)", 0.0, partial(_separable, True)),
        ("gamma-linear", "gamma: printed linear updates", 1.089339, _gamma_linear),
    ]
    for coupling in _COUPLINGS:
        paper = 1.089339 if coupling == _STRONG else None
        label = f"gamma: parallel max-product, log lambda {coupling:g}"
        rows.append((f"gamma-{coupling:g}", label, paper, partial(_gamma_measured, coupling, _PARALLEL)))
    flip = "label at alpha 1, beta -0.95"
    rows += [
        ("gamma-in-turn", "gamma: forward-backward sweeps", None, partial(_gamma_measured, _STRONG, _FORWARD_BACKWARD)),
        ("flip-exact", f"{flip}: exact", 1.0, partial(_label, BruteForce())),
        ("flip-parallel", f"{flip}: parallel max-product", -1.0, partial(_label, _PARALLEL)),
        ("flip-in-turn", f"{flip}: forward-backward sweeps", None, partial(_label, _FORWARD_BACKWARD)),
        ("path-1", "parallel max-product: change of w_1 per pass", -0.05, partial(_net_step, 0)),
        ("path-2", "parallel max-product: change of w_2 per pass", 0.05, partial(_net_step, 1)),
        ("learns-lp", "mistakes, diamond: relaxed", None, partial(_mistakes, diamond, LPRelaxation())),
        ("bound-lp", "mistakes, diamond: relaxed, Theorem 1", None, partial(_bound, diamond, LPRelaxation())),
        ("learns-exact", "mistakes, diamond: exact", None, partial(_mistakes, diamond, BruteForce())),
        ("bound-exact", "mistakes, diamond: exact, Theorem 1", None, partial(_bound, diamond, BruteForce())),
        ("learns-triangle", "mistakes, triangle: exact", None, partial(_mistakes, triangle, BruteForce())),
        ("bound-triangle", "mistakes, triangle: exact, Theorem 1", None, partial(_bound, triangle, BruteForce())),
        ("regions", "Figure 5: fraction of black inside the paper's lines", 1.0, partial(_regions, n_grid)),
    ]
    tasks = [_task(*row) for row in rows]
    if not quick:
        tasks += _data_tasks(data)
    return Experiment(
        "separability",
        "Learning through approximate inference (Kulesza2007)",
        tasks,
        _figures,
        "the paper's own two examples; first words, snakes and horses of their training sets",
        question="When does a learner fail although its inference method has a guarantee?",
    )


def _task(key: str, label: str, paper: float | None, find: Callable[[], Finding]) -> Task:
    return Task(key, label, {VALUE: paper}, "as the row says", lambda checkpoint: find(), significant=7)


_DATA = {
    "words": "handwritten words, chains of 26 letters",
    "snakes": "snakes, 11 labels",
    "horses": "horses of 16 x 16 blocks",
}


def _data_tasks(data: Path | None) -> list[Task]:
    """Return the tasks about real data: separability, and Theorem 2 beside the test error."""
    tasks = []
    for name, sizes in (("words", (10, 50, 100, 200)), ("snakes", (10, 20, 50)), ("horses", (4, 5, 6, 10))):
        for n in sizes:
            label = f"{_DATA[name]}: first {n} are separable by relaxed inference (1 is yes)"
            tasks.append(_task(f"data-{name}-{n}", label, None, partial(data_separability, name, n, data)))
    for name, n, n_test in (("words", 50, 200), ("snakes", 10, 50), ("horses", 4, 50)):
        run = partial(_run_bound, name, n, n_test, data)
        label = f"{_DATA[name]}, {n} to learn from"
        figures = dict.fromkeys(("bound of Theorem 2", "test error"))
        tasks.append(Task(f"theorem-2-{name}", label, figures, "error rate", run, separate=True))
    return tasks


def _run_bound(name: str, n: int, n_test: int, data: Path | None, checkpoint: Path) -> Finding:
    return risk_and_bound(name, n, n_test, data)


def _n_right(method: InferenceMethod) -> Finding:
    n_right, answers = 0, []
    for number, triangle in enumerate(triangle_examples()):
        example = MarginExample(triangle, number)
        mu, _ = example.answer(example.theta(np.ones(3)), method)
        answers.append(mu[:6])
        n_right += example.wrong_mass(mu) <= WRONG_MASS
    return Finding({VALUE: float(n_right)}, 3, {"answers": np.array(answers)})


def _draws(n: int) -> FloatArray:
    return np.random.default_rng(0).uniform(0.1, 1.0, size=(n, 3))


def _halves(n: int) -> Finding:
    """Check section 3.1: mu = 1/2 is the optimum exactly if half the sum exceeds the largest coupling."""
    agree = 0
    for couplings in _draws(n):
        scores = triangle_scores(tuple(couplings))
        mu = infer(scores.graph, scores.theta(np.ones(3)), "lp_relaxation", task="map").mu
        half = mu is not None and bool((np.abs(mu[:6] - 0.5) < 1e-6).all())
        agree += half == (couplings.sum() / 2 > couplings.max())
    return Finding({VALUE: agree / n}, n)


def _ratio(n: int) -> Finding:
    ratios = []
    for couplings in [np.ones(3), *_draws(n)]:
        scores = triangle_scores(tuple(couplings))
        result = infer(scores.graph, scores.theta(np.ones(3)), "lp_relaxation", task="map")
        ratios.append(result.upper_bound / couplings.max())
    return Finding({VALUE: max(ratios)}, len(ratios))


def _separable(relaxed: bool) -> Finding:
    data = triangle_examples()
    result = algorithmically_separable(data) if relaxed else separable(data)
    settings: dict[str, Any] = {"gamma": result.gamma, "constraints": result.n_constraints}
    if result.certificate is not None:
        settings |= {
            "answers in the proof": int(result.certificate.examples.size),
            "residual": result.certificate.residual,
        }
    return Finding({VALUE: float(bool(result.separable))}, len(TRIANGLE_INPUTS), settings=settings)


def _gamma_linear() -> Finding:
    """Iterate the printed updates of the exponents (p, q) of the three messages until q / p converges."""
    ab, ba, bb = (np.zeros(2) for _ in range(3))
    alpha, beta = np.eye(2)
    for _ in range(200):
        ab, ba, bb = ba + alpha, ab + bb + beta, 2 * ab + beta
    return Finding({VALUE: float(ab[1] / ab[0])}, 200)


def _first_label(alpha: float, beta: float, coupling: float, method: InferenceMethod) -> float:
    """Return the label of the first node, +1 or -1; state 0 is +1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = infer(diamond_graph(), diamond_theta(alpha, beta, coupling), method, task="map")
    return 0.0 if result.assignment is None else 1.0 - 2.0 * float(result.assignment[0])


def _gamma_measured(coupling: float, method: InferenceMethod) -> Finding:
    """Compute the ratio alpha / -beta at which the label flips, with alpha = 1."""
    low, high = 0.5, 1.5
    for _ in range(34):
        middle = 0.5 * (low + high)
        if _first_label(1.0, -middle, coupling, method) > 0:
            low = middle
        else:
            high = middle
    return Finding({VALUE: 2.0 / (low + high)}, 34, settings={"log lambda": coupling})


def _label(method: InferenceMethod) -> Finding:
    return Finding({VALUE: _first_label(1.0, -0.95, _STRONG, method)}, 1)


def _perceptron_path(method: InferenceMethod, n_passes: int = 20) -> FloatArray:
    """Return the weights after every step in the paper's units: half of ours, as there are two nodes per type."""
    learner = StructuredPerceptron(average=False, shuffle=False, path="steps", max_iter=n_passes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompatibilityWarning)
        fit = learner.minimize(diamond_examples(_STRONG), method)
    return np.asarray(fit.history["path"] / 2.0)


def _net_step(weight: int) -> Finding:
    path = _perceptron_path(_PARALLEL, 10)
    steps = np.diff(path[::2], axis=0)[:, weight]
    return Finding(
        {VALUE: float(steps.mean())}, steps.size, {"path": path}, {"largest deviation": float(np.ptp(steps))}
    )


def _mistakes(data: list[Any], method: InferenceMethod) -> Finding:
    result = mistake_bound(data, inference=method)
    settings = {
        "converged": result.converged,
        "bound": result.bound,
        "bound with the longest step": result.bound_of_run,
    }
    return Finding({VALUE: float(result.mistakes)}, len(data), settings=settings)


def _bound(data: list[Any], method: InferenceMethod) -> Finding:
    result = algorithmically_separable(data, inference=method)
    settings = {"gamma": result.gamma, "gamma at least": result.gamma_at_least, "radius": result.radius}
    return Finding({VALUE: float(result.mistake_bound or np.nan)}, len(data), settings=settings)


def _right_regions(n: int) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return which diamonds exact inference and max-product label correctly, for a grid of weights."""
    ticks = np.linspace(-1.0, 1.0, n)
    regions = {"exact": np.zeros((n, n)), "parallel": np.zeros((n, n))}
    examples = [MarginExample(diamond, i) for i, diamond in enumerate(diamond_examples(_STRONG))]
    for i, second in enumerate(ticks):
        for j, first in enumerate(ticks):
            for bit, example in enumerate(examples):
                theta = example.theta(np.array([first, second]))
                for name, method in (("exact", BruteForce()), ("parallel", _PARALLEL)):
                    right = example.wrong_mass(example.answer(theta, method)[0]) <= WRONG_MASS
                    regions[name][i, j] += right * (bit + 1)  # 1: only the first, 2: only the second, 3: both
    return ticks, regions


def _regions(n: int) -> Finding:
    ticks, regions = _right_regions(n)
    gamma = 1.0893389
    w_1, w_2 = np.meshgrid(ticks, ticks)
    expected = (w_1 + 0.95 * gamma * w_2 < 0) & (0.95 * gamma * w_1 + w_2 > 0)
    both_right = regions["parallel"] == 3
    fraction = float(expected[both_right].mean()) if both_right.any() else np.nan
    return Finding({VALUE: fraction}, n * n, {"ticks": ticks, **regions})


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    figures = {}
    if "path-1" in findings and "path" in findings["path-1"].arrays:
        paths = {"parallel max-product": findings["path-1"].arrays["path"]}
        figures["figure-4-perceptron-path"] = plot_path(
            paths, goal=(1.0, -1.0), title="The perceptron with loopy belief propagation (Figure 4)"
        )
    if "regions" in findings and "ticks" in findings["regions"].arrays:
        arrays = findings["regions"].arrays
        figures["figure-5-feasible-regions"] = plot_regions(
            arrays["ticks"],
            {"exact inference": arrays["exact"], "parallel max-product": arrays["parallel"]},
            title="Weights that label both diamonds rightly (Figure 5)",
        )
    return figures
