"""Predict the lower half of a face from its upper half, through six latent states (Bach2015, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.softlogic import EntropyPair, PairedDual, ProjectedSubgradient
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.soft_rules.half_faces import (
    N_STATES,
    REGRESSIONS,
    SCORE,
    SURROGATE,
    HalfFaces,
    face_model,
    half_faces,
    hold_out_persons,
    predictor,
    regress,
    regress_out_of_fold,
    state_labels,
)
from intarsia_reproduction.models.soft_rules.latent_learning import (
    Comparison,
    Fold,
    draw_curves,
    method_tasks,
    with_interval,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_L2, _STEP = 0.01, 0.1  # thousands of weights: AdaGrad for all methods
_N_SHOWN = 8
# Rules on top of ridge regression: the weight of the surrogate and the number of updates have the lowest squared error
# in cross-validation over the persons of the training faces. Both lists and the initial weights were written down
# before the test faces were predicted.
_STACK_WEIGHTS = (0.01, 0.1, 1.0)
_STACK_UPDATES, _STACK_EVERY = 200, 20
_FIRST_PRIOR, _FIRST_SMOOTH, _FIRST_STATE = 5.0, 0.1, 0.1
_DIFFERENCE = "difference from ridge"


def faces(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment that compares methods on faces of 16x16 pixels, and reconstructs faces of 64x64 pixels.

    50 training faces are drawn from the first 350; the last 50 are for testing. The quick version has 8x8 pixels and
    30 training faces.

    Examples
    --------
    >>> [task.key for task in faces(quick=True).tasks][-1]
    'stacked-states'
    """
    size, n_train = (8, 30) if quick else (16, 50)

    @cache
    def halves(side: int) -> HalfFaces:
        return _load(side, n_train, data)

    comparison = Comparison(
        folds=lambda k: make_fold(halves(size)),
        n_folds=1,
        surrogate=SURROGATE,
        l2=_L2,
        step_size=_STEP,
        budget=4500 if quick else 10000,
        score_name=SCORE,
        adagrad=True,
        warm_up=10,
        n_points=10 if quick else 30,
        has_validation=True,
    )
    side = 16 if quick else 64
    figures = {SCORE: None, _DIFFERENCE: None, "mean squared error": None}

    def task(key: str, label: str, run: Callable[[Path], Finding]) -> Task:
        return Task(key, label, figures, "value", run, significant=4)

    n_updates = 100 if quick else 500
    states = f"paired-dual, N = 1, 500 updates, {size}x{size} (pictures of the states)"
    tasks = [
        *method_tasks(comparison, across_folds=False),
        task("full", f"paired-dual, N = 1, {side}x{side}", partial(_full, halves, side, n_updates)),
        task("states", states, partial(_full, halves, size, n_updates)),
    ]
    for ending, n in (("", size), ("-full", side)):
        for key, (name, _) in REGRESSIONS.items():
            run: Callable[[Path], Finding] = partial(_regression, halves, n, key)
            tasks.append(task(f"{key}{ending}", f"baseline: {name}, {n}x{n}", run))
        run = partial(_stacked, halves, size, n, 0)
        tasks.append(task(f"stacked{ending}", f"ours: smoothness on top of ridge regression, {n}x{n}", run))
    run = partial(_stacked, halves, size, size, N_STATES)
    tasks.append(
        task("stacked-states", f"ours: smoothness and latent states on top of ridge regression, {size}x{size}", run)
    )
    return Experiment(
        "faces",
        "The lower half of a face from its upper half (Bach2015, section 4)",
        tasks,
        _figures,
        "400 Olivetti faces, 50 of the first 350 to learn from, the last 50 to test on",
        question="How well do the upper half and six latent states predict the lower half; which learner is fastest?",
    )


def _load(side: int, n_train: int, data: Path | None) -> HalfFaces:
    """Return training and test faces with intensities in [0, 1]; each pixel is the mean of a square of the original."""
    from intarsia_reproduction.datasets import load_olivetti_faces

    pictures = np.stack(load_olivetti_faces(data).images) / 255.0
    block = pictures.shape[1] // side
    small = pictures.reshape(len(pictures), side, block, side, block).mean(axis=(2, 4))
    person = np.arange(len(pictures)) // 10  # ten faces of each person
    training = np.random.default_rng(0).choice(350, n_train, replace=False)
    return half_faces(small[training], person[training], small[-50:], person[-50:])


def make_fold(faces: HalfFaces) -> Fold:
    """Make a fold whose score is the explained fraction of the variance of the lower halves of the test faces.

    About a tenth of the training faces, all faces of some persons, is held out to stop learning.
    """
    held_out = hold_out_persons(faces.person)
    rest = faces.split(held_out)
    predict, predict_held_out = predictor(faces.test_above), predictor(rest.test_above)
    score, held_out_score = faces.score, rest.score
    return Fold(
        face_model(rest.above, rest.below.shape[1]),
        state_labels(rest.below, N_STATES),
        lambda weights: score(predict(weights)[1]),
        lambda weights: held_out_score(predict_held_out(weights)[1]),
        interval=lambda weights: score.interval(predict(weights)[1]),
    )


def _finding(faces: HalfFaces, predicted: FloatArray, **details: Any) -> Finding:
    """Return the score of predicted lower halves, and its difference from that of ridge regression."""
    ridge, _ = regress("ridge", faces.above, faces.below, faces.person, faces.test_above)
    difference, low, high = faces.score.difference(predicted, ridge)
    values = with_interval(SCORE, [faces.score(predicted)], faces.score.interval(predicted))
    values |= with_interval(_DIFFERENCE, [difference], (low, high))
    values["mean squared error"] = float(np.mean((predicted - faces.test_below) ** 2)) * 255.0**2
    return Finding(values, len(predicted), **details)


