"""True and predicted labels side by side, sequence by sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from intarsia.exceptions import InvalidInputError


def paired_sequences(y_true: Sequence[Any], y_pred: Sequence[Any], where: str) -> Iterator[tuple[list[Any], list[Any]]]:
    """True and predicted labels of each sequence, as lists of equal length; an image is read row by row.

    Examples
    --------
    >>> list(paired_sequences([["a", "b"]], [["a", "c"]], "score"))
    [(['a', 'b'], ['a', 'c'])]
    """
    if len(y_true) != len(y_pred):
        raise InvalidInputError(
            f"{where}: y_true has {len(y_true)} sequences, but y_pred has {len(y_pred)}. Give the same in both."
        )
    for k, (given_true, given_pred) in enumerate(zip(y_true, y_pred, strict=True)):
        true = _as_list(given_true, f"{where}: y_true[{k}]")
        pred = _as_list(given_pred, f"{where}: y_pred[{k}]")
        if len(true) != len(pred):
            raise InvalidInputError(
                f"{where}: y_true[{k}] has {len(true)} labels, but y_pred[{k}] has {len(pred)}. Give one per token."
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


def _as_list(labels: Any, where: str) -> list[Any]:
    if isinstance(labels, np.ndarray) and labels.ndim:
        return labels.ravel().tolist()
    if isinstance(labels, (list, tuple)):
        return [label.item() if isinstance(label, np.generic) else label for label in labels]
    if isinstance(labels, (str, bytes, Mapping)) or np.ndim(labels) == 0:
        raise InvalidInputError(
            f"{where} is {labels!r:.60}; expected the labels of one sequence. Give a list with a list of labels for "
            f"each sequence, [labels] if there is one sequence."
        )
    return list(labels)
