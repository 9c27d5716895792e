"""Handwritten words with dictionary energies (Vilnis2015, section 8.2): Table 3."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia._files.array_file import write_npz
from intarsia.energies import DistanceToSet, MeanMapPsi
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.learning import Adam, DoublyStochastic
from intarsia.sequences import ChainCRF
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.intervals import mean_interval
from intarsia_reproduction.models.unknown_words import (
    LOOK_UP_PSI,
    FoldResults,
    Rule,
    count_letters,
    count_right,
    learn_rules,
    read_words,
)
from intarsia_reproduction.models.word_energies import WordPieces, look_up

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Rows of the paper, with the percentage of correct letters.
_PAPER = {
    "base": ("2-gram (base model)", 84.93),
    "unigram": ("unigram energy", 94.01),
    "unigram_mm": ("unigram energy (MM)", 94.96),
    "positional": ("positional energy", 98.26),
    "positional_mm": ("positional energy (MM)", 98.83),
    "classifier": ("55-class classifier (MM)", 86.06),
}
# Of each energy: whether it is positional, and whether its weight psi depends on x.
_ENERGIES = {
    "unigram": (False, False),
    "unigram_mm": (False, True),
    "positional": (True, False),
    "positional_mm": (True, True),
}
# The regularization and the learning rates below were chosen by accuracy on fold 1, after learning from folds 2 to 9.
# Rows that are not in the paper. The first looks up the dictionary word with the highest score of the base model. The
# next ones minimize the positional energy with a fixed weight psi, chosen by the accuracy on fold 5 with a tenth of the
# words held out: by one descent, with psi raised in stages, from several starts too, or exactly.
_LOOKUP = ("lookup", "baseline: look-up in the dictionary by the 2-gram's score")
_JOINT = ("joint", "unigram energy, learned together with the 2-gram")
_SEARCHES = {
    "descent": ("positional energy, psi = 10, one descent from the 2-gram's marginals", 1, 1),
    "annealed": ("the same, psi raised to 10 in six stages", 6, 1),
    "starts": ("the same, and from five starts, the lowest minimum", 6, 5),
}
_EXACT = ("exact", "positional energy, psi = 10, minimum over all words")
_EXACT_PSI = 10.0
# Rows with words that are not in the dictionary: in fold i the i-th tenth of the distinct words is missing from the
# dictionary and from the training words. All caps and thresholds are learned by cross-fitting on the training words.
_MIXED = {
    "mixed-chain": "a tenth of the words unknown: 2-gram",
    "mixed-unigram": "a tenth unknown: unigram energy",
    "mixed-positional": "a tenth unknown: positional energy",
    "mixed-lookup": "a tenth unknown: baseline, look-up in the dictionary",
    "mixed-threshold": "a tenth unknown: baseline, look-up of words above a learned threshold",
    "mixed-cap": "a tenth unknown: positional energy with a learned cap, minimum over all words",
    "mixed-threshold-scaled": "a tenth unknown: baseline, threshold by letter, transitions scaled, both learned",
    "mixed-cap-scaled": "a tenth unknown: energy, cap by letter, transitions scaled, both learned",
}
_SCALES = (0.0, 0.25, 0.5, 0.75, 1.0)
_PSIS = (2.0, 5.0, 10.0)
_RULES = {
    "mixed-threshold": [Rule(LOOK_UP_PSI)],
    "mixed-cap": [Rule(psi) for psi in _PSIS],
    "mixed-threshold-scaled": [Rule(LOOK_UP_PSI, scale, letter) for scale in _SCALES for letter in (False, True)],
    "mixed-cap-scaled": [Rule(psi, scale, letter) for psi in _PSIS for scale in _SCALES for letter in (False, True)],
}
# Gains are differences from these rows, paired by fold.
_BASES = {
    "unigram_mm": "unigram",
    "positional_mm": "positional",
    "joint": "unigram",
    "descent": "lookup",
    "annealed": "lookup",
    "starts": "lookup",
    "exact": "lookup",
    "mixed-cap": "mixed-threshold",
    "mixed-cap-scaled": "mixed-threshold-scaled",
    "mixed-threshold-scaled": "mixed-threshold",
}
_INTERVAL = ("", "low", "high")  # mean of the folds, with its 95 % interval by Student's t
_GAIN = ("gain", "gain, low", "gain, high")
_KINDS: tuple[str, str, str, str] = ("known words", "unknown words", "unknown, low", "unknown, high")
_L2 = 0.2
_N_FOLDS = 10
_N_SHOWN = 9
_INFERENCE = BetheRDA(max_iter=20)
# Mean maps of all words are almost parallel, so a thousand weights change together and need a lower learning rate.
_CONSTANT = DoublyStochastic(max_iter=3, l1=0.0, select=False, optimizer=Adam(step_size=0.05, batch_size=64, decay=0.3))
_MAPPED = DoublyStochastic(max_iter=5, l1=0.0, select=False, optimizer=Adam(step_size=0.005, batch_size=64, decay=0.3))
# The weights of the chain are learned too. Of the rates 0.005 and 0.0015 the first was better on fold 1; with 0.05 the
# held-out risk does not decrease, so that nothing is learned together.
_TOGETHER = DoublyStochastic(
    max_iter=5, l1=0.0, select=False, optimizer=Adam(step_size=0.005, batch_size=64, decay=0.3)
)


@dataclass(frozen=True, eq=False)
class Words:
    """Words of some folds: images of their letters, and the letters."""

    X: list[FloatArray]
    y: list[NDArray[np.int64]]

    @cached_property
    def dictionary(self) -> list[tuple[int, ...]]:
        """Distinct words, sorted."""
        return sorted({tuple(word.tolist()) for word in self.y})


def ocr(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the percentage of correct letters, averaged over ten folds.

    Nine folds are for training and one is for testing. The base model is fitted by maximum likelihood. The weights psi
    of the energies are then learned on the same words with the CRF weights frozen (Algorithm 3). The quick version has
    the first fold, with 1,200 training words and 300 test words.

    Examples
    --------
    >>> [task.key for task in ocr().tasks][:9]
    ['base', 'unigram', 'unigram_mm', 'positional', 'positional_mm', 'classifier', 'lookup', 'joint', 'descent']
    """
    n_folds = 1 if quick else _N_FOLDS

    @cache
    def words() -> tuple[list[FloatArray], list[NDArray[np.int64]], NDArray[np.int64]]:
        from intarsia_reproduction.datasets import load_ocr_letters

        letters = load_ocr_letters(data)
        return (
            [np.column_stack([pixels, np.ones(len(pixels))]) for pixels in letters.pixels],  # and a constant
            [word.astype(np.int64) for word in letters.letters],
            letters.fold,
        )

    @cache
    def fold(i: int, held_out: bool = False) -> tuple[Words, Words]:
        X, y, fold_of_word = words()
        learn, test = np.flatnonzero(fold_of_word != i), np.flatnonzero(fold_of_word == i)
        if held_out:
            learn = learn[~_in_tenth(y, i)[learn]]
        if quick:
            learn, test = learn[:: max(1, len(learn) // 1200)][:1200], test[:300]
        return _take(X, y, learn), _take(X, y, test)

    @cache
    def base(i: int, held_out: bool = False) -> ChainCRF:
        learn, _ = fold(i, held_out)
        return ChainCRF(l2=_L2).fit(learn.X, learn.y)

    def task(key: str, label: str, paper: float | None = None) -> Task:
        predict = partial(_PREDICTORS[key], quick=quick, base=base)
        figures = {"": paper} | dict.fromkeys((*_INTERVAL[1:], *(_GAIN if key in _BASES else ())))
        return Task(key, label, figures, "per cent", partial(_run, key, predict, fold, n_folds))

    mixture = FoldResults(partial(_read_mixed, quick=quick, fold=fold, base=base))
    tasks = [task(key, label, paper) for key, (label, paper) in _PAPER.items()]
    tasks += [task(*_LOOKUP), task(*_JOINT), *(task(key, label) for key, (label, _, _) in _SEARCHES.items())]
    tasks.append(task(*_EXACT))
    for key, label in _MIXED.items():
        figures = dict.fromkeys((*_INTERVAL, *(_GAIN if key in _BASES else ()), *_KINDS))
        tasks.append(Task(key, label, figures, "per cent", partial(_run_mixed, key, mixture, n_folds)))
    return Experiment(
        "ocr",
        "Handwritten words: letters that are right (Vilnis2015, Table 3)",
        tasks,
        lambda findings: _figures(findings, fold),
        "6,877 words of 55 kinds in ten folds; beside it the paper quotes structured prediction cascades (Table 2): "
        "85.02, 96.20, 97.21, 98.27 and 98.54 per cent with 2- to 6-grams",
        question="Letters of handwritten words: how much does it help that the word is one of a known list?",
    )


# From a fold's number, its training words and its test words to predicted letters and settings to store.
Predict = Callable[[int, Words, Words], tuple[list[NDArray[np.int64]], dict[str, Any]]]


def _take(X: list[FloatArray], y: list[NDArray[np.int64]], indices: NDArray[np.int64]) -> Words:
    return Words([X[i] for i in indices], [y[i] for i in indices])


def _run(
    key: str, predict: Predict, fold: Callable[[int], tuple[Words, Words]], n_folds: int, checkpoint: Path
) -> Finding:
    """Run all folds and save the checkpoint after each of them."""
    n_right, n_letters, first, n_done = np.zeros(n_folds), np.zeros(n_folds), np.empty(0, np.int64), 0
    settings: dict[str, Any] = {}
    if checkpoint.exists():
        with np.load(checkpoint) as progress:
            n_right, n_letters, first = progress["right"], progress["total"], progress["first"]
            n_done = int(progress["done"])
    for i in range(n_done, n_folds):
        learn, test = fold(i)
        predicted, settings = predict(i, learn, test)
        flat, truth = np.concatenate(predicted), np.concatenate(test.y)
        n_right[i], n_letters[i] = (flat == truth).sum(), truth.size
        first = flat if i == 0 else first
        write_npz(checkpoint, {"right": n_right, "total": n_letters, "first": first, "done": i + 1})
    accuracy = 100.0 * n_right / n_letters
    arrays: dict[str, NDArray[Any]] = {"accuracy": accuracy, "first_fold": first.astype(np.int8)}
    values = _with_interval(accuracy, _INTERVAL) | _paired_gain(key, accuracy, checkpoint.parent)
    return Finding(values, int(n_letters.sum()), arrays, {"l2": _L2, "folds": n_folds, **settings})


def _with_interval(values: FloatArray, names: tuple[str, str, str]) -> dict[str, float]:
    """Return the mean over folds with its interval; a single fold has none."""
    ends = mean_interval(values) if values.size > 1 else (np.nan, np.nan)
    return dict(zip(names, (float(values.mean()), *ends), strict=True))


def _paired_gain(key: str, accuracy: FloatArray, folder: Path) -> dict[str, float]:
    """Return the gain over the base row of a row, if that was run on the same folds, or on more."""
    path = folder / f"{_BASES.get(key)}.npz"
    if not path.exists():
        return {}
    with np.load(path) as arrays:
        base_accuracy = arrays["accuracy"][: accuracy.size]
    return _with_interval(accuracy - base_accuracy, _GAIN) if base_accuracy.shape == accuracy.shape else {}


def _predict_base(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF]
) -> tuple[list[Any], dict[str, Any]]:
    return base(i).predict(test.X), {}


def _predict_lookup(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF]
) -> tuple[list[Any], dict[str, Any]]:
    return look_up(base(i), test.X, learn.dictionary), {"words": len(learn.dictionary)}


