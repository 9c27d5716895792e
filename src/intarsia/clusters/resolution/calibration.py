"""Turn scores of pairs into log odds that can be added, and choose the log odds of pairs without a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intarsia._core.validation import FloatArray, check_number
from intarsia.clusters.resolution.links import Links
from intarsia.clusters.resolution.scored_pairs import ScoredPairs
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True)
class Calibration:
    """How scores became log odds: `log odds = slope x score + shift`.

    Attributes
    ----------
    slope, shift : float
        Coefficients.
    absent : float
        Log odds of a pair without a score.
    method : str
        How the coefficients were chosen, as text.
    """

    slope: float
    shift: float
    absent: float
    method: str


def calibrate_pairs(
    pairs: ScoredPairs, calibrate: Any, absent: float | str, links: Links
) -> tuple[Calibration, FloatArray]:
    """Return the calibration and the log odds of the pairs."""
    if not isinstance(absent, str):
        check_number(absent, "absent", low=-np.inf, high=0.0)
    elif absent != "auto":
        raise InvalidInputError(f"absent is {absent!r}; expected a number of at most 0, or 'auto'. Pass one of them.")
    weight = -0.1 if isinstance(absent, str) else float(absent)
    return Calibration(1.0, 0.0, weight, "scores taken as log odds"), pairs.log_odds
