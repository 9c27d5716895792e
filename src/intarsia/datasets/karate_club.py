"""Friendship network of a karate club that split in two (Zachary1977), a small standard example."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from intarsia._core.validation import IntArray, frozen

# Members who left with the president when the club split; the others stayed with the instructor.
_WITH_PRESIDENT = (9, 14, 15, 18, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33)


@dataclass(frozen=True, eq=False)
class KarateClub:
    """Members of the club, their friendships, and the faction of each member.

    Attributes
    ----------
    edges : (78, 2) int array
        Pairs of friends, each pair once, the smaller number first.
    faction : (34,) int array
        0 for the instructor's faction (member 0), 1 for the president's (member 33).

    Examples
    --------
    The two leaders have the most friends, but they are not friends of each other:

    >>> club = load_karate_club()
    >>> friends = np.bincount(club.edges.ravel())
    >>> friends[[0, 33]].tolist(), [0, 33] in club.edges.tolist(), club.faction[[0, 33]].tolist()
    ([16, 17], False, [0, 1])
    """

    edges: IntArray
    faction: IntArray


def load_karate_club() -> KarateClub:
    """Load the karate club network of Zachary1977, which comes with the package.

    Examples
    --------
    >>> club = load_karate_club()
    >>> club.edges.shape, int(club.faction.sum())
    ((78, 2), 17)
    """
    text = (files("intarsia.datasets") / "karate_club.txt").read_text(encoding="utf-8")
    edges = np.array([line.split() for line in text.splitlines() if not line.startswith("#")], dtype=np.int64)
    faction = np.zeros(34, dtype=np.int64)
    faction[list(_WITH_PRESIDENT)] = 1
    return KarateClub(frozen(edges), frozen(faction))
