"""Learner that minimizes the empirical risk of confusable answers, or the PAC-Bayes bound built on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from intarsia._core.error_context import without_warnings
from intarsia._core.progress import fit_progress
from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, as_generator, check_choice, check_number
from intarsia.diagnostics.pac_bayes import BoundTerms
from intarsia.exceptions import ConvergenceWarning, NotSupportedError
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.learning.examples import Example
from intarsia.learning.learner import Learner
from intarsia.learning.margin_example import MarginExample
from intarsia.learning.minimum import COLUMNS, Minimum
from intarsia.learning.structured_perceptron import StructuredPerceptron
from intarsia.learning.structured_svm import StructuredSVM

_SCALES = tuple(float(scale) for scale in 10.0 ** np.arange(-1.0, 3.01, 0.5))


class BoundMinimizer(Learner):
    r"""Weights of the lowest PAC-Bayes bound under LP-relaxed inference (Kulesza2007, Eq. 8 and Theorem 2).

    Eq. 8 is the mean over the examples of the largest loss of an answer that is closer to the prediction in score than
    in 1-norm. As a function of the weights it is piecewise constant and not convex, so that it has no gradient. This
    learner starts from the structured SVM, the averaged perceptron and the start weights, each at several scales, and
    improves the best point by a (1+1) evolution strategy: a random step is kept if it does not increase the objective,
    and steps become longer after successes and shorter after failures. The objective never increases. Every evaluation
    solves two linear programs per example: use it for small models, to see how far the bound can go. For prediction the
    structured SVM, its convex relative, is nearly always the better choice.

    Parameters
    ----------
    objective : {"bound", "risk"}
        Minimize the bound, or the risk of Eq. 8 alone, which is lowest for weights of large norm.
    deterministic : bool
        Whether the bound is that of the weights themselves; see `pac_bayes_bound`.
    delta : float
        Probability that the bound fails.
    max_iter : int
        Number of random steps.
    random_state : int, Generator or None
        Seed of the steps.
    verbose : bool
        Whether to show the progress on a terminal.

    References
    ----------
    Kulesza2007, Eq. 8 and Theorem 2; McAllester2007.

    Examples
    --------
    >>> from intarsia.crf import GraphCRF
    >>> X = [([[1.0], [-1.0]], [[0, 1]]), ([[-1.0], [1.0]], [[0, 1]])] * 10
    >>> y = [[1, 0], [0, 1]] * 10
    >>> learner = BoundMinimizer(objective="risk", max_iter=5)
    >>> crf = GraphCRF(learner=learner, inference="lp_relaxation").fit(X, y)
    >>> round(crf.risk_, 6), crf.predict(X)[0].tolist()
    (0.0, [1, 0])
    """

    name: ClassVar[str] = "bound_minimizer"
    summary: ClassVar[str] = "the lowest PAC-Bayes bound of LP-relaxed inference; small models only"
    learns_from: ClassVar[str] = "best labelling"
    starts_independent: ClassVar[bool] = False

    def __init__(
        self,
        *,
        objective: str = "bound",
        deterministic: bool = False,
        delta: float = 0.05,
        max_iter: int = 200,
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.objective = objective
        self.deterministic = deterministic
        self.delta = delta
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def check_examples(self, examples: Sequence[Example], inference: str | InferenceMethod) -> None:
        """Raise if the settings are invalid, or if the theorem does not hold for the inference or the examples."""
        check_choice(self.objective, ("bound", "risk"), "BoundMinimizer: objective")
        check_number(self.delta, "BoundMinimizer: delta", low=0.0, high=1.0, open_low=True, open_high=True)
        check_number(self.max_iter, "BoundMinimizer: max_iter", low=0, integer=True)
        as_generator(self.random_state)
        self._check_same_weights(examples)
        method = METHODS.resolve(inference, {})
        if method.map_is != "relaxed optimum":
            raise NotSupportedError(
                f"BoundMinimizer: Theorem 2 of Kulesza2007 is about LP-relaxed inference, got {type(method).__name__}. "
                f"Use inference='lp_relaxation'."
            )
        BoundTerms([MarginExample(item, i) for i, item in enumerate(examples)], self.delta, self.deterministic)

    def minimize(
        self,
        examples: Sequence[Example],
        inference: str | InferenceMethod,
        start: FloatArray | None = None,
        *,
        validation: Sequence[Example] | None = None,
        title: str = "",
    ) -> Minimum:
        """Return the best weights; the history has the objective after every step, and never increases."""
        seeded = self.with_seed()
        if seeded is not self:
            return seeded.minimize(examples, inference, start, validation=validation, title=title)
        if validation:
            raise NotSupportedError("BoundMinimizer has no early stopping. Remove validation=.")
        self.check_examples(examples, inference)
        terms = BoundTerms([MarginExample(item, i) for i, item in enumerate(examples)], self.delta, self.deterministic)
        rng, clock = as_generator(self.random_state), time.perf_counter()
        first = self._start_weights(start, examples[0].scores.n_weights)
        point, value, n_evaluations = self._best_start(terms, self._candidates(examples, inference, first))
        rows = [(value, np.nan, time.perf_counter() - clock, float(n_evaluations))]
        length, status = 0.3 * (float(np.linalg.norm(point)) or 1.0), Status.MAX_ITER
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                for step in range(int(self.max_iter)):
                    trial = point + length / np.sqrt(point.size) * rng.normal(size=point.size)
                    trial_value = self._value(terms, trial, value)
                    # The one-fifth rule: steps get longer if more than one in five succeeds.
                    length *= 1.5 if trial_value <= value else 1.5**-0.25
                    if trial_value <= value:
                        point, value = trial, trial_value
                    rows.append((value, np.nan, time.perf_counter() - clock, rows[-1][3] + 1.0))
                    if report is not None:
                        report(step + 1, value, np.nan, (step + 1) / int(self.max_iter))
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        history = dict(zip(COLUMNS, np.array(rows).T, strict=True))
        return Minimum(point, value, np.nan, status, len(rows) - 1, start=first, history=history)

    def _candidates(
        self, examples: Sequence[Example], inference: str | InferenceMethod, start: FloatArray
    ) -> list[FloatArray]:
        """Return the start weights and those of margin learners, at several scales."""
        learners = (StructuredSVM(max_iter=50), StructuredPerceptron(max_iter=20))
        with without_warnings(ConvergenceWarning):  # they only suggest points to start from
            points = [start, *(learner.minimize(examples, inference).point for learner in learners)]
        return [start, *(scale * point for point in points if point.any() for scale in _SCALES)]

    def _best_start(self, terms: BoundTerms, candidates: list[FloatArray]) -> tuple[FloatArray, float, int]:
        """Return the candidate of the lowest objective, its value and the number of evaluations."""
        best, best_value = candidates[0], np.inf
        for point in candidates:
            value = self._value(terms, point, best_value)
            if value < best_value:
                best, best_value = point, value
        return best, best_value, len(candidates)

    def _value(self, terms: BoundTerms, weights: FloatArray, limit: float) -> float:
        """Return the objective; inf if the terms that need no program already exceed a limit."""
        complexity = terms.complexity(weights) if self.objective == "bound" else 0.0
        return np.inf if complexity > limit else terms.empirical(weights) + complexity
