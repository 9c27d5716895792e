"""Results of a diagnosis: checks with numbers, a sentence and a verdict."""

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
    """Result of one check of a learner and an inference method.

    Attributes
    ----------
    name : str
        Name of the check.
    verdict : {"good", "bad", "unclear"}
        Verdict on the pair.
    text : str
        Explanation for people, with numbers.
    values : dict of numbers or strings
        Measured numbers.
    arrays : dict of arrays
        Arrays for plots.

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
        """Return all fields as JSON types; numbers that are not finite become None.

        Examples
        --------
        >>> Check("sweep", GOOD, "fine", {"risk": float("nan")}, {"t": np.arange(2)}).to_dict()["values"]
        {'risk': None}
        """
        return {
            "name": self.name,
            "verdict": self.verdict,
            "text": self.text,
            "values": {key: _as_json(value) for key, value in self.values.items()},
            "arrays": {key: _as_json(value.tolist()) for key, value in self.arrays.items()},
        }


def _as_json(value: Any) -> Any:
    """Convert a value to JSON types; numbers that are not finite become None."""
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, eq=False)
class Diagnosis(ShownResult):
    """Verdict on a learner and an inference method for given data, with reasons.

    Attributes
    ----------
    verdict : {"fits", "fails", "uncertain"}
        Overall verdict.
    reasons : list of str
        Explanations for people.
    checks : list of Check
        All checks.
    learner, inference : str
        Class names of the learner and the inference method.

    Examples
    --------
    >>> diagnosis = Diagnosis(
    ...     "fails", ["no weights are right."], [Check("margin", BAD, "gamma is 0")], "structured_svm", "lp_relaxation"
    ... )
    >>> print(diagnosis)
    structured_svm with lp_relaxation: fails.
      no weights are right.
      [bad] margin: gamma is 0
    >>> diagnosis.check("margin").text, diagnosis.check("sweep")
    ('gamma is 0', None)
    """

    verdict: str
    reasons: list[str]
    checks: list[Check]
    learner: str
    inference: str

    def check(self, name: str) -> Check | None:
        """Return the check of this name, or None if it was not made."""
        return next((check for check in self.checks if check.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "checks": [check.to_dict() for check in self.checks],
            "learner": self.learner,
            "inference": self.inference,
        }

    def _facts(self) -> Iterable[tuple[str, Any]]:
        yield f"{self.learner} with {self.inference}", self.verdict
        yield from (("because", reason) for reason in self.reasons)
        yield from ((check.name, f"{check.verdict}: {check.text}") for check in self.checks)

    def __str__(self) -> str:
        lines = [f"{self.learner} with {self.inference}: {self.verdict}."]
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [f"  [{check.verdict}] {check.name}: {check.text}" for check in self.checks]
        return "\n".join(lines)