def _predict_exact(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF]
) -> tuple[list[Any], dict[str, Any]]:
    return WordPieces(base(i), test.X, learn.dictionary).predict(_EXACT_PSI), {"psi": _EXACT_PSI}


def _predict_descent(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF], n_stages: int, n_starts: int
) -> tuple[list[Any], dict[str, Any]]:
    pieces = WordPieces(base(i), test.X, learn.dictionary)
    settings = {"psi": _EXACT_PSI, "stages": n_stages, "starts": n_starts}
    return pieces.descend(_EXACT_PSI, n_stages, n_starts), settings


def _in_tenth(y: list[NDArray[np.int64]], i: int) -> NDArray[np.bool_]:
    """Return which words belong to the i-th tenth of the distinct words, drawn at random."""
    kinds = sorted({tuple(word.tolist()) for word in y})
    tenth = dict(zip(kinds, np.random.default_rng(0).permutation(len(kinds)) % _N_FOLDS, strict=True))
    return np.array([tenth[tuple(word.tolist())] == i for word in y])


def _predict_energy(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF], positional: bool, mapped: bool
) -> tuple[list[Any], dict[str, Any]]:
    energy = DistanceToSet(learn.dictionary, positional=positional, psi=3.0)
    psi = MeanMapPsi(n_components=200 if quick else 1000) if mapped else "constant"
    learner = _MAPPED if mapped else _CONSTANT
    crf = copy.copy(base(i))  # a copy, because other rows use the base model too
    crf.set_params(energies=[energy], psi=psi, projection=_INFERENCE, energy_learner=learner)
    crf.fit(learn.X, learn.y, freeze_weights=True)
    strengths = crf.strengths(test.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of calls is a setting of the experiment
        predicted = crf.predict(test.X)
    settings = {"epochs": learner.max_iter, "calls": _INFERENCE.max_iter, "mean psi": float(strengths.mean())}
    return predicted, settings


def _predict_joint(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF]
) -> tuple[list[Any], dict[str, Any]]:
    crf: ChainCRF = copy.copy(base(i)).set_params(
        energies=[DistanceToSet(learn.dictionary, positional=False, psi=3.0)],
        projection=_INFERENCE,
        energy_learner=_TOGETHER,
        warm_start=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of calls is a setting of the experiment
        crf.fit(learn.X, learn.y, freeze_weights=False)
        predicted = crf.predict(test.X)
    settings = {"epochs": _TOGETHER.max_iter, "mean psi": float(crf.strengths(test.X).mean())}
    return predicted, settings | {"learning": repr(_TOGETHER)}


def _predict_classifier(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF]
) -> tuple[list[Any], dict[str, Any]]:
    """Predict words by logistic regression over the training words, restricted to words of the right length."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    psi = MeanMapPsi(n_components=200 if quick else 500)
    dictionary = learn.dictionary
    number = {word: j for j, word in enumerate(dictionary)}
    features, test_features = (_mean_maps(psi, words) for words in (learn, test))
    # Mean maps of different words differ little, so they are standardized.
    model = make_pipeline(StandardScaler(), LogisticRegression(C=_CLASSIFIER_C, max_iter=200, tol=1e-3))
    model.fit(features, [number[tuple(word.tolist())] for word in learn.y])
    scores = model.decision_function(test_features)
    lengths = np.array([len(word) for word in dictionary])
    has_length = lengths[model.classes_][None] == np.array([len(word) for word in test.y])[:, None]
    best = model.classes_[np.where(has_length, scores, -np.inf).argmax(axis=1)]
    predicted = [
        np.array(dictionary[j]) if candidates.any() else np.full(len(word), -1)
        for j, candidates, word in zip(best.tolist(), has_length, test.y, strict=True)
    ]
    return predicted, {"C": _CLASSIFIER_C, "features": int(psi.n_components)}


_CLASSIFIER_C = 0.01

_PREDICTORS: dict[str, Callable[..., tuple[list[Any], dict[str, Any]]]] = {
    "base": _predict_base,
    "classifier": _predict_classifier,
    "lookup": _predict_lookup,
    "joint": _predict_joint,
    "exact": _predict_exact,
    **{
        key: partial(_predict_descent, n_stages=n_stages, n_starts=n_starts)
        for key, (_, n_stages, n_starts) in _SEARCHES.items()
    },
    **{
        key: partial(_predict_energy, positional=positional, mapped=mapped)
        for key, (positional, mapped) in _ENERGIES.items()
    },
}


# Readers of words of which some are unknown that learn no threshold.
_READERS: dict[str, Callable[..., tuple[list[Any], dict[str, Any]]]] = {
    "mixed-chain": _predict_base,
    "mixed-unigram": _PREDICTORS["unigram"],
    "mixed-positional": _PREDICTORS["positional"],
    "mixed-lookup": _predict_lookup,
}


def _read_mixed(
    i: int, *, quick: bool, fold: Callable[..., tuple[Words, Words]], base: Callable[..., ChainCRF]
) -> tuple[FloatArray, dict[str, Any]]:
    """Return the letters of one fold that each reader has right, as by `count_letters`, and the learned rules."""
    learn, test = fold(i, held_out=True)
    crf = base(i, held_out=True)
    right = {}
    for key, reader in _READERS.items():
        predicted, _ = reader(i, learn, test, quick=quick, base=lambda _: crf)
        right[key] = count_right(predicted, test.y)

    def fit(X: Sequence[FloatArray], y: Sequence[NDArray[np.int64]]) -> ChainCRF:
        # The minimum is unique; the start saves half of the iterations.
        return ChainCRF(l2=_L2, classes=crf.classes_).fit(X, y, start=crf.weights_)

    rules = learn_rules(learn.X, learn.y, _RULES, fit, seed=i)
    for key, rule in rules.items():
        right[key] = read_words(crf, test.X, test.y, learn.dictionary, rule).right(rule)
    counts = count_letters([right[key] for key in _MIXED], test.y, learn.dictionary)
    return counts, {key: [rule.psi, rule.transition_scale, rule.by_letter, rule.cap] for key, rule in rules.items()}


def _run_mixed(key: str, folds: FoldResults, n_folds: int, checkpoint: Path) -> Finding:
    """Run all folds, unless another row did, and save the checkpoint after each of them."""
    counts, rules = folds.run(n_folds, checkpoint)
    right, letters = np.moveaxis(counts[:, list(_MIXED).index(key)], -1, 0)  # (n_folds, 2): known and unknown words
    accuracy = 100.0 * right.sum(axis=1) / letters.sum(axis=1)
    known_accuracy, unknown_accuracy = 100.0 * (right / np.maximum(letters, 1.0)).T
    values = _with_interval(accuracy, _INTERVAL) | _paired_gain(key, accuracy, checkpoint.parent)
    values |= {_KINDS[0]: float(known_accuracy.mean())} | _with_interval(unknown_accuracy, _KINDS[1:])
    settings: dict[str, Any] = {"l2": _L2, "folds": n_folds, "unknown letters": int(letters[:, 1].sum())}
    if key in _RULES:
        settings["psi, scale of transitions, by letter, cap"] = [fold_rules[key] for fold_rules in rules]
    arrays: dict[str, NDArray[Any]] = {"accuracy": accuracy, "known": known_accuracy, "unknown": unknown_accuracy}
    return Finding(values, int(letters.sum()), arrays, settings)


def _mean_maps(psi: MeanMapPsi, words: Words) -> FloatArray:
    ptr = np.concatenate([[0], np.cumsum([len(word) for word in words.y])])
    return psi.features_of(np.concatenate(words.X), ptr)[:, 1:]


def _figures(findings: dict[str, Finding], fold: Callable[[int], tuple[Words, Words]]) -> dict[str, Figure]:
    """Plot distinct words of the first fold that the base model misreads, with the predictions of all models."""
    from intarsia.report.plots import Panel, plot_comparison

    predictions = {key: findings[key].arrays["first_fold"] for key in _PAPER if key in findings and key != "classifier"}
    if "base" not in predictions:
        return {}
    _, test = fold(0)
    starts = np.concatenate([[0], np.cumsum([len(word) for word in test.y])])
    wrong: list[tuple[str, str, FloatArray]] = []
    for j, (x, word) in enumerate(zip(test.X, test.y, strict=True)):
        a, b = starts[j], starts[j + 1]
        repeated = any(_spell(word) == truth for truth, _, _ in wrong)
        if len(wrong) == _N_SHOWN or repeated or (predictions["base"][a:b] == word).all():
            continue
        readings = [f"{_short(key)}: {_spell(flat[a:b])}" for key, flat in predictions.items()]
        image = np.concatenate([letter[:128].reshape(16, 8) for letter in x], axis=1)
        wrong.append((_spell(word), "\n".join(readings), image))
    if not wrong:
        return {}
    # Pad below each image: the predictions are printed there.
    width = max(picture.shape[1] for _, _, picture in wrong)
    panels = [
        Panel(truth, readings, 1.0 - np.pad(picture, ((4, 14), (0, width - picture.shape[1]))), "input")
        for truth, readings, picture in wrong
    ]
    return {"ocr-words": plot_comparison(panels, title="Words that the 2-gram misreads", n_columns=3)}


def _short(key: str) -> str:
    return _PAPER[key][0].replace(" energy", "").replace(" (base model)", "")


def _spell(letters: NDArray[Any]) -> str:
    return "".join(chr(97 + int(k)) for k in letters)
