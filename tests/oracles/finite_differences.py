"""Derivatives of any function by central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def central_differences(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """Return the gradient of `function` with fourth-order accuracy in the step; 0 where `at` is infinite.

    With a step of 1e-4 the truncation error is about 1e-16 and the rounding error about 1e-12, relative to the scale of
    the function.
    """
    gradient = np.zeros(at.size)
    for i in np.flatnonzero(np.isfinite(at)):
        values = []
        for shift in (-2.0, -1.0, 1.0, 2.0):
            moved = at.copy()
            moved[i] += shift * step
            values.append(function(moved))
        far_down, down, up, far_up = values
        gradient[i] = (8.0 * (up - down) - (far_up - far_down)) / (12.0 * step)
    return gradient


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, relative to the largest expected entry (at least 1e-3)."""
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-3)
    return float(np.abs(found - expected).max(initial=0.0)) / scale
