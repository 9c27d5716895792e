"""Tour stop on sequences: strings of handwritten digits, read by a chain CRF without and with a list of known codes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies import DistanceToSet
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.learning import DoublyStochastic
from intarsia.report.page_parts import Picture, Section, Table
from intarsia.sequences import ChainCRF
from intarsia.tour.tour import Row, Stop

_N_CODES, _LENGTH = 60, 5
_N_TRAIN, _N_TEST = 200, 200
_SPLIT = 1200  # images before this index are for training, the others for the test
_NOISE = 6.0  # standard deviation, for pixels from 0 to 16
_N_SHOWN = 6


@dataclass(frozen=True, eq=False)
class DigitStrings:
    """Strings of handwritten digits with their features.

    Attributes
    ----------
    pictures : list of (length, 8, 8) arrays
        Images of the digits.
    X : list of (length, 65) arrays
        Features: pixels and a constant.
    y : list of int arrays
        Digits of each string.
    """

    pictures: list[FloatArray]
    X: list[FloatArray]
    y: list[IntArray]


def make_strings(seed: int = 0) -> tuple[DigitStrings, DigitStrings, IntArray]:
    """Return training strings, test strings (of other images), and the codes that all of them spell.

    Examples
    --------
    >>> train, test, codes = make_strings()
    >>> len(train.y), test.X[0].shape, codes.shape
    (200, (5, 65), (60, 5))
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    images, digits = (np.asarray(array) for array in load_digits(return_X_y=True))
    codes = np.unique(rng.integers(0, 10, size=(4 * _N_CODES, _LENGTH)), axis=0)
    codes = rng.permutation(codes)[:_N_CODES]
    sets = []
    for n, first, last in ((_N_TRAIN, 0, _SPLIT), (_N_TEST, _SPLIT, len(digits))):
        by_digit = [first + np.flatnonzero(digits[first:last] == digit) for digit in range(10)]
        y = [codes[k] for k in rng.integers(0, _N_CODES, size=n)]
        pictures = [np.stack([images[rng.choice(by_digit[digit])] for digit in code]) for code in y]
        pictures = [np.clip(image + rng.normal(0.0, _NOISE, image.shape), 0.0, 16.0) for image in pictures]
        X = [np.concatenate([image / 16.0, np.ones((_LENGTH, 1))], axis=1) for image in pictures]
        sets.append(DigitStrings([image.reshape(_LENGTH, 8, 8) for image in pictures], X, y))
    return sets[0], sets[1], codes


def strings_stop(seed: int = 0) -> Stop:
    """Measure the fraction of digits and of whole strings that are read correctly, without and with the codes."""
    start = time.perf_counter()
    train, test, codes = make_strings(seed)
    crf = ChainCRF(l2=2.0, classes=np.arange(10), random_state=seed).fit(train.X, train.y)
    plain = crf.predict(test.X)
    energy = DistanceToSet(codes.tolist(), positional=True, psi=3.0)
    crf.set_params(energies=[energy], projection=BetheRDA(max_iter=10), energy_learner=DoublyStochastic(max_iter=2))
    crf.fit(train.X, train.y, freeze_weights=True)
    with_codes = crf.predict(test.X)
    rows = []
    for label, predicted in (("chain", plain), ("chain with the codes", with_codes)):
        correct = np.array([(labels == truth).tolist() for labels, truth in zip(predicted, test.y, strict=True)])
        rows.append((label, 100.0 * correct.mean(), 100.0 * correct.all(axis=1).mean()))
    seconds = time.perf_counter() - start
    section = Section(
        "strings",
        "Digits that spell known codes",
        f"Noisy handwritten digits in strings of {_LENGTH}, each spelling one of {_N_CODES} codes. How much does it "
        "help to know the codes?",
        [
            Table(["model", "correct digits, %", "correct strings, %"], rows),
            Picture(_picture(test, plain, with_codes), "Test strings and the predictions of each model"),
        ],
        {
            "Data": "handwritten digits of scikit-learn",
            "Model": f"ChainCRF(l2=2); energy: psi times the distance to the nearest code, learned psi = "
            f"{_learned_psi(crf, test):.2f}",
            "Seed": str(seed),
            "Seconds": f"{seconds:.1f}",
        },
    )
    figures = [Row(f"correct digits, {label}", float(percentage), "%") for label, percentage, _ in rows]
    return Stop("strings", section.title, figures, section, seconds)


def _learned_psi(crf: ChainCRF, test: DigitStrings) -> float:
    """Return the learned weight psi of the energy."""
    return float(crf.strengths(test.X[:1]).mean())


def _picture(test: DigitStrings, plain: list[Any], with_codes: list[Any]) -> Any:
    """Draw some strings, beginning with those that the plain chain misreads."""
    from matplotlib.figure import Figure

    wrong = [k for k in range(len(test.y)) if (plain[k] != test.y[k]).any()]
    examples = (wrong + [k for k in range(len(test.y)) if k not in wrong])[:_N_SHOWN]
    figure = Figure(figsize=(8, 1.3 * -(-len(examples) // 2)), layout="constrained")
    axes = figure.subplots(-(-len(examples) // 2), 2, squeeze=False)
    for axis, k in zip(axes.ravel(), examples, strict=False):
        axis.imshow(np.concatenate(list(test.pictures[k]), axis=1), cmap="Greys", vmin=0, vmax=16)
        texts = ["".join(map(str, predicted[k])) for predicted in (plain, with_codes)]
        axis.set_title(f"chain {texts[0]}, with codes {texts[1]}, truth {''.join(map(str, test.y[k]))}", fontsize=9)
        axis.set_axis_off()
    return figure
