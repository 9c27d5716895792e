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
from intarsia._core.error_context import errors_from, errors_in
from intarsia._core.highs import Program, solve_program
from intarsia._core.validation import FloatArray, as_float_array, check_number
from intarsia.diagnostics.feature_bounds import FeatureBounds
from intarsia.diagnostics.labelled_data import as_examples, labelled
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.inference.registry import METHODS
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.learning.margin_example import MarginExample

_SCALES = tuple(float(s) for s in 10.0 ** np.arange(-2.0, 4.01, 0.5))


@dataclass(frozen=True, eq=False)
class PacBayesBound:
    """PAC-Bayes bound (Kulesza2007, Theorem 2, or its deterministic version) and its terms.

    Attributes
    ----------
    bound : float
        Bound on the expected fraction of wrong labels of new inputs, with probability 1 - `delta` over the examples,
        for weights drawn around the model's weights, or, if `deterministic`, for these weights themselves; a value of
        1 or more is vacuous.
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
    deterministic : bool
        Whether the bound is that of the weights themselves.
    test_error : float or None
        Measured fraction of wrong labels of LP-relaxed inference on test examples, if there are any.

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
    deterministic: bool = False
    test_error: float | None = None

    @property
    def vacuous(self) -> bool:
        """Whether the bound is 1 or more, so that it says nothing."""
        return self.bound >= 1.0

    def __str__(self) -> str:
        kind = "Deterministic PAC-Bayes bound" if self.deterministic else "PAC-Bayes bound"
        bound = "is vacuous" if self.vacuous else f"{self.bound:.3f}"
        test = "" if self.test_error is None else f" Measured test error: {self.test_error:.3f}."
        return (
            f"{kind} {bound}: empirical {self.empirical_at_least:.3f} to {self.empirical:.3f}, complexity "
            f"{self.complexity:.3f}, m = {self.n_examples}, delta = {self.delta:g}.{test}"
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
    deterministic: bool = False,
    test: Any = None,
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
    deterministic : bool
        Whether to bound the risk of the weights themselves instead of weights drawn around them; see the notes.
    test : (X, y) or list of Example, optional
        Examples that were not used for training, on which the error of LP-relaxed inference is measured.

    Notes
    -----
    The deterministic version that the paper mentions, with its proof: let v be drawn from :math:`N(w, \sigma^2 I)` with
    :math:`\sigma = 1 / (2 R \sqrt{2 \ln(2 \ell m)})`. For each input, with probability at least 1 - 1/m all
    :math:`\ell` cliques have scores that differ by at most 1/2 between v and w, so that scores of two answers change
    by at most half their distance in 1-norm. Then the prediction of w is within half the distance of every answer under
    v, and each answer with this property under v is confusable under w. PAC-Bayes for the largest loss of such answers,
    with the divergence :math:`\lVert w \rVert^2 / (2 \sigma^2)`, therefore gives for all w

    .. math:: E[L(LP_w(x))] \le \hat R(w, S)
              + \sqrt{\frac{4 R^2 \lVert w \rVert^2 \ln(2 \ell m) + \ln(m / \delta)}{2 (m - 1)}} + \frac2m .

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
    terms = BoundTerms(margin_examples, float(delta), bool(deterministic))
    test_error = None if test is None else _test_error(test, model, point)
    best: PacBayesBound | None = None
    for scale in scales:
        check_number(scale, "scales", low=0.0, open_low=True)
        complexity = terms.complexity(scale * point)
        if best is not None and complexity >= best.bound:
            continue  # the empirical term is at least 0, so this scale cannot win
        upper = terms.empirical(scale * point)
        if best is None or upper + complexity < best.bound:
            lower = terms.empirical(scale * point, relaxed=False)
            best = PacBayesBound(
                upper + complexity,
                upper,
                lower,
                complexity,
                float(scale),
                float(delta),
                terms.radius,
                terms.n_indicators,
                len(margin_examples),
                bool(deterministic),
                test_error,
            )
    if best is None:
        raise InvalidInputError("scales is empty. Pass at least one factor, such as 1.0.")
    return best


class BoundTerms:
    """Terms of the bound of Kulesza2007, Theorem 2, as functions of the weights.

    Parameters
    ----------
    margin_examples : list of MarginExample
        Examples with all labels and without fixed scores.
    delta : float
        Probability that the bound fails.
    deterministic : bool
        Whether the bound is that of the weights themselves.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import MatrixScores
    >>> scores = MatrixScores(chain_graph(1, 2), [[1.0, 0.0], [0.0, 1.0]])
    >>> terms = BoundTerms([MarginExample(example(scores, [y]), y) for y in (0, 1)], 0.05, True)
    >>> round(terms.empirical(np.array([0.0, 5.0])), 6)          # the example with label 0 is wrong
    0.5
    """

    def __init__(self, margin_examples: list[MarginExample], delta: float, deterministic: bool) -> None:
        _check(margin_examples)
        if len(margin_examples) < 2:
            raise InvalidInputError("a single example gives no bound. Pass at least two examples.")
        self.margin_examples, self.delta, self.deterministic = margin_examples, delta, deterministic
        self.radius = max(FeatureBounds(item).longest for item in margin_examples)
        self.n_indicators = max(
            LocalPolytope(item.source.form.graph, item.source.form.graph.zeros()).n_columns for item in margin_examples
        )

    def complexity(self, weights: FloatArray) -> float:
        """Return all terms but the first."""
        squared_norm = (self.radius * float(np.linalg.norm(weights))) ** 2
        compute = _deterministic_complexity if self.deterministic else _complexity
        return compute(squared_norm, self.n_indicators, len(self.margin_examples), self.delta)

    def empirical(self, weights: FloatArray, relaxed: bool = True) -> float:
        """Return the mean over the examples of the largest loss of a confusable answer (Kulesza2007 Eq. 8)."""
        return float(np.mean([_largest_loss(item, weights, relaxed=relaxed) for item in self.margin_examples]))


def _test_error(test: Any, model: Any, weights: FloatArray) -> float:
    """Return the mean fraction of wrong labels of LP-relaxed inference on test examples."""
    with errors_in("test"):
        pair = test if isinstance(test, tuple) else (test, None)
        if len(pair) != 2:
            raise InvalidInputError(f"expected (X, y) or a list of Example, got a tuple of {len(pair)}. Pass two.")
        margin_examples = labelled(as_examples(*pair, model if isinstance(test, tuple) else None))
        _check(margin_examples)
        method = METHODS.resolve("lp_relaxation", {})
        answers = [item.answer(item.theta(weights), method)[0] for item in margin_examples]
        losses = [item.wrong_mass(mu) / item.n_labelled for item, mu in zip(margin_examples, answers, strict=True)]
    return float(np.mean(losses))


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


def _deterministic_complexity(squared_norm: float, n_indicators: int, n_examples: int, delta: float) -> float:
    """Compute the second and third term of the deterministic version; `squared_norm` is R^2 |w|^2."""
    m = float(n_examples)
    inside = 4.0 * squared_norm * math.log(2.0 * n_indicators * m) + math.log(m / delta)
    return math.sqrt(inside / (2.0 * (m - 1.0))) + 2.0 / m


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
