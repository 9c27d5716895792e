"""Small labelled graphs with loops that the tests of margin learning and of the diagnostics share."""

from __future__ import annotations

import itertools

import numpy as np

from intarsia.graph import complete_graph, from_edges
from intarsia.learning import example
from intarsia.models import LinearScores, MatrixScores


def random_triangles(n=6, seed=0, noise=0.0, n_states=2, **settings):
    """Triangles labelled by random weights, so that exact inference separates them unless there is noise."""
    rng = np.random.default_rng(seed)
    graph = complete_graph(3, n_states)
    truth = rng.normal(size=n_states * 2 + n_states**2)
    result = []
    for _ in range(n):
        scores = LinearScores(graph, rng.normal(size=(3, 2)))
        y = best_labelling(scores, truth)
        y = np.where(rng.random(3) < noise, rng.integers(0, n_states, 3), y)
        result.append(example(scores, y, **settings))
    return result


def frustrated_triangles(n=4, seed=0):
    """Triangles with one weight for each edge, whose relaxation is fractional for many weights."""
    rng = np.random.default_rng(seed)
    graph = from_edges(2, [[0, 1], [1, 2], [0, 2]])
    result = []
    for _ in range(n):
        matrix = np.zeros((graph.n_theta, 4))
        for edge in range(3):
            start = int(graph.table_ptr[edge])
            matrix[[start + 1, start + 2], edge] = rng.uniform(0.5, 1.5)
        matrix[[1, 3, 5], 3] = rng.normal(size=3)
        result.append(example(MatrixScores(graph, matrix), rng.integers(0, 2, 3)))
    return result


def labellings(graph):
    """All labellings of a graph."""
    return [np.array(y) for y in itertools.product(*map(range, graph.n_states.tolist()))]


def features(scores, y):
    """Features of a labelling, in the order of the table entries."""
    graph, mu = scores.graph, scores.graph.zeros()
    for v, state in enumerate(y):
        mu[graph.variable_ptr[v] + state] += 1.0
    for c in range(graph.n_factors):
        at = np.ravel_multi_index(tuple(y[graph.scope(c)]), graph.factor_shape(c))
        mu[graph.table_ptr[graph.table_of_factor[c]] + at] += 1.0
    return scores.pull_back(mu)


def best_labelling(scores, weights):
    every = labellings(scores.graph)
    return every[int(np.argmax([features(scores, y) @ weights for y in every]))]
