"""Precision, recall and F1 from counts, and checks of true and predicted labels side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia.exceptions import InvalidInputError


def paired_sequences(y_true: Sequence[Any], y_pred: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """True and predicted labels of each sequence, as lists of equal length; an image is read row by row.

    Examples
    --------
    >>> list(paired_sequences([["a", "b"]], [["a", "c"]]))
    [(['a', 'b'], ['a', 'c'])]
    """
    if len(y_true) != len(y_pred):
        raise InvalidInputError(
            f"y_true has {len(y_true)} sequences, but y_pred has {len(y_pred)}. Give the same in both."
        )
    for k, (given_true, given_pred) in enumerate(zip(y_true, y_pred, strict=True)):
        true = _as_list(given_true, f"y_true[{k}]")
        pred = _as_list(given_pred, f"y_pred[{k}]")
        if len(true) != len(pred):
            raise InvalidInputError(
                f"y_true[{k}] has {len(true)} labels, but y_pred[{k}] has {len(pred)}. Give one per token."
            )
        yield true, pred


def is_hidden(label: Any) -> bool:
    """Whether a label says that it is not known: None among strings, -1 among whole numbers.

    Examples
    --------
    >>> [is_hidden(label) for label in (None, -1, "O", 0, "-1")]
    [True, True, False, False, False]
    """
    return label is None or (type(label) is int and label == -1)


def _as_list(labels: Any, name: str) -> list[Any]:
    if isinstance(labels, np.ndarray) and labels.ndim:
        return labels.ravel().tolist()
    if isinstance(labels, (list, tuple)):
        return [label.item() if isinstance(label, np.generic) else label for label in labels]
    if isinstance(labels, (str, bytes, Mapping)) or np.ndim(labels) == 0:
        raise InvalidInputError(
            f"{name} is {labels!r:.60}; expected the labels of one sequence. Give a list with a list of labels for "
            f"each sequence, [labels] if there is one sequence."
        )
    return list(labels)


@dataclass(frozen=True)
class PrecisionRecall:
    """What was looked for, what was found, and what both have in common.

    A quotient whose denominator is zero is 0, as conlleval has it: nothing predicted has precision 0, nothing to find
    has recall 0, and F1 is 0 unless something is right, even where nothing was to be found and nothing was predicted.

    Attributes
    ----------
    n_true, n_pred, n_correct : int
        Items of the truth, of the prediction, and in both.

    Examples
    --------
    Four segments are predicted where two are; one is right.

    >>> found = PrecisionRecall(n_true=2, n_pred=4, n_correct=1)
    >>> found.precision, found.recall, round(found.f1, 4)
    (0.25, 0.5, 0.3333)
    """

    n_true: int
    n_pred: int
    n_correct: int

    @property
    def precision(self) -> float:
        """Share of the predicted items that are right."""
        return self.n_correct / self.n_pred if self.n_pred else 0.0

    @property
    def recall(self) -> float:
        """Share of the true items that were predicted."""
        return self.n_correct / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.n_correct / (self.n_true + self.n_pred) if self.n_correct else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `precision`, `recall`, `f1`, and `n`, the number of true items."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "n": self.n_true}


def count_by_label(
    true: Counter[Hashable], pred: Counter[Hashable], correct: Counter[Hashable]
) -> dict[Hashable, PrecisionRecall]:
    """Counts of every label of the truth or of the prediction, in the order of the labels.

    Examples
    --------
    >>> count_by_label(Counter("aab"), Counter("ac"), Counter("a"))["a"]
    PrecisionRecall(n_true=2, n_pred=1, n_correct=1)
    """
    labels = sorted({*true, *pred}, key=lambda label: (type(label).__name__, label))
    return {label: PrecisionRecall(true[label], pred[label], correct[label]) for label in labels}
