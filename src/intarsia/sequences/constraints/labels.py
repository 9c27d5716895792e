"""Fields and segments of label sequences: raw labels, and tags with the prefixes of BIO, BIOES and BILOU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from intarsia._core.validation import IntArray


class Kind(IntEnum):
    """Meaning of a label for one field: another field, or a place in a segment of the field."""

    OTHER = 0
    INSIDE = 1
    FIRST = 2
    LAST = 3
    SINGLE = 4


_KIND_OF_PREFIX = {
    "B": Kind.FIRST, "I": Kind.INSIDE, "E": Kind.LAST, "L": Kind.LAST, "S": Kind.SINGLE, "U": Kind.SINGLE,
}  # fmt: skip


class Run(NamedTuple):
    """Segment of a labelling: positions `start` .. `end` - 1 have the field."""

    start: int
    end: int
    field: Any


def field_of(label: Any) -> tuple[Any, Kind]:
    """Return the field of a label, and the place of the label in a segment.

    A raw label, without a prefix such as B- or I-, is a field itself; a run of equal raw labels is one segment.

    Examples
    --------
    >>> field_of("B-title"), field_of("ZipCode")
    (('title', <Kind.FIRST: 2>), ('ZipCode', <Kind.INSIDE: 1>))
    """
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str) and len(label) > 2 and label[1] == "-" and label[0] in _KIND_OF_PREFIX:
        return label[2:], _KIND_OF_PREFIX[label[0]]
    return label, Kind.INSIDE


def begins_segment(kind: Kind | int, is_inside: bool) -> bool:
    """Return whether a label of the field starts a segment; `is_inside` if the segment before it can continue."""
    return kind in (Kind.FIRST, Kind.SINGLE) or (kind != Kind.OTHER and not is_inside)


def continues_segment(kind: Kind | int) -> bool:
    """Return whether the next label can continue the segment to which a label belongs."""
    return kind in (Kind.FIRST, Kind.INSIDE)


def segments_of(labels: Iterable[Any]) -> list[Run]:
    """Return the segments of a labelling in their order, including those of the label O.

    I-x after a label of another field starts a segment, as in the CoNLL evaluation.

    Examples
    --------
    >>> [tuple(run) for run in segments_of(["B-x", "I-x", "B-x", "O", "O"])]
    [(0, 2, 'x'), (2, 3, 'x'), (3, 5, 'O')]
    """
    runs: list[Run] = []
    is_inside = False
    for t, label in enumerate(labels):
        field, kind = field_of(label)
        continues = is_inside and runs[-1].field == field
        if begins_segment(kind, continues):
            runs.append(Run(t, t + 1, field))
        else:
            runs[-1] = runs[-1]._replace(end=t + 1)
        is_inside = continues_segment(kind)
    return runs


def kinds_of(classes: Sequence[Any], field: Any) -> IntArray:
    """Return the kind of each class for one field.

    Examples
    --------
    >>> kinds_of(["O", "B-x", "I-x", "B-y"], "x")
    array([0, 2, 1, 0])
    """
    kinds = [kind if name == field else Kind.OTHER for name, kind in map(field_of, classes)]
    return np.array(kinds, dtype=np.int64)
