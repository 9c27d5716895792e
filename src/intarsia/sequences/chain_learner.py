"""What every learner of chain models is: settings, and one function from labelled sequences to weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.error_context import errors_in
from intarsia._core.registry import Registry
from intarsia._core.validation import FloatArray, as_generator, check_number
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.learning.minimum import Minimum
from intarsia.sequences.chain_data import ChainExamples


class ChainLearner(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the learners of `ChainCRF`, the values of its `learner=`: settings objects."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to choose it, in one line."""
    validation_fraction: float
    patience: int
    random_state: int | np.random.Generator | None

    @abstractmethod
    def check_settings(self) -> None:
        """Raise for settings that cannot be meant; extended by subclasses."""
        here = type(self).__name__
        check_number(self.validation_fraction, f"{here}: validation_fraction", low=0.0, high=1.0, open_high=True)
        check_number(self.patience, f"{here}: patience", low=1, integer=True)
        with errors_in(here):
            as_generator(self.random_state)

    @abstractmethod
    def check_examples(self, examples: ChainExamples) -> None:
        """Raise where settings and examples do not fit, before any work is done."""

    @abstractmethod
    def minimize(
        self,
        examples: ChainExamples,
        start: FloatArray,
        *,
        validation: ChainExamples | None = None,
        title: str = "",
    ) -> Minimum:
        """Weights fitted to the examples, from `start`."""

    def step(self, examples: ChainExamples, weights: FloatArray, state: Any) -> tuple[FloatArray, Any, float]:
        """One pass over the examples: new weights, the state for the next call (None at first), and the risk."""
        raise NotSupportedError(f"{type(self).__name__} cannot learn step by step. Use fit with all data.")

    def hold_out(
        self, examples: ChainExamples, validation: ChainExamples | None, seed: int
    ) -> tuple[ChainExamples, ChainExamples | None]:
        """Examples to learn from, and those for early stopping: given ones, or a share at random."""
        if validation is not None or self.validation_fraction == 0.0:
            return examples, validation
        n = len(examples)
        if n < 2:
            raise InvalidInputError(
                f"{type(self).__name__}: validation_fraction={self.validation_fraction} of a single sequence. Give "
                f"more sequences, or validation_fraction=0."
            )
        order = np.random.default_rng(seed).permutation(n)
        cut = min(max(1, round(self.validation_fraction * n)), n - 1)
        return examples.subset(np.sort(order[cut:])), examples.subset(np.sort(order[:cut]))


CHAIN_LEARNERS: Registry[ChainLearner] = Registry(
    "learner",
    "intarsia.sequences",
    {
        "maximum_likelihood": "MaximumLikelihood",
        "averaged_perceptron": "online_learners:AveragedPerceptron",
        "passive_aggressive": "online_learners:PassiveAggressive",
        "arow": "online_learners:AROW",
    },
    ChainLearner,  # type: ignore[type-abstract]
)
