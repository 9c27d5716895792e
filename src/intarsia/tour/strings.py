"""Tour, strings: handwritten digits of known codes, read by a chain, then by a chain that knows the codes."""

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
_N_LEARN, _N_TEST = 200, 200
_CUT = 1200  # pictures before it are for learning, the others for the test
_NOISE = 6.0  # of pixels from 0 to 16
_SHOWN = 6


@dataclass(frozen=True, eq=False)
class DigitStrings:
    """Strings of handwritten digits.

    Attributes
    ----------
    pictures : list of (length, 8, 8) arrays
        What is seen.
    X : list of (length, 65) arrays
        Pixels and a constant.
    y : list of int arrays
        The digits.
    """

    pictures: list[FloatArray]
    X: list[FloatArray]
    y: list[IntArray]


def make_strings(seed: int = 0) -> tuple[DigitStrings, DigitStrings, IntArray]:
    """Strings to learn from, strings to test on (other pictures), and the codes that all of them spell.

    Examples
    --------
    >>> learn, test, codes = make_strings()
    >>> len(learn.y), test.X[0].shape, codes.shape
    (200, (5, 65), (60, 5))
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    images, digits = (np.asarray(part) for part in load_digits(return_X_y=True))
    codes = np.unique(rng.integers(0, 10, size=(4 * _N_CODES, _LENGTH)), axis=0)
    codes = rng.permutation(codes)[:_N_CODES]
    parts = []
    for n, first, last in ((_N_LEARN, 0, _CUT), (_N_TEST, _CUT, len(digits))):
        by_digit = [first + np.flatnonzero(digits[first:last] == digit) for digit in range(10)]
        y = [codes[k] for k in rng.integers(0, _N_CODES, size=n)]
        seen = [np.stack([images[rng.choice(by_digit[digit])] for digit in code]) for code in y]
        seen = [np.clip(one + rng.normal(0.0, _NOISE, one.shape), 0.0, 16.0) for one in seen]
        X = [np.concatenate([one / 16.0, np.ones((_LENGTH, 1))], axis=1) for one in seen]
        parts.append(DigitStrings([one.reshape(_LENGTH, 8, 8) for one in seen], X, y))
    return parts[0], parts[1], codes


def strings_stop(seed: int = 0) -> Stop:
    """Share of digits and of whole strings read rightly, without and with the codes."""
    start = time.perf_counter()
    learn, test, codes = make_strings(seed)
    crf = ChainCRF(l2=2.0, classes=np.arange(10), random_state=seed).fit(learn.X, learn.y)
    plain = crf.predict(test.X)
    energy = DistanceToSet(codes.tolist(), positional=True, psi=3.0)
    crf.set_params(energies=[energy], projection=BetheRDA(max_iter=10), energy_learner=DoublyStochastic(max_iter=2))
    crf.fit(learn.X, learn.y, freeze_weights=True)
    knowing = crf.predict(test.X)
    rows = []
    for label, found in (("chain", plain), ("chain that knows the codes", knowing)):
        right = np.array([(one == truth).tolist() for one, truth in zip(found, test.y, strict=True)])
        rows.append((label, 100.0 * right.mean(), 100.0 * right.all(axis=1).mean()))
    seconds = time.perf_counter() - start
    section = Section(
        "strings",
        "Digits that spell known codes",
        f"Noisy handwritten digits in strings of {_LENGTH}, each spelling one of {_N_CODES} codes. How much does it "
        "help to know them?",
        [
            Table(["model", "digits read rightly, %", "strings read rightly, %"], rows),
            Picture(_picture(test, plain, knowing), "Test strings, and what each model reads"),
        ],
        {
            "Data": "handwritten digits of scikit-learn",
            "Model": f"ChainCRF(l2=2); energy psi times the distance to the nearest code, psi = "
            f"{_strength(crf, test):.2f} learned",
            "Seed": str(seed),
            "Seconds": f"{seconds:.1f}",
        },
    )
    told = [Row(f"digits right, {label}", float(share), "%") for label, share, _ in rows]
    return Stop("strings", section.title, told, section, seconds)


def _strength(crf: ChainCRF, test: DigitStrings) -> float:
    return float(crf.strengths(test.X[:1]).mean())


def _picture(test: DigitStrings, plain: list[Any], knowing: list[Any]) -> Any:
    """The first strings, those first that the plain chain misreads."""
    from matplotlib.figure import Figure

    wrong = [k for k in range(len(test.y)) if (plain[k] != test.y[k]).any()]
    shown = (wrong + [k for k in range(len(test.y)) if k not in wrong])[:_SHOWN]
    figure = Figure(figsize=(8, 1.3 * -(-len(shown) // 2)), layout="constrained")
    axes = figure.subplots(-(-len(shown) // 2), 2, squeeze=False)
    for axis, k in zip(axes.ravel(), shown, strict=False):
        axis.imshow(np.concatenate(list(test.pictures[k]), axis=1), cmap="Greys", vmin=0, vmax=16)
        words = ["".join(map(str, found[k])) for found in (plain, knowing)]
        axis.set_title(f"chain {words[0]}, with codes {words[1]}, truth {''.join(map(str, test.y[k]))}", fontsize=9)
        axis.set_axis_off()
    return figure
