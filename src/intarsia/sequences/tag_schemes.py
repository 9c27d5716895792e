"""Constraints on label sequences: pairs of labels that the user forbids, and the rules of BIO and BIOES tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.chain_data import Constraints

Tag = tuple[str, str]
# Stands for the position before the first label and after the last label.
BOUNDARY: Tag = ("", "")


def find_constraints(classes: NDArray[Any], forbidden: Any, scheme: str | None) -> Constraints:
    """Return the constraints of forbidden pairs and of a tag scheme on the classes.

    Parameters
    ----------
    classes : (n_labels,) array
        Labels.
    forbidden : iterable of pairs, optional
        (a, b): b must not follow a. None stands for the boundary of a sequence: with (None, b), b must not be the first
        label; with (a, None), a must not be the last label.
    scheme : {"bio", "bioes"}, optional
        Meaning of the tags. "bio": I-x only after B-x or I-x. "bioes": in addition, I-x or E-x must follow B-x and I-x,
        and S-x is a segment of one position; L and U are synonyms of E and S.

    Examples
    --------
    >>> constraints = find_constraints(np.array(["B-x", "I-x", "O"]), [("O", "O")], "bio")
    >>> constraints.transitions
    array([[  0.,   0.,   0.],
           [  0.,   0.,   0.],
           [  0., -inf, -inf]])
    >>> constraints.start
    array([  0., -inf,   0.])
    """
    constraints = Constraints.none(classes.size)
    if scheme is not None:
        may_follow = _MAY_FOLLOW[check_choice(scheme, _MAY_FOLLOW, "scheme")]
        tags = [_split(label, scheme) for label in classes.tolist()]
        for a, tag in enumerate(tags):
            constraints.start[a] = 0.0 if may_follow(BOUNDARY, tag) else -np.inf
            constraints.end[a] = 0.0 if may_follow(tag, BOUNDARY) else -np.inf
            for b, next_tag in enumerate(tags):
                constraints.transitions[a, b] = 0.0 if may_follow(tag, next_tag) else -np.inf
    state_of = {label: c for c, label in enumerate(classes.tolist())}
    for pair in _check_pairs(forbidden):
        for label in pair:
            if label is not None and label not in state_of:
                raise InvalidInputError(
                    f"forbidden contains {pair!r}, but {label!r} is not a label. Use the labels "
                    f"{_shortened(classes.tolist())}, and None for the boundary of a sequence."
                )
        label, next_label = pair
        if label is None:
            constraints.start[state_of[next_label]] = -np.inf
        elif next_label is None:
            constraints.end[state_of[label]] = -np.inf
        else:
            constraints.transitions[state_of[label], state_of[next_label]] = -np.inf
    return constraints


def _check_pairs(forbidden: Any) -> list[tuple[Any, Any]]:
    if forbidden is None:
        return []
    pairs: list[Any] = [None]  # an invalid pair, for the error below
    if isinstance(forbidden, Iterable) and not isinstance(forbidden, (str, bytes)):
        pairs = list(forbidden)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or (pair[0] is None and pair[1] is None):
            raise InvalidInputError(
                "forbidden must be a list of pairs (label, next label), with None for the boundary of a sequence "
                f"on one side, got {pair if pair is not None else forbidden!r}."
            )
    return [(pair[0], pair[1]) for pair in pairs]


def _split(label: Any, scheme: str) -> Tag:
    """Return prefix and kind of a tag, with L and U replaced by E and S."""
    letters = "BI" if scheme == "bio" else "BIESLU"
    prefix, _, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if label == "O":
        return "O", ""
    if len(prefix) != 1 or prefix not in letters:
        raise InvalidInputError(
            f"scheme={scheme!r} needs labels that are O, or {', '.join(letters[:-1])} or {letters[-1]} followed by a "
            f"hyphen and a kind, got {label!r}. Remove scheme=, or list the forbidden pairs with forbidden=."
        )
    return {"L": "E", "U": "S"}.get(prefix, prefix), kind


def _bio(tag: Tag, next_tag: Tag) -> bool:
    return next_tag[0] != "I" or (tag[0] in ("B", "I") and tag[1] == next_tag[1])


def _bioes(tag: Tag, next_tag: Tag) -> bool:
    if tag[0] in ("B", "I"):
        return next_tag[0] in ("I", "E") and tag[1] == next_tag[1]
    return next_tag[0] not in ("I", "E")


_MAY_FOLLOW: dict[str, Callable[[Tag, Tag], bool]] = {"bio": _bio, "bioes": _bioes}


def _shortened(labels: list[Any]) -> str:
    return str(labels) if len(labels) <= 20 else f"{str(labels[:20])[:-1]}, ... ({len(labels)} in all)]"
