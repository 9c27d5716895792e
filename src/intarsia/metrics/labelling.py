"""Accuracy of labels over tokens and over whole sequences, and precision and recall of each label."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from intarsia._core.error_context import errors_from
from intarsia._core.html import ShownResult
from intarsia._core.validation import check_sample_weight
from intarsia.exceptions import InvalidInputError
from intarsia.metrics.counts import PrecisionRecall, count_by_label, is_hidden, paired_sequences


@dataclass(frozen=True)
class LabellingScores(ShownResult):
    """Accuracy and F1 of predicted labels; tokens whose true label is hidden are ignored.

    Attributes
    ----------
    accuracy : float
        Fraction of the tokens whose label is correct; 0 if there are no labelled tokens.
    sequence_accuracy : float
        Fraction of the sequences in which every label is correct; 0 if there are no labelled sequences.
    by_label : dict of PrecisionRecall
        Counts for each label; sums of the sample weights where these were passed.
    n, n_tokens : int
        Number of sequences with at least one true label, and of tokens with a true label, not weighted.

    Examples
    --------
    `labelling_scores` returns it.

    >>> LabellingScores(1.0, 1.0, {"a": PrecisionRecall(3, 3, 3)}, n=1, n_tokens=3).macro_f1
    1.0
    """

    accuracy: float
    sequence_accuracy: float
    by_label: dict[Hashable, PrecisionRecall]
    n: int
    n_tokens: int

    @property
    def macro_f1(self) -> float:
        """Mean F1 over the labels; 0 if there are no labels."""
        return sum(counts.f1 for counts in self.by_label.values()) / len(self.by_label) if self.by_label else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return `accuracy`, `sequence_accuracy`, `macro_f1`, `by_label` and `n` (number of sequences) for JSON."""
        return {
            "accuracy": self.accuracy,
            "sequence_accuracy": self.sequence_accuracy,
            "macro_f1": self.macro_f1,
            "by_label": {str(label): counts.as_dict() for label, counts in self.by_label.items()},
            "n": self.n,
        }


@errors_from("labelling_scores")
def labelling_scores(y_true: Sequence[Any], y_pred: Sequence[Any], *, sample_weight: Any = None) -> LabellingScores:
    """Compute the accuracy of labels over tokens and over whole sequences, and precision and recall of each label.

    Parameters
    ----------
    y_true, y_pred : lists of sequences or arrays
        One label for each token; images are flattened by rows. In `y_true`, None (or the integer -1) marks a hidden
        label.
    sample_weight : array (n_sequences,), optional
        Weight of each sequence or image; all its tokens get this weight. By default all weights are 1.

    Raises
    ------
    InvalidInputError
        If lengths differ, if a true label is a set of labels, or if a weight is negative or not finite.

    Examples
    --------
    >>> scores = labelling_scores([["a", "b"], ["b", None]], [["a", "a"], ["b", "a"]])
    >>> scores.accuracy == 2 / 3, scores.sequence_accuracy, scores.by_label["b"].recall
    (True, 0.5, 0.5)
    """
    # Without weights the counts stay integers.
    weights = repeat(1) if sample_weight is None else check_sample_weight(sample_weight, len(y_true)).tolist()
    confusions: defaultdict[tuple[Any, Any], float] = defaultdict(int)
    n = n_tokens = 0
    sequence_weight: float = 0
    correct_sequence_weight: float = 0
    for k, ((true, pred), weight) in enumerate(zip(paired_sequences(y_true, y_pred), weights, strict=False)):
        try:
            label_pairs = Counter((a, b) for a, b in zip(true, pred, strict=True) if not is_hidden(a))
        except TypeError:
            raise InvalidInputError(
                f"y_true[{k}] or y_pred[{k}] holds lists; expected one label for each token. Pass a flat list."
            ) from None
        if any(isinstance(a, frozenset) for a, _ in label_pairs):
            raise InvalidInputError(
                f"y_true[{k}] holds a set of labels. Pass the true label; use None where it is unknown."
            )
        if label_pairs:
            n += 1
            sequence_weight += weight
            correct_sequence_weight += weight * all(a == b for a, b in label_pairs)
        for labels, n_pairs in label_pairs.items():
            n_tokens += n_pairs
            confusions[labels] += weight * n_pairs
    n_true: defaultdict[Hashable, float] = defaultdict(int)
    n_pred: defaultdict[Hashable, float] = defaultdict(int)
    n_correct: defaultdict[Hashable, float] = defaultdict(int)
    for (true_label, pred_label), count in confusions.items():
        n_true[true_label] += count
        n_pred[pred_label] += count
        n_correct[true_label] += count * (true_label == pred_label)
    token_weight = sum(confusions.values())
    return LabellingScores(
        sum(n_correct.values()) / token_weight if token_weight else 0.0,
        correct_sequence_weight / sequence_weight if sequence_weight else 0.0,
        count_by_label(n_true, n_pred, n_correct),
        n,
        n_tokens,
    )
