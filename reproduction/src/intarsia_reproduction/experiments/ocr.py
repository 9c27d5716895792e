"""Handwritten words with energies that know the dictionary (Vilnis2015, section 8.2): Table 3."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray
from intarsia.energies import DistanceToSet, MeanMapPsi
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.learning import Adam, DoublyStochastic
from intarsia.sequences import ChainCRF
from intarsia_reproduction.experiment import Experiment, Finding, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Per cent of letters; the paper's rows, and of each energy whether it is positional and whether psi depends on x.
_PAPER = {
    "base": ("2-gram (base model)", 84.93),
    "unigram": ("unigram energy", 94.01),
    "unigram_mm": ("unigram energy (MM)", 94.96),
    "positional": ("positional energy", 98.26),
    "positional_mm": ("positional energy (MM)", 98.83),
    "classifier": ("55-class classifier (MM)", 86.06),
}
_ENERGIES = {
    "unigram": (False, False),
    "unigram_mm": (False, True),
    "positional": (True, False),
    "positional_mm": (True, True),
}
# Chosen, with the steps below, by the letters of fold 1 after learning from folds 2 to 9.
_L2 = 0.2
_N_FOLDS = 10
_SHOWN = 9
_INFERENCE = BetheRDA(max_iter=20)
# Passes over the words, and steps: all mean maps point about the same way, so that a thousand weights move together.
_CONSTANT = DoublyStochastic(max_iter=3, optimizer=Adam(step_size=0.05, batch_size=64, decay=0.3))
_MAPPED = DoublyStochastic(max_iter=5, optimizer=Adam(step_size=0.005, batch_size=64, decay=0.3))


@dataclass(frozen=True, eq=False)
class Words:
    """Words of some folds: pictures of letters, letters."""

    X: list[FloatArray]
    y: list[NDArray[np.int64]]

    @property
    def known(self) -> list[tuple[int, ...]]:
        """The different words among them."""
        return sorted({tuple(word.tolist()) for word in self.y})


def ocr(quick: bool = False, data: Path | None = None) -> Experiment:
    """Share of letters that are right, mean over the folds: nine to learn from, one to test on.

    The base model is fitted by likelihood; the strengths of energies are then learned on the same words with its
    weights kept (Algorithm 3). The quick version has the first fold, 1,200 words to learn from and 300 to test on.

    Examples
    --------
    >>> [task.key for task in ocr().tasks]
    ['base', 'unigram', 'unigram_mm', 'positional', 'positional_mm', 'classifier']
    """
    n_folds = 1 if quick else _N_FOLDS

    @cache
    def words() -> tuple[list[FloatArray], list[NDArray[np.int64]], NDArray[np.int64]]:
        from intarsia_reproduction.datasets import load_ocr_letters

        found = load_ocr_letters(data)
        return (
            [np.column_stack([pixels, np.ones(len(pixels))]) for pixels in found.pixels],  # and a constant
            [letters.astype(np.int64) for letters in found.letters],
            found.fold,
        )

    def fold(i: int) -> tuple[Words, Words]:
        X, y, of = words()
        learn, test = np.flatnonzero(of != i), np.flatnonzero(of == i)
        if quick:
            learn, test = learn[:: max(1, len(learn) // 1200)][:1200], test[:300]
        return tuple(Words([X[j] for j in chosen], [y[j] for j in chosen]) for chosen in (learn, test))  # type: ignore[return-value]

    @cache
    def base(i: int) -> ChainCRF:
        learn, _ = fold(i)
        return ChainCRF(l2=_L2).fit(learn.X, learn.y)

    tasks = []
    for key, (label, paper) in _PAPER.items():
        answer = partial(_ANSWERS[key], quick=quick, base=base)
        tasks.append(Task(key, label, {"": paper}, "per cent", partial(_run, answer, fold, n_folds)))
    return Experiment(
        "ocr",
        "Handwritten words: letters that are right (Vilnis2015, Table 3)",
        tasks,
        lambda found: _figures(found, fold),
        "6,877 words of 55 kinds in ten folds; beside it the paper quotes structured prediction cascades (Table 2): "
        "85.02, 96.20, 97.21, 98.27 and 98.54 per cent with 2- to 6-grams",
        question="Letters of handwritten words: how much does it help that the word is one of a known list?",
    )


Answer = Callable[[int, Words, Words], tuple[list[NDArray[np.int64]], dict[str, Any]]]


def _run(answer: Answer, fold: Callable[[int], tuple[Words, Words]], n_folds: int, checkpoint: Path) -> Finding:
    """All folds, each kept in the checkpoint when it is done."""
    right, total, first, done = np.zeros(n_folds), np.zeros(n_folds), np.empty(0, np.int64), 0
    told: dict[str, Any] = {}
    if checkpoint.exists():
        with np.load(checkpoint) as kept:
            right, total, first, done = kept["right"], kept["total"], kept["first"], int(kept["done"])
    for i in range(done, n_folds):
        learn, test = fold(i)
        found, told = answer(i, learn, test)
        flat, truth = np.concatenate(found), np.concatenate(test.y)
        right[i], total[i] = (flat == truth).sum(), truth.size
        first = flat if i == 0 else first
        np.savez(checkpoint, right=right, total=total, first=first, done=i + 1)
    shares = 100.0 * right / total
    arrays: dict[str, NDArray[Any]] = {"accuracy": shares, "first_fold": first.astype(np.int8)}
    return Finding({"": float(shares.mean())}, int(total.sum()), arrays, {"l2": _L2, "folds": n_folds, **told})


def _answer_base(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF]
) -> tuple[list[Any], dict[str, Any]]:
    return base(i).predict(test.X), {}


def _answer_energy(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF], positional: bool, mapped: bool
) -> tuple[list[Any], dict[str, Any]]:
    energy = DistanceToSet(learn.known, positional=positional, psi=3.0)
    psi = MeanMapPsi(n_components=200 if quick else 1000) if mapped else "constant"
    learner = _MAPPED if mapped else _CONSTANT
    crf = copy.copy(base(i))  # which serves the other rows, too
    crf.set_params(energies=[energy], psi=psi, projection=_INFERENCE, energy_learner=learner)
    crf.fit(learn.X, learn.y, freeze_weights=True)
    strengths = crf.strengths(test.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of calls is a setting of the experiment
        found = crf.predict(test.X)
    told = {"epochs": learner.max_iter, "calls": _INFERENCE.max_iter, "mean psi": float(strengths.mean())}
    return found, told


def _answer_classifier(
    i: int, learn: Words, test: Words, *, quick: bool, base: Callable[[int], ChainCRF]
) -> tuple[list[Any], dict[str, Any]]:
    """Logistic regression over the words seen in training, of which only those of the right length may be chosen."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    psi = MeanMapPsi(n_components=200 if quick else 500)
    known = learn.known
    number = {word: j for j, word in enumerate(known)}
    features, tested = (_mean_maps(psi, words) for words in (learn, test))
    # Mean maps of words differ little from one another, so they are scaled first.
    model = make_pipeline(StandardScaler(), LogisticRegression(C=_CLASSIFIER_C, max_iter=200, tol=1e-3))
    model.fit(features, [number[tuple(word.tolist())] for word in learn.y])
    scores = model.decision_function(tested)
    lengths = np.array([len(word) for word in known])
    fits = lengths[model.classes_][None] == np.array([len(word) for word in test.y])[:, None]
    chosen = model.classes_[np.where(fits, scores, -np.inf).argmax(axis=1)]
    found = [
        np.array(known[j]) if fit.any() else np.full(len(word), -1)
        for j, fit, word in zip(chosen.tolist(), fits, test.y, strict=True)
    ]
    return found, {"C": _CLASSIFIER_C, "features": int(psi.n_components)}


