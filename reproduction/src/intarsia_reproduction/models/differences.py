"""Paired differences of two methods on the same splits, with confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia_reproduction.experiment import Finding, Task, load_findings
from intarsia_reproduction.models.intervals import mean_interval


def difference_values(name: str, scores: FloatArray, base_scores: FloatArray) -> dict[str, float]:
    """Return the mean of the differences on the same splits, and the ends of its 95 % interval by Student's t.

    Examples
    --------
    >>> values = difference_values("gain", np.array([2.0, 4.0]), np.array([1.0, 1.0]))
    >>> {key: round(value, 1) for key, value in values.items()}
    {'gain': 2.0, 'gain, low': -10.7, 'gain, high': 14.7}
    """
    difference = np.asarray(scores) - np.asarray(base_scores)
    low, high = mean_interval(difference)
    return {name: float(difference.mean()), f"{name}, low": low, f"{name}, high": high}


def difference_names(names: Iterable[str]) -> dict[str, float | None]:
    """Return the figures of a task with differences: no paper has them."""
    return {f"{name}{end}": None for name in names for end in ("", ", low", ", high")}


def finished(name: str, tasks: Sequence[Task], keys: Iterable[str], folder: Path) -> dict[str, Finding]:
    """Return the stored results of rows, and raise if one was not run."""
    findings = load_findings(tasks, folder)
    missing = [key for key in keys if key not in findings]
    if missing:
        raise InvalidInputError(
            f"reproduce {name}: the differences need the results of other rows, such as {missing[0]}. Run these first."
        )
    return findings
