"""Constraint generation for the weights with the largest margin, for given true labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.diagnostics.wrong_answers import (
    Features,
    best_wrong_answer,
    best_wrong_vertex,
    features_of,
    most_violating,
)
from intarsia.exceptions import IntarsiaError
from intarsia.learning.margin_example import WRONG_MASS, MarginExample

# Rows have length 1. A residual below this proves that no weights exist; the certificate reports the residual.
MIN_RESIDUAL = 1e-7


def shortest_weights(rows: FloatArray, sides: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
    r"""Return the weights of least norm with `rows @ w >= sides`, or multipliers that prove that there are none.

    Least-distance programming by non-negative least squares (Lawson1974, Chapter 23): u >= 0 minimises
    :math:`\lVert (A^T u,\; b \cdot u - 1) \rVert`, with A the rows and b the sides. If the residual r is not 0, the
    weights are :math:`-r_{1..d} / r_{d+1}`; if it is 0, :math:`A^T u = 0` and :math:`b \cdot u = 1`, so that
    :math:`A w \ge b` would give :math:`0 \ge 1`.

    Parameters
    ----------
    rows : (m, d) array
        Coefficients.
    sides : (m,) array
        Right-hand sides.

    Returns
    -------
    weights : (d,) array or None
    multipliers : (m,) array or None
        Exactly one of the two is not None.

    Examples
    --------
    >>> shortest_weights(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([3.0, 4.0]))[0].round(9).tolist()
    [3.0, 2.0]
    >>> shortest_weights(np.array([[1.0], [-2.0]]), np.array([1.0, 0.0]))[1].round(9).tolist()   # w >= 1 and w <= 0
    [1.0, 0.5]
    """
    from scipy.optimize import nnls

    lengths = np.linalg.norm(rows, axis=1)
    lengths[lengths == 0.0] = 1.0
    unit, bounds = rows / lengths[:, None], sides / lengths
    scale = float(np.abs(bounds).max(initial=0.0))
    if scale == 0.0:
        return np.zeros(rows.shape[1]), None
    bounds = bounds / scale
    system = np.vstack([unit.T, bounds])
    goal = np.zeros(system.shape[0])
    goal[-1] = 1.0
    solution, _ = nnls(system, goal, maxiter=100 * max(system.shape))
    residual = system @ solution - goal
    if np.linalg.norm(residual) > MIN_RESIDUAL and residual[-1] < 0.0:
        return -scale * residual[:-1] / residual[-1], None
    multipliers = solution / lengths
    return None, multipliers / float(multipliers @ sides)


# A constraint is satisfied if it is violated by no more than this fraction of the requested margin.
_SLACK = 1e-6
# Margins that are tried in turn if fixed scores prevent scaling of the weights.
_MARGINS = (1.0, 1e-3, 1e-6)
_MAX_ROUNDS = 2000
# Range of the logarithm of the margin, in units of the squared radius, in which the best mistake bound is searched.
_LOG_FACTORS = (float(np.log(0.51)), float(np.log(1e8)))

Answers = list[list[Features]]
Oracle = Callable[[MarginExample, FloatArray, float], Features | None]


@dataclass(frozen=True, eq=False)
class Certificate:
    """Proof that no weights separate the examples: answers of some examples, with multipliers.

    The feature differences between truths and answers, times the multipliers, add up to nearly 0, while the required
    margins add up to 1. Therefore no weights of norm 1 have a margin above the residual.

    Attributes
    ----------
    examples : int array
        Number of the example of each answer.
    multipliers : float array
        Non-negative multipliers.
    answers : list of float arrays
        Statistics of the answers.
    residual : float
        Norm of the weighted sum of the feature differences.

    Examples
    --------
    One input with two labels: the two differences of features are opposite, and half of each adds up to 0.

    >>> from intarsia.diagnostics.separability import separable
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import LinearScores
    >>> scores = LinearScores(chain_graph(1, 2), [[1.0]])
    >>> proof = separable([example(scores, [0]), example(scores, [1])]).certificate
    >>> proof.examples.tolist(), proof.multipliers.round(6).tolist(), round(proof.residual, 6)
    ([0, 1], [0.5, 0.5], 0.0)
    """

    examples: IntArray
    multipliers: FloatArray
    answers: list[FloatArray]
    residual: float


@dataclass(frozen=True, eq=False)
class MarginResult:
    """Weights with their margin and a lower bound on it; or a certificate."""

    weights: FloatArray | None = None
    gamma: float = 0.0
    gamma_at_least: float = 0.0
    certificate: Certificate | None = None
    n_constraints: int = 0


class MarginSearch:
    """Search for separating weights over labellings or over the local polytope; later runs reuse generated answers.

    Parameters
    ----------
    margin_examples : list of MarginExample
        Labelled examples.
    relaxed : bool
        Whether answers are points of the local polytope instead of labellings.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> margin_examples = [MarginExample(item) for item in diamond_examples()]
    >>> result = MarginSearch(margin_examples, relaxed=True).run([completions(item, 1)[0] for item in margin_examples])
    >>> result.weights.round(6).tolist()                           # 2 (w . (x_A + x_B)) is at least 1 for both
    [-10.0, 10.0]
    >>> round(result.gamma / result.gamma_at_least, 6)             # wrong mass 1 of 4 needs a quarter of the score
    4.0
    """

    def __init__(self, margin_examples: list[MarginExample], relaxed: bool) -> None:
        self.margin_examples = margin_examples
        self.relaxed = relaxed
        self.answers: Answers = [[] for _ in margin_examples]
        self.points: Answers = [[] for _ in margin_examples]
        self.n_rounds = 0
        self.has_fixed = any(has_fixed_scores(item) for item in margin_examples)

    def run(self, truths: list[Features]) -> MarginResult:
        """Return the weights with the largest margin for these truths."""
        result = MarginResult()
        for margin in _MARGINS if self.has_fixed else _MARGINS[:1]:
            if not self.relaxed:
                result = self._generate(truths, margin, self.answers, _best_labelling)
                result = replace(result, gamma_at_least=result.gamma)
            else:
                # Decide whether weights exist: over the whole polytope, with margins proportional to the wrong mass.
                result = self._generate(truths, margin, self.answers, most_violating, by_distance=True)
                if result.weights is not None:
                    certain = self._generate(truths, margin, self.points, _best_point)
                    result = self._generate(truths, margin, self.answers, best_wrong_vertex)
                    result = replace(result, gamma_at_least=certain.gamma)
            if result.weights is not None:
                break
        return result

    def most_mistakes(self, truths: list[Features], radius: float) -> float | None:
        r"""Return a bound on the perceptron's mistakes that also holds with fixed scores; None if there is none.

        Let :math:`d` be the features of the truth minus those of an answer, and :math:`b` the same for the fixed
        scores. A mistake means :math:`w \cdot d + b \le 0`. After k mistakes, by the steps :math:`w \leftarrow w + d`,
        :math:`\lVert w \rVert^2 \le k R^2 - 2B` with :math:`B = \sum b`. Weights u with :math:`u \cdot d + b \ge m` for
        all wrong answers give :math:`u \cdot w \ge k m - B`. Both together, with :math:`t^2 = k R^2 - 2B`, give
        :math:`k (2m - R^2) \le 2 \lVert u \rVert t - t^2 \le \lVert u \rVert^2`, so

        .. math:: k \le \frac{\lVert u \rVert^2}{2m - R^2} \quad\text{for every } m > R^2 / 2.

        Without fixed scores the best m is :math:`R^2`, and the bound is :math:`R^2 / \gamma^2` of Theorem 1. The
        fraction is quasi-convex in m, since the norm of the shortest u is convex in m; every m gives a valid bound.
        """
        from scipy.optimize import minimize_scalar

        if radius <= 0.0:
            return 0.0  # no step can change any score, so the separating weights do not matter
        oracle, answers = (_best_point, self.points) if self.relaxed else (_best_labelling, self.answers)

        def bound(log_factor: float) -> float:
            result = self._generate(truths, float(np.exp(log_factor)) * radius**2, answers, oracle)
            if result.weights is None:
                return np.inf
            margins = []
            for item, truth in zip(self.margin_examples, truths, strict=True):
                answer = oracle(item, result.weights, 0.0)
                if answer is not None:
                    difference = float(result.weights @ (truth.of_weights - answer.of_weights))
                    margins.append(difference + truth.fixed - answer.fixed)
            # The margin that the weights actually have may be larger than the requested one.
            denominator = 2.0 * min(margins, default=np.inf) - radius**2
            return float(result.weights @ result.weights) / denominator if denominator > 0.0 else np.inf

        search = minimize_scalar(bound, bounds=_LOG_FACTORS, method="bounded", options={"xatol": 0.05})
        best = min(bound(0.0), float(search.fun))
        return best if np.isfinite(best) else None

    def _generate(
        self, truths: list[Features], margin: float, answers: Answers, oracle: Oracle, *, by_distance: bool = False
    ) -> MarginResult:
        """Solve for the shortest weights and add violated constraints until the oracle returns none."""
        weights = np.zeros(self.margin_examples[0].source.scores.n_weights)
        for _ in range(_MAX_ROUNDS):
            self.n_rounds += 1
            n_new = 0
            for i, item in enumerate(self.margin_examples):
                answer = oracle(item, weights, margin)
                if answer is not None and _is_violated(truths[i], answer, weights, margin, by_distance):
                    answers[i].append(answer)
                    n_new += 1
            constraints = [
                (i, z)
                for i, answers_of_example in enumerate(answers)
                for z in answers_of_example
                if by_distance or z.wrong > WRONG_MASS
            ]
            if n_new == 0:
                length = float(np.linalg.norm(weights))
                return MarginResult(weights, margin / length if length else np.inf, n_constraints=len(constraints))
            rows = np.array([truths[i].of_weights - z.of_weights for i, z in constraints])
            sides = np.array([_target(truths[i], z, margin, by_distance) for i, z in constraints])
            better, multipliers = shortest_weights(rows, sides)
            if multipliers is not None:
                support = np.flatnonzero(multipliers)
                proof = Certificate(
                    np.array([self.margin_examples[constraints[k][0]].number for k in support]),
                    multipliers[support],
                    [constraints[k][1].mu for k in support],
                    float(np.linalg.norm(multipliers @ rows)),
                )
                return MarginResult(certificate=proof, n_constraints=len(constraints))
            weights = np.asarray(better)
        raise IntarsiaError(
            f"separability: not decided after {_MAX_ROUNDS} rounds of constraint generation. Pass fewer or smaller "
            f"examples."
        )


def _best_labelling(item: MarginExample, weights: FloatArray, margin: float) -> Features | None:
    """Return the labelling of highest score with at least one wrong label."""
    return best_wrong_answer(item, weights, relaxed=False)


def _best_point(item: MarginExample, weights: FloatArray, margin: float) -> Features | None:
    """Return the point of the local polytope of highest score with wrong labels of mass at least 1."""
    return best_wrong_answer(item, weights, relaxed=True)


def _target(truth: Features, answer: Features, margin: float, by_distance: bool) -> float:
    """Return the right-hand side of an answer's constraint: the margin minus the difference of the fixed scores."""
    return margin * (answer.wrong if by_distance else 1.0) - (truth.fixed - answer.fixed)


