"""Checks of a learner and an inference method on a sample of labelled data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray
from intarsia.crf.independent import independent_weights
from intarsia.diagnostics.check import BAD, GOOD, UNCLEAR, Check
from intarsia.diagnostics.held_out import (
    compare_errors,
    make_folds,
    most_frequent,
    too_few,
    without_factors,
    wrong_by_majority,
    wrong_by_marginals,
)
from intarsia.diagnostics.separability import algorithmically_separable, separable
from intarsia.exceptions import IntarsiaError, TooLargeError
from intarsia.inference import InferenceMethod, infer
from intarsia.learning.compatibility import FAILS, FOREST, GUARANTEED, LOOPS, REFUSED, judge
from intarsia.learning.examples import Example
from intarsia.learning.learner import Learner
from intarsia.learning.margin_example import MarginExample, score_difference
from intarsia.learning.margin_learner import MarginLearner
from intarsia.learning.minimum import Minimum
from intarsia.learning.registry import OPTIMIZERS
from intarsia.learning.risk_minimizer import RiskMinimizer

# Differences of risks and of relative scores below the first number are noise; above the second they are clear.
_MIN_IMPROVEMENT = 0.01
_CLEAR_DIFFERENCE = 0.05
_TOLERANCE = 1e-6
# Limits of the separability check: size of the graphs, number of weights, number of examples.
_MAX_PROGRAM_SIZE = 4000
_MAX_WEIGHTS = 500
_MAX_EXAMPLES = 6


class Probe:
    """Checks of a learner and an inference method on a sample of examples.

    Parameters
    ----------
    examples : list of Example
        Sample of labelled examples.
    learner, method
        Learner and inference method to check.
    n_passes : int
        Number of passes, or iterations, of the learner.
    time_limit : float
        Seconds for each exact inference.
    """

    def __init__(
        self, examples: Sequence[Example], learner: Learner, method: InferenceMethod, n_passes: int, time_limit: float
    ) -> None:
        self.examples = list(examples)
        self.margin_examples = [MarginExample(item, i) for i, item in enumerate(examples)]
        self.learner = learner
        self.method = method
        self.n_passes = n_passes
        self.time_limit = time_limit

    def theory(self) -> Check:
        """Report what theory says about the pair."""
        looped = any(not item.form.graph.is_forest for item in self.examples)
        judgement = judge(type(self.learner), type(self.method), LOOPS if looped else FOREST)
        verdict = {GUARANTEED: GOOD, FAILS: BAD, REFUSED: BAD}.get(judgement.level, UNCLEAR)
        source = f" ({judgement.reference})" if judgement.reference else ""
        return Check("theory", verdict, f"{judgement.level}: {judgement.reason}{source}", {"level": judgement.level})

    def risk(self, weights: FloatArray) -> float:
        """Return the fraction of wrong labels of this inference with these weights; fractional answers count partly."""
        wrong = sum(self._wrong(item, weights) for item in self.margin_examples)
        return float(wrong / max(1.0, sum(item.n_labelled for item in self.margin_examples)))

    def _wrong(self, item: MarginExample, weights: FloatArray) -> float:
        """Return the number of wrong labels of an example."""
        theta = item.theta(weights)
        if self.learner.learns_from == "best labelling":
            return item.wrong_mass(item.answer(theta, self.method)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mu = self.learner.marginals(item.source.scores.graph, theta, self.method)
        return wrong_by_marginals(item, mu)

    def held_out(self, random_state: int) -> Check:
        """Compare the error on held-out examples with those of the most frequent label and the independent model."""
        items = self.margin_examples
        if len(items) < 2:
            return too_few()
        wrong = {name: np.zeros(len(items)) for name in ("model", "majority", "independent")}
        for train, test in make_folds(len(items), random_state):
            alone = independent_weights([without_factors(items[i]) for i in train], self.learner)[0]
            start = alone if self.learner.starts_independent else None
            weights = self.run_learner([self.examples[i] for i in train], start)[0].point
            labels = most_frequent([items[i] for i in train])
            for i in test:
                wrong["model"][i] = self._wrong(items[i], weights)
                wrong["majority"][i] = wrong_by_majority(items[i], labels)
                wrong["independent"][i] = wrong_by_marginals(items[i], items[i].theta(alone))
        return compare_errors(wrong, np.array([float(item.n_labelled) for item in items]))

    def run_learner(
        self, examples: Sequence[Example] | None = None, start: FloatArray | None = None
    ) -> tuple[Minimum, FloatArray]:
        """Run some passes of the learner, by default on all examples; return its result and the weights by pass."""
        learner = clone(self.learner)
        if isinstance(learner, MarginLearner):
            learner.set_params(max_iter=self.n_passes, path="passes")
        elif isinstance(learner, RiskMinimizer):
            optimizer = OPTIMIZERS.resolve(learner.optimizer, {"max_iter": self.n_passes})
            learner.set_params(optimizer=optimizer, schedule=None, validation_fraction=0.0, checkpoint=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            minimum = learner.minimize(self.examples if examples is None else examples, self.method, start)
        path = minimum.history.get("path", np.array([minimum.start, minimum.point]))
        return minimum, path

    def learning_curve(self, minimum: Minimum, path: FloatArray) -> Check:
        """Check whether the learner's steps lower the measured risk."""
        risks = np.array([self.risk(point) for point in path])
        values: dict[str, Any] = {"first": risks[0], "last": risks[-1], "lowest": risks.min()}
        arrays = {"risk": risks}
        mistakes, misled = minimum.history.get("mistakes"), minimum.history.get("misled")
        misled_fraction = 0.0
        if mistakes is not None and misled is not None:
            misled_fraction = float(misled.sum() / max(1.0, mistakes.sum()))
            values |= {
                "mistakes": float(mistakes.sum()),
                "misled": float(misled.sum()),
                "misled fraction": misled_fraction,
            }
            arrays |= {"mistakes": mistakes, "misled": misled}
        n_iter, unit = len(path) - 1, "passes"
        if not isinstance(self.learner, MarginLearner):
            n_iter, unit = minimum.n_iter, "iterations"
        text = f"fraction of wrong labels {risks[0]:.3f} at the start, {risks[-1]:.3f} after {n_iter} {unit}"
        if misled_fraction > 0.0:
            text += (
                f"; in {misled_fraction:.0%} of the steps the truth had a higher score than the answer, so the "
                f"inference was wrong, not the weights"
            )
        improved = risks[-1] <= risks[0] - _MIN_IMPROVEMENT or risks[-1] <= _MIN_IMPROVEMENT
        verdict = (
            GOOD if improved and misled_fraction == 0.0 else BAD if misled_fraction > 0.0 and not improved else UNCLEAR
        )
        return Check("learning curve", verdict, text, values, arrays)

    def sweep(self, path: FloatArray) -> Check:
        """Check the measured risk along the direction in which the weights move, forward and backward."""
        weights = path[-1]
        direction = weights - path[len(path) // 2]
        if not np.linalg.norm(direction) > 0.0:
            direction = weights - path[0]
        length = float(np.linalg.norm(direction))
        if length == 0.0:
            return Check("along the update", UNCLEAR, "the learner does not change the weights", {})
        unit = direction / length * max(float(np.linalg.norm(weights)), length)
        steps = np.linspace(-3.0, 3.0, 13)
        risks = np.array([self.risk(weights + t * unit) for t in steps])
        risk_here, risk_ahead, risk_behind = risks[6], risks[7:].min(), risks[:6].min()
        values = {"here": risk_here, "ahead": risk_ahead, "behind": risk_behind}
        text = (
            f"fraction of wrong labels {risk_here:.3f} at the last weights, at best {risk_ahead:.3f} ahead and "
            f"{risk_behind:.3f} behind"
        )
        verdict = GOOD
        if risk_behind < min(risk_here, risk_ahead) - _CLEAR_DIFFERENCE:
            verdict = BAD
            text += ": the learner moves away from better weights"
        return Check("along the update", verdict, text, values, {"step": steps, "risk": risks})

    def agreement(self, weights: FloatArray) -> Check:
        """Check how far the scores of the labellings are from the best ones, or from bounds on them."""
        gaps, fractional, proven = [], 0, 0
        for item in self.margin_examples:
            theta, graph = item.theta(weights), item.source.scores.graph
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                best = infer(graph, theta, "integer_program", task="map", time_limit=self.time_limit)
                result = infer(graph, theta, self.method, task="map")
            if best.mu is None or result.assignment is None:
                continue
            proven += best.status.name == "EXACT"
            fractional += result.integral is False
            scale = 1.0 + abs(score_difference(theta, best.mu, 0.0 * best.mu))
            gaps.append((best.score - result.score) / scale)
        gap_array = np.array(gaps)
        fraction = float((gap_array > _TOLERANCE).mean()) if gaps else np.nan
        values = {
            "fraction below the best": fraction,
            "largest gap": float(gap_array.max(initial=0.0)),
            "fractional": fractional / max(1, len(gaps)),
            "proven": proven / max(1, len(gaps)),
        }
        text = (
            f"{fraction:.0%} of {len(gaps)} labellings score lower than the best labelling ({proven} proven optimal), "
            f"by at most {values['largest gap']:.2g} of the score"
        )
        if fractional:
            text += f"; {fractional} answers are fractional"
        verdict = GOOD if fraction == 0.0 else UNCLEAR
        return Check("agreement with the best labelling", verdict, text, values, {"gap": gap_array})

    def exact_marginals(self, weights: FloatArray) -> Check:
        """Check how far the marginals are from exact ones, where exact ones are affordable."""
        errors = []
        for item in self.margin_examples:
            theta, graph = item.theta(weights), item.source.scores.graph
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exact = infer(graph, theta, "junction_tree", time_limit=self.time_limit).mu
                    marginals = self.learner.marginals(graph, theta, self.method)
            except (TooLargeError, IntarsiaError):
                continue
            if exact is not None:
                errors.append(float(np.abs(exact - marginals)[: item.allowed.size].mean()))
        if not errors:
            return Check("agreement with exact marginals", UNCLEAR, "the graphs are too large for exact marginals")
        text = f"marginals differ from the exact ones by {np.mean(errors):.3f} on average over {len(errors)} examples"
        verdict = GOOD if max(errors) < _MIN_IMPROVEMENT else UNCLEAR
        return Check(
            "agreement with exact marginals", verdict, text, {"mean error": np.mean(errors)}, {"gap": np.array(errors)}
        )

    def separability(self) -> Check:
        """Check whether any weights label the examples correctly, by exact inference and by this inference."""
        is_small = max(item.form.graph.n_theta for item in self.examples) <= _MAX_PROGRAM_SIZE
        if not is_small or self.examples[0].scores.n_weights > _MAX_WEIGHTS:
            return Check("separability", UNCLEAR, "the graphs are too large to decide separability")
        subset = [item for item in self.examples if item.n_labelled][:_MAX_EXAMPLES]
        exact = separable(subset)
        values: dict[str, Any] = {"n": len(subset), "exact": exact.separable, "gamma": exact.gamma}
        text = f"{len(subset)} examples are {str(exact).rstrip('.')}"
        verdict = UNCLEAR if not exact.separable else GOOD
        if self.method.map_is == "relaxed optimum":
            relaxed = algorithmically_separable(subset, inference=self.method)
            values |= {"relaxed": relaxed.separable, "relaxed gamma": relaxed.gamma}
            text += f". They are {str(relaxed).rstrip('.')}"
            if exact.separable and relaxed.separable is False:
                verdict = BAD
        return Check("separability", verdict, text, values)
