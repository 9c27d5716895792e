"""Results of `Resolution.explain`: contributions in log odds that add up, shown as text, JSON and HTML."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from intarsia._core.html import html_table

_SHOWN = 12  # contributions in the text of an explanation


@dataclass(frozen=True)
class Contribution:
    """Term of a sum of log odds.

    Attributes
    ----------
    name : str
        Comparison, pair of records, "prior", "calibration", "score" or "pairs without a score".
    log_odds : float
        Its contribution.
    """

    name: str
    log_odds: float


class Explanation(ABC):
    """Sum of contributions, shown as text, as JSON and as a table in notebooks."""

    contributions: tuple[Contribution, ...]

    @property
    @abstractmethod
    def title(self) -> str:
        """Sentence that states the answer."""

    @property
    @abstractmethod
    def total(self) -> float:
        """Sum of the contributions."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as a document for JSON."""

    def shown_contributions(self, limit: int = _SHOWN) -> list[Contribution]:
        """Return at most `limit` contributions: the largest ones, and the sum of the others."""
        if len(self.contributions) <= limit:
            return list(self.contributions)
        order = sorted(range(len(self.contributions)), key=lambda k: -abs(self.contributions[k].log_odds))
        largest = set(order[: limit - 1])
        others = math.fsum(self.contributions[k].log_odds for k in order[limit - 1 :])
        largest_terms = [self.contributions[k] for k in sorted(largest)]
        return [*largest_terms, Contribution(f"{len(self.contributions) - len(largest_terms)} others", others)]

    def _lines(self) -> list[str]:
        """Return the lines below the contributions."""
        return []

    def __repr__(self) -> str:
        largest_terms = self.shown_contributions()
        width = max([10, *(len(item.name) for item in largest_terms)])
        lines = [f"  {item.name:<{width}}  {item.log_odds:+8.3f}" for item in largest_terms]
        return "\n".join([self.title, *lines, *self._lines()])

    def _repr_html_(self) -> str:
        facts = [(item.name, f"{item.log_odds:+.3f}") for item in self.shown_contributions()]
        for line in self._lines():
            name, _, text = line.strip().partition(": ")
            facts.append((name, text))
        return html_table(self.title, facts)


