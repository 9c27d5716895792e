"""Base of the margin learners, which compare the true labelling with the predicted one."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.validation import FloatArray, as_generator, as_seed, check_choice, check_number
from intarsia._core.worker_threads import cut_in_parts, run_by_workers
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.inference import InferenceMethod, method_class, method_names
from intarsia.inference.registry import METHODS
from intarsia.learning.compatibility import warn_if_known_to_fail
from intarsia.learning.examples import Example
from intarsia.learning.learner import Learner
from intarsia.learning.margin_example import WRONG_MASS, MarginExample, score_difference
from intarsia.learning.minimum import Minimum

_PATHS = ("none", "passes", "steps")
_ROUNDING = 1e-9


class Comparison:
    """Prediction for one example, and its comparison with the truth.

    Attributes
    ----------
    difference : float array
        Features of the truth minus those of the prediction.
    margin : float
        Score of the truth minus that of the prediction, without costs. It is never above 0 for a wrong prediction if
        inference finds the best labelling.
    cost : float
        Weighted number of wrong labels in the prediction.
    wrong : float
        Number of wrong labels in the prediction.
    misled : bool
        Whether the truth scores higher than the wrong prediction, costs included: an error of the inference, which
        leads to a step although the weights were right.
    """

    def __init__(self, example: MarginExample, weights: FloatArray, method: InferenceMethod, scale: float) -> None:
        theta = example.theta(weights)
        mu, self.converged = example.answer(theta + scale * example.cost if scale else theta, method)
        self.wrong = example.wrong_mass(mu)
        self.mistake = self.wrong > WRONG_MASS
        truth = example.truth(theta, method) if self.mistake or scale else mu
        self.cost = float(example.cost @ mu)
        self.margin = score_difference(theta, truth, mu)
        self.difference = example.pull_back(truth - mu)
        rounding = _ROUNDING * (1.0 + score_difference(np.abs(theta), np.maximum(truth, mu), np.minimum(truth, mu)))
        self.misled = bool(self.mistake and self.margin - scale * self.cost > rounding)


class Record:
    """Statistics of a search, pass by pass; they become the history."""

    def __init__(self, start: FloatArray, path: str) -> None:
        self.start_time = time.perf_counter()
        self.rows: list[dict[str, float]] = []
        self.path = path
        self.points = [] if path == "none" else [start.copy()]
        self.n_answers = 0
        self._begin_pass()

    def _begin_pass(self) -> None:
        self.mistakes = self.misled = self.unconverged = 0
        self.wrong, self.margins = 0.0, [0.0]

    def count(self, comparison: Comparison) -> None:
        """Count one prediction."""
        self.n_answers += 1
        self.unconverged += not comparison.converged
        self.wrong += comparison.wrong
        if comparison.mistake:
            self.mistakes += 1
            self.margins.append(comparison.margin)
            self.misled += comparison.misled

    def step(self, weights: FloatArray) -> None:
        """Store the weights after a step if the path consists of steps."""
        if self.path == "steps":
            self.points.append(weights.copy())

    def close(self, weights: FloatArray, risk: float, **columns: float) -> None:
        """End a pass: append a row to the history."""
        self.rows.append(
            {
                "risk": risk,
                "gradient_norm": np.nan,
                "seconds": time.perf_counter() - self.start_time,
                "evaluations": float(self.n_answers),
                "mistakes": float(self.mistakes),
                "smallest_margin": min(self.margins),
                "misled": float(self.misled),
                "unconverged": float(self.unconverged),
                **columns,
            }
        )
        if self.path == "passes":
            self.points.append(weights.copy())
        self._begin_pass()

    def history(self) -> dict[str, FloatArray]:
        """Return all columns as arrays, with the path of the weights."""
        names = list(self.rows[0]) if self.rows else ["risk", "gradient_norm", "seconds", "evaluations"]
        history = {name: np.array([row[name] for row in self.rows]) for name in names}
        if self.points:
            history["path"] = np.array(self.points)
        return history


class MarginLearner(Learner):
    """Base class of the learners that compare the true labelling with the predicted one.

    They need MAP inference and no probabilities, so that estimators predict the best labelling with them. Fractional
    results of a relaxation are used without rounding. Weights start at 0, as the mistake bounds require.
    """

    learns_from: ClassVar[str] = "best labelling"
    starts_independent: ClassVar[bool] = False
    handles_hidden: ClassVar[bool] = True
    """Whether it can learn from hidden labels and label sets."""

    max_iter: int
    path: str
    random_state: int | np.random.Generator | None
    verbose: bool

    @abstractmethod
    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings; extended by subclasses."""
        name = type(self).__name__
        check_number(self.max_iter, f"{name}: max_iter", low=0, integer=True)
        check_choice(self.path, _PATHS, f"{name}: path")
        with errors_in(name):
            as_generator(self.random_state)

    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise if settings, inference and examples do not match."""
        name = type(self).__name__
        self.check_settings()
        method = METHODS.resolve(inference, {})
        method.check_settings()
        if not method.gives_map:
            usable = [method_name for method_name in method_names() if method_class(method_name).gives_map]
            raise NotSupportedError(
                f"{name} needs the best labelling, which {type(method).__name__} does not compute. Use one of: "
                f"{', '.join(usable)}."
            )
        self._check_same_weights(examples)
        if not any(example.mass > 0.0 for example in examples):
            raise InvalidInputError(f"{name}: no example has a label and a weight above 0. Label some variables.")
        if not self.handles_hidden:
            for i, example in enumerate(examples):
                if not example.labels.complete:
                    v = int(np.argmin(example.labels.observed))
                    raise NotSupportedError(
                        f"{name} needs exactly one label for every variable, but variable "
                        f"{int(example.form.reduction.free_variables[v])} of example {i} has a hidden label or a set "
                        f"of labels. Label it, or use learner='structured_perceptron' or 'risk_minimizer', which "
                        f"accept both."
                    )

    def _prepare(
        self, examples: Sequence[Example], inference: str | InferenceMethod, start: FloatArray | None
    ) -> tuple[list[MarginExample], InferenceMethod, FloatArray]:
        """Check everything, warn of pairs known to fail, and drop examples without weight."""
        self.check_examples(examples, inference)
        method = METHODS.resolve(inference, {})
        warn_if_known_to_fail(self, method, examples)
        ready = [MarginExample(example, i) for i, example in enumerate(examples) if example.mass > 0.0]
        for example in ready:
            example.check_truth()
        return ready, method, self._start_weights(start, examples[0].scores.n_weights)

    def _order(self, n: int, epoch: int) -> list[int]:
        """Return the order of the examples in one pass."""
        return [int(i) for i in np.random.default_rng([as_seed(self.random_state), epoch]).permutation(n)]

    def _end(self, result: Minimum) -> Minimum:
        """Warn if inference did not converge in the last pass, and return the result."""
        unconverged = result.history.get("unconverged", np.zeros(0))
        if unconverged.size and unconverged[-1] > 0:
            warn_caller(
                f"{type(self).__name__}: inference did not converge for {int(unconverged[-1])} predictions of the "
                f"last pass. Raise max_iter of the inference, or use a method without it, such as 'lp_relaxation'.",
                ConvergenceWarning,
            )
        return result


class Evaluation:
    """Evaluation of all examples with the same weights, in parallel.

    Unlike training steps, each of which depends on the one before, the examples can be evaluated by separate workers.

    Parameters
    ----------
    examples : list of MarginExample
        Examples to evaluate.
    shares : float array, optional
        Weight of each example in the mean loss; 1 by default.
    """

    def __init__(self, examples: Sequence[MarginExample], shares: FloatArray | None = None) -> None:
        weights = np.ones(len(examples)) if shares is None else shares
        parts = cut_in_parts(len(examples))
        self._blocks = [([examples[i] for i in block], weights[block]) for block in parts]
        self._n_labelled = sum(example.n_labelled for example in examples)

    def wrong(self, weights: FloatArray, method: InferenceMethod) -> float:
        """Return the fraction of wrong labels."""
        calls = [partial(_count_wrong, block, weights, method) for block in self._blocks]
        return sum(run_by_workers(calls, None)) / max(1, self._n_labelled)

    def hinge(self, weights: FloatArray, method: InferenceMethod) -> float:
        """Return the weighted sum of the hinge losses."""
        return sum(run_by_workers([partial(_sum_hinge, block, weights, method) for block in self._blocks], None))


_Block = tuple[list[MarginExample], FloatArray]


def _count_wrong(block: _Block, weights: FloatArray, method: InferenceMethod) -> float:
    """Return the number of wrong labels in a block of examples."""
    return sum(example.wrong_mass(example.answer(example.theta(weights), method)[0]) for example in block[0])


def _sum_hinge(block: _Block, weights: FloatArray, method: InferenceMethod) -> float:
    """Return the weighted sum of the hinge losses of a block of examples."""
    total = 0.0
    for example, weight in zip(*block, strict=True):
        comparison = Comparison(example, weights, method, 1.0)
        total += float(weight) * max(0.0, comparison.cost - comparison.margin)
    return total
