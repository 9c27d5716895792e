"""What the learners have in common that compare the truth with the best labelling."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import errors_in, warn_caller
from intarsia._core.validation import FloatArray, as_generator, as_seed, check_choice, check_number
from intarsia._core.worker_threads import Parcels, cut_in_parts, run_by_workers
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


class Visit:
    """One look at one example: the inference's answer, and how it compares with the truth.

    Attributes
    ----------
    difference : float array
        Features of the truth less those of the answer.
    margin : float
        Score of the truth less that of the answer, without any cost. Inference that finds the best labelling never
        gives more than 0 for a wrong one.
    cost : float
        Weighted number of wrong labels in the answer.
    wrong : float
        Number of wrong labels in the answer.
    misled : bool
        Whether the truth scores higher than the wrong answer, costs included: a mistake of the inference, and a step
        for which the weights gave no reason.
    """

    def __init__(self, one: MarginExample, weights: FloatArray, method: InferenceMethod, scale: float) -> None:
        theta = one.theta(weights)
        mu, self.converged = one.answer(theta + scale * one.cost if scale else theta, method)
        self.wrong = one.wrong_mass(mu)
        self.mistake = self.wrong > WRONG_MASS
        truth = one.truth(theta, method) if self.mistake or scale else mu
        self.cost = float(one.cost @ mu)
        self.margin = score_difference(theta, truth, mu)
        self.difference = one.pull_back(truth - mu)
        rounding = _ROUNDING * (1.0 + score_difference(np.abs(theta), np.maximum(truth, mu), np.minimum(truth, mu)))
        self.misled = bool(self.mistake and self.margin - scale * self.cost > rounding)


class Record:
    """What a search has met so far, pass by pass; becomes the history."""

    def __init__(self, start: FloatArray, path: str) -> None:
        self.begun = time.perf_counter()
        self.rows: list[dict[str, float]] = []
        self.path = path
        self.points = [] if path == "none" else [start.copy()]
        self.n_answers = 0
        self._open()

    def _open(self) -> None:
        self.mistakes = self.misled = self.unconverged = 0
        self.wrong, self.margins = 0.0, [0.0]

    def see(self, visit: Visit) -> None:
        """Count one answer."""
        self.n_answers += 1
        self.unconverged += not visit.converged
        self.wrong += visit.wrong
        if visit.mistake:
            self.mistakes += 1
            self.margins.append(visit.margin)
            self.misled += visit.misled

    def step(self, weights: FloatArray) -> None:
        """Note the weights after a step."""
        if self.path == "steps":
            self.points.append(weights.copy())

    def close(self, weights: FloatArray, risk: float, **more: float) -> None:
        """End a pass."""
        self.rows.append(
            {
                "risk": risk,
                "gradient_norm": np.nan,
                "seconds": time.perf_counter() - self.begun,
                "evaluations": float(self.n_answers),
                "mistakes": float(self.mistakes),
                "smallest_margin": min(self.margins),
                "misled": float(self.misled),
                "unconverged": float(self.unconverged),
                **more,
            }
        )
        if self.path == "passes":
            self.points.append(weights.copy())
        self._open()

    def history(self) -> dict[str, FloatArray]:
        """All columns as arrays, and the path."""
        names = list(self.rows[0]) if self.rows else ["risk", "gradient_norm", "seconds", "evaluations"]
        found = {name: np.array([row[name] for row in self.rows]) for name in names}
        if self.points:
            found["path"] = np.array(self.points)
        return found


class MarginLearner(Learner):
    """Base of the learners that compare the truth with the best labelling.

    They need inference for MAP and no probabilities, so estimators predict the best labelling with them. Fractional
    answers of a relaxation are used as they are. Weights begin at 0, from where the bounds are counted.
    """

    learns_from: ClassVar[str] = "best labelling"
    starts_independent: ClassVar[bool] = False
    handles_hidden: ClassVar[bool] = True
    """Whether it can learn from hidden labels and sets of them."""

    max_iter: int
    path: str
    random_state: int | np.random.Generator | None
    verbose: bool

    @abstractmethod
    def check_settings(self) -> None:
        """Raise for settings that cannot be meant; extended by subclasses."""
        here = type(self).__name__
        check_number(self.max_iter, f"{here}: max_iter", low=0, integer=True)
        check_choice(self.path, _PATHS, f"{here}: path")
        with errors_in(here):
            as_generator(self.random_state)

    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise where settings, inference and examples do not fit."""
        here = type(self).__name__
        self.check_settings()
        method = METHODS.resolve(inference, {})
        method.check_settings()
        if not method.gives_map:
            able = [name for name in method_names() if method_class(name).gives_map]
            raise NotSupportedError(
                f"{here} learns from best labellings, but {type(method).__name__} finds none. These do: "
                f"{', '.join(able)}."
            )
        self._check_same_weights(examples)
        if not any(one.mass > 0.0 for one in examples):
            raise InvalidInputError(f"{here}: no example has a label and a weight above 0. Label some variables.")
        if not self.handles_hidden:
            for i, one in enumerate(examples):
                if not one.labels.complete:
                    v = int(np.argmin(one.labels.observed))
                    raise NotSupportedError(
                        f"{here}: example {i} has no single label at variable "
                        f"{int(one.form.reduction.kept[v])}, and a margin is to a labelling of all. Label it, or use "
                        f"learner='structured_perceptron' or 'risk_minimizer', which take hidden labels."
                    )

    def _prepare(
        self, examples: Sequence[Example], inference: str | InferenceMethod, start: FloatArray | None
    ) -> tuple[list[MarginExample], InferenceMethod, FloatArray]:
        """Everything checked, and the warning for pairs known to fail; examples without weight are left out."""
        self.check_examples(examples, inference)
        method = METHODS.resolve(inference, {})
        warn_if_known_to_fail(self, method, examples)
        ready = [MarginExample(one, i) for i, one in enumerate(examples) if one.mass > 0.0]
        for one in ready:
            one.check_truth()
        return ready, method, self._start_weights(start, examples[0].scores.n_weights)

    def _order(self, n: int, epoch: int) -> list[int]:
        """Order of the examples in one pass."""
        return [int(i) for i in np.random.default_rng([as_seed(self.random_state), epoch]).permutation(n)]

    def _end(self, found: Minimum) -> Minimum:
        """Tell when the inference did not converge in the last pass."""
        missed = found.history.get("unconverged", np.zeros(0))
        if missed.size and missed[-1] > 0:
            warn_caller(
                f"{type(self).__name__}: the inference did not converge for {int(missed[-1])} answers of the last "
                f"pass. Raise max_iter of the inference, or use one that ends by itself, such as 'lp_relaxation'.",
                ConvergenceWarning,
            )
        return found


