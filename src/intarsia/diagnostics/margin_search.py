"""Constraint generation for the weights of the largest margin, with the true labels given."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar, nnls

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

# With rows of length 1, weights longer than the inverse are taken for none; a proof is told with its residual.
SMALLEST = 1e-7


def shortest_weights(rows: FloatArray, sides: FloatArray) -> tuple[FloatArray | None, FloatArray | None]:
    r"""Weights of least norm with `rows @ w >= sides`, or multipliers which prove that there are none.

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
        Exactly one of the two is given.

    Examples
    --------
    >>> shortest_weights(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([3.0, 4.0]))[0].round(9).tolist()
    [3.0, 2.0]
    >>> shortest_weights(np.array([[1.0], [-2.0]]), np.array([1.0, 0.0]))[1].round(9).tolist()   # w >= 1 and w <= 0
    [1.0, 0.5]
    """
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
    found, _ = nnls(system, goal, maxiter=100 * max(system.shape))
    residual = system @ found - goal
    if np.linalg.norm(residual) > SMALLEST and residual[-1] < 0.0:
        return -scale * residual[:-1] / residual[-1], None
    multipliers = found / lengths
    return None, multipliers / float(multipliers @ sides)


# A constraint counts as kept when it is missed by no more, in units of the margin asked for.
_SLACK = 1e-6
# Margins asked for in turn where fixed scores keep weights from being scaled.
_MARGINS = (1.0, 1e-3, 1e-6)
_MOST_ROUNDS = 2000
# Logarithms of the margins, in units of the squared radius, among which the best bound on mistakes is looked for.
_LOG_FACTORS = (float(np.log(0.51)), float(np.log(1e8)))

Met = list[list[Features]]
Oracle = Callable[[MarginExample, FloatArray, float], Features | None]


@dataclass(frozen=True, eq=False)
class Certificate:
    """Proof that no weights separate: answers of some examples, with multipliers.

    The features of the truths less those of the answers, times the multipliers, add up to nearly 0, while the margins
    asked for add up to 1. So no weights of norm 1 have a margin above the residual.

    Attributes
    ----------
    examples : int array
        Whose answers these are.
    multipliers : float array
        Not negative.
    answers : list of float arrays
        Their statistics.
    residual : float
        Length of what the differences add up to.

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
class Found:
    """Weights with their margin, and one that is sure to be reached; or a certificate."""

    weights: FloatArray | None = None
    gamma: float = 0.0
    at_least: float = 0.0
    certificate: Certificate | None = None
    n_constraints: int = 0


