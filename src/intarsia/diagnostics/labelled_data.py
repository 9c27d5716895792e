"""What the diagnostics are asked about: an estimator with data, or labelled examples as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intarsia.crf.crf import CRF
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.learning.examples import Example
from intarsia.learning.margin_example import MarginExample
from intarsia.sequences.chain_crf import ChainCRF


def as_examples(X: Any, y: Any, model: Any) -> list[Example]:
    """Labelled examples of an estimator's data; or X itself, where it is a list of them.

    Examples
    --------
    >>> from intarsia.crf import GraphCRF
    >>> X = [([[1.0], [-1.0]], [[0, 1]])]
    >>> as_examples(X, [[1, 0]], GraphCRF())[0].n_labelled
    2
    """
    if isinstance(model, ChainCRF):
        raise NotSupportedError(
            "ChainCRF infers exactly, so that each of its learners fits. For margins of chains, give a "
            "GraphCRF(inference='tree') with an edge for each step."
        )
    if model is None and y is None:
        if not isinstance(X, Sequence) or not all(isinstance(one, Example) for one in X):
            raise InvalidInputError("give data, labels and an estimator, or a list of Example alone.")
        found = list(X)
    elif isinstance(model, CRF):
        found = model.examples(X, y)
    else:
        raise InvalidInputError(f"model must be a GridCRF or a GraphCRF, got {type(model).__name__}.")
    if not any(one.n_labelled for one in found):
        raise InvalidInputError("no example has a label. Label some variables.")
    return found


def labelled(examples: Sequence[Example]) -> list[MarginExample]:
    """Those that have a label, with what the model says against it checked."""
    ready = [MarginExample(one, i) for i, one in enumerate(examples) if one.n_labelled]
    for one in ready:
        one.check_truth()
    return ready
