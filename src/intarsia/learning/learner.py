"""Base class of the learners: settings, and a function from labelled examples to fitted weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.settings import Settings, clone
from intarsia._core.validation import FloatArray, as_float_array, as_seed
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.inference import InferenceMethod, InferenceResult, Status, infer
from intarsia.learning.examples import Example
from intarsia.learning.minimum import Minimum

Self = TypeVar("Self", bound="Learner")


class Learner(Settings, ABC):
    """Base class of the learners, the values of `learner=`.

    A learner is a settings object that follows the scikit-learn conventions. Its class attributes state which inference
    it needs; estimators, error messages and the documentation read them.
    """

    name: ClassVar[str]
    """Name in the registry."""
    summary: ClassVar[str]
    """One line on when to choose it."""
    learns_from: ClassVar[str] = "marginals"
    """Result of the inference that it learns from, and that estimators predict: "marginals" or "best labelling"."""
    asks_inference: ClassVar[bool] = True
    """Whether it runs inference while learning; if False, inference is run only to predict."""
    starts_independent: ClassVar[bool] = True
    """Whether estimators start it from weights fitted to single variables; if False, it starts at 0."""

    @abstractmethod
    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise if settings, inference and examples do not match; called before any computation."""

    def check_validation(
        self, examples: Sequence[Example], inference: str | InferenceMethod, validation: Sequence[Example] | None
    ) -> None:
        """Raise if `minimize` would reject these examples for early stopping; accepts all by default."""

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
        """Fit the weights to the examples, starting from `start` (0 by default), and return them with a history."""

    def resumes(self) -> bool:
        """Return whether a fit would resume from a checkpoint, in which case `start` is ignored."""
        return False

    def with_seed(self: Self) -> Self:
        """Return the learner with an integer seed, drawn from `random_state` if that is a Generator or None."""
        settings = self.get_params(deep=False)
        state = settings.get("random_state", 0)
        if isinstance(state, (int, np.integer)):
            return self
        with errors_in(type(self).__name__):
            if settings.get("checkpoint") is not None:
                raise InvalidInputError(
                    f"a fit with a checkpoint needs the same seed when it resumes, but random_state is of type "
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
        """Make one pass over the examples; return new weights, the state for the next call, and the risk."""
        raise NotSupportedError(f"{type(self).__name__} cannot learn incrementally. Call fit with all data.")

    def marginals(self, graph: FactorGraph, theta: FloatArray, inference: str | InferenceMethod) -> FloatArray:
        """Compute the marginals in the way for which the weights were fitted."""
        return np.asarray(whole_answer(infer(graph, theta, inference)).mu)


def whole_answer(result: InferenceResult) -> InferenceResult:
    """Return the result unchanged; raise KeyboardInterrupt if Ctrl-C stopped the inference before it was complete."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result
