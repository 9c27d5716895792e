"""The regularised risk of labelled examples, and its gradient in the weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from intarsia._validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.gradients import GradientRule
from intarsia.gradients.stack_memory import kept_stacks
from intarsia.inference import InferenceMethod
from intarsia.learning.example import Example
from intarsia.learning.minimum import SummedObjective
from intarsia.learning.preconditioning import FeatureCurvature, has_features
from intarsia.learning.worker_threads import Parcels, cut_in_parts, run_by_workers
from intarsia.losses import DirectLoss, Loss


class Risk(SummedObjective):
    """The regularised risk of given examples: called with weights, it gives value and gradient.

    Parameters
    ----------
    examples : list of Example
        With the same number of weights.
    loss : Loss
        How far an answer is from the truth.
    rule : GradientRule, optional
        How a loss of marginals flows back; None for losses with a gradient of their own.
    inference : InferenceMethod
        How scores become marginals.
    ridge : float
        Added: half of it times the square of the weights.
    n_jobs : int, optional
        Threads, as in joblib; processes or other machines inside `joblib.parallel_config`.
    random_state : int
        Seed of losses that draw samples; each example has its own from it, in a subset too.
    preconditioned : bool
        Whether the second moments of the features shape the search, see `FeatureCurvature`.

    Attributes
    ----------
    n_weights : int
        Length of the weights.
    mass : float
        What the sum of the losses is divided by: the weighted number of labelled variables.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.gradients.truncated import TruncatedGradient
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.inference.tree_reweighted import TreeReweighted
    >>> from intarsia.learning import example
    >>> from intarsia.losses.logistic import UnivariateLogistic
    >>> from intarsia.models import LinearScores
    >>> one = example(LinearScores(chain_graph(3, 2), np.ones((3, 1))), [0, 1, -1])
    >>> risk = Risk([one, one], UnivariateLogistic(), TruncatedGradient(), TreeReweighted())
    >>> float(risk.mass), round(risk(np.zeros(6))[0], 4)           # log 2 for each labelled variable
    (4.0, 0.6931)
    """

    def __init__(
        self,
        examples: Sequence[Example],
        loss: Loss,
        rule: GradientRule | None,
        inference: InferenceMethod,
        ridge: float = 0.0,
        n_jobs: int | None = None,
        random_state: int = 0,
        preconditioned: bool = False,
    ) -> None:
        self.examples = list(examples)
        self.loss = loss
        self.rule = rule
        self.inference = inference
        self.ridge = ridge
        self.n_jobs = n_jobs
        self.preconditioned = preconditioned and has_features(self.examples)
        self.n_weights = self.examples[0].scores.n_weights
        self.mass = sum(one.mass for one in self.examples)
        self._seeds = [random_state + index for index in range(len(self.examples))]
        self._parts = cut_in_parts(len(self.examples))

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.examples)

    def subset(self, indices: ArrayLike) -> Risk:
        """The risk of some of the examples, over their own mass and with the same ridge."""
        chosen = [int(i) for i in np.asarray(indices)]
        part = Risk(
            [self.examples[i] for i in chosen],
            self.loss,
            self.rule,
            self.inference,
            self.ridge,
            self.n_jobs,
            preconditioned=self.preconditioned,
        )
        part._seeds = [self._seeds[i] for i in chosen]
        return part

    def precondition(self, gradient: FloatArray) -> FloatArray:
        """The gradient times the inverse of the curvature that the features tell of."""
        return self._curvature.solve(gradient) if self.preconditioned else gradient

    @cached_property
    def _curvature(self) -> FeatureCurvature:
        return FeatureCurvature(self.examples, self.mass or 1.0, self.ridge)

    @cached_property
    def _parcels(self) -> Parcels:
        """The examples in parts; while weights change, they stay on the workers that have them."""
        return Parcels(
            [
                _Part(
                    [self.examples[i] for i in part],
                    [self._seeds[i] for i in part],
                    self.loss,
                    self.rule,
                    self.inference,
                )
                for part in self._parts
            ]
        )

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Risk and its gradient at these weights."""
        value, gradient = 0.0, np.zeros(self.n_weights)
        # Threads, unless joblib is configured otherwise: the kernels release the interpreter, and nothing need be
        # copied. Sums are in the order of the parts.
        with kept_stacks():
            for part_value, part_gradient in run_by_workers(self._parcels.calls(_sum, weights), self.n_jobs):
                value += part_value
                gradient += part_gradient
        mass = self.mass or 1.0  # a batch may happen to have no labels
        value = value / mass + 0.5 * self.ridge * float(weights @ weights)
        return value, gradient / mass + self.ridge * weights


class _Part(NamedTuple):
    """Some examples and how their losses are found: all that a worker needs besides weights."""

    examples: list[Example]
    seeds: list[int]
    loss: Loss
    rule: GradientRule | None
    inference: InferenceMethod


def _sum(part: _Part, weights: FloatArray) -> tuple[float, FloatArray]:
    """Sum of the losses of some examples, and its gradient."""
    value, gradient = 0.0, np.zeros(weights.size)
    for one, seed in zip(part.examples, part.seeds, strict=True):
        if one.mass > 0.0:
            one_value, one_gradient = _loss_of(one, seed, part.loss, part.rule, part.inference, weights)
            value += one.weight * one_value
            gradient += one.weight * one_gradient
    return value, gradient


def _loss_of(
    one: Example, seed: int, loss: Loss, rule: GradientRule | None, inference: InferenceMethod, weights: FloatArray
) -> tuple[float, FloatArray]:
    graph, theta = one.form.graph, one.form.lower(one.scores.theta(weights))
    if rule is not None:
        found = rule.value_and_gradient(graph, theta, one.labels, loss, inference)
        value, slope = found.value, found.gradient
    elif isinstance(loss, DirectLoss):
        value, slope = loss.value_and_gradient_theta(graph, theta, one.labels, inference=inference, random_state=seed)
    else:
        raise InvalidInputError(f"RiskMinimizer: {type(loss).__name__} is neither of marginals nor of scores.")
    return float(value), one.scores.pull_back(one.form.pull_back(slope))
