"""Regularized empirical risk of labelled examples, its gradient and preconditioner, and checks before a fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import cut_in_parts, run_by_workers
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, NotSupportedError
from intarsia.gradients import GradientRule
from intarsia.gradients.message_stack import kept_stacks
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference import InferenceMethod
from intarsia.learning.examples import Example
from intarsia.learning.minimum import Minimum, SummedObjective
from intarsia.losses import DirectLoss, Loss, MarginalLoss
from intarsia.losses.likelihood import LogPartitionLoss
from intarsia.models.block_scores import Block, BlockScores
from intarsia.models.feature_matrix import is_sparse

# For blocks with more features than this only the diagonal is used: a full matrix would be slow to invert.
WIDEST = 1000
# Smallest curvature relative to the largest, for directions in which the features never vary.
LEAST = 1e-8


class FeatureCurvature:
    r"""Approximate inverse Hessian of the risk: second moments of the features, label frequencies and the L2 penalty.

    For scores :math:`\theta_c = G v_c` the curvature of a logistic loss in row r of G is about

    .. math:: p_r (1 - p_r) \tfrac1N \sum_c v_c v_c^\top + \lambda I,

    with :math:`p_r` the probability of the entry that the row scores. Half of it is set to the frequency of that entry
    among the labels, half to a uniform distribution, as at weights of 0. Correlated features, such as rising thresholds
    of one quantity, have an ill-conditioned matrix of moments, and entries of a table may differ in frequency by a
    factor of a thousand; the preconditioner removes both effects, at the cost of two products with a (q, q) matrix in
    each iteration.

    Parameters
    ----------
    examples : list of Example
        Examples of the risk, all with `BlockScores`.
    mass : float
        Number N: weighted number of labelled variables.
    ridge : float
        L2 coefficient :math:`\lambda`, relative to the risk per variable.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import LinearScores
    >>> chain = example(LinearScores(chain_graph(2, 2), [[10.0], [10.0]]), [0, 1])
    >>> curvature = FeatureCurvature([chain], mass=2.0, ridge=0.0)
    >>> curvature.solve(np.array([25.0, 0.0, 0.0, 0.0, 0.0, 0.0])).round(6).tolist()     # 1/2 * 1/2 * 100 = 25
    [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, examples: Sequence[Example], mass: float, ridge: float) -> None:
        self._blocks: list[tuple[FloatArray | None, FloatArray]] = []
        blocks = [example.scores.blocks for example in examples if isinstance(example.scores, BlockScores)]
        weights = [example.weight for example in examples]
        counts = [_label_counts(example) for example in examples]
        for number, group in enumerate(zip(*blocks, strict=True)):
            moments = sum(weight * _moments(block) for weight, block in zip(weights, group, strict=True)) / mass
            total = sum(weight * count[number] for weight, count in zip(weights, counts, strict=True))
            probability = _probabilities(group[0], total)
            self._blocks.append(_decompose(np.asarray(moments), probability * (1.0 - probability), ridge))

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Multiply the gradient by the approximate inverse Hessian."""
        result, start = np.empty_like(gradient), 0
        for basis, curvature in self._blocks:
            block = slice(start, start + curvature.size)
            rows = gradient[block].reshape(curvature.shape)
            solved = rows / curvature if basis is None else ((rows @ basis) / curvature) @ basis.T
            result[block] = solved.reshape(-1)
            start = block.stop
        return result


def has_features(examples: Sequence[Example]) -> bool:
    """Return whether all scores are products of features and weights, from which the curvature can be estimated."""
    return all(isinstance(example.scores, BlockScores) for example in examples)


def _moments(block: Block) -> FloatArray:
    """Return the sum of outer products of the features of a block; of their squares if there are too many features."""
    features: Any = block.features
    width = block.shape[1]
    if width > WIDEST:
        squares = features.multiply(features) if is_sparse(features) else np.square(features, dtype=np.float64)
        return np.asarray(squares.sum(axis=0), dtype=np.float64).reshape(-1)
    if is_sparse(features):
        return np.asarray((features.T @ features).todense(), dtype=np.float64)
    moments = np.zeros((width, width))
    for start in range(0, features.shape[0], 1024):  # converts single precision in chunks, to save memory
        rows = features[start : start + 1024].astype(np.float64, copy=False)
        moments += rows.T @ rows
    return moments


def _label_counts(example: Example) -> list[FloatArray]:
    """Return for each block of scores how often the observed labels show each entry of its tables."""
    graph, observed = example.form.graph, example.labels.observed
    masks = [np.repeat(observed, graph.n_states)]
    if graph.n_factors:
        all_observed = np.logical_and.reduceat(observed[graph.scope_idx], graph.scope_ptr[:-1])
        masks.append(np.repeat(all_observed, np.diff(graph.table_ptr)))
    statistics = graph.statistics(np.where(observed, example.labels.y, 0)) * np.concatenate(masks)
    flat = example.form.pull_back(statistics)
    counts, start = [], 0
    for block in example.scores.blocks if isinstance(example.scores, BlockScores) else []:
        counts.append(flat[start : start + block.n_scores].reshape(-1, block.n_entries).sum(axis=0))
        start += block.n_scores
    return counts


def _probabilities(block: Block, counts: Any) -> FloatArray:
    """Estimate the probability of the entry that each row of the weights scores; never 0 or 1."""
    n = max(block.n_entries, 2)  # a single entry needs no curvature
    uniform = np.full(block.n_entries, 1.0 / n)
    total = float(np.sum(counts))
    probabilities = 0.5 * (np.asarray(counts) / total if total else uniform) + 0.5 * uniform
    if block.row_of is not None:
        probabilities = np.bincount(block.row_of, probabilities).astype(np.float64, copy=False)
    return np.minimum(probabilities, 1.0 - 0.5 / n)


def _decompose(moments: FloatArray, spread: FloatArray, ridge: float) -> tuple[FloatArray | None, FloatArray]:
    """Return eigenvectors of the moments (None if they are a diagonal) and the curvature of each row along them."""
    basis, values = None, moments
    if moments.ndim == 2:
        values, basis = np.linalg.eigh(moments)
        values = np.maximum(values, 0.0)
    curvature = spread[:, None] * values
    return basis, curvature + (max(ridge, LEAST * float(curvature.max(initial=0.0))) or 1.0)


class Risk(SummedObjective):
    """Regularized empirical risk of examples: a function from weights to value and gradient.

    Parameters
    ----------
    examples : list of Example
        Examples with the same number of weights.
    loss : Loss
        Loss of the predictions.
    rule : GradientRule, optional
        How the gradient of a loss of marginals is propagated to theta; None for losses that compute their gradient.
    inference : InferenceMethod
        Inference method that computes the marginals.
    ridge : float
        L2 regularization per labelled variable, `l2` divided by the mass: half of it times the squared norm of the
        weights is added.
    n_jobs : int, optional
        Number of threads, as in joblib; processes or other machines inside `joblib.parallel_config`.
    random_state : int
        Seed of losses that draw samples; each example gets its seed from it, also in a subset.
    preconditioned : bool
        Whether to precondition the search by the second moments of the features, see `FeatureCurvature`.

    Attributes
    ----------
    n_weights : int
        Number of weights.
    mass : float
        Weighted number of labelled variables, by which the sum of the losses is divided.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.gradients.truncated import TruncatedGradient
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.inference.messages.tree_reweighted import TreeReweighted
    >>> from intarsia.learning.examples import example
    >>> from intarsia.losses.marginal_losses import UnivariateLogistic
    >>> from intarsia.models import LinearScores
    >>> chain = example(LinearScores(chain_graph(3, 2), np.ones((3, 1))), [0, 1, -1])
    >>> risk = Risk([chain, chain], UnivariateLogistic(), TruncatedGradient(), TreeReweighted())
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
        self.mass = sum(example.mass for example in self.examples)
        self._seeds = [random_state + index for index in range(len(self.examples))]

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.examples)

    def subset(self, indices: ArrayLike) -> Risk:
        """Return the risk of a subset of the examples, divided by their mass and with the same L2 coefficient."""
        selected = [int(i) for i in np.asarray(indices)]
        subset = Risk(
            [self.examples[i] for i in selected],
            self.loss,
            self.rule,
            self.inference,
            self.ridge,
            self.n_jobs,
            preconditioned=self.preconditioned,
        )
        subset._seeds = [self._seeds[i] for i in selected]
        return subset

    def precondition(self, gradient: FloatArray) -> FloatArray:
        """Multiply the gradient by the inverse of the curvature estimated from the features."""
        return self._curvature.solve(gradient) if self.preconditioned else gradient

    @cached_property
    def _curvature(self) -> FeatureCurvature:
        return FeatureCurvature(self.examples, self.mass or 1.0, self.ridge)

    @cached_property
    def _blocks(self) -> list[_Block]:
        """Blocks of examples, which workers process."""
        parts = self.loss, self.rule, self.inference
        return [
            _Block([self.examples[i] for i in block], [self._seeds[i] for i in block], *parts)
            for block in cut_in_parts(len(self.examples))
        ]

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Compute the risk and its gradient at these weights."""
        value, gradient = 0.0, np.zeros(self.n_weights)
        # Threads, unless joblib is configured otherwise: the kernels release the interpreter lock, and nothing need be
        # copied. Results are added in the order of the blocks, so that they do not depend on the number of workers.
        with kept_stacks():
            calls = [partial(_sum_losses, block, weights) for block in self._blocks]
            for block_value, block_gradient in run_by_workers(calls, self.n_jobs):
                value += block_value
                gradient += block_gradient
        mass = self.mass or 1.0  # a batch may have no labels
        value = value / mass + 0.5 * self.ridge * float(weights @ weights)
        return value, gradient / mass + self.ridge * weights


class _Block(NamedTuple):
    """Examples and how to compute their losses: all that a worker needs besides the weights."""

    examples: list[Example]
    seeds: list[int]
    loss: Loss
    rule: GradientRule | None
    inference: InferenceMethod


def _sum_losses(block: _Block, weights: FloatArray) -> tuple[float, FloatArray]:
    """Return the sum of the losses of a block of examples, and its gradient."""
    value, gradient = 0.0, np.zeros(weights.size)
    for example, seed in zip(block.examples, block.seeds, strict=True):
        if example.mass > 0.0:
            example_value, example_gradient = _evaluate_loss(
                example, seed, block.loss, block.rule, block.inference, weights
            )
            value += example.weight * example_value
            gradient += example.weight * example_gradient
    return value, gradient


def _evaluate_loss(
    example: Example, seed: int, loss: Loss, rule: GradientRule | None, inference: InferenceMethod, weights: FloatArray
) -> tuple[float, FloatArray]:
    """Return the loss of an example and its gradient in the weights."""
    graph, theta = example.form.graph, example.form.lower(example.scores.theta(weights))
    if rule is not None:
        result = rule.value_and_gradient(graph, theta, example.labels, loss, inference)
        value, by_theta = result.value, result.gradient
    elif isinstance(loss, DirectLoss):
        value, by_theta = loss.value_and_gradient_theta(
            graph, theta, example.labels, inference=inference, random_state=seed
        )
    else:
        raise InvalidInputError(f"RiskMinimizer: {type(loss).__name__} must be a MarginalLoss or a DirectLoss.")
    return float(value), example.scores.pull_back(example.form.pull_back(by_theta))


def check_labelled(examples: Sequence[Example]) -> None:
    """Raise if no variable of any example has a label with a weight above 0."""
    if not any(example.n_labelled for example in examples):
        raise InvalidInputError(
            f"RiskMinimizer: all labels of the {len(examples)} examples are hidden. Label some variables."
        )
    if not any(example.mass > 0.0 for example in examples):
        raise InvalidInputError("RiskMinimizer: every labelled example has a weight of 0. Set some above 0.")


def check_fits(examples: Sequence[Example], loss: Loss, method: InferenceMethod, rule: GradientRule | None) -> None:
    """Raise if loss, inference and gradient rule do not work together, or the loss does not match the labels."""
    if rule is not None:
        rule.check_settings()
        rule.check_loss(loss)
        rule.check_fits(method)
    for example in examples:
        loss.check_fits(example.form.graph, method)
    if rule is not None and isinstance(loss, LogPartitionLoss):
        rule.check_fits(loss.methods(method)[0])  # the loss may set its own inference
    if (
        isinstance(loss, MarginalLoss)
        and loss.uses_factors
        and not any(example.has_labelled_factor for example in examples)
    ):
        raise InvalidInputError(
            f"RiskMinimizer: {type(loss).__name__} needs a factor whose variables are all labelled, but there is none. "
            f"Label neighbouring variables, or use a loss of single variables such as 'univariate_logistic'."
        )


def hold_out(
    examples: Sequence[Example], fraction: float, rng: np.random.Generator
) -> tuple[list[Example], list[Example]]:
    """Split the examples at random into training examples and a fraction for early stopping."""
    if len(examples) < 2:
        raise InvalidInputError(
            f"RiskMinimizer: validation_fraction={fraction} needs at least two examples, got {len(examples)}. Pass "
            f"more examples, or set validation_fraction=0."
        )
    order = rng.permutation(len(examples))
    n_held_out = min(max(1, round(fraction * len(examples))), len(examples) - 1)
    held_out, train = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
    return [examples[i] for i in train], [examples[i] for i in held_out]


def check_validation(held_out: list[Example], loss: Loss, n_weights: int) -> None:
    """Raise if these examples cannot be used for early stopping with this loss."""
    if not loss.gradient_is_of_value:
        raise NotSupportedError(
            f"RiskMinimizer: early stopping needs a loss whose lower values are better, which {type(loss).__name__} is "
            f"not. Drop the validation examples, and set validation_fraction=0."
        )
    counts = {example.scores.n_weights for example in held_out}
    if counts != {n_weights}:
        raise InvalidInputError(
            f"RiskMinimizer: validation examples need {sorted(counts)} weights, but the training examples need "
            f"{n_weights}. Pass examples with the same features."
        )
    if not any(example.mass > 0.0 for example in held_out):
        raise InvalidInputError(
            f"RiskMinimizer: all labels of the {len(held_out)} validation examples are hidden. Raise "
            f"validation_fraction, or pass validation examples with labels."
        )


def warn_if_above_one(risk: Risk, result: Minimum) -> None:
    """Warn of a likelihood above 1, which is possible after too few sweeps (Domke2013, section 7.3)."""
    loss = result.value - 0.5 * risk.ridge * float(result.point @ result.point)
    if isinstance(risk.loss, LogPartitionLoss) and isinstance(risk.rule, TruncatedGradient) and loss < 0.0:
        warn_caller(
            f"RiskMinimizer: the truncated likelihood exceeds 1 (its negative logarithm is {loss:.3g} per variable): "
            f"after {risk.rule.n_iter} sweeps the estimate of log Z is far too low, and the fit exploited that. Raise "
            f"n_iter of TruncatedGradient, raise l2, or use a loss of marginals such as 'clique_logistic'.",
            ConvergenceWarning,
        )