@dataclass(frozen=True, eq=False, repr=False)
class PairExplanation(Explanation):
    """Log odds of a pair of records as a sum of contributions; the result of `Resolution.explain(a, b)`.

    Attributes
    ----------
    first, second : ids
        The two records.
    log_odds : float
        Log odds of the pair as `resolve` counts them, the sum of all contributions.
    contributions : tuple of Contribution
        One per comparison and the prior, where the table of pairs has them, otherwise the score; then the calibration.
    entities : pair of ids
        Entities of the two records.
    scored : bool
        Whether the table of pairs contains the pair.
    constraint : str
        "must-link", "cannot-link", "one source" if such a constraint decides the pair; empty otherwise.

    Examples
    --------
    >>> from intarsia.clusters import resolve
    >>> resolution = resolve({"id1": ["a", "b"], "id2": ["b", "c"], "log_odds": [2.0, -1.0]}, calibrate=None)
    >>> resolution.explain("a", "c").as_dict()["contributions"]
    [{'name': 'pair without a score', 'log_odds': -0.1}]
    """

    first: Any
    second: Any
    log_odds: float
    contributions: tuple[Contribution, ...]
    entities: tuple[Any, Any]
    scored: bool
    constraint: str

    @property
    def same_entity(self) -> bool:
        """Whether the records are in the same entity."""
        return bool(self.entities[0] == self.entities[1])

    @property
    def total(self) -> float:
        """Log odds of the pair."""
        return self.log_odds

    @property
    def title(self) -> str:
        """Sentence that states the answer."""
        answer = "the same entity" if self.same_entity else "different entities"
        reason = f" ({self.constraint})" if self.constraint else ""
        return f"{self.first!r} and {self.second!r} are in {answer}{reason}: log odds {self.log_odds:+.3f}"

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as a document for JSON."""
        return {
            "first": self.first,
            "second": self.second,
            "same_entity": self.same_entity,
            "entities": list(self.entities),
            "log_odds": self.log_odds,
            "scored": self.scored,
            "constraint": self.constraint,
            "contributions": _documents(self.contributions),
        }


@dataclass(frozen=True)
class EntitySplit:
    """Cheapest split of an entity into two.

    Attributes
    ----------
    cost : float
        Log odds that the split loses.
    first, second : tuples of ids
        Records of the two sides.
    exact : bool
        Whether every other split costs at least as much; otherwise the cheapest one costs at most `cost`.
    """

    cost: float
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    exact: bool


@dataclass(frozen=True)
class EntityNeighbour:
    """Other entity, and the price of joining it.

    Attributes
    ----------
    entity : id
        The other entity.
    cost : float
        Log odds that the score loses if the two are joined.
    obstacle : str
        "cannot-link", "one source" or "max_size" if a constraint forbids it; empty otherwise.
    """

    entity: Any
    cost: float
    obstacle: str


@dataclass(frozen=True, eq=False, repr=False)
class EntityExplanation(Explanation):
    """Why the records of an entity are together; the result of `Resolution.explain(entity)`.

    Attributes
    ----------
    entity : id
        The smallest id of its records.
    records : tuple of ids
        Its records.
    score : float
        Total log odds of all pairs of its records, the sum of all contributions.
    contributions : tuple of Contribution
        One per pair with a score, or one per comparison if `edges` has them; then the pairs without a score.
    attachments : dict id -> float
        Log odds between each record and all others: what the entity would lose with this record.
    split : EntitySplit or None
        Cheapest split; None for a single record, and for records that must stay together.
    neighbour : EntityNeighbour or None
        Other entity whose joining costs least; None if no pair with a score leads to another entity.

    Examples
    --------
    >>> from intarsia.clusters import resolve
    >>> edges = {"id1": ["a", "a", "b", "c"], "id2": ["b", "c", "c", "d"], "log_odds": [3.0, 2.0, 4.0, -1.0]}
    >>> resolve(edges, calibrate=None, absent=0.0).explain("a")
    Entity 'a', 3 records: score +9.000
      'a' - 'b'     +3.000
      'a' - 'c'     +2.000
      'b' - 'c'     +4.000
      Cheapest split: 'a' | 'b', 'c' costs 5.000
      Weakest record: 'a' is attached by 5.000
      Nearest entity: joining 'd' costs 1.000
    """

    entity: Any
    records: tuple[Any, ...]
    score: float
    contributions: tuple[Contribution, ...]
    attachments: dict[Any, float]
    split: EntitySplit | None
    neighbour: EntityNeighbour | None

    @property
    def total(self) -> float:
        """Score of the entity."""
        return self.score

    @property
    def title(self) -> str:
        """Sentence that states the answer."""
        plural = "" if len(self.records) == 1 else "s"
        return f"Entity {self.entity!r}, {len(self.records)} record{plural}: score {self.score:+.3f}"

    def _lines(self) -> list[str]:
        """Return the cheapest split, the weakest record and the nearest entity as lines."""
        lines = []
        if self.split is not None:
            sides = " | ".join(_listed(side) for side in (self.split.first, self.split.second))
            lines.append(
                f"  Cheapest split: {sides} costs {'' if self.split.exact else 'at most '}{self.split.cost:.3f}"
            )
        if len(self.records) > 1:
            weakest = min(self.attachments, key=self.attachments.__getitem__)
            lines.append(f"  Weakest record: {weakest!r} is attached by {self.attachments[weakest]:.3f}")
        if self.neighbour is not None:
            obstacle = f" (forbidden: {self.neighbour.obstacle})" if self.neighbour.obstacle else ""
            lines.append(
                f"  Nearest entity: joining {self.neighbour.entity!r} costs {self.neighbour.cost:.3f}{obstacle}"
            )
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as a document for JSON."""
        split, neighbour = self.split, self.neighbour
        return {
            "entity": self.entity,
            "records": list(self.records),
            "score": self.score,
            "contributions": _documents(self.contributions),
            "attachments": [{"id": name, "log_odds": value} for name, value in self.attachments.items()],
            "split": None
            if split is None
            else {"cost": split.cost, "first": list(split.first), "second": list(split.second), "exact": split.exact},
            "neighbour": None
            if neighbour is None
            else {"entity": neighbour.entity, "cost": neighbour.cost, "obstacle": neighbour.obstacle},
        }


def _documents(contributions: Iterable[Contribution]) -> list[dict[str, Any]]:
    """Return contributions as documents for JSON."""
    return [{"name": item.name, "log_odds": item.log_odds} for item in contributions]


def _listed(ids: tuple[Any, ...]) -> str:
    """Return a short list of ids."""
    text = ", ".join(map(repr, ids[:4]))
    return text if len(ids) <= 4 else f"{text} and {len(ids) - 4} others"
