"""Predict the lower half of a face from its upper half, through six latent states (Bach2015, section 4)."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.softlogic import HingeLossMRF, PairedDual, ProjectedSubgradient, QuadraticPrior
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.baselines import explained_by_ridge
from intarsia_reproduction.models.hinge_rules import GroundRules, Literal, assemble, implies
from intarsia_reproduction.models.latent_learning import Comparison, Fold, Predictor, draw_curves, method_tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The rules that the arrays represent, for every pixel p and every state s. Round is the intensity rounded to 0 or 1.
# All rules are squared and have a weight for each p and s. State(I, s) is latent, Below(I, p) is labelled.
RULES = """
w(p, s):   Above(I, 'p') -> State(I, 's')       w(p, s):   Above(I, 'p') -> !State(I, 's')
w(p, s):   !Above(I, 'p') -> State(I, 's')      w(p, s):   !Above(I, 'p') -> !State(I, 's')
           the same four with Round(I, 'p') in place of Above(I, 'p')
w(p, s):   State(I, 's') -> Below(I, 'p')       w(p, s):   State(I, 's') -> !Below(I, 'p')
w(p, s):   !State(I, 's') -> Below(I, 'p')      w(p, s):   !State(I, 's') -> !Below(I, 'p')
w(s):      State(I, 's') -> State(I, 's + 1')   w(s):      State(I, 's + 1') -> State(I, 's')
w(p):      Below(I, 'p')                        w(p):      !Below(I, 'p')
"""

_N_STATES = 6
_SURROGATE = QuadraticPrior(weight=1.0)
_L2, _STEP = 0.01, 0.1  # thousands of weights: AdaGrad for all methods
_N_SHOWN = 8


def faces(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment that compares methods on faces of 16x16 pixels, and reconstructs faces of 64x64 pixels.

    50 training faces are drawn from the first 350; the last 50 are for testing. The quick version has 8x8 pixels and
    30 training faces.

    Examples
    --------
    >>> [task.key for task in faces(quick=True).tasks][-1]
    'ridge-full'
    """
    size, n_train = (8, 30) if quick else (16, 50)

    @cache
    def halves(side: int) -> tuple[FloatArray, FloatArray]:
        return _load(side, n_train, data)

    comparison = Comparison(
        folds=lambda k: make_fold(*halves(size)),
        n_folds=1,
        surrogate=_SURROGATE,
        l2=_L2,
        step_size=_STEP,
        budget=4500 if quick else 10000,
        score_name="variance explained",
        adagrad=True,
        warm_up=10,
        n_points=10 if quick else 30,
    )
    side = 16 if quick else 64
    full = Task(
        "full",
        f"paired-dual, N = 1, {side}x{side}",
        {"variance explained": None, "mean squared error": None},
        "value",
        partial(_full, halves, side, 100 if quick else 500),
        significant=4,
    )
    no_figures = {"variance explained": None, "mean squared error": None}
    run = partial(_full, halves, size, 100 if quick else 500)
    label = f"paired-dual, N = 1, 500 updates, {size}x{size} (pictures of the states)"
    states = Task("states", label, no_figures, "value", run, significant=4)
    ridge = [
        Task(
            key, f"baseline: ridge regression, {n}x{n}", no_figures, "value", partial(_ridge, halves, n), significant=4
        )
        for key, n in (("ridge", size), ("ridge-full", side))
    ]
    return Experiment(
        "faces",
        "The lower half of a face from its upper half (Bach2015, section 4)",
        [*method_tasks(comparison), full, states, *ridge],
        _figures,
        "400 Olivetti faces, 50 of the first 350 to learn from, the last 50 to test on",
        question="How well do the upper half and six latent states predict the lower half; which learner is fastest?",
    )


def _load(side: int, n_train: int, data: Path | None) -> tuple[FloatArray, FloatArray]:
    """Return training and test faces with intensities in [0, 1]; each pixel is the mean of a square of the original."""
    from intarsia_reproduction.datasets import load_olivetti_faces

    pictures = np.stack(load_olivetti_faces(data).images) / 255.0
    block = pictures.shape[1] // side
    small = pictures.reshape(len(pictures), side, block, side, block).mean(axis=(2, 4))
    return small[_training_indices(n_train)], small[-50:]


def _training_indices(n_train: int) -> IntArray:
    return np.random.default_rng(0).choice(350, n_train, replace=False)


