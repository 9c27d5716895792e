"""Search for the best wrong answer over labellings or over the local polytope."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from intarsia._core.clock import Clock
from intarsia._core.highs import Program, solve_program
from intarsia._core.validation import FloatArray
from intarsia.inference import infer
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.inference.relaxation.lp_relaxation import LPRelaxation
from intarsia.learning.margin_example import WRONG_MASS, MarginExample

# Rewards for wrong labels, in units of the margin, with which vertices are searched.
_SCALES = (0.25, 1.0, 4.0)
_MAX_FACES = 64


@dataclass(frozen=True, eq=False)
class Features:
    """Features and wrong labels of an answer.

    Attributes
    ----------
    of_weights : float array
        Features that multiply the weights in the score.
    fixed : float
        Score that does not depend on the weights.
    wrong : float
        Number of wrong labels; for fractional answers the mass on wrong labels.
    mu : float array
        Statistics of the answer.
    """

    of_weights: FloatArray
    fixed: float
    wrong: float
    mu: FloatArray


def features_of(item: MarginExample, mu: FloatArray) -> Features:
    """Compute the features of an answer.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> item = MarginExample(triangle_examples()[0])
    >>> answer = features_of(item, item.source.scores.graph.statistics([1, 0, 0]))
    >>> answer.of_weights.tolist(), answer.wrong
    ([4.0, 0.0, 0.0], 0.0)
    """
    fixed = item.theta(np.zeros(item.source.scores.n_weights))
    nonzero = mu != 0.0
    return Features(item.pull_back(mu), float(mu[nonzero] @ fixed[nonzero]), item.wrong_mass(mu), mu)


def best_wrong_answer(item: MarginExample, weights: FloatArray, *, relaxed: bool) -> Features | None:
    """Return the answer of highest score with at least one wrong label; None if no label can be wrong.

    Over labellings it is the solution of the MAP integer program with one more constraint; over the local polytope it
    is the solution of the LP relaxation, where the constraint requires wrong labels of mass at least 1.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> item = MarginExample(triangle_examples()[0])
    >>> [float(best_wrong_answer(item, np.ones(3), relaxed=relaxed).of_weights.sum()) for relaxed in (False, True)]
    [3.0, 5.0]
    """
    form = item.source.form
    theta = form.lower(item.theta(weights))
    polytope = LocalPolytope(form.graph, theta)
    split = int(form.graph.variable_ptr[-1])
    hidden = np.repeat(item.source.labels.hidden, form.graph.n_states)
    right = (item.source.labels.allowed & ~hidden)[theta[:split] > -np.inf]
    row = np.zeros(polytope.matrix.shape[1])
    row[polytope.variable_columns] = right
    matrix = sparse.csc_array(sparse.vstack([polytope.matrix, sparse.csr_array(row[None, :])]))
    max_right = float(item.n_labelled) - 1.0
    program = Program(
        polytope.cost,
        matrix,
        np.append(polytope.lower, -np.inf),
        np.append(polytope.upper, max_right),
        integer=None if relaxed else polytope.variable_columns,
    )
    solution = solve_program(program, Clock())
    if solution.x is None:
        return None
    full = polytope.full(solution.x)
    if relaxed:
        return features_of(item, form.raise_mu(polytope.statistics(full)))
    graph, free_variables = item.source.scores.graph, form.reduction.free_variables
    labelling = np.zeros(graph.n_variables, dtype=np.int64)
    ptr = form.graph.variable_ptr
    labelling[free_variables] = [int(np.argmax(full[ptr[v] : ptr[v + 1]])) for v in range(form.graph.n_variables)]
    return features_of(item, graph.statistics(labelling))


def most_violating(item: MarginExample, weights: FloatArray, scale: float = 1.0) -> Features:
    """Return the vertex of the local polytope with the highest score plus `scale` times the number of wrong labels.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> most_violating(MarginExample(triangle_examples()[0]), np.ones(3)).mu[:6].tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    cost = np.zeros(item.source.scores.graph.n_theta)
    cost[: item.allowed.size] = np.where(item.allowed, 0.0, scale)
    mu, _ = item.answer(item.theta(weights) + cost, LPRelaxation())
    return features_of(item, mu)


def best_wrong_vertex(item: MarginExample, weights: FloatArray, margin: float) -> Features | None:
    """Return the vertex of the local polytope with the highest score among wrong vertices, as far as it can be found.

    Among vertices that give some variable no correct label it is the best: one linear program per variable forbids the
    correct labels. A vertex that is partly correct everywhere is found only if a reward for wrong labels leads to it.
    """
    graph = item.source.scores.graph
    theta, ptr = item.theta(weights), graph.variable_ptr
    candidates = [most_violating(item, weights, scale * margin) for scale in _SCALES]
    n_right = np.add.reduceat(item.allowed, ptr[:-1])
    for v in np.flatnonzero(n_right < graph.n_states)[:_MAX_FACES]:
        forbidden = theta.copy()
        forbidden[ptr[v] : ptr[v + 1]][item.allowed[ptr[v] : ptr[v + 1]]] = -np.inf
        result = infer(graph, forbidden, LPRelaxation(), task="map")
        if result.mu is not None:
            candidates.append(features_of(item, result.mu))
    wrong = [z for z in candidates if z.wrong > WRONG_MASS]
    return max(wrong, key=lambda z: float(z.of_weights @ weights) + z.fixed, default=None)
