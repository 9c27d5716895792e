"""Preferences of taggers: at most one title, exactly one year, as many first names as last names, and the like."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from intarsia._core.validation import check_choice
from intarsia.energies.binding.label_index import Label, segment_kinds
from intarsia.energies.energy import Energy, EnergySum, MeasuredEnergy
from intarsia.energies.functions import Absolute, Hinge, Huber, Judgement, SmoothedHinge
from intarsia.energies.measurements import SegmentStarts, StartsAfter
from intarsia.exceptions import InvalidInputError


def _above(limit: float, width: float) -> Judgement:
    return SmoothedHinge(limit, width=width) if width > 0 else Hinge(limit)


def _at(target: float, width: float) -> Judgement:
    return Huber(target, width=width) if width > 0 else Absolute(target)


def at_most_one(kind: Label, *, psi: float = 1.0, width: float = 1.0) -> MeasuredEnergy:
    """Penalty of every expected segment of a kind above the first.

    Parameters
    ----------
    kind : str or int
        Kind of segment: "title" for the labels B-title and I-title.
    psi : float
        Strength.
    width : float
        Rounding of the corner; 0 for none (then use `bethe_rda` or `bethe_dual`).

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> two = graph.statistics([1, 0, 1])
    >>> at_most_one("x", width=0.0).bind(graph, ["O", "B-x"]).value(two)
    1.0
    """
    return MeasuredEnergy(SegmentStarts(kind), _above(1.0, width), psi=psi)


def exactly_one(kind: Label, *, psi: float = 1.0, width: float = 1.0) -> MeasuredEnergy:
    """Penalty of the distance between the expected number of segments of a kind and one.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 2)
    >>> exactly_one("x", width=0.0).bind(graph, ["O", "B-x"]).value(graph.statistics([0, 0, 0]))
    1.0
    """
    return MeasuredEnergy(SegmentStarts(kind), _at(1.0, width), psi=psi)


def before(first: Label, second: Label, *, psi: float = 1.0, width: float = 1.0) -> MeasuredEnergy:
    """Penalty of segments of the first kind that begin after one of the second kind began; none if one is missing.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 3)
    >>> ordered = before("x", "y", width=0.0).bind(graph, ["O", "B-x", "B-y"])
    >>> ordered.value(graph.statistics([1, 0, 2])), ordered.value(graph.statistics([2, 0, 1]))
    (0.0, 1.0)
    """
    return MeasuredEnergy(StartsAfter(second, first), _above(1.0, width), psi=psi)


def implies(kind: Label, other: Label, *, psi: float = 1.0, width: float = 1.0) -> MeasuredEnergy:
    """Penalty of more segments of one kind than of another: with at most one of each, the first implies the other.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 3)
    >>> needs = implies("pages", "journal", width=0.0).bind(graph, ["O", "B-pages", "B-journal"])
    >>> needs.value(graph.statistics([1, 0])), needs.value(graph.statistics([2, 1]))
    (1.0, 0.0)
    """
    return MeasuredEnergy(SegmentStarts(kind) - SegmentStarts(other), _above(0.0, width), psi=psi)


def balanced(kind: Label, other: Label, *, psi: float = 1.0, width: float = 1.0) -> MeasuredEnergy:
    """Penalty of the difference between the numbers of segments of two kinds (Vilnis2015 Eq. 18).

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(3, 3)
    >>> names = ["O", "B-first", "B-last"]
    >>> balanced("first", "last", width=0.0).bind(graph, names).value(graph.statistics([2, 2, 0]))
    2.0
    """
    return MeasuredEnergy(SegmentStarts(kind) - SegmentStarts(other), _at(0.0, width), psi=psi)


def forbidden_together(kind: Label, other: Label, *, psi: float = 1.0, width: float = 1.0) -> MeasuredEnergy:
    """Penalty of more than one segment of two kinds taken together, so that one excludes the other.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 3)
    >>> apart = forbidden_together("book", "journal", width=0.0).bind(graph, ["O", "B-book", "B-journal"])
    >>> apart.value(graph.statistics([1, 2])), apart.value(graph.statistics([1, 0]))
    (1.0, 0.0)
    """
    return MeasuredEnergy(SegmentStarts(kind) + SegmentStarts(other), _above(1.0, width), psi=psi)


_OF_ONE: dict[str, Callable[..., MeasuredEnergy]] = {"at_most_one": at_most_one, "exactly_one": exactly_one}
_OF_ORDERED: dict[str, Callable[..., MeasuredEnergy]] = {"before": before, "implies": implies}
_OF_PAIRS: dict[str, Callable[..., MeasuredEnergy]] = {
    "balanced": balanced,
    "forbidden_together": forbidden_together,
}
SEGMENT_PREFERENCES = (*_OF_ONE, *_OF_ORDERED, *_OF_PAIRS)


def segment_preferences(
    names: Sequence[Any],
    *,
    include: Iterable[str] = SEGMENT_PREFERENCES,
    psi: float = 1.0,
    width: float = 1.0,
) -> EnergySum:
    """All preferences over the segments of a label set: one per kind, per ordered pair and per pair.

    The strengths are in the order of `include`; those that are of no use get a strength of 0 when they are learned.

    Parameters
    ----------
    names : sequence of str
        Labels; kinds are what follows B-, I- and the like, or the labels themselves.
    include : iterable of str
        Which of "at_most_one", "exactly_one", "before", "implies", "balanced", "forbidden_together". "before" has one
        measurement per token and is the costly one.
    psi, width : float
        Strength and rounding of each.

    Examples
    --------
    >>> everything = segment_preferences(["O", "B-x", "I-x", "B-y", "I-y"])
    >>> len(everything.energies)        # 2 x 2 of one, 2 x 2 of ordered pairs, 2 of pairs
    10
    """
    kinds = segment_kinds(names)
    made: list[Energy] = []
    for name in include:
        check_choice(name, SEGMENT_PREFERENCES, "segment_preferences: include")
        if name in _OF_ONE:
            made += [_OF_ONE[name](kind, psi=psi, width=width) for kind in kinds]
        elif name in _OF_ORDERED:
            made += [_OF_ORDERED[name](a, b, psi=psi, width=width) for a, b in itertools.permutations(kinds, 2)]
        else:
            made += [_OF_PAIRS[name](a, b, psi=psi, width=width) for a, b in itertools.combinations(kinds, 2)]
    if not made:
        raise InvalidInputError(f"segment_preferences: no preference can be made of {len(kinds)} kinds of segments.")
    return EnergySum(made)