class MarginSearch:
    """Search for weights over labellings or over the local polytope; answers met are kept from one run to the next.

    Parameters
    ----------
    ready : list of MarginExample
        The examples.
    relaxed : bool
        Whether answers are points of the local polytope.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> ready = [MarginExample(one) for one in diamond_examples()]
    >>> found = MarginSearch(ready, relaxed=True).run([completions(one, 1)[0] for one in ready])
    >>> found.weights.round(6).tolist()                            # 2 (w . (x_A + x_B)) is at least 1 for both
    [-10.0, 10.0]
    >>> round(found.gamma / found.at_least, 6)                     # a quarter of all wrong is wrong by 1, at a quarter
    4.0
    """

    def __init__(self, ready: list[MarginExample], relaxed: bool) -> None:
        self.ready = ready
        self.relaxed = relaxed
        self.met: Met = [[] for _ in ready]
        self.points: Met = [[] for _ in ready]
        self.n_rounds = 0
        self.has_fixed = any(has_fixed_scores(one) for one in ready)

    def run(self, truths: list[Features]) -> Found:
        """Weights for these truths."""
        found = Found()
        for margin in _MARGINS if self.has_fixed else _MARGINS[:1]:
            if not self.relaxed:
                found = self._generate(truths, margin, self.met, _best_labelling)
                found = replace(found, at_least=found.gamma)
            else:
                # Decides whether weights exist: all points of the polytope, each by as much as it is wrong.
                found = self._generate(truths, margin, self.met, most_violating, by_distance=True)
                if found.weights is not None:
                    least = self._generate(truths, margin, self.points, _best_point)
                    found = self._generate(truths, margin, self.met, best_wrong_vertex)
                    found = replace(found, at_least=least.gamma)
            if found.weights is not None:
                break
        return found

    def most_mistakes(self, truths: list[Features], radius: float) -> float | None:
        r"""Return a bound on the perceptron's mistakes that also holds with fixed scores; None where there is none.

        With :math:`d` the features of the truth less those of an answer and :math:`b` the same of the fixed scores, a
        mistake means :math:`w \cdot d + b \le 0`. After k of them, by the steps :math:`w \leftarrow w + d`,
        :math:`\lVert w \rVert^2 \le k R^2 - 2B` with :math:`B = \sum b`. Weights u with
        :math:`u \cdot d + b \ge m` for all wrong answers give :math:`u \cdot w \ge k m - B`. Both together, with
        :math:`t^2 = k R^2 - 2B`, are :math:`k (2m - R^2) \le 2 \lVert u \rVert t - t^2 \le \lVert u \rVert^2`, so

        .. math:: k \le \frac{\lVert u \rVert^2}{2m - R^2} \quad\text{for every } m > R^2 / 2.

        Without fixed scores the best m is :math:`R^2`, and the bound is :math:`R^2 / \gamma^2` of Theorem 1. The
        fraction is quasi-convex in m, since the norm of the shortest u is convex in it; any m gives a valid bound.
        """
        if radius <= 0.0:
            return 0.0  # the separating weights do not matter: no step can change any score
        oracle, met = (_best_point, self.points) if self.relaxed else (_best_labelling, self.met)

        def bound(log_factor: float) -> float:
            found = self._generate(truths, float(np.exp(log_factor)) * radius**2, met, oracle)
            if found.weights is None:
                return np.inf
            margins = []
            for one, truth in zip(self.ready, truths, strict=True):
                answer = oracle(one, found.weights, 0.0)
                if answer is not None:
                    ahead = float(found.weights @ (truth.of_weights - answer.of_weights))
                    margins.append(ahead + truth.fixed - answer.fixed)
            room = 2.0 * min(margins, default=np.inf) - radius**2  # of the margin that the weights really have
            return float(found.weights @ found.weights) / room if room > 0.0 else np.inf

        searched = minimize_scalar(bound, bounds=_LOG_FACTORS, method="bounded", options={"xatol": 0.05})
        best = min(bound(0.0), float(searched.fun))
        return best if np.isfinite(best) else None

    def _generate(
        self, truths: list[Features], margin: float, met: Met, oracle: Oracle, *, by_distance: bool = False
    ) -> Found:
        """Shortest weights that keep the constraints met, and new ones until the oracle finds none violated."""
        weights = np.zeros(self.ready[0].source.scores.n_weights)
        for _ in range(_MOST_ROUNDS):
            self.n_rounds += 1
            n_new = 0
            for i, one in enumerate(self.ready):
                answer = oracle(one, weights, margin)
                if answer is not None and _misses(truths[i], answer, weights, margin, by_distance):
                    met[i].append(answer)
                    n_new += 1
            chosen = [(i, z) for i, some in enumerate(met) for z in some if by_distance or z.wrong > WRONG_MASS]
            if n_new == 0:
                length = float(np.linalg.norm(weights))
                return Found(weights, margin / length if length else np.inf, n_constraints=len(chosen))
            rows = np.array([truths[i].of_weights - z.of_weights for i, z in chosen])
            sides = np.array([_target(truths[i], z, margin, by_distance) for i, z in chosen])
            better, multipliers = shortest_weights(rows, sides)
            if multipliers is not None:
                used = np.flatnonzero(multipliers)
                proof = Certificate(
                    np.array([self.ready[chosen[k][0]].number for k in used]),
                    multipliers[used],
                    [chosen[k][1].mu for k in used],
                    float(np.linalg.norm(multipliers @ rows)),
                )
                return Found(certificate=proof, n_constraints=len(chosen))
            weights = np.asarray(better)
        raise IntarsiaError(
            f"separability: no end after {_MOST_ROUNDS} rounds of constraints. Give fewer or smaller examples."
        )


