"""The regularised risk of labelled examples, its gradient in the weights, and its preconditioner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray
from intarsia._core.worker_threads import Parcels, cut_in_parts, run_by_workers
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

# Blocks with more features than this have only their diagonal taken: a full matrix would be slow to invert.
WIDEST = 1000
# Curvature that is assumed at least, relative to the largest: directions in which the features never vary.
LEAST = 1e-8


class FeatureCurvature:
    r"""Inverse of a rough Hessian of the risk: second moments of the features, shares of the labels, and the ridge.

    For scores :math:`\theta_c = G v_c` the curvature of a logistic loss in row r of G is about

    .. math:: p_r (1 - p_r) \tfrac1N \sum_c v_c v_c^\top + \lambda I,

    with :math:`p_r` the probability of the entry that the row scores. Half of it is taken to be that entry's share of
    the labels, half to be uniform, as at weights of 0. Features that go together, such as rising thresholds of one
    quantity, have a badly conditioned matrix of moments, and entries of a table occur a thousand times more often or
    less; this takes both out of the search, at the price of two products with a (q, q) matrix in each iteration.

    Parameters
    ----------
    examples : list of Example
        Those of the risk, all with a `BlockScores`.
    mass : float
        N.
    ridge : float
        :math:`\lambda`.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import LinearScores
    >>> one = example(LinearScores(chain_graph(2, 2), [[10.0], [10.0]]), [0, 1])
    >>> curvature = FeatureCurvature([one], mass=2.0, ridge=0.0)
    >>> curvature.solve(np.array([25.0, 0.0, 0.0, 0.0, 0.0, 0.0])).round(6).tolist()     # 1/2 * 1/2 * 100 = 25
    [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, examples: Sequence[Example], mass: float, ridge: float) -> None:
        self._blocks: list[tuple[FloatArray | None, FloatArray]] = []
        blocks = [one.scores.blocks for one in examples if isinstance(one.scores, BlockScores)]
        counts = [_label_counts(one) for one in examples]
        for at, kind in enumerate(zip(*blocks, strict=True)):
            moments = sum(one.weight * _moments(block) for one, block in zip(examples, kind, strict=True)) / mass
            share = _shares(kind[0], sum(one.weight * count[at] for one, count in zip(examples, counts, strict=True)))
            self._blocks.append(_decompose(np.asarray(moments), share * (1.0 - share), ridge))

    def solve(self, gradient: FloatArray) -> FloatArray:
        """The gradient times the inverse."""
        found, at = np.empty_like(gradient), 0
        for basis, curvature in self._blocks:
            part = slice(at, at + curvature.size)
            rows = gradient[part].reshape(curvature.shape)
            solved = rows / curvature if basis is None else ((rows @ basis) / curvature) @ basis.T
            found[part] = solved.reshape(-1)
            at = part.stop
        return found


def has_features(examples: Sequence[Example]) -> bool:
    """Whether the scores are products of features and weights, so that the features tell of the curvature."""
    return all(isinstance(one.scores, BlockScores) for one in examples)


def _moments(block: Block) -> FloatArray:
    """Sum of the outer products of a block's features; of their squares where there are too many."""
    features: Any = block.features
    width = block.shape[1]
    is_sparse = bool(sparse.issparse(block.features))
    if width > WIDEST:
        squares = features.multiply(features) if is_sparse else np.square(features, dtype=np.float64)
        return np.asarray(squares.sum(axis=0), dtype=np.float64).reshape(-1)
    if is_sparse:
        return np.asarray((features.T @ features).todense(), dtype=np.float64)
    found = np.zeros((width, width))
    for at in range(0, features.shape[0], 1024):  # features in single precision are not copied whole
        part = features[at : at + 1024].astype(np.float64, copy=False)
        found += part.T @ part
    return found


def _label_counts(one: Example) -> list[FloatArray]:
    """For each block of scores, how often the labels show each entry of its tables; hidden ones show none."""
    graph, observed = one.form.graph, one.labels.observed
    shown = [np.repeat(observed, graph.n_states)]
    if graph.n_factors:
        whole = np.logical_and.reduceat(observed[graph.scope_idx], graph.scope_ptr[:-1])
        shown.append(np.repeat(whole, np.diff(graph.table_ptr)))
    statistics = graph.statistics(np.where(observed, one.labels.y, 0)) * np.concatenate(shown)
    flat = one.form.pull_back(statistics)
    counts, at = [], 0
    for block in one.scores.blocks if isinstance(one.scores, BlockScores) else []:
        counts.append(flat[at : at + block.n_scores].reshape(-1, block.n_entries).sum(axis=0))
        at += block.n_scores
    return counts


