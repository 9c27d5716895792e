"""What every learner is: settings, and one function from labelled examples to weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, as_float_array, as_seed
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.inference import InferenceMethod, InferenceResult, Status, infer
from intarsia.learning.examples import Example
from intarsia.learning.minimum import Minimum

Self = TypeVar("Self", bound="Learner")


class Learner(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the learners, the values of `learner=`: settings objects (scikit-learn conventions)."""

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """When to choose it, in one line."""
    learns_from: ClassVar[str] = "marginals"
    """What it reads of the inference, and what estimators therefore predict: "marginals" or "best labelling"."""
    asks_inference: ClassVar[bool] = True
    """Whether it asks the inference while learning; otherwise only predictions do."""
    starts_independent: ClassVar[bool] = True
    """Whether estimators begin at the weights of single variables; otherwise at 0."""

    @abstractmethod
    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise where settings, inference and examples do not fit, before any work is done."""

    def check_validation(
        self, examples: Sequence[Example], inference: str | InferenceMethod, validation: Sequence[Example] | None
    ) -> None:
        """Raise where `minimize` would, for what it is given for early stopping; nothing by default."""

    @abstractmethod
    def minimize(
        self,
        examples: Sequence[Example],
        inference: str | InferenceMethod,
        start: FloatArray | None = None,
        *,
        validation: Sequence[Example] | None = None,
        title: str = "",
    ) -> Minimum:
        """Weights fitted to the examples, from `start` (0 by default)."""

    def resumes(self) -> bool:
        """Whether a fit would go on where an earlier one was broken off, so that `start` is not used."""
        return False

    def with_seed(self: Self) -> Self:
        """Return the learner with an integer seed: one drawn from `random_state`, where that is a Generator or None."""
        settings = self.get_params(deep=False)
        state = settings.get("random_state", 0)
        if isinstance(state, (int, np.integer)):
            return self
        with errors_in(type(self).__name__):
            if settings.get("checkpoint") is not None:
                raise InvalidInputError(
                    f"a fit with a checkpoint needs the same seed when it goes on, but random_state is "
                    f"{type(state).__name__}. Set random_state to an integer."
                )
            seed = as_seed(state)
        seeded: Self = clone(self).set_params(random_state=seed)
        return seeded

    def _check_same_weights(self, examples: Sequence[Example]) -> None:
        """Raise if there are no examples, or if they differ in their number of weights."""
        name = type(self).__name__
        if len(examples) == 0:
            raise InvalidInputError(f"{name}: no examples. Pass at least one labelled graph.")
        counts = [example.scores.n_weights for example in examples]
        odd = next((i for i, count in enumerate(counts) if count != counts[0]), None)
        if odd is not None:
            raise InvalidInputError(
                f"{name}: example {odd} needs {counts[odd]} weights, but example 0 needs {counts[0]}. Pass examples "
                f"with the same states and the same number of features."
            )

    def _start_weights(self, start: FloatArray | None, n_weights: int) -> FloatArray:
        """Return a copy of the weights to start from, 0 for None; raise if their number is wrong."""
        if start is None:
            return np.zeros(n_weights)
        weights = as_float_array(start, f"{type(self).__name__}: start")
        if weights.shape != (n_weights,) or not np.isfinite(weights).all():
            raise InvalidInputError(
                f"{type(self).__name__}: start has shape {weights.shape}, but {n_weights} finite weights are needed. "
                f"Pass an array of shape ({n_weights},), or None to start at 0."
            )
        return weights.copy()

    def step(
        self, examples: Sequence[Example], inference: str | InferenceMethod, weights: FloatArray, state: Any
    ) -> tuple[FloatArray, Any, float]:
        """One pass over the examples: new weights, the state for the next call (None at first), and the risk."""
        raise NotSupportedError(f"{type(self).__name__} cannot learn step by step. Use fit with all data.")

    def marginals(self, graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod) -> FloatArray:
        """Marginals as the weights were fitted for."""
        return np.asarray(whole_answer(infer(graph, theta, inference)).mu)


def whole_answer(result: InferenceResult) -> InferenceResult:
    """The result; Ctrl-C goes on to the caller, since half an answer would be predicted as if it were one."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result
