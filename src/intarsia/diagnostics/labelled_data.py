"""Input of the diagnostics: an estimator with data, or a list of labelled examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intarsia.crf.crf import CRF
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.learning.examples import Example
from intarsia.learning.margin_example import MarginExample
from intarsia.sequences.chain_crf import ChainCRF


def as_examples(X: Any, y: Any, model: Any) -> list[Example]:
    """Return the labelled examples of an estimator's data, or X itself if it is a list of examples.

    Examples
    --------
    >>> from intarsia.crf import GraphCRF
    >>> X = [([[1.0], [-1.0]], [[0, 1]])]
    >>> as_examples(X, [[1, 0]], GraphCRF())[0].n_labelled
    2
    """
    if isinstance(model, ChainCRF):
        raise NotSupportedError(
            "ChainCRF without energies infers exactly, so that no inference can mislead its learner. For margins and "
            "held-out errors of chains, use GraphCRF(inference='tree') with an edge for each step."
        )
    if model is None and y is None:
        if not isinstance(X, Sequence) or not all(isinstance(item, Example) for item in X):
            raise InvalidInputError(
                "expected data, labels and an estimator. Pass all three, or a list of Example alone."
            )
        examples = list(X)
    elif isinstance(model, CRF):
        examples = model.examples(X, y)
    else:
        raise InvalidInputError(f"model must be a GridCRF or a GraphCRF, got {type(model).__name__}.")
    if not any(item.n_labelled for item in examples):
        raise InvalidInputError("no example has a label. Label some variables.")
    return examples


def labelled(examples: Sequence[Example]) -> list[MarginExample]:
    """Return the examples that have a label; raise if the model forbids a label."""
    margin_examples = [MarginExample(item, i) for i, item in enumerate(examples) if item.n_labelled]
    for item in margin_examples:
        item.check_truth()
    return margin_examples