def _shares(block: Block, counts: Any) -> FloatArray:
    """Probability of what each row of the weights scores: half by the labels, half uniform; never 0 or 1."""
    n = max(block.n_entries, 2)  # a single entry has no curvature, and needs none
    uniform = np.full(block.n_entries, 1.0 / n)
    total = float(np.sum(counts))
    entries = 0.5 * (np.asarray(counts) / total if total else uniform) + 0.5 * uniform
    if block.row_of is not None:
        entries = np.bincount(block.row_of, entries).astype(np.float64, copy=False)
    return np.minimum(entries, 1.0 - 0.5 / n)


def _decompose(moments: FloatArray, spread: FloatArray, ridge: float) -> tuple[FloatArray | None, FloatArray]:
    """Eigenvectors of the moments (None where they are a diagonal), and for each row the curvature along each."""
    basis, values = None, moments
    if moments.ndim == 2:
        values, basis = np.linalg.eigh(moments)
        values = np.maximum(values, 0.0)
    curvature = spread[:, None] * values
    return basis, curvature + (max(ridge, LEAST * float(curvature.max(initial=0.0))) or 1.0)


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
        Penalty per labelled variable, `l2` over the mass: half of it times the squared weights is added.
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
    >>> from intarsia.inference.messages.tree_reweighted import TreeReweighted
    >>> from intarsia.learning.examples import example
    >>> from intarsia.losses.marginal_losses import UnivariateLogistic
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


def check_labelled(examples: Sequence[Example]) -> None:
    """Raise if no variable of any example has a label that counts."""
    if not any(e.n_labelled for e in examples):
        raise InvalidInputError(
            f"RiskMinimizer: all labels of the {len(examples)} examples are hidden. Label some variables."
        )
    if not any(e.mass > 0.0 for e in examples):
        raise InvalidInputError("RiskMinimizer: every labelled example has a weight of 0. Give some more than 0.")


def check_fits(examples: Sequence[Example], loss: Loss, method: InferenceMethod, rule: GradientRule | None) -> None:
    """Raise where loss, inference and gradient rule do not fit each other, or the loss not the labels."""
    if rule is not None:
        rule.check_settings()
        rule.check_loss(loss)
        rule.check_fits(method)
    for one in examples:
        loss.check_fits(one.form.graph, method)
    if rule is not None and isinstance(loss, LogPartitionLoss):
        rule.check_fits(loss.methods(method)[0])  # the loss may have an inference of its own
    if isinstance(loss, MarginalLoss) and loss.uses_factors and not any(e.has_labelled_factor for e in examples):
        raise InvalidInputError(
            f"RiskMinimizer: {type(loss).__name__} reads labels of factors, but no factor has labels at all its "
            f"variables. Label neighbours, or use a loss of single variables such as 'univariate_logistic'."
        )


def hold_out(
    examples: Sequence[Example], share: float, rng: np.random.Generator
) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and a share of them at random for early stopping."""
    if len(examples) < 2:
        raise InvalidInputError(
            f"RiskMinimizer: validation_fraction={share} of a single example. Give more examples, or "
            f"validation_fraction=0."
        )
    order = rng.permutation(len(examples))
    cut = min(max(1, round(share * len(examples))), len(examples) - 1)
    held_out, rest = np.sort(order[:cut]), np.sort(order[cut:])
    return [examples[i] for i in rest], [examples[i] for i in held_out]


def check_validation(held_out: list[Example], loss: Loss, n_weights: int) -> None:
    """Raise where these examples cannot decide when to stop a fit of that loss."""
    if not loss.gradient_is_of_value:
        raise NotSupportedError(
            f"RiskMinimizer: early stopping compares values, but a lower one of {type(loss).__name__} is not "
            f"better. Give no validation examples and validation_fraction=0."
        )
    counts = {one.scores.n_weights for one in held_out}
    if counts != {n_weights}:
        raise InvalidInputError(
            f"RiskMinimizer: validation examples need {sorted(counts)} weights, but the others {n_weights}. "
            f"Give all the same features."
        )
    if not any(one.mass > 0.0 for one in held_out):
        raise InvalidInputError(
            f"RiskMinimizer: all labels of the {len(held_out)} validation examples are hidden. Hold out more, or "
            f"give some with labels."
        )


def warn_if_above_one(risk: Risk, found: Minimum) -> None:
    """Warn of a negative log-likelihood below 0, which too few sweeps make possible (Domke2013, section 7.3)."""
    loss = found.value - 0.5 * risk.ridge * float(found.point @ found.point)
    if isinstance(risk.loss, LogPartitionLoss) and isinstance(risk.rule, TruncatedGradient) and loss < 0.0:
        warn_caller(
            f"RiskMinimizer: the truncated likelihood exceeds 1 (its negative logarithm is {loss:.3g} per variable): "
            f"after {risk.rule.n_iter} sweeps log Z is far too low, and the fit made use of that. Raise n_iter of "
            f"TruncatedGradient, raise l2, or use a loss of marginals such as 'clique_logistic'.",
            ConvergenceWarning,
        )
