"""The best answer that is wrong, over labellings or over the local polytope."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from intarsia._core.validation import FloatArray
from intarsia.inference import infer
from intarsia.inference.method import Clock
from intarsia.inference.relaxation.highs import Program, solve_program
from intarsia.inference.relaxation.local_polytope import LocalPolytope
from intarsia.inference.relaxation.lp_relaxation import LPRelaxation
from intarsia.learning.margin_example import WRONG_MASS, MarginExample

# Weights of wrong labels, in units of the margin, with which vertices are looked for.
_SCALES = (0.25, 1.0, 4.0)
_MOST_FACES = 64


@dataclass(frozen=True, eq=False)
class Features:
    """What a search keeps of an answer.

    Attributes
    ----------
    of_weights : float array
        What multiplies the weights in its score.
    fixed : float
        The rest of its score, which no weight changes.
    wrong : float
        Number of wrong labels; for fractional answers their mass.
    mu : float array
        Its statistics.
    """

    of_weights: FloatArray
    fixed: float
    wrong: float
    mu: FloatArray


def features_of(one: MarginExample, mu: FloatArray) -> Features:
    """Features of an answer.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> one = MarginExample(triangle_examples()[0])
    >>> found = features_of(one, one.source.scores.graph.statistics([1, 0, 0]))
    >>> found.of_weights.tolist(), found.wrong
    ([4.0, 0.0, 0.0], 0.0)
    """
    fixed = one.theta(np.zeros(one.source.scores.n_weights))
    used = mu != 0.0
    return Features(one.pull_back(mu), float(mu[used] @ fixed[used]), one.wrong_mass(mu), mu)


def best_wrong_answer(one: MarginExample, weights: FloatArray, *, relaxed: bool) -> Features | None:
    """Answer of the highest score among those with at least one wrong label; None where no label can be wrong.

    Over labellings it is the solution of an integer program with one more row; over the local polytope, of the same
    linear program, in which the row asks for wrong labels of a mass of at least 1.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> one = MarginExample(triangle_examples()[0])
    >>> [float(best_wrong_answer(one, np.ones(3), relaxed=relaxed).of_weights.sum()) for relaxed in (False, True)]
    [3.0, 5.0]
    """
    form = one.source.form
    theta = form.lower(one.theta(weights))
    polytope = LocalPolytope(form.graph, theta)
    split = int(form.graph.variable_ptr[-1])
    hidden = np.repeat(one.source.labels.hidden, form.graph.n_states)
    right = (one.source.labels.allowed & ~hidden)[theta[:split] > -np.inf]
    row = np.zeros(polytope.matrix.shape[1])
    row[polytope.variable_columns] = right
    matrix = sparse.csc_array(sparse.vstack([polytope.matrix, sparse.csr_array(row[None, :])]))
    most = float(one.n_labelled) - 1.0
    program = Program(
        polytope.cost,
        matrix,
        np.append(polytope.lower, -np.inf),
        np.append(polytope.upper, most),
        integer=None if relaxed else polytope.variable_columns,
    )
    solution = solve_program(program, Clock())
    if solution.x is None:
        return None
    full = polytope.full(solution.x)
    if relaxed:
        return features_of(one, form.raise_mu(polytope.statistics(full)))
    graph, kept = one.source.scores.graph, form.reduction.kept
    labelling = np.zeros(graph.n_variables, dtype=np.int64)
    ptr = form.graph.variable_ptr
    labelling[kept] = [int(np.argmax(full[ptr[v] : ptr[v + 1]])) for v in range(form.graph.n_variables)]
    return features_of(one, graph.statistics(labelling))


def most_violating(one: MarginExample, weights: FloatArray, scale: float = 1.0) -> Features:
    """Vertex of the local polytope of the highest score plus `scale` times the number of wrong labels.

    Examples
    --------
    >>> from intarsia.datasets.counterexamples import triangle_examples
    >>> most_violating(MarginExample(triangle_examples()[0]), np.ones(3)).mu[:6].tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    cost = np.zeros(one.source.scores.graph.n_theta)
    cost[: one.allowed.size] = np.where(one.allowed, 0.0, scale)
    mu, _ = one.answer(one.theta(weights) + cost, LPRelaxation())
    return features_of(one, mu)


def best_wrong_vertex(one: MarginExample, weights: FloatArray, margin: float) -> Features | None:
    """Vertex of the local polytope of the highest score among wrong ones, as far as linear programs find it.

    Among those that give some variable no right label at all it is the best: one program for each variable forbids the
    right ones. Vertices that are everywhere right in part are met only if adding wrong labels to the score leads there.
    """
    graph = one.source.scores.graph
    theta, ptr = one.theta(weights), graph.variable_ptr
    found = [most_violating(one, weights, scale * margin) for scale in _SCALES]
    n_right = np.add.reduceat(one.allowed, ptr[:-1])
    for v in np.flatnonzero(n_right < graph.n_states)[:_MOST_FACES]:
        forbidden = theta.copy()
        forbidden[ptr[v] : ptr[v + 1]][one.allowed[ptr[v] : ptr[v + 1]]] = -np.inf
        result = infer(graph, forbidden, LPRelaxation(), task="map")
        if result.mu is not None:
            found.append(features_of(one, result.mu))
    wrong = [z for z in found if z.wrong > WRONG_MASS]
    return max(wrong, key=lambda z: float(z.of_weights @ weights) + z.fixed, default=None)
