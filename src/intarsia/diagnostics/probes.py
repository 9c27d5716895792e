"""Probes of a learner and an inference method on a sample of the user's own data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from intarsia._core.validation import FloatArray
from intarsia.diagnostics.check import BAD, GOOD, UNCLEAR, Check
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

# Differences of risks and of relative scores below this are noise.
_WORTH = 0.01
_CLEARLY = 0.05
_TOLERANCE = 1e-6
_LARGEST_PROGRAM = 4000
_MOST_WEIGHTS = 500
_MOST_SEPARATED = 6


class Probe:
    """A learner, an inference method and a sample of examples, looked at from several sides.

    Parameters
    ----------
    examples : list of Example
        The sample.
    learner, method
        The pair.
    n_passes : int
        Passes, or iterations, of the learner.
    time_limit : float
        Seconds for each exact answer.
    """

    def __init__(
        self, examples: Sequence[Example], learner: Learner, method: InferenceMethod, n_passes: int, time_limit: float
    ) -> None:
        self.examples = list(examples)
        self.ready = [MarginExample(one, i) for i, one in enumerate(examples)]
        self.learner = learner
        self.method = method
        self.n_passes = n_passes
        self.time_limit = time_limit

    def known(self) -> Check:
        """What theory says."""
        looped = any(not one.form.graph.is_forest for one in self.examples)
        found = judge(type(self.learner), type(self.method), LOOPS if looped else FOREST)
        verdict = {GUARANTEED: GOOD, FAILS: BAD, REFUSED: BAD}.get(found.level, UNCLEAR)
        source = f" ({found.reference})" if found.reference else ""
        return Check("what is known", verdict, f"{found.level}: {found.reason}{source}", {"level": found.level})

    def risk(self, weights: FloatArray) -> float:
        """Share of labels that this inference gets wrong with these weights, fractions as they are."""
        wrong = total = 0.0
        for one in self.ready:
            theta = one.theta(weights)
            if self.learner.learns_from == "best labelling":
                mu = one.answer(theta, self.method)[0]
                wrong += one.wrong_mass(mu)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    mu = self.learner.marginals(one.source.scores.graph, theta, self.method)
                wrong += _wrong_by_marginals(one, mu)
            total += one.n_labelled
        return float(wrong / max(1.0, total))

    def run_learner(self) -> tuple[Minimum, FloatArray]:
        """Some passes of the learner from its beginning, and the weights on the way."""
        chosen = clone(self.learner)
        if isinstance(chosen, MarginLearner):
            chosen.set_params(max_iter=self.n_passes, path="passes")
        elif isinstance(chosen, RiskMinimizer):
            short = OPTIMIZERS.resolve(chosen.optimizer, {"max_iter": self.n_passes})
            chosen.set_params(optimizer=short, schedule=None, validation_fraction=0.0, checkpoint=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = chosen.minimize(self.examples, self.method)
        path = found.history.get("path", np.array([found.start, found.point]))
        return found, path

    def way(self, found: Minimum, path: FloatArray) -> Check:
        """Whether the learner's steps lower the risk that is actually measured."""
        risks = np.array([self.risk(point) for point in path])
        values: dict[str, Any] = {"first": risks[0], "last": risks[-1], "lowest": risks.min()}
        arrays = {"risk": risks}
        mistakes, misled = found.history.get("mistakes"), found.history.get("misled")
        share = 0.0
        if mistakes is not None and misled is not None:
            share = float(misled.sum() / max(1.0, mistakes.sum()))
            values |= {"mistakes": float(mistakes.sum()), "misled": float(misled.sum()), "misled share": share}
            arrays |= {"mistakes": mistakes, "misled": misled}
        text = f"share of wrong labels {risks[0]:.3f} at the start, {risks[-1]:.3f} after {len(path) - 1} passes"
        if not isinstance(self.learner, MarginLearner):
            text = f"share of wrong labels {risks[0]:.3f} at the start, {risks[-1]:.3f} after {found.n_iter} iterations"
        if share > 0.0:
            text += (
                f"; in {share:.0%} of its steps the truth had scored higher than the answer, so that the inference was "
                f"wrong and not the weights"
            )
        gained = risks[-1] <= risks[0] - _WORTH or risks[-1] <= _WORTH
        verdict = GOOD if gained and share == 0.0 else BAD if share > 0.0 and not gained else UNCLEAR
        return Check("the learner's way", verdict, text, values, arrays)

    def sweep(self, path: FloatArray) -> Check:
        """The measured risk along the direction in which the learner moves, forwards and backwards."""
        here = path[-1]
        way = here - path[len(path) // 2]
        if not np.linalg.norm(way) > 0.0:
            way = here - path[0]
        length = float(np.linalg.norm(way))
        if length == 0.0:
            return Check("along the update", UNCLEAR, "the learner does not move", {})
        unit = way / length * max(float(np.linalg.norm(here)), length)
        steps = np.linspace(-3.0, 3.0, 13)
        risks = np.array([self.risk(here + t * unit) for t in steps])
        now, ahead, behind = risks[6], risks[7:].min(), risks[:6].min()
        values = {"here": now, "ahead": ahead, "behind": behind}
        text = f"share of wrong labels {now:.3f} here, at best {ahead:.3f} ahead and {behind:.3f} behind"
        verdict = GOOD
        if behind < min(now, ahead) - _CLEARLY:
            verdict = BAD
            text += ": better weights lie where the learner comes from"
        return Check("along the update", verdict, text, values, {"step": steps, "risk": risks})

    def agreement(self, weights: FloatArray) -> Check:
        """How far the inference's labellings are from the best ones, or from bounds on them."""
        gaps, fractional, proven = [], 0, 0
        for one in self.ready:
            theta, graph = one.theta(weights), one.source.scores.graph
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                best = infer(graph, theta, "integer_program", task="map", time_limit=self.time_limit)
                found = infer(graph, theta, self.method, task="map")
            if best.mu is None or found.assignment is None:
                continue
            proven += best.status.name == "EXACT"
            fractional += found.integral is False
            scale = 1.0 + abs(score_difference(theta, best.mu, 0.0 * best.mu))
            gaps.append((best.score - found.score) / scale)
        missed = np.array(gaps)
        share = float((missed > _TOLERANCE).mean()) if gaps else np.nan
        values = {
            "share below the best": share,
            "largest gap": float(missed.max(initial=0.0)),
            "fractional": fractional / max(1, len(gaps)),
            "proven": proven / max(1, len(gaps)),
        }
        text = (
            f"{share:.0%} of {len(gaps)} labellings score less than the best ({proven} proven), by at most "
            f"{values['largest gap']:.2g} of the score"
        )
        if fractional:
            text += f"; {fractional} answers are fractional"
        verdict = GOOD if share == 0.0 else UNCLEAR
        return Check("agreement with the best labelling", verdict, text, values, {"gap": missed})

    def exact_marginals(self, weights: FloatArray) -> Check:
        """How far the marginals are from exact ones, where these can be had."""
        errors = []
        for one in self.ready:
            theta, graph = one.theta(weights), one.source.scores.graph
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exact = infer(graph, theta, "junction_tree", time_limit=self.time_limit).mu
                    found = self.learner.marginals(graph, theta, self.method)
            except (TooLargeError, IntarsiaError):
                continue
            if exact is not None:
                errors.append(float(np.abs(exact - found)[: one.allowed.size].mean()))
        if not errors:
            return Check("agreement with exact marginals", UNCLEAR, "the graphs are too large for exact marginals")
        text = f"marginals are off by {np.mean(errors):.3f} on average over {len(errors)} examples"
        verdict = GOOD if max(errors) < _WORTH else UNCLEAR
        return Check(
            "agreement with exact marginals", verdict, text, {"mean error": np.mean(errors)}, {"gap": np.array(errors)}
        )

    def separability(self) -> Check:
        """Whether weights exist at all, by exact inference and by this one."""
        small = max(one.form.graph.n_theta for one in self.examples) <= _LARGEST_PROGRAM
        if not small or self.examples[0].scores.n_weights > _MOST_WEIGHTS:
            return Check("separability", UNCLEAR, "the graphs are too large to decide it")
        some = [one for one in self.examples if one.n_labelled][:_MOST_SEPARATED]
        exact = separable(some)
        values: dict[str, Any] = {"n": len(some), "exact": exact.separable, "gamma": exact.gamma}
        text = f"{len(some)} examples are {str(exact).rstrip('.')}"
        verdict = UNCLEAR if not exact.separable else GOOD
        if self.method.map_is == "relaxed optimum":
            relaxed = algorithmically_separable(some, inference=self.method)
            values |= {"relaxed": relaxed.separable, "relaxed gamma": relaxed.gamma}
            text += f". They are {str(relaxed).rstrip('.')}"
            if exact.separable and relaxed.separable is False:
                verdict = BAD
        return Check("separability", verdict, text, values)


def _wrong_by_marginals(one: MarginExample, mu: FloatArray) -> float:
    """Number of labelled variables whose most probable state their label does not allow."""
    graph, wrong = one.source.scores.graph, 0
    for v in range(graph.n_variables):
        block = slice(int(graph.variable_ptr[v]), int(graph.variable_ptr[v + 1]))
        wrong += not one.allowed[block][int(np.argmax(mu[block]))]
    return float(wrong)
