"""Words that may be missing from the dictionary: a threshold, learned by cross-fitting, decides how they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia._files.array_file import write_npz
from intarsia.sequences import ChainCRF
from intarsia_reproduction.models.word_energies import WordPieces

LOOK_UP_PSI = 1e3  # with so large a weight the energy is the look-up: a dictionary word is read unchanged
UNKNOWN_FRACTION = 0.1  # fraction of words that are not in the dictionary, for which thresholds are learned
_N_GROUPS, _N_SPLITS = 5, 3


@dataclass(frozen=True)
class Rule:
    """Settings of a reader of words.

    Attributes
    ----------
    psi : float
        Weight of the distance to the dictionary.
    transition_scale : float
        Factor of the scores of transitions.
    by_letter : bool
        Whether the cap is multiplied by the number of letters.
    cap : float
        Largest excess of the objective over that of the chain alone, at which a dictionary word is still read.
    """

    psi: float
    transition_scale: float = 1.0
    by_letter: bool = False
    cap: float = np.inf


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings of words by the dictionary and by the chain alone, as numbers of correct letters.

    Attributes
    ----------
    excess : (n_words,) float array
        Minimum of the objective over dictionary words minus that of the chain alone.
    lengths, known_right, free_right : (n_words,) int arrays
        Number of letters, and the numbers of correct letters with and without the dictionary.
    """

    excess: FloatArray
    lengths: IntArray
    known_right: IntArray
    free_right: IntArray

    def right(self, rule: Rule) -> IntArray:
        """Return the number of correct letters of each word under the rule."""
        limit = rule.cap * self.lengths if rule.by_letter else np.full(self.lengths.size, rule.cap)
        return np.where(self.excess < limit, self.known_right, self.free_right)


def read_words(
    crf: ChainCRF,
    X: Sequence[FloatArray],
    y: Sequence[NDArray[np.int64]],
    dictionary: Sequence[tuple[int, ...]],
    rule: Rule,
) -> Readings:
    """Read words with and without the dictionary; the cap of the rule is not used."""
    pieces = WordPieces(crf, X, dictionary, rule.transition_scale)
    words, excess = pieces.read(rule.psi)
    known_right, free_right = count_right(words, y), count_right(pieces.read_freely(), y)
    return Readings(excess, np.array([len(word) for word in y]), known_right, free_right)


def count_right(predicted: Sequence[NDArray[np.int64]], y: Sequence[NDArray[np.int64]]) -> IntArray:
    """Return the number of correct letters of each word."""
    pairs = zip(predicted, y, strict=True)
    return np.array([int((letters == word).sum()) for letters, word in pairs], dtype=np.int64)


def count_letters(
    right: Sequence[IntArray], y: Sequence[NDArray[np.int64]], dictionary: Sequence[tuple[int, ...]]
) -> FloatArray:
    """Return for each reader the correct letters and all letters (last axis) of known and of unknown words.

    Examples
    --------
    >>> words = [np.array([0, 1]), np.array([2, 2, 2])]
    >>> count_letters([np.array([2, 1])], words, [(0, 1)]).tolist()
    [[[2.0, 2.0], [1.0, 3.0]]]
    """
    words, lengths = set(dictionary), np.array([len(word) for word in y])
    is_known = np.array([tuple(word.tolist()) in words for word in y])
    return np.array(
        [[[n[mask].sum(), lengths[mask].sum()] for mask in (is_known, ~is_known)] for n in right], dtype=np.float64
    )


class FoldResults:
    """Results of folds that several rows share: each fold is computed once, or read from a checkpoint.

    Parameters
    ----------
    compute : function
        From the number of a fold to counts (an array), and settings as JSON types.
    """

    def __init__(self, compute: Callable[[int], tuple[FloatArray, dict[str, Any]]]) -> None:
        self._compute = compute
        self._results: dict[int, tuple[FloatArray, dict[str, Any]]] = {}

    def run(self, n_folds: int, checkpoint: Path) -> tuple[FloatArray, list[dict[str, Any]]]:
        """Return counts and settings of all folds; the checkpoint is written after each fold."""
        if checkpoint.exists():
            with np.load(checkpoint) as progress:
                finished_folds = zip(progress["counts"], json.loads(str(progress["settings"])), strict=True)
                self._results |= dict(enumerate(finished_folds))
        for i in range(n_folds):
            if i not in self._results:
                self._results[i] = self._compute(i)
                counts, settings = zip(*(self._results[j] for j in range(i + 1)), strict=True)
                write_npz(checkpoint, {"counts": np.array(counts), "settings": json.dumps(settings)})
        counts, settings = zip(*(self._results[i] for i in range(n_folds)), strict=True)
        return np.array(counts), list(settings)


