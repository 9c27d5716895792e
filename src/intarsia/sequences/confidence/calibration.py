"""Calibration of a fitted chain model: confidences of its predictions, and the temperature of its scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from intarsia._core.validation import FloatArray
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.metrics.counts import is_hidden, paired_sequences
from intarsia.metrics.segments import find_segments, scheme_of_labels

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF

UNITS = ("tokens", "segments", "sequences")
# The temperature is searched between exp(-_LARGEST_LOG) and exp(_LARGEST_LOG).
_LARGEST_LOG = 5.0


def correct_and_confidence(crf: ChainCRF, X: Any, y: Any, unit: str) -> tuple[NDArray[np.bool_], FloatArray]:
    """Return whether each prediction is correct, and its probability, for tokens, segments or sequences."""
    predicted = crf.predict(X)
    pairs = list(paired_sequences(y, predicted))
    if unit == "sequences":
        probability = np.exp(crf.sequence_log_probability(X, predicted))
        return np.array([true == labels for true, labels in pairs], dtype=bool), probability
    if unit == "segments":
        scheme = "conll" if crf.scheme is not None else scheme_of_labels(crf.classes_.tolist())
        correct, confidence = [], []
        for (true, _), segments in zip(pairs, crf.predict_segments(X), strict=True):
            true_segments = set(find_segments(true, scheme))
            correct += [segment[:3] in true_segments for segment in segments]
            confidence += [segment.probability for segment in segments]
        return np.array(correct, dtype=bool), np.array(confidence)
    state_of = {label: c for c, label in enumerate(crf.classes_.tolist())}
    correct, confidence = [], []
    for (true, labels), marginals in zip(pairs, crf.predict_marginals(X), strict=True):
        for t, (label, prediction) in enumerate(zip(true, labels, strict=True)):
            if not is_hidden(label) and not isinstance(label, frozenset):
                correct.append(label == prediction)
                confidence.append(float(marginals[t, state_of[prediction]]))
    return np.array(correct, dtype=bool), np.minimum(np.array(confidence), 1.0)


def best_temperature(log_likelihood: Callable[[float], float]) -> float:
    """Return the temperature T that maximises the log-likelihood of scores divided by T.

    For completely labelled sequences the log-likelihood is concave in 1 / T. Warns and returns 1 if it has no maximum.

    Raises
    ------
    InvalidInputError
        If the labels are impossible under the model at every temperature.
    """
    if not np.isfinite(log_likelihood(1.0)):
        raise InvalidInputError(
            "a sequence of y has probability 0 under forbidden= and scheme=. Remove this sequence, or allow its labels."
        )
    result = minimize_scalar(
        lambda log_temperature: -log_likelihood(float(np.exp(log_temperature))),
        bounds=(-_LARGEST_LOG, _LARGEST_LOG),
        method="bounded",
        options={"xatol": 1e-6},
    )
    highest = -float(result.fun)
    if max(log_likelihood(float(np.exp(bound))) for bound in (-_LARGEST_LOG, _LARGEST_LOG)) >= highest - 1e-9:
        warnings.warn(
            f"calibrate: the likelihood has no maximum for temperatures between {np.exp(-_LARGEST_LOG):.2g} and "
            f"{np.exp(_LARGEST_LOG):.3g}: all predictions are correct, or none. The weights were not changed. Pass "
            f"more held-out sequences.",
            ConvergenceWarning,
            stacklevel=2,
        )
        return 1.0
    return float(np.exp(result.x))
