"""Which labels may follow one another: pairs that the user forbids, and the rules of BIO and BIOES tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, check_choice
from intarsia.exceptions import InvalidInputError

Tag = tuple[str, str]
# What stands before the first and after the last label.
EDGE: Tag = ("", "")


@dataclass(frozen=True, eq=False)
class Constraints:
    """Scores of 0 for what is possible and -inf for what is not, to be added to a model's own.

    Attributes
    ----------
    transitions : (n_labels, n_labels) float array
        A label (row) followed by another (column).
    start, end : (n_labels,) float arrays
        First and last labels.
    """

    transitions: FloatArray
    start: FloatArray
    end: FloatArray

    @property
    def any(self) -> bool:
        """Whether something is forbidden."""
        return bool((self.transitions < 0).any() or (self.start < 0).any() or (self.end < 0).any())

    def added_to(
        self, transitions: FloatArray, start: FloatArray | None, end: FloatArray | None
    ) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Return the scores of a model with -inf for forbidden transitions and ends, or unchanged if there are none."""
        if not self.any:
            return transitions, start, end
        return (
            transitions + self.transitions,
            self.start if start is None else start + self.start,
            self.end if end is None else end + self.end,
        )


def find_constraints(classes: NDArray[Any], forbidden: Any, scheme: str | None) -> Constraints:
    """What pairs and scheme forbid among the classes.

    Parameters
    ----------
    classes : (n_labels,) array
        Labels.
    forbidden : iterable of pairs, optional
        (a, b): b must not follow a. None stands for the end of a sequence: (None, b) must not begin, (a, None) must
        not end one.
    scheme : {"bio", "bioes"}, optional
        How tags are to be read. "bio": I-x only after B-x or I-x. "bioes": as well, B-x and I-x go on to I-x or E-x,
        and S-x stands alone; L and U may be written for E and S.

    Examples
    --------
    >>> found = find_constraints(np.array(["B-x", "I-x", "O"]), [("O", "O")], "bio")
    >>> found.transitions
    array([[  0.,   0.,   0.],
           [  0.,   0.,   0.],
           [  0., -inf, -inf]])
    >>> found.start
    array([  0., -inf,   0.])
    """
    k = classes.size
    found = Constraints(np.zeros((k, k)), np.zeros(k), np.zeros(k))
    if scheme is not None:
        follows = _FOLLOWS[check_choice(scheme, _FOLLOWS, "scheme")]
        tags = [_split(label, scheme) for label in classes.tolist()]
        for a, before in enumerate(tags):
            found.start[a] = 0.0 if follows(EDGE, before) else -np.inf
            found.end[a] = 0.0 if follows(before, EDGE) else -np.inf
            for b, after in enumerate(tags):
                found.transitions[a, b] = 0.0 if follows(before, after) else -np.inf
    position = {label: c for c, label in enumerate(classes.tolist())}
    for pair in _pairs(forbidden):
        for label in pair:
            if label is not None and label not in position:
                raise InvalidInputError(
                    f"forbidden has {pair!r}, but {label!r} is no label. The labels are "
                    f"{_brief(classes.tolist())}; None stands for either end of a sequence."
                )
        left, right = pair
        if left is None:
            found.start[position[right]] = -np.inf
        elif right is None:
            found.end[position[left]] = -np.inf
        else:
            found.transitions[position[left], position[right]] = -np.inf
    return found


def _pairs(forbidden: Any) -> list[tuple[Any, Any]]:
    if forbidden is None:
        return []
    given: list[Any] = [None]  # which is no pair
    if isinstance(forbidden, Iterable) and not isinstance(forbidden, (str, bytes)):
        given = list(forbidden)
    for pair in given:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or (pair[0] is None and pair[1] is None):
            raise InvalidInputError(
                "forbidden must be a list of pairs (label, next label), with None for the end of a sequence "
                f"on one side, got {pair if pair is not None else forbidden!r}."
            )
    return [(pair[0], pair[1]) for pair in given]


def _split(label: Any, scheme: str) -> Tag:
    """Prefix and kind of a tag, L and U as E and S."""
    letters = "BI" if scheme == "bio" else "BIESLU"
    prefix, _, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if label == "O":
        return "O", ""
    if len(prefix) != 1 or prefix not in letters:
        raise InvalidInputError(
            f"scheme={scheme!r}, but {label!r} is neither O nor {', '.join(letters[:-1])} or {letters[-1]} "
            f"followed by a hyphen. Leave scheme= out, or name the pairs with forbidden=."
        )
    return {"L": "E", "U": "S"}.get(prefix, prefix), kind


def _bio(before: Tag, after: Tag) -> bool:
    return after[0] != "I" or (before[0] in ("B", "I") and before[1] == after[1])


def _bioes(before: Tag, after: Tag) -> bool:
    if before[0] in ("B", "I"):
        return after[0] in ("I", "E") and before[1] == after[1]
    return after[0] not in ("I", "E")


_FOLLOWS: dict[str, Callable[[Tag, Tag], bool]] = {"bio": _bio, "bioes": _bioes}


def _brief(labels: list[Any]) -> str:
    return str(labels) if len(labels) <= 20 else f"{str(labels[:20])[:-1]}, ... ({len(labels)} in all)]"