def _best_labelling(one: MarginExample, weights: FloatArray, margin: float) -> Features | None:
    return best_wrong_answer(one, weights, relaxed=False)


def _best_point(one: MarginExample, weights: FloatArray, margin: float) -> Features | None:
    return best_wrong_answer(one, weights, relaxed=True)


def _target(truth: Features, answer: Features, margin: float, by_distance: bool) -> float:
    """Right-hand side of an answer's constraint: the margin less what fixed scores give already."""
    return margin * (answer.wrong if by_distance else 1.0) - (truth.fixed - answer.fixed)


def _misses(truth: Features, answer: Features, weights: FloatArray, margin: float, by_distance: bool) -> bool:
    ahead = float(weights @ (truth.of_weights - answer.of_weights))
    side = _target(truth, answer, margin, by_distance)
    # Fixed scores may be large, and both sides then differ by rounding.
    return side - ahead > _SLACK * margin + 1e-12 * (abs(ahead) + abs(truth.fixed) + abs(answer.fixed))


def has_fixed_scores(one: MarginExample) -> bool:
    """Return whether some finite score of an example is not 0 under weights of 0; -inf only rules answers out.

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
    theta = one.theta(np.zeros(one.source.scores.n_weights))
    return bool(theta[np.isfinite(theta)].any())


def why_no_mistake_bound(ready: list[MarginExample]) -> str:
    """Return why no bound on the perceptron's mistakes holds for examples and what to do; empty where one holds.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> why_no_mistake_bound([MarginExample(one) for one in diamond_examples()])
    ''
    """
    for one in ready:
        if not one.complete and len(completions(one, 1)) > 1:
            return (
                f"example {one.number} has hidden labels whose completions differ in their features, but Theorem 1 of "
                f"Kulesza2007 is for one truth: a step towards another completion may lead away. Give all labels."
            )
        if has_fixed_scores(one) and one.weight != 1.0:
            return (
                f"example {one.number} has fixed scores and the weight {one.weight:g}; the bound with fixed scores is "
                f"for weights of 1. Give all examples the weight 1."
            )
        if one.weight == 0.0 or one.weight != ready[0].weight:
            return (
                f"example {one.number} has the weight {one.weight:g} and example {ready[0].number} has "
                f"{ready[0].weight:g}, but Theorem 1 of Kulesza2007 is for equal steps. Give all examples one weight "
                f"above 0."
            )
    return ""


def completions(one: MarginExample, most: int) -> list[Features]:
    """Labellings that agree with the labels, one for each different features; one more than `most` if there are more.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> len(completions(MarginExample(triangle_examples()[0]), 10))     # the free node changes no feature
    1
    """
    graph = one.source.scores.graph
    ptr = graph.variable_ptr
    states = [np.flatnonzero(one.allowed[ptr[v] : ptr[v + 1]]).tolist() for v in range(graph.n_variables)]
    fixed = one.theta(np.zeros(one.source.scores.n_weights))
    found: dict[bytes, Features] = {}
    # Many completions may share features; those looked at are limited as well, well above `most`.
    for n_seen, labels in enumerate(itertools.product(*states)):
        mu = graph.statistics(np.array(labels, dtype=np.int64))
        if not (fixed[mu != 0.0] == -np.inf).any():
            answer = features_of(one, mu)
            found.setdefault(np.append(answer.of_weights, answer.fixed).round(12).tobytes(), answer)
        if len(found) > most or n_seen >= 100 * most:
            # What was not looked at stands for one more way, so that nobody takes these for all.
            return [*found.values(), next(iter(found.values()))][: most + 1] if found else []
    return list(found.values())