def _is_violated(truth: Features, answer: Features, weights: FloatArray, margin: float, by_distance: bool) -> bool:
    """Return whether an answer violates its constraint by more than the tolerance."""
    difference = float(weights @ (truth.of_weights - answer.of_weights))
    side = _target(truth, answer, margin, by_distance)
    # Fixed scores may be large, so that rounding errors are relative to them.
    return side - difference > _SLACK * margin + 1e-12 * (abs(difference) + abs(truth.fixed) + abs(answer.fixed))


def has_fixed_scores(item: MarginExample) -> bool:
    """Return whether an example has a finite nonzero score under zero weights; -inf only excludes answers.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.learning import example
    >>> from intarsia.models import MatrixScores
    >>> [
    ...     has_fixed_scores(MarginExample(example(MatrixScores(chain_graph(1, 2), [[0], [1]], fixed=fixed), [0])))
    ...     for fixed in ([0.0, 0.0], [0.0, 0.5], [0.0, -np.inf])
    ... ]
    [False, True, False]
    """
    theta = item.theta(np.zeros(item.source.scores.n_weights))
    return bool(theta[np.isfinite(theta)].any())


def why_no_mistake_bound(margin_examples: list[MarginExample]) -> str:
    """Return why no bound on the perceptron's mistakes holds for the examples and what to do; empty if one holds.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> why_no_mistake_bound([MarginExample(item) for item in diamond_examples()])
    ''
    """
    for item in margin_examples:
        if not item.complete and len(completions(item, 1)) > 1:
            return (
                f"example {item.number} has hidden labels whose completions have different features, but Theorem 1 of "
                f"Kulesza2007 requires a single truth: a step towards another completion may lead away. Label all "
                f"variables."
            )
        if has_fixed_scores(item) and item.weight != 1.0:
            return (
                f"example {item.number} has fixed scores and the weight {item.weight:g}, but the bound with fixed "
                f"scores requires weights of 1. Set all sample weights to 1."
            )
        if item.weight == 0.0 or item.weight != margin_examples[0].weight:
            return (
                f"example {item.number} has the weight {item.weight:g} and example {margin_examples[0].number} has "
                f"{margin_examples[0].weight:g}, but Theorem 1 of Kulesza2007 requires equal steps. Pass equal sample "
                f"weights "
                f"above 0."
            )
    return ""


