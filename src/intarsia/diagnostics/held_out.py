"""Held-out comparison of a model with the most frequent label and with the independent model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from intarsia._core.validation import FloatArray, IntArray
from intarsia.diagnostics.check import BAD, GOOD, UNCLEAR, Check
from intarsia.graph import FactorGraph
from intarsia.learning.examples import Example, ScoreMap, example
from intarsia.learning.margin_example import MarginExample
from intarsia.models.template_scores import TemplateScores

N_FOLDS = 5
# With fewer examples, a model that is no better than the most frequent label is not called bad.
_FEWEST_EXAMPLES = 5
# Gain over the most frequent label that the interval must exclude for the verdict "bad".
_CLEAR_GAIN = 0.05
_LEVEL = 0.95
NO_BETTER = "this works no better than guessing the most frequent label"


def make_folds(n: int, random_state: int) -> list[tuple[IntArray, IntArray]]:
    """Return training and test examples of at most five random folds."""
    order = np.random.default_rng(random_state).permutation(n)
    tests = [np.sort(test) for test in np.array_split(order, min(N_FOLDS, n))]
    return [(np.setdiff1d(np.arange(n), test), test) for test in tests]


def difference_of_errors(first: FloatArray, second: FloatArray, sizes: FloatArray) -> tuple[float, float, float]:
    """Return the difference of two error rates with its t interval over examples, whose labels depend on each other.

    Examples
    --------
    >>> difference, low, high = difference_of_errors(np.array([1.0, 0, 1]), np.array([2.0, 1, 1]), np.full(3, 4.0))
    >>> round(difference, 3), low < difference < high
    (-0.167, True)
    """
    differences, total, n = first - second, float(sizes.sum()), sizes.size
    mean = float(differences.sum()) / total
    error = float(np.sqrt(n / (n - 1) * ((differences - mean * sizes) ** 2).sum())) / total
    half = error * float(stdtrit(n - 1, 0.5 + 0.5 * _LEVEL))
    return mean, mean - half, mean + half


def compare_errors(wrong: Mapping[str, FloatArray], sizes: FloatArray) -> Check:
    """Judge held-out numbers of wrong labels by example: "model", "majority" and "independent".

    Good: the interval of the difference from the majority is below 0, and that from the independent model not above 0.
    Bad: the latter is above 0; or the former contains 0 but no gain of 0.05, with five examples or more.
    """
    errors = {name: float(counts.sum() / sizes.sum()) for name, counts in wrong.items()}
    values: dict[str, float] = dict(errors) | {"n examples": float(sizes.size)}
    intervals = {}
    for name in ("majority", "independent"):
        mean, low, high = intervals[name] = difference_of_errors(wrong["model"], wrong[name], sizes)
        values |= {f"minus {name}": mean, f"minus {name}, low": low, f"minus {name}, high": high}
    numbers = (
        f"fraction of wrong labels {errors['model']:.3f} on {sizes.size} held-out examples, {errors['majority']:.3f} "
        f"by the most frequent label (difference {_text(intervals['majority'])}), {errors['independent']:.3f} by the "
        f"independent model, without factors (difference {_text(intervals['independent'])})"
    )
    (_, low, high), is_worse = intervals["majority"], intervals["independent"][1] > 0.0
    if high >= 0.0:
        is_certain = low > -_CLEAR_GAIN and sizes.size >= _FEWEST_EXAMPLES
        verdict = BAD if is_certain or is_worse else UNCLEAR
        text = NO_BETTER + ("" if is_certain else ", as far as so few examples show")
    elif is_worse:
        verdict, text = BAD, "this works worse than the independent model, which ignores the factors"
    else:
        verdict, text = GOOD, "this works better than guessing the most frequent label"
    return Check("held-out error", verdict, f"{text}: {numbers}", values, dict(wrong) | {"labelled": sizes})


def too_few() -> Check:
    """Return the check for a single labelled example."""
    return Check("held-out error", UNCLEAR, "there is a single labelled example, so that none can be held out")


def _text(interval: tuple[float, float, float]) -> str:
    return f"{interval[0]:+.3f}, from {interval[1]:+.3f} to {interval[2]:+.3f}"


# ---------------------------------------------------------------- baselines on labelled graphs


@dataclass(frozen=True, eq=False)
class VariableScores:
    """Map from the weights to the scores of the variables alone, without factors."""

    source: ScoreMap

    @property
    def graph(self) -> FactorGraph:
        """Variables of the graph, without factors."""
        return FactorGraph(self.source.graph.n_states, np.zeros(1, np.int64), np.empty(0, np.int64))

    @property
    def n_weights(self) -> int:
        """Number of weights, including those of factors, which have no effect."""
        return self.source.n_weights

    def theta(self, weights: FloatArray) -> FloatArray:
        """Return the scores of the variables."""
        return self.source.theta(weights)[: int(self.source.graph.variable_ptr[-1])]

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient in the weights; 0 for those of factors."""
        full = self.source.graph.zeros()
        full[: gradient.size] = gradient
        return self.source.pull_back(full)


def without_factors(item: MarginExample) -> Example:
    """Return the example of the variables alone."""
    alone = example(VariableScores(item.source.scores), item.allowed, item.weight)
    weights = item.source.labels.weights
    return alone if weights is None else replace(alone, labels=replace(alone.labels, weights=weights))


def most_frequent(items: Sequence[MarginExample]) -> dict[int, int]:
    """Return the most frequent known label of each kind of variables: its type, or its number of states."""
    counts: dict[int, FloatArray] = {}
    for item in items:
        for kind, allowed in zip(_kinds(item), _masks(item), strict=True):
            total = counts.setdefault(kind, np.zeros(allowed.size))
            if allowed.sum() == 1:
                total += allowed
    return {kind: int(total.argmax()) for kind, total in counts.items()}


def wrong_by_majority(item: MarginExample, labels: Mapping[int, int]) -> float:
    """Return the number of labelled variables whose label excludes the most frequent one."""
    return float(sum(not m[labels.get(k, 0)] for k, m in zip(_kinds(item), _masks(item), strict=True)))


def wrong_by_marginals(item: MarginExample, mu: FloatArray) -> float:
    """Return the number of labelled variables whose most probable state is not allowed by the label."""
    ptr = item.source.scores.graph.variable_ptr[:-1].tolist()
    return float(sum(not m[int(np.argmax(mu[i : i + m.size]))] for i, m in zip(ptr, _masks(item), strict=True)))


def _masks(item: MarginExample) -> list[FloatArray]:
    return np.split(item.allowed, item.source.scores.graph.variable_ptr[1:-1])


def _kinds(item: MarginExample) -> list[int]:
    scores = item.source.scores
    if not isinstance(scores, TemplateScores):
        return [int(n) for n in scores.graph.n_states]
    counts = [block.features.shape[0] for block in scores.blocks[: len(scores.templates.n_states)]]
    return np.repeat(np.arange(len(counts)), counts).tolist()