class Look:
    """A look at all examples with the same weights: unlike steps, each of which depends on the one before, by workers.

    Parameters
    ----------
    examples : list of MarginExample
        To look at.
    shares : float array, optional
        Weight of each in the mean loss; by default 1.
    """

    def __init__(self, examples: Sequence[MarginExample], shares: FloatArray | None = None) -> None:
        each = np.ones(len(examples)) if shares is None else shares
        parts = cut_in_parts(len(examples))
        self._parcels = Parcels([([examples[i] for i in part], each[part]) for part in parts])
        self._n_labelled = sum(one.n_labelled for one in examples)

    def wrong(self, weights: FloatArray, method: InferenceMethod) -> float:
        """Share of the labels that the answers miss."""
        return sum(run_by_workers(self._parcels.calls(_wrong, weights, method), None)) / max(1, self._n_labelled)

    def hinge(self, weights: FloatArray, method: InferenceMethod) -> float:
        """Sum of the hinge losses, each times its share."""
        return sum(run_by_workers(self._parcels.calls(_hinge, weights, method), None))


_Looked = tuple[list[MarginExample], FloatArray]


def _wrong(part: _Looked, weights: FloatArray, method: InferenceMethod) -> float:
    return sum(one.wrong_mass(one.answer(one.theta(weights), method)[0]) for one in part[0])


def _hinge(part: _Looked, weights: FloatArray, method: InferenceMethod) -> float:
    total = 0.0
    for one, share in zip(*part, strict=True):
        visit = Visit(one, weights, method, 1.0)
        total += float(share) * max(0.0, visit.cost - visit.margin)
    return total
