"""PAC-Bayes bound on the risk of a trained model under LP-relaxed inference, from its training examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from intarsia._core.clock import Clock
from intarsia._core.error_context import errors_from
from intarsia._core.highs import Program, solve_program
from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.diagnostics.feature_bounds import FeatureBounds
from intarsia.diagnostics.labelled_data import as_examples, labelled
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.learning.margin_example import MarginExample

_SCALES = tuple(float(s) for s in 10.0 ** np.arange(-2.0, 4.01, 0.5))


@dataclass(frozen=True, eq=False)
class PacBayesBound:
    """PAC-Bayes bound (Kulesza2007, Theorem 2) and its terms.

    Attributes
    ----------
    bound : float
        Bound on the expected fraction of wrong labels of new inputs, with probability 1 - `delta` over the examples,
        for weights drawn around the model's weights; a value of 1 or more is vacuous.
    empirical : float
        Upper bound on the first term: the largest loss among confusable points of the local polytope, averaged over the
        examples. The theorem uses vertices only, and distances to a fractional prediction are rounded up here.
    empirical_at_least : float
        Lower bound on the first term: the largest loss among labellings, which are some of the vertices.
    complexity : float
        Sum of the other two terms; exact, given R.
    scale : float
        Factor on the weights, which changes no prediction: the one with the smallest bound among those tried. The
        theorem holds for all weights at once, so the factor may be chosen.
    delta : float
        Probability that the bound fails.
    radius : float
        Length R of the longest feature vector of a single clique: exact for these examples, assumed for new ones.
    n_indicators, n_examples : int
        Quantities l and m of the theorem.

    Examples
    --------
    Weights of 0 confuse every label with every other. The complexity is the square root of log(m / delta) / (2 (m -
    1)), with log 40 = 3.689.

    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> examples = [example(LinearScores(chain_graph(2, 2), [[1.0], [1.0]]), y) for y in ([0, 0], [1, 1])]
    >>> print(pac_bayes_bound(examples, weights=np.zeros(examples[0].scores.n_weights)))
    PAC-Bayes bound is vacuous: empirical 1.000 to 1.000, complexity 1.358, m = 2, delta = 0.05.
    """

    bound: float
    empirical: float
    empirical_at_least: float
    complexity: float
    scale: float
    delta: float
    radius: float
    n_indicators: int
    n_examples: int

    def __str__(self) -> str:
        bound = "is vacuous" if self.bound >= 1.0 else f"{self.bound:.3f}"
        return (
            f"PAC-Bayes bound {bound}: empirical {self.empirical_at_least:.3f} to {self.empirical:.3f}, complexity "
            f"{self.complexity:.3f}, m = {self.n_examples}, delta = {self.delta:g}."
        )


@errors_from("pac_bayes_bound")
def pac_bayes_bound(
    X: Any,
    y: Any = None,
    model: Any = None,
    *,
    weights: ArrayLike | None = None,
    delta: float = 0.05,
    scales: Sequence[float] = _SCALES,
) -> PacBayesBound:
    r"""Bound the risk of a trained model under LP-relaxed inference (Kulesza2007, Theorem 2).

    The loss is the fraction of wrong labels; of fractional answers it is the mass on wrong labels. The empirical term
    is, for each example, the largest loss of any z that is closer to the prediction in score than in 1-norm. This is a
    maximum over vertices with a constraint that is linear except for the distance to fractional entries a, where
    :math:`|a - z|` is at most :math:`a + (1 - 2a) z`, with equality at labellings. A linear program bounds the term
    from above, an integer program is exact over labellings. Cost: both programs for each example and scale.

    Parameters
    ----------
    X, y, model
        The same as in `separable`. Pass a fitted model or `weights`. No label may be hidden.
    weights : float array, optional
        Weights of the model; by default `model.weights_`.
    delta : float
        Probability that the bound fails.
    scales : list of float
        Factors on the weights; the one with the smallest bound is used.

    References
    ----------
    Kulesza2007, Theorem 2; McAllester2007.

    Examples
    --------
    >>> from intarsia.crf import GraphCRF
    >>> X = [([[1.0], [-1.0]], [[0, 1]]), ([[-1.0], [1.0]], [[0, 1]])] * 20
    >>> y = [[1, 0], [0, 1]] * 20
    >>> crf = GraphCRF(learner="structured_svm", inference="lp_relaxation").fit(X, y)
    >>> result = pac_bayes_bound(X, y, crf, scales=[1.0, 10.0])
    >>> result.empirical_at_least <= result.empirical <= result.bound
    True
    """
    check_number(delta, "delta", low=0.0, high=1.0, open_low=True, open_high=True)
    examples = as_examples(X, y, model)
    values = getattr(model, "weights_", None) if weights is None else weights
    if values is None:
        raise InvalidInputError("the model is not fitted. Fit it first, or pass weights=.")
    point = as_float_array(values, "weights")
    if point.shape != (examples[0].scores.n_weights,):
        raise InvalidInputError(
            f"weights have shape {point.shape}, but the model has {examples[0].scores.n_weights} weights. Pass one "
            f"number per weight."
        )
    margin_examples = labelled(examples)
    _check(margin_examples)
    if len(margin_examples) < 2:
        raise InvalidInputError("a single example gives no bound. Pass at least two examples.")
    radius = max(FeatureBounds(item).longest for item in margin_examples)
    n_indicators = max(
        LocalPolytope(item.source.form.graph, item.source.form.graph.zeros()).n_columns for item in margin_examples
    )
    best: PacBayesBound | None = None
    for scale in scales:
        check_number(scale, "scales", low=0.0, open_low=True)
        squared_norm = (radius * float(np.linalg.norm(point)) * scale) ** 2
        complexity = _complexity(squared_norm, n_indicators, len(margin_examples), float(delta))
        if best is not None and complexity >= best.bound:
            continue  # the empirical term is at least 0, so this scale cannot win
        upper = float(np.mean([_largest_loss(item, scale * point, relaxed=True) for item in margin_examples]))
        if best is None or upper + complexity < best.bound:
            lower = float(np.mean([_largest_loss(item, scale * point, relaxed=False) for item in margin_examples]))
            best = PacBayesBound(
                upper + complexity,
                upper,
                lower,
                complexity,
                float(scale),
                float(delta),
                radius,
                n_indicators,
                len(margin_examples),
            )
    if best is None:
        raise InvalidInputError("scales is empty. Pass at least one factor, such as 1.0.")
    return best


def _check(margin_examples: list[MarginExample]) -> None:
    """Raise if an example has hidden labels or fixed scores."""
    for item in margin_examples:
        if not item.complete:
            raise NotSupportedError(
                f"example {item.number} has hidden labels, so its loss is unknown. Pass examples with all labels."
            )
        if item.theta(np.zeros(item.source.scores.n_weights)).any():
            raise NotSupportedError(
                f"example {item.number} has fixed scores, but the theorem requires scores that are linear in the "
                f"weights. Replace them by a feature with its own weight."
            )


def _complexity(squared_norm: float, n_indicators: int, n_examples: int, delta: float) -> float:
    """Compute the second and third term of Kulesza2007 Eq. (9); `squared_norm` is R^2 |w|^2."""
    m = float(n_examples)
    logarithm = squared_norm * math.log(2.0 * n_indicators * m / squared_norm) if squared_norm > 0.0 else 0.0
    inside = max(0.0, logarithm) + math.log(m / delta)  # the logarithm is negative, and meaningless, beyond 2 l m
    return math.sqrt(inside / (2.0 * (m - 1.0))) + squared_norm / m


def _largest_loss(item: MarginExample, weights: FloatArray, *, relaxed: bool) -> float:
    """Return the largest fraction of wrong labels among answers confusable with the prediction (Kulesza2007 Eq. 8)."""
    form, labels = item.source.form, item.source.labels
    polytope = LocalPolytope(form.graph, form.lower(item.theta(weights)))
    predicted = solve_program(Program(polytope.cost, polytope.matrix, polytope.lower, polytope.upper), Clock()).x
    if predicted is None:
        raise InvalidInputError(
            f"example {item.number} has no labelling of finite score. Relax the hard constraints of the model."
        )
    # score(a) - score(z) <= sum_j a_j + (1 - 2 a_j) z_j
    row = -polytope.cost - (1.0 - 2.0 * predicted)
    side = float(predicted.sum() - polytope.cost @ predicted)
    loss = np.zeros(polytope.cost.size)
    loss[polytope.variable_columns] = np.where(labels.allowed, 0.0, 1.0 / item.n_labelled)
    program = Program(
        loss,
        sparse.csc_array(sparse.vstack([polytope.matrix, sparse.csr_array(row[None, :])])),
        np.append(polytope.lower, -np.inf),
        np.append(polytope.upper, side + 1e-9 * (1.0 + abs(side))),  # the prediction itself must remain feasible
        integer=None if relaxed else polytope.variable_columns,
    )
    solution = solve_program(program, Clock())
    return 0.0 if solution.x is None else min(1.0, float(loss @ solution.x))
