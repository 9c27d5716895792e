"""Precision, recall and F1 from counts, and checks that true and predicted labels match in length."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia.exceptions import InvalidInputError


def paired_sequences(y_true: Sequence[Any], y_pred: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield the true and predicted labels of each sequence as lists of equal length; an image is flattened by rows.

    Examples
    --------
    >>> list(paired_sequences([["a", "b"]], [["a", "c"]]))
    [(['a', 'b'], ['a', 'c'])]
    """
    if len(y_true) != len(y_pred):
        raise InvalidInputError(f"y_true has {len(y_true)} sequences, but y_pred has {len(y_pred)}. Pass equally many.")
    for k, (true_labels, pred_labels) in enumerate(zip(y_true, y_pred, strict=True)):
        true = _as_list(true_labels, f"y_true[{k}]")
        pred = _as_list(pred_labels, f"y_pred[{k}]")
        if len(true) != len(pred):
            raise InvalidInputError(
                f"y_true[{k}] has {len(true)} labels, but y_pred[{k}] has {len(pred)}. Pass one label per token."
            )
        yield true, pred


def is_hidden(label: Any) -> bool:
    """Return whether a label is hidden (unknown): None among strings, -1 among integers.

    Examples
    --------
    >>> [is_hidden(label) for label in (None, -1, "O", 0, "-1")]
    [True, True, False, False, False]
    """
    return label is None or (type(label) is int and label == -1)


def _as_list(labels: Any, name: str) -> list[Any]:
    """Return the labels of one sequence or image as a list of Python values."""
    if isinstance(labels, np.ndarray) and labels.ndim:
        return labels.ravel().tolist()
    if isinstance(labels, (list, tuple)):
        return [label.item() if isinstance(label, np.generic) else label for label in labels]
    if isinstance(labels, (str, bytes, Mapping)) or np.ndim(labels) == 0:
        raise InvalidInputError(
            f"{name} is {labels!r:.60}; expected the labels of one sequence. Pass a list with a list of labels for "
            f"each sequence; wrap a single sequence as [labels]."
        )
    return list(labels)


@dataclass(frozen=True)
class PrecisionRecall:
    """Numbers of true, predicted and correctly predicted items, with precision, recall and F1.

    A ratio with denominator zero is 0, as in conlleval: precision is 0 if nothing is predicted, recall is 0 if there
    are no true items, and F1 is 0 unless an item is correct, even if there are neither true nor predicted items.

    Attributes
    ----------
    n_true, n_pred, n_correct : int, or float if weighted
        Number (or total weight) of the true items, of the predicted items, and of the items in both.

    Examples
    --------
    Four segments are predicted where two are true; one prediction is correct.

    >>> counts = PrecisionRecall(n_true=2, n_pred=4, n_correct=1)
    >>> counts.precision, counts.recall, round(counts.f1, 4)
    (0.25, 0.5, 0.3333)
    """

    n_true: float
    n_pred: float
    n_correct: float

    @property
    def precision(self) -> float:
        """Fraction of the predicted items that are correct."""
        return self.n_correct / self.n_pred if self.n_pred else 0.0

    @property
    def recall(self) -> float:
        """Fraction of the true items that were predicted."""
        return self.n_correct / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.n_correct / (self.n_true + self.n_pred) if self.n_correct else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return `precision`, `recall`, `f1` and `n` (number of true items) as a dict for JSON."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "n": self.n_true}


def count_by_label(
    true: Mapping[Hashable, float], pred: Mapping[Hashable, float], correct: Mapping[Hashable, float]
) -> dict[Hashable, PrecisionRecall]:
    """Return the counts of each label that occurs in the true or the predicted items, sorted by label.

    Examples
    --------
    >>> from collections import Counter
    >>> count_by_label(Counter("aab"), Counter("ac"), Counter("a"))["a"]
    PrecisionRecall(n_true=2, n_pred=1, n_correct=1)
    """
    labels = sorted({*true, *pred}, key=lambda label: (type(label).__name__, label))
    return {label: PrecisionRecall(true.get(label, 0), pred.get(label, 0), correct.get(label, 0)) for label in labels}
