"""A bound on the risk of a trained model under LP-relaxed inference, from the examples it was trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.diagnostics.feature_bounds import FeatureBounds
from intarsia.diagnostics.labelled_data import as_examples, labelled
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference.method import Clock
from intarsia.inference.relaxation.highs import Program, solve_program
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.learning.margin_example import MarginExample

_SCALES = tuple(float(s) for s in 10.0 ** np.arange(-2.0, 4.01, 0.5))


@dataclass(frozen=True, eq=False)
class PacBayesBound:
    """Bound of Theorem 2, with its parts.

    Attributes
    ----------
    bound : float
        On the expected share of wrong labels of new inputs, with probability 1 - `delta` over the examples, for
        weights drawn around the model's; 1 or more says nothing.
    empirical : float
        First term, from above: the largest loss among confusable points of the local polytope, mean over the examples.
        Relaxed: the theorem has vertices only, and distances to a fractional prediction are rounded up.
    empirical_at_least : float
        The same among labellings, which are some of the vertices: the true first term lies between the two.
    complexity : float
        The other two terms; exact, given R.
    scale : float
        Factor on the weights, which changes no prediction; the one of those tried with the smallest bound. The theorem
        holds for all weights at once, so that one may choose.
    delta : float
        Probability with which the bound may fail.
    radius : float
        R, the longest feature vector of a single clique: exact for these examples, assumed for new ones.
    n_indicators, n_examples : int
        l and m of the theorem.

    Examples
    --------
    Weights of 0 confuse every label with every other. The rest is the square root of log(m / delta) / (2 (m - 1)), with
    log 40 = 3.689.

    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> examples = [example(LinearScores(chain_graph(2, 2), [[1.0], [1.0]]), y) for y in ([0, 0], [1, 1])]
    >>> print(pac_bayes_bound(examples, weights=np.zeros(examples[0].scores.n_weights)))
    PAC-Bayes bound says nothing: empirical 1.000 to 1.000, complexity 1.358, m = 2, delta = 0.05.
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
        told = "says nothing" if self.bound >= 1.0 else f"{self.bound:.3f}"
        return (
            f"PAC-Bayes bound {told}: empirical {self.empirical_at_least:.3f} to {self.empirical:.3f}, complexity "
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
    r"""Bound on the risk of a trained model under LP-relaxed inference (Kulesza2007, Theorem 2).

    The loss is the share of wrong labels, of fractional answers their mass. The empirical term takes, for each example,
    the largest loss of any z that is closer to the prediction in score than in 1-norm. That is a maximum over vertices
    with a constraint that is linear but for the distance to fractional entries a, where :math:`|a - z|` is at most
    :math:`a + (1 - 2a) z`, with equality at labellings: a linear program bounds it from above, an integer program is
    exact over labellings. Cost: both programs for each example and scale.

    Parameters
    ----------
    X, y, model
        As in `separable`; the model fitted, or `weights` given. Labels complete.
    weights : float array, optional
        By default `model.weights_`.
    delta : float
        Probability with which the bound may fail.
    scales : list of float
        Factors on the weights, of which the one with the smallest bound is taken.

    References
    ----------
    Kulesza2007, Theorem 2; McAllester2007.

    Examples
    --------
    >>> from intarsia.crf import GraphCRF
    >>> X = [([[1.0], [-1.0]], [[0, 1]]), ([[-1.0], [1.0]], [[0, 1]])] * 20
    >>> y = [[1, 0], [0, 1]] * 20
    >>> crf = GraphCRF(learner="structured_svm", inference="lp_relaxation").fit(X, y)
    >>> found = pac_bayes_bound(X, y, crf, scales=[1.0, 10.0])
    >>> found.empirical_at_least <= found.empirical <= found.bound
    True
    """
    check_number(delta, "delta", low=0.0, high=1.0, open_low=True, open_high=True)
    examples = as_examples(X, y, model)
    given = getattr(model, "weights_", None) if weights is None else weights
    if given is None:
        raise InvalidInputError("the model is not fitted. Fit it first, or give weights=.")
    point = as_float_array(given, "weights")
    if point.shape != (examples[0].scores.n_weights,):
        raise InvalidInputError(f"weights have shape {point.shape}, but the model has {examples[0].scores.n_weights}.")
    ready = labelled(examples)
    _check(ready)
    if len(ready) < 2:
        raise InvalidInputError("a single example bounds nothing. Give at least two.")
    radius = max(FeatureBounds(one).longest for one in ready)
    n_indicators = max(LocalPolytope(one.source.form.graph, one.source.form.graph.zeros()).n_columns for one in ready)
    best: PacBayesBound | None = None
    for scale in scales:
        check_number(scale, "scales", low=0.0, open_low=True)
        strength = (radius * float(np.linalg.norm(point)) * scale) ** 2
        complexity = _complexity(strength, n_indicators, len(ready), float(delta))
        if best is not None and complexity >= best.bound:
            continue  # the empirical term cannot make up for it
        upper = float(np.mean([_largest_loss(one, scale * point, relaxed=True) for one in ready]))
        if best is None or upper + complexity < best.bound:
            lower = float(np.mean([_largest_loss(one, scale * point, relaxed=False) for one in ready]))
            best = PacBayesBound(
                upper + complexity,
                upper,
                lower,
                complexity,
                float(scale),
                float(delta),
                radius,
                n_indicators,
                len(ready),
            )
    if best is None:
        raise InvalidInputError("scales is empty. Give at least one factor, such as 1.0.")
    return best


def _check(ready: list[MarginExample]) -> None:
    for one in ready:
        if not one.complete:
            raise NotSupportedError(
                f"example {one.number} has hidden labels, of which no loss is known. Give examples with all labels."
            )
        if one.theta(np.zeros(one.source.scores.n_weights)).any():
            raise NotSupportedError(
                f"example {one.number} has fixed scores, but the theorem is for scores that are all "
                f"linear in the weights. Give them a feature with a weight of its own."
            )


def _complexity(strength: float, n_indicators: int, n_examples: int, delta: float) -> float:
    """Second and third term of Kulesza2007 Eq. (9); `strength` is R^2 |w|^2."""
    m = float(n_examples)
    logarithm = strength * math.log(2.0 * n_indicators * m / strength) if strength > 0.0 else 0.0
    inside = max(0.0, logarithm) + math.log(m / delta)  # beyond 2 l m the logarithm turns negative and means nothing
    return math.sqrt(inside / (2.0 * (m - 1.0))) + strength / m


def _largest_loss(one: MarginExample, weights: FloatArray, *, relaxed: bool) -> float:
    """Largest share of wrong labels among what is confusable with the prediction (Kulesza2007 Eq. 8)."""
    form, labels = one.source.form, one.source.labels
    polytope = LocalPolytope(form.graph, form.lower(one.theta(weights)))
    predicted = solve_program(Program(polytope.cost, polytope.matrix, polytope.lower, polytope.upper), Clock()).x
    if predicted is None:
        raise InvalidInputError(f"example {one.number} has no labelling of finite score.")
    # score(a) - score(z) <= sum_j a_j + (1 - 2 a_j) z_j
    row = -polytope.cost - (1.0 - 2.0 * predicted)
    side = float(predicted.sum() - polytope.cost @ predicted)
    loss = np.zeros(polytope.cost.size)
    loss[polytope.variable_columns] = np.where(labels.allowed, 0.0, 1.0 / one.n_labelled)
    program = Program(
        loss,
        sparse.csc_array(sparse.vstack([polytope.matrix, sparse.csr_array(row[None, :])])),
        np.append(polytope.lower, -np.inf),
        np.append(polytope.upper, side + 1e-9 * (1.0 + abs(side))),  # the prediction itself must fit in
        integer=None if relaxed else polytope.variable_columns,
    )
    solution = solve_program(program, Clock())
    return 0.0 if solution.x is None else min(1.0, float(loss @ solution.x))