_CLASSIFIER_C = 0.01

_ANSWERS: dict[str, Callable[..., tuple[list[Any], dict[str, Any]]]] = {
    "base": _answer_base,
    "classifier": _answer_classifier,
    **{
        key: partial(_answer_energy, positional=positional, mapped=mapped)
        for key, (positional, mapped) in _ENERGIES.items()
    },
}


def _mean_maps(psi: MeanMapPsi, words: Words) -> FloatArray:
    ptr = np.concatenate([[0], np.cumsum([len(word) for word in words.y])])
    return psi.features_of(np.concatenate(words.X), ptr)[:, 1:]


def _figures(found: dict[str, Finding], fold: Callable[[int], tuple[Words, Words]]) -> dict[str, Figure]:
    """Words of the first fold that the base model gets wrong, one of each kind, and what each model reads."""
    from intarsia.report.plots import Panel, plot_comparison

    answers = {key: found[key].arrays["first_fold"] for key in _PAPER if key in found and key != "classifier"}
    if "base" not in answers:
        return {}
    _, test = fold(0)
    starts = np.concatenate([[0], np.cumsum([len(word) for word in test.y])])
    wrong: list[tuple[str, str, FloatArray]] = []
    for j, (x, word) in enumerate(zip(test.X, test.y, strict=True)):
        a, b = starts[j], starts[j + 1]
        shown = any(_spell(word) == truth for truth, _, _ in wrong)
        if len(wrong) == _SHOWN or shown or (answers["base"][a:b] == word).all():
            continue
        read = [f"{_short(key)}: {_spell(flat[a:b])}" for key, flat in answers.items()]
        wrong.append((_spell(word), "\n".join(read), np.concatenate([one[:128].reshape(16, 8) for one in x], axis=1)))
    if not wrong:
        return {}
    # Room below, for the readings take much of a panel's height.
    width = max(picture.shape[1] for _, _, picture in wrong)
    panels = [
        Panel(truth, read, 1.0 - np.pad(picture, ((4, 14), (0, width - picture.shape[1]))), "input")
        for truth, read, picture in wrong
    ]
    return {"ocr-words": plot_comparison(panels, title="Words that the 2-gram misreads", n_columns=3)}


def _short(key: str) -> str:
    return _PAPER[key][0].replace(" energy", "").replace(" (base model)", "")


def _spell(letters: NDArray[Any]) -> str:
    return "".join(chr(97 + int(k)) for k in letters)