def face_model(above: FloatArray, n_below: int) -> HingeLossMRF:
    """Ground the rules for faces with observed upper pixels; each face has its states first, then its lower pixels.

    Examples
    --------
    A face with one pixel above and one below. Of the eight rules between each state and the pixel above, the two whose
    rounded value is false are omitted. Then follow four rules with the pixel below, five pairs of neighbouring states
    in both directions, and two priors.

    >>> face_model(np.array([[0.75]]), 1).n_terms == 6 * (4 + 2) + 6 * 4 + 5 * 2 + 2
    True
    """
    n, n_above = above.shape
    stride = _N_STATES + n_below
    rules: list[GroundRules] = []
    n_weights = 0

    def add(body: list[Literal], head: Literal, group: IntArray, n_groups: int, observed: FloatArray | float) -> None:
        nonlocal n_weights
        rules.append(implies(body, head, n_weights + group, observed))
        n_weights += n_groups

    image, pixel, state = np.indices((n, n_above, _N_STATES)).reshape(3, -1)
    latent = Literal(image * stride + state)
    for value in (above, np.round(above)):
        intensity = value[image, pixel]
        for observed in (intensity, 1.0 - intensity):
            for head in (latent, latent.negated()):
                add([], head, pixel * _N_STATES + state, n_above * _N_STATES, observed)
    image, pixel, state = np.indices((n, n_below, _N_STATES)).reshape(3, -1)
    latent, below = Literal(image * stride + state), Literal(image * stride + _N_STATES + pixel)
    for body in (latent, latent.negated()):
        for head in (below, below.negated()):
            add([body], head, pixel * _N_STATES + state, n_below * _N_STATES, 1.0)
    image, state = np.indices((n, _N_STATES - 1)).reshape(2, -1)
    latent, next_latent = Literal(image * stride + state), Literal(image * stride + state + 1)
    add([latent], next_latent, state, _N_STATES - 1, 1.0)
    add([next_latent], latent, state, _N_STATES - 1, 1.0)
    image, pixel = np.indices((n, n_below)).reshape(2, -1)
    below = Literal(image * stride + _N_STATES + pixel)
    add([], below, pixel, n_below, 1.0)
    add([], below.negated(), pixel, n_below, 1.0)
    return assemble(n * stride, rules, [f"weight {k}" for k in range(n_weights)])


def make_fold(train: FloatArray, test: FloatArray) -> Fold:
    """Make a fold whose score is the explained fraction of the variance of the lower halves of the test faces."""
    (above, below), (test_above, test_below) = _halves(train), _halves(test)
    model = face_model(above, below.shape[1])
    labels = np.concatenate([np.full((len(train), _N_STATES), np.nan), below], axis=1).reshape(-1)
    test_model = face_model(test_above, test_below.shape[1])
    predictor = Predictor(test_model, np.full(test_model.n_variables, np.nan), _SURROGATE)
    variance = float(np.mean((test_below - below.mean(axis=0)) ** 2))

    def score(weights: FloatArray) -> float:
        predicted = predictor(weights).reshape(len(test), -1)[:, _N_STATES:]
        return 1.0 - float(np.mean((predicted - test_below) ** 2)) / variance

    return Fold(model, labels, score)


