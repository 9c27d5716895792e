"""What a probe says: numbers, a sentence, and whether it speaks for or against the pair."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.html import ShownResult

GOOD, BAD, UNCLEAR = "good", "bad", "unclear"


@dataclass(frozen=True, eq=False)
class Check:
    """One probe.

    Attributes
    ----------
    name : str
        What was looked at.
    verdict : {"good", "bad", "unclear"}
        What it says of the pair.
    text : str
        In words, with numbers.
    values : dict of numbers or strings
        The numbers.
    arrays : dict of arrays
        What pictures are drawn from.

    Examples
    --------
    >>> check = Check("margin", BAD, "no weights separate the examples", {"gamma": 0.0})
    >>> check.verdict, check.values["gamma"]
    ('bad', 0.0)
    """

    name: str
    verdict: str
    text: str
    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types; numbers that are not finite become None.

        Examples
        --------
        >>> Check("sweep", GOOD, "fine", {"risk": float("nan")}, {"t": np.arange(2)}).to_dict()["values"]
        {'risk': None}
        """
        return {
            "name": self.name,
            "verdict": self.verdict,
            "text": self.text,
            "values": {key: _plain(value) for key, value in self.values.items()},
            "arrays": {key: _plain(value.tolist()) for key, value in self.arrays.items()},
        }


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, eq=False)
class Diagnosis(ShownResult):
    """Whether learner and inference fit on these data, and why.

    Attributes
    ----------
    verdict : {"fits", "fails", "uncertain"}
        The answer.
    reasons : list of str
        In words.
    checks : list of Check
        All probes.
    learner, inference : str
        The pair.

    Examples
    --------
    >>> found = Diagnosis(
    ...     "fails", ["no weights are right."], [Check("margin", BAD, "gamma is 0")], "structured_svm", "lp_relaxation"
    ... )
    >>> print(found)
    structured_svm with lp_relaxation: fails.
      no weights are right.
      [bad] margin: gamma is 0
    >>> found.check("margin").text, found.check("path")
    ('gamma is 0', None)
    """

    verdict: str
    reasons: list[str]
    checks: list[Check]
    learner: str
    inference: str

    def check(self, name: str) -> Check | None:
        """The probe of this name; None where it was not made."""
        return next((one for one in self.checks if one.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types."""
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "checks": [one.to_dict() for one in self.checks],
            "learner": self.learner,
            "inference": self.inference,
        }

    def _facts(self) -> Iterable[tuple[str, Any]]:
        yield f"{self.learner} with {self.inference}", self.verdict
        yield from (("because", reason) for reason in self.reasons)
        yield from ((one.name, f"{one.verdict}: {one.text}") for one in self.checks)

    def __str__(self) -> str:
        lines = [f"{self.learner} with {self.inference}: {self.verdict}."]
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [f"  [{one.verdict}] {one.name}: {one.text}" for one in self.checks]
        return "\n".join(lines)
