"""Latent variables that could change places stay alike for ever, unless the start tells them apart."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import FloatArray
from intarsia.exceptions import ConvergenceWarning

_MOVED = 1e-2


def break_symmetry(
    weights: FloatArray, learned: NDArray[np.bool_], spread: float, rng: np.random.Generator
) -> FloatArray:
    r"""Weights to begin at, each changed at random by up to the share `spread` of itself (or of 1, where it is 0).

    Inference is convex: where the weights treat two latent variables alike, so does its answer, and so do the
    subgradients; only weights that differ tell them apart. Rules that name the latent states have a weight for
    each; where all states share one weight, nothing can.

    Examples
    --------
    >>> moved = break_symmetry(np.ones(2), np.array([True, False]), 0.1, np.random.default_rng(0))
    >>> bool(0.9 <= moved[0] <= 1.1), float(moved[1])
    (True, 1.0)
    """
    change = spread * rng.uniform(-1.0, 1.0, weights.size)
    scale = np.where(weights > 0.0, weights, 1.0)
    return np.asarray(np.maximum(np.where(learned, weights + scale * change, weights), 0.0))


def warn_if_unmoved(latent: FloatArray, untouched: FloatArray, where: str) -> None:
    """Warn where latent variables explain nothing: none has moved, or all have the same value.

    Parameters
    ----------
    latent : float array (n_latent,)
        Their values under the learned weights.
    untouched : float array (n_latent,)
        Their values without any rule.
    where : str
        Begins the message.

    Warns
    -----
    ConvergenceWarning
        With what to change.

    Examples
    --------
    >>> warn_if_unmoved(np.array([0.9, 0.1]), np.array([0.5, 0.5]), "fit")      # they moved: nothing to say
    """
    if latent.size == 0:
        return
    farthest = float(np.abs(latent - untouched).max())
    if farthest < _MOVED:
        warnings.warn(
            f"{where}: none of the {latent.size} latent variables moved by more than {_MOVED:g} from where they are "
            f"without rules (largest move {farthest:.1e}), so that they explain nothing. Begin with larger weights, "
            f"lower the surrogate's weight, or write rules that tie them to observed atoms.",
            ConvergenceWarning,
            stacklevel=4,
        )
    elif latent.size > 1 and float(np.ptp(latent)) < _MOVED:
        warnings.warn(
            f"{where}: all {latent.size} latent variables have the same value ({latent[0]:.3g}), so that they tell "
            f"nothing apart. Raise symmetry_breaking, try another random_state, or give each latent state a rule with "
            f"a weight of its own.",
            ConvergenceWarning,
            stacklevel=4,
        )