def _full(halves: Callable[[int], HalfFaces], side: int, n_updates: int, checkpoint: Path) -> Finding:
    """Run paired-dual learning without a held-out score, and reconstruct some test faces."""
    faces = halves(side)
    optimizer = ProjectedSubgradient(
        step_size=_STEP, adagrad=True, max_iter=n_updates, average=False, record_every=n_updates
    )
    learner = PairedDual(warm_up=10, surrogate=SURROGATE, l2=_L2, optimizer=optimizer)
    fit = learner.fit(face_model(faces.above, faces.below.shape[1]), state_labels(faces.below, N_STATES))
    states, predicted = predictor(faces.test_above)(fit.weights)
    reconstructed, truth = (
        np.concatenate([faces.test_above, below], axis=1).reshape(-1, side, side)
        for below in (predicted, faces.test_below)
    )
    # Faces of the same person are adjacent, so evenly spaced faces show different persons.
    indices = np.linspace(0, len(truth) - 1, _N_SHOWN).astype(int)
    arrays = {
        "made": reconstructed[indices].astype(np.float32),
        "truth": truth[indices].astype(np.float32),
        "states": states[indices].astype(np.float32),
        "state_pictures": draw_states(fit.weights, faces.above.shape[1], side).astype(np.float16),
    }
    settings = {"updates": fit.n_iter, "admm_iterations": fit.n_admm_iter, "status": fit.status.name}
    return _finding(faces, predicted, arrays=arrays, settings=settings)


def stack(faces: HalfFaces, n_states: int, weight: float, n_updates: int = _STACK_UPDATES) -> list[FloatArray]:
    """Predict lower halves by rules on top of ridge regression, after each 20 updates of paired-dual learning.

    The ridge regression predicts each training face from the faces of other persons.
    """
    training_faces = faces.above, faces.below, faces.person
    surrogate = EntropyPair(weight=weight)
    model = face_model(faces.above, faces.below.shape[1], regress_out_of_fold("ridge", *training_faces), n_states)
    start = np.full(model.n_groups, _FIRST_STATE)
    start[-4 - 2 * faces.below.shape[1] : -4] = 0.0  # no pixel is bright or dark in advance
    start[-4:] = _FIRST_PRIOR, _FIRST_PRIOR, _FIRST_SMOOTH, _FIRST_SMOOTH
    optimizer = ProjectedSubgradient(
        step_size=_STEP, adagrad=True, max_iter=n_updates, tol=0.0, record_every=_STACK_EVERY
    )
    learner = PairedDual(surrogate=surrogate, l2=_L2, optimizer=optimizer)
    fit = learner.fit(model, state_labels(faces.below, n_states), start=start)
    prior, _ = regress("ridge", *training_faces, faces.test_above)
    predict = predictor(faces.test_above, prior, n_states, surrogate)
    return [predict(weights)[1] for weights in fit.history["weights"]]


def choose_stack(faces: HalfFaces, n_states: int, n_updates: int = _STACK_UPDATES) -> tuple[float, int]:
    """Choose the weight of the surrogate and the number of updates by cross-validation over persons."""
    from sklearn.model_selection import GroupKFold

    errors = np.zeros((len(_STACK_WEIGHTS), n_updates // _STACK_EVERY + 1))
    for _, test in GroupKFold(3).split(faces.above, faces.below, faces.person):
        inner = faces.split(np.isin(np.arange(len(faces.above)), test))
        for row, weight in enumerate(_STACK_WEIGHTS):
            predicted = stack(inner, n_states, weight, n_updates)
            errors[row] += [float(np.sum((pixels - inner.test_below) ** 2)) for pixels in predicted]
    best_row, best_column = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return _STACK_WEIGHTS[best_row], int(best_column)


def _stacked(halves: Callable[[int], HalfFaces], chosen_at: int, side: int, n_states: int, checkpoint: Path) -> Finding:
    """Predict by rules on top of ridge regression, with settings chosen on training faces of the smaller size."""
    weight, column = choose_stack(halves(chosen_at), n_states)
    n_updates = max(column, 1) * _STACK_EVERY
    predicted = stack(halves(side), n_states, weight, n_updates)[column]
    return _finding(halves(side), predicted, settings={"surrogate": weight, "updates": column * _STACK_EVERY})


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
    n_upper = 8 * n_above * N_STATES
    n_below = n_above
    upper = weights[:n_upper].reshape(2, 2, 2, n_above, N_STATES)  # value or rounded; bright or dark; on or off
    pull = np.einsum("vbhps,b,h->ps", upper, [1.0, -1.0], [1.0, -1.0])
    pull /= max(float(np.abs(pull).max()), 1e-12)
    lower = weights[n_upper : n_upper + 4 * n_below * N_STATES].reshape(
        2, 2, n_below, N_STATES
    )  # on, off; bright, dark
    push = np.einsum("obps,o,b->ps", lower, [1.0, -1.0], [1.0, -1.0])
    push /= max(float(np.abs(push).max()), 1e-12)
    images = np.concatenate([pull, push])
    return np.asarray(images.T.reshape(N_STATES, -1, side))


def _regression(halves: Callable[[int], HalfFaces], side: int, key: str, checkpoint: Path) -> Finding:
    """Predict the lower halves by a regression from the same training faces."""
    faces = halves(side)
    predicted, settings = regress(key, faces.above, faces.below, faces.person, faces.test_above)
    return _finding(faces, predicted, settings=settings)


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
            panel.bar(np.arange(1, N_STATES + 1), values, color="tab:blue")
            panel.set_ylim(0.0, 1.0)
            panel.set_xticks(np.arange(1, N_STATES + 1))
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
