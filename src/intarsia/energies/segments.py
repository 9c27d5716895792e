"""Global constraints on segments: at most one title, exactly one year, as many first names as last names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from intarsia._core.validation import check_choice
from intarsia.energies.binding.label_index import Label, segment_kinds
from intarsia.energies.energy import Energy, EnergySum, MeasuredEnergy
from intarsia.energies.functions import Absolute, Hinge, Huber, Penalty, SmoothedHinge
from intarsia.energies.measurements import SegmentStarts, StartsAfter
from intarsia.exceptions import InvalidInputError


def _penalty_above(limit: float, width: float) -> Penalty:
    return SmoothedHinge(limit, width=width) if width > 0 else Hinge(limit)


def _penalty_of_distance(target: float, width: float) -> Penalty:
    return Huber(target, width=width) if width > 0 else Absolute(target)


def at_most_one(kind: Label, *, psi: float = 1.0, width: float = 1.0, strength: float | None = None) -> MeasuredEnergy:
    """Penalize every expected segment of a kind after the first.

    Use it in sequence labelling and named entity recognition with BIO tags, to learn global constraints.

    Parameters
    ----------
    kind : str or int
        Kind of segment: "title" for the labels B-title and I-title.
    psi : float
        Weight psi at the start of learning.
    width : float
        Width of the smoothed corner; 0 for a kink (then use `bethe_rda` or `bethe_dual`).
    strength : float, optional
        Fixed weight psi, such as 100 for a nearly hard constraint; by default psi is learned.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> two = graph.statistics([1, 0, 1])
    >>> at_most_one("x", width=0.0).bind(graph, ["O", "B-x"]).value(two)
    1.0
    """
    return MeasuredEnergy(
        SegmentStarts(kind), _penalty_above(1.0, width), psi=psi, strength=strength, title=f"at_most_one({kind!r})"
    )


def exactly_one(kind: Label, *, psi: float = 1.0, width: float = 1.0, strength: float | None = None) -> MeasuredEnergy:
    """Penalize the distance between the expected number of segments of a kind and one.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> exactly_one("x", width=0.0).bind(graph, ["O", "B-x"]).value(graph.statistics([0, 0, 0]))
    1.0
    """
    return MeasuredEnergy(
        SegmentStarts(kind),
        _penalty_of_distance(1.0, width),
        psi=psi,
        strength=strength,
        title=f"exactly_one({kind!r})",
    )


def before(
    first: Label, second: Label, *, psi: float = 1.0, width: float = 1.0, strength: float | None = None
) -> MeasuredEnergy:
    """Penalize segments of the first kind that start after a segment of the second kind; 0 if a kind is missing.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 3)
    >>> ordered = before("x", "y", width=0.0).bind(graph, ["O", "B-x", "B-y"])
    >>> ordered.value(graph.statistics([1, 0, 2])), ordered.value(graph.statistics([2, 0, 1]))
    (0.0, 1.0)
    """
    return MeasuredEnergy(
        StartsAfter(second, first),
        _penalty_above(1.0, width),
        psi=psi,
        strength=strength,
        title=f"before({first!r}, {second!r})",
    )


def implies(
    kind: Label, other: Label, *, psi: float = 1.0, width: float = 1.0, strength: float | None = None
) -> MeasuredEnergy:
    """Penalize more segments of a kind than of another; with at most one of each, the first kind implies the other.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 3)
    >>> needs = implies("pages", "journal", width=0.0).bind(graph, ["O", "B-pages", "B-journal"])
    >>> needs.value(graph.statistics([1, 0])), needs.value(graph.statistics([2, 1]))
    (1.0, 0.0)
    """
    return MeasuredEnergy(
        SegmentStarts(kind) - SegmentStarts(other),
        _penalty_above(0.0, width),
        psi=psi,
        strength=strength,
        title=f"implies({kind!r}, {other!r})",
    )


def balanced(
    kind: Label, other: Label, *, psi: float = 1.0, width: float = 1.0, strength: float | None = None
) -> MeasuredEnergy:
    """Penalize the difference between the numbers of segments of two kinds (Vilnis2015 Eq. 18).

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 3)
    >>> names = ["O", "B-first", "B-last"]
    >>> balanced("first", "last", width=0.0).bind(graph, names).value(graph.statistics([2, 2, 0]))
    2.0
    """
    return MeasuredEnergy(
        SegmentStarts(kind) - SegmentStarts(other),
        _penalty_of_distance(0.0, width),
        psi=psi,
        strength=strength,
        title=f"balanced({kind!r}, {other!r})",
    )


def forbidden_together(
    kind: Label, other: Label, *, psi: float = 1.0, width: float = 1.0, strength: float | None = None
) -> MeasuredEnergy:
    """Penalize more than one segment of two kinds in total, so that each kind excludes the other.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 3)
    >>> exclusive = forbidden_together("book", "journal", width=0.0).bind(graph, ["O", "B-book", "B-journal"])
    >>> exclusive.value(graph.statistics([1, 2])), exclusive.value(graph.statistics([1, 0]))
    (1.0, 0.0)
    """
    return MeasuredEnergy(
        SegmentStarts(kind) + SegmentStarts(other),
        _penalty_above(1.0, width),
        psi=psi,
        strength=strength,
        title=f"forbidden_together({kind!r}, {other!r})",
    )


_SINGLE_KIND: dict[str, Callable[..., MeasuredEnergy]] = {"at_most_one": at_most_one, "exactly_one": exactly_one}
_ORDERED_PAIRS: dict[str, Callable[..., MeasuredEnergy]] = {"before": before, "implies": implies}
_UNORDERED_PAIRS: dict[str, Callable[..., MeasuredEnergy]] = {
    "balanced": balanced,
    "forbidden_together": forbidden_together,
}
SEGMENT_PREFERENCES = (*_SINGLE_KIND, *_ORDERED_PAIRS, *_UNORDERED_PAIRS)


def segment_preferences(
    names: Sequence[Any],
    *,
    include: Iterable[str] = SEGMENT_PREFERENCES,
    psi: float = 1.0,
    width: float = 1.0,
) -> EnergySum:
    """Return all preferences on the segments of a label set: one per kind, per ordered pair and per unordered pair.

    The weights psi are in the order of `include`. Learning sets the weights of useless preferences to 0.

    Parameters
    ----------
    names : sequence of str
        Labels; the kinds are the names after B-, I- and other prefixes, or the labels themselves.
    include : iterable of str
        Preferences to include: "at_most_one", "exactly_one", "before", "implies", "balanced", "forbidden_together".
        "before" has one measurement per token and costs the most.
    psi, width : float
        Weight psi and width of the corner of each preference.

    Examples
    --------
    >>> preferences = segment_preferences(["O", "B-x", "I-x", "B-y", "I-y"])
    >>> len(preferences.energies)        # 2 x 2 single kinds, 2 x 2 ordered pairs, 2 x 1 pairs
    10
    """
    kinds, preferences = segment_kinds(names), list(include)
    energies: list[Energy] = []
    for name in preferences:
        check_choice(name, SEGMENT_PREFERENCES, "segment_preferences: include")
        if name in _SINGLE_KIND:
            energies += [_SINGLE_KIND[name](kind, psi=psi, width=width) for kind in kinds]
        elif name in _ORDERED_PAIRS:
            energies += [_ORDERED_PAIRS[name](a, b, psi=psi, width=width) for a, b in itertools.permutations(kinds, 2)]
        else:
            energies += [
                _UNORDERED_PAIRS[name](a, b, psi=psi, width=width) for a, b in itertools.combinations(kinds, 2)
            ]
    if not energies:
        raise InvalidInputError(
            f"segment_preferences: there are no preferences of {preferences} on {len(kinds)} kinds of segments. Pass "
            f"labels of at least two kinds, or include at_most_one."
        )
    return EnergySum(energies)
