"""Accuracy of perturbation gradients by the size of the perturbation (Domke2013, Fig. 3)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.gradients.back_propagation import BackPropagation
from intarsia.gradients.perturbation import PerturbationGradient
from intarsia.gradients.reversal import converge, reversal_of
from intarsia.graph import FactorGraph, grid_graph
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.losses import TrainingLabels, UnivariateLogistic, training_labels
from intarsia_reproduction.experiment import Experiment, Finding, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHORT_NAMES = {"tree_reweighted": "TRW", "mean_field": "MNF"}
STRENGTHS = (0.25, 0.5, 1.0, 2.0)
SIDES = {1: "one-sided", 2: "two-sided", 4: "four-sided"}
TOL = 1e-15
MAX_SWEEPS = 20_000


@dataclass(frozen=True)
class Settings:
    """Size of the experiment: side of the grid, number of random models, number of multipliers."""

    side: int = 10
    n_models: int = 24
    n_multipliers: int = 33

    @property
    def multipliers(self) -> FloatArray:
        """Multipliers from 1e-4 to 1e4."""
        return np.logspace(-4.0, 4.0, self.n_multipliers)


FULL = Settings()
QUICK = Settings(side=6, n_models=4, n_multipliers=17)


def perturbation(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the errors of one-, two- and four-sided perturbation gradients by step size.

    The models are random binary grids with standard normal scores of variables, scores of pairs with standard
    deviation s, a random labelling and the univariate logistic loss. The paper shows curves without numbers: errors
    fall with the multiplier while rounding dominates, and rise beyond an optimum. The optimum is lower, and at larger
    multipliers, the more sides are used.

    The true gradient is computed by back-propagation after complete convergence. The paper's reference, two-sided
    differences of every single score, is computed as well; a row shows its distance ("single scores moved").
    The paper states neither its values of s nor its norm. Our values of s are in the rows, and errors are 2-norms
    relative to the norm of the gradient.

    Examples
    --------
    >>> [task.key for task in perturbation(quick=True).tasks][:2]
    ['tree_reweighted_s0p25', 'tree_reweighted_s0p5']
    """
    settings = QUICK if quick else FULL
    tasks = [
        Task(
            key=f"{method}_s{strength:g}".replace(".", "p"),
            label=f"{short}, s = {strength:g}",
            paper=dict.fromkeys([*(_best(sides) for sides in SIDES), *(_at_one(sides) for sides in SIDES), _SINGLE]),
            unit="relative error (median)",
            run=partial(_run, method, strength, settings),
        )
        for method, short in _SHORT_NAMES.items()
        for strength in STRENGTHS
    ]
    title = "Accuracy of perturbation gradients (Domke 2013, Fig. 3)"
    return Experiment(
        "perturbation",
        title,
        tasks,
        _figures,
        "random models, drawn from fixed seeds",
        question="How accurate are gradients by finite perturbations, by number of sides and step size?",
    )


_SINGLE = "single scores moved"


def _best(sides: int) -> str:
    return f"{SIDES[sides]}, best multiplier"


def _at_one(sides: int) -> str:
    return f"{SIDES[sides]}, multiplier 1"