def completions(item: MarginExample, limit: int) -> list[Features]:
    """Return one labelling for each distinct feature vector of the labellings that agree with the labels.

    At most `limit` + 1 labellings are returned; that many mean that there are more than `limit`, or too many to try.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> len(completions(MarginExample(triangle_examples()[0]), 10))     # the hidden node changes no feature
    1
    """
    graph = item.source.scores.graph
    ptr = graph.variable_ptr
    states = [np.flatnonzero(item.allowed[ptr[v] : ptr[v + 1]]).tolist() for v in range(graph.n_variables)]
    fixed = item.theta(np.zeros(item.source.scores.n_weights))
    by_features: dict[bytes, Features] = {}
    # Many completions may have equal features, so the number of labellings that are tried is limited as well.
    for n_seen, labels in enumerate(itertools.product(*states)):
        mu = graph.statistics(np.array(labels, dtype=np.int64))
        if not (fixed[mu != 0.0] == -np.inf).any():
            answer = features_of(item, mu)
            by_features.setdefault(np.append(answer.of_weights, answer.fixed).round(12).tobytes(), answer)
        if len(by_features) > limit or n_seen >= 100 * limit:
            # The first labelling is repeated for those that were not tried, so that the list is not taken as complete.
            return [*by_features.values(), next(iter(by_features.values()))][: limit + 1] if by_features else []
    return list(by_features.values())