def _halves(pictures: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the upper and the lower halves, with one row per face."""
    flat = pictures.reshape(len(pictures), -1)
    middle = flat.shape[1] // 2
    return flat[:, :middle], flat[:, middle:]


def _full(halves: object, side: int, n_updates: int, checkpoint: Path) -> Finding:
    """Run paired-dual learning on the largest images, and reconstruct some test faces."""
    train, test = halves(side)  # type: ignore[operator]
    (above, below), (test_above, test_below) = _halves(train), _halves(test)
    labels = np.concatenate([np.full((len(train), _N_STATES), np.nan), below], axis=1).reshape(-1)
    optimizer = ProjectedSubgradient(
        step_size=_STEP, adagrad=True, max_iter=n_updates, average=False, record_every=n_updates
    )
    learner = PairedDual(warm_up=10, surrogate=_SURROGATE, l2=_L2, optimizer=optimizer)
    fit = learner.fit(face_model(above, below.shape[1]), labels)
    test_model = face_model(test_above, test_below.shape[1])
    predictor = Predictor(test_model, np.full(test_model.n_variables, np.nan), _SURROGATE)
    states, predicted = np.split(predictor(fit.weights).reshape(len(test), -1), [_N_STATES], axis=1)
    error = float(np.mean((predicted - test_below) ** 2))
    variance = float(np.mean((test_below - below.mean(axis=0)) ** 2))
    values = {"variance explained": 1.0 - error / variance, "mean squared error": error * 255.0**2}
    pictures = np.concatenate([test_above, predicted], axis=1).reshape(-1, side, side)
    # Faces of the same person are adjacent, so evenly spaced faces show different persons.
    indices = np.linspace(0, len(test) - 1, _N_SHOWN).astype(int)
    arrays = {
        "made": pictures[indices].astype(np.float32),
        "truth": test[indices].astype(np.float32),
        "states": states[indices].astype(np.float32),
        "state_pictures": draw_states(fit.weights, above.shape[1], side).astype(np.float16),
    }
    settings = {"updates": fit.n_iter, "admm_iterations": fit.n_admm_iter, "status": fit.status.name}
    return Finding(values, len(test), arrays, settings)


def draw_states(weights: FloatArray, n_above: int, side: int) -> FloatArray:
    """Return an image for each state: which upper pixels turn it on, and how it changes the lower pixels.

    An upper pixel is positive if a bright pixel raises the state and a dark one lowers it. A lower pixel is positive if
    the state makes it brighter. Both are differences of weights; the largest of either half is 1.

    Examples
    --------
    One pixel above and one below; only the rules Above -> State and State -> Below have weight, for the first state.

    >>> weights = np.zeros(8 * 6 + 4 * 6)
    >>> weights[[0, 48]] = 2.0
    >>> draw_states(weights, 1, 1)[0].tolist()
    [[1.0], [1.0]]
    """
    n_upper = 8 * n_above * _N_STATES
    n_below = n_above
    upper = weights[:n_upper].reshape(2, 2, 2, n_above, _N_STATES)  # value or rounded; bright or dark; on or off
    pull = np.einsum("vbhps,b,h->ps", upper, [1.0, -1.0], [1.0, -1.0])
    pull /= max(float(np.abs(pull).max()), 1e-12)
    lower = weights[n_upper : n_upper + 4 * n_below * _N_STATES].reshape(
        2, 2, n_below, _N_STATES
    )  # on, off; bright, dark
    push = np.einsum("obps,o,b->ps", lower, [1.0, -1.0], [1.0, -1.0])
    push /= max(float(np.abs(push).max()), 1e-12)
    images = np.concatenate([pull, push])
    return np.asarray(images.T.reshape(_N_STATES, -1, side))


def _ridge(halves: object, side: int, _: Path) -> Finding:
    """Predict the lower halves by ridge regression from the same training faces."""
    train, test = halves(side)  # type: ignore[operator]
    person = _training_indices(len(train)) // 10  # ten faces of each person
    return explained_by_ridge(_halves(train), _halves(test), person)


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    figures = draw_curves(findings, "faces", "Faces", "variance explained")
    if "full" in findings and "made" in findings["full"].arrays:
        arrays = findings["full"].arrays
        figures["faces-pictures"] = _draw(arrays["truth"], arrays["made"], arrays.get("states"))
    if "states" in findings and "state_pictures" in findings["states"].arrays:
        arrays = findings["states"].arrays
        figures["faces-states"] = _draw_states(arrays["state_pictures"].astype(np.float64))
        figures["faces-inferred-states"] = _draw(arrays["truth"], arrays["made"], arrays["states"])
    return figures


def _draw(truth: FloatArray, reconstructed: FloatArray, states: FloatArray | None) -> Figure:
    """Plot test faces, the same faces with reconstructed lower halves, and the inferred values of their states."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    n_rows = 2 if states is None else 3
    figure = Figure(figsize=(1.2 * len(truth), 1.4 * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subplots(n_rows, len(truth), squeeze=False)
    for axes, pictures, name in zip(rows[:2], (truth, reconstructed), ("truth", "reconstructed"), strict=True):
        for panel, picture in zip(axes, pictures, strict=True):
            panel.imshow(picture, cmap="gray", vmin=0.0, vmax=1.0)
            panel.set_xticks([])
            panel.set_yticks([])
        axes[0].set_ylabel(name)
    if states is not None:
        for panel, values in zip(rows[2], states, strict=True):
            panel.bar(np.arange(1, _N_STATES + 1), values, color="tab:blue")
            panel.set_ylim(0.0, 1.0)
            panel.set_xticks(np.arange(1, _N_STATES + 1))
            panel.tick_params(labelsize=6)
            panel.set_yticks([0.0, 1.0] if panel is rows[2][0] else [])
        rows[2][0].set_ylabel("latent states")
    figure.suptitle("Lower halves of test faces, from the upper halves and six latent states")
    return figure


def _draw_states(pictures: FloatArray) -> Figure:
    """Plot what turns each latent state on (upper half) and what it changes (lower half)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.7 * len(pictures), 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(pictures), squeeze=False)[0]
    for number, (panel, picture) in enumerate(zip(axes, pictures, strict=True), start=1):
        image = panel.imshow(picture, cmap="RdBu_r", vmin=-1.0, vmax=1.0)
        panel.set_title(f"state {number}", fontsize=9)
        panel.set_xticks([])
        panel.set_yticks([])
    figure.colorbar(image, ax=axes, shrink=0.7)
    figure.suptitle("Latent states: pixels that turn them on (above), pixels they make brighter (below)", fontsize=10)
    return figure