def _run(method: str, strength: float, settings: Settings, checkpoint: Path | None = None) -> Finding:
    """Measure the errors of all multipliers on all models of one setting."""
    multipliers = settings.multipliers
    errors = np.empty((len(SIDES), multipliers.size, settings.n_models))
    single = np.empty(settings.n_models)
    inference = METHODS.resolve(method, {"max_iter": MAX_SWEEPS})
    for number in range(settings.n_models):
        graph, theta, labels = random_model(settings.side, strength, number)
        loss = UnivariateLogistic()
        exact = BackPropagation(tol=TOL, max_iter=MAX_SWEEPS)
        true = exact.value_and_gradient(graph, theta, labels, loss, inference).gradient
        single[number] = _relative_error(differences(graph, theta, labels, inference), true)
        for row, sides in enumerate(SIDES):
            for column, multiplier in enumerate(multipliers):
                rule = PerturbationGradient(sides=sides, multiplier=float(multiplier), tol=TOL)
                gradient = rule.value_and_gradient(graph, theta, labels, loss, inference).gradient
                errors[row, column, number] = _relative_error(gradient, true)
    middle = np.median(errors, axis=2)
    at_one = int(np.abs(np.log(multipliers)).argmin())
    values = {_best(sides): float(middle[row].min()) for row, sides in enumerate(SIDES)}
    values |= {_at_one(sides): float(middle[row, at_one]) for row, sides in enumerate(SIDES)}
    values[_SINGLE] = float(np.median(single))
    return Finding(
        values,
        settings.n_models,
        {"multipliers": multipliers, "errors": errors, "single": single},
        asdict(settings) | {"method": method, "strength": strength, "tol": TOL},
    )


def random_model(side: int, strength: float, seed: int) -> tuple[FactorGraph, FloatArray, TrainingLabels]:
    """Draw a binary grid with normal scores, those of pairs `strength` times as large, and a random labelling.

    Examples
    --------
    >>> graph, theta, labels = random_model(3, 0.5, seed=1)
    >>> graph.n_variables, theta.size                # 9 variables of 2 states, 12 tables of 4
    (9, 66)
    """
    rng = np.random.default_rng([seed, 3])  # the same draws for every strength, so that panels can be compared
    graph = grid_graph(side, side, 2)
    theta = rng.standard_normal(graph.n_theta)
    theta[int(graph.variable_ptr[-1]) :] *= strength
    return graph, theta, training_labels(graph, rng.integers(0, 2, graph.n_variables))


def differences(
    graph: FactorGraph, theta: FloatArray, labels: TrainingLabels, inference: InferenceMethod
) -> FloatArray:
    """Compute the gradient of the univariate logistic loss by two-sided differences of each single score."""
    loss = UnivariateLogistic()
    unperturbed = reversal_of(graph, theta, inference)
    converge(unperturbed, inference, TOL)
    start = unperturbed.position()
    gradient = graph.zeros()
    for k in range(graph.n_theta):
        step = float(np.finfo(float).eps ** (1 / 3) * (1.0 + abs(theta[k])))
        values = []
        for sign in (1.0, -1.0):
            perturbed = theta.copy()
            perturbed[k] += sign * step
            run = reversal_of(graph, perturbed, inference)
            run.stand_at(start)  # mean field stays at the same local optimum
            converge(run, inference, TOL)
            mu = run.marginals()
            values.append(np.nan if mu is None else loss.value_and_gradient(graph, mu, labels)[0])
        gradient[k] = (values[0] - values[1]) / (2.0 * step)
    return gradient


def _relative_error(gradient: FloatArray, true: FloatArray) -> float:
    return float(np.linalg.norm(gradient - true) / np.linalg.norm(true))


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    from intarsia.report.line_plots import REFERENCE, Line, LinePanel, plot_lines

    panels = []
    for finding in findings.values():
        m, errors = finding.arrays["multipliers"], finding.arrays["errors"]
        low, middle, high = np.quantile(errors, [0.25, 0.5, 0.75], axis=2)
        lines = [Line(name, m, middle[row], low[row], high[row]) for row, name in enumerate(SIDES.values())]
        floor = np.full(m.size, np.median(finding.arrays["single"]))
        lines.append(Line("every score alone,\ntwo-sided", m, floor, colour=REFERENCE, dashes="--"))
        method, strength = finding.settings["method"], finding.settings["strength"]
        panels.append(LinePanel(f"{_SHORT_NAMES[method]}, s = {strength:g}", lines))
    if not panels:
        return {}
    figure = plot_lines(
        panels, x_label="multiplier m", y_label="relative error", log_x=True, log_y=True, n_columns=len(STRENGTHS),
        y_range=(1e-13, 1e0), title="Perturbation gradients: median error and quartiles over random grids",
    )  # fmt: skip
    return {"perturbation": figure}