def best_cap(readings: Readings, weight: FloatArray, by_letter: bool) -> tuple[float, float]:
    """Return the cap with the most correct letters, weighted by word, and that weighted number.

    Examples
    --------
    The dictionary reads the first word better, and the chain alone the second:

    >>> readings = Readings(np.array([1.0, 4.0]), np.array([3, 3]), np.array([3, 0]), np.array([2, 2]))
    >>> best_cap(readings, np.ones(2), by_letter=False)
    (2.5, 5.0)
    """
    excess = readings.excess / readings.lengths if by_letter else readings.excess
    order = np.argsort(excess, kind="stable")
    gains = (weight * (readings.known_right - readings.free_right))[order]
    totals = np.concatenate([[0.0], np.cumsum(gains)])
    cuts = np.concatenate([[-np.inf], excess[order], [np.inf]])
    is_cut = cuts[1:] > cuts[:-1]  # words of equal excess are read alike
    n_known = int(np.argmax(np.where(is_cut, totals, -np.inf)))
    low, high = cuts[n_known], cuts[n_known + 1]
    middle = high if not np.isfinite(low) else low + 1.0 if not np.isfinite(high) else 0.5 * (low + high)
    return float(middle), float(totals[n_known] + weight @ readings.free_right)


def learn_rules(
    X: Sequence[FloatArray],
    y: Sequence[NDArray[np.int64]],
    candidates: dict[str, list[Rule]],
    fit: Callable[[Sequence[FloatArray], Sequence[NDArray[np.int64]]], ChainCRF],
    seed: int = 0,
) -> dict[str, Rule]:
    """Learn the cap of each candidate rule on training words, and return the best candidate of each list.

    Images and distinct words are both divided into five groups. In each of three splits, a chain is fitted without a
    group of images and without a group of words, and then reads these images: those of the missing words are unknown.
    Unknown words are weighted so that they are `UNKNOWN_FRACTION` of all.
    """
    rng = np.random.default_rng(seed)
    kinds = sorted({tuple(word.tolist()) for word in y})
    group_of_kind = dict(zip(kinds, rng.permutation(len(kinds)) % _N_GROUPS, strict=True))
    kind_group = np.array([group_of_kind[tuple(word.tolist())] for word in y])
    image_group = rng.permutation(len(y)) % _N_GROUPS
    rules = list(dict.fromkeys(rule for rules in candidates.values() for rule in rules))
    readings: dict[Rule, list[Readings]] = {rule: [] for rule in rules}
    is_unknown = []
    for group in range(_N_SPLITS):
        learn = np.flatnonzero((image_group != group) & (kind_group != group)).tolist()
        test = np.flatnonzero(image_group == group).tolist()
        crf = fit([X[i] for i in learn], [y[i] for i in learn])
        dictionary = [kind for kind in kinds if group_of_kind[kind] != group]
        X_test, y_test = [X[i] for i in test], [y[i] for i in test]
        shared: dict[tuple[float, float], Readings] = {}
        for rule in rules:
            key = rule.psi, rule.transition_scale
            if key not in shared:
                shared[key] = read_words(crf, X_test, y_test, dictionary, rule)
            readings[rule].append(shared[key])
        is_unknown.append(kind_group[test] == group)
    unknown = np.concatenate(is_unknown)
    weight = np.where(
        unknown, UNKNOWN_FRACTION / max(unknown.mean(), 1e-9), (1.0 - UNKNOWN_FRACTION) / (~unknown).mean()
    )
    best_caps: dict[Rule, tuple[float, float]] = {}
    for rule in rules:
        all_readings = Readings(*(np.concatenate([getattr(r, name) for r in readings[rule]]) for name in _FIELDS))
        best_caps[rule] = best_cap(all_readings, weight, rule.by_letter)
    best_rules = {}
    for name, rules_of_name in candidates.items():
        rule = max(rules_of_name, key=lambda candidate: best_caps[candidate][1])
        best_rules[name] = Rule(rule.psi, rule.transition_scale, rule.by_letter, best_caps[rule][0])
    return best_rules


_FIELDS = ("excess", "lengths", "known_right", "free_right")
