"""The two small problems on which learning with approximate inference fails (Kulesza2007)."""

from __future__ import annotations

import numpy as np

from intarsia._core.validation import FloatArray, check_number
from intarsia.graph import FactorGraph, from_edges
from intarsia.learning.examples import Example, example
from intarsia.models.linear_scores import MatrixScores

TRIANGLE_INPUTS = ((4.0, 3.0, 3.0), (3.0, 4.0, 3.0), (3.0, 3.0, 4.0))
DIAMOND_INPUTS = (((1.0, 0.0), (0.0, 0.95), 1), ((0.0, 1.0), (0.95, 0.0), 0))
_DIAMOND_EDGES = ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))
_NODE_TYPES = "ABBA"


def triangle_scores(inputs: tuple[float, float, float]) -> MatrixScores:
    """Scores of the triangle: three nodes, each with two of the labels A, B, C, and a weight for each edge.

    Node 0 has A and B, node 1 has B and C, node 2 has C and A, in this order of states. Neighbours with the same label
    score the edge's weight times its input.

    Parameters
    ----------
    inputs : three numbers
        Of the edges 0-1 (label B), 1-2 (label C) and 2-0 (label A).

    References
    ----------
    Kulesza2007, Section 3.1 and Figure 1.

    Examples
    --------
    >>> scores = triangle_scores((4.0, 3.0, 3.0))
    >>> scores.graph.score(scores.theta(np.ones(3)), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]).tolist()
    [4.0, 3.0, 3.0]
    """
    graph = from_edges(2, [[0, 1], [1, 2], [2, 0]])
    matrix = np.zeros((graph.n_theta, 3))
    for edge in range(3):
        matrix[int(graph.table_ptr[edge]) + 2, edge] = inputs[edge]  # second state of one, first of the next
    return MatrixScores(graph, matrix)


def triangle_examples() -> list[Example]:
    """Three triangles that exact inference can label and LP-relaxed inference cannot, whatever the weights.

    The edge with the largest input shall have equal labels; the third node may have either.

    References
    ----------
    Kulesza2007, Section 3.2.

    Examples
    --------
    >>> [one.labels.y.tolist() for one in triangle_examples()]
    [[1, 0, -1], [-1, 1, 0], [0, -1, 1]]
    """
    labels = ([1, 0, -1], [-1, 1, 0], [0, -1, 1])
    return [example(triangle_scores(x), y) for x, y in zip(TRIANGLE_INPUTS, labels, strict=True)]


def diamond_graph() -> FactorGraph:
    """Four binary nodes of the types A, B, B, A; every two are joined but the two of type A.

    Examples
    --------
    >>> diamond_graph().n_factors
    5
    """
    return from_edges(2, np.array(_DIAMOND_EDGES))


def diamond_theta(alpha: float, beta: float, coupling: float) -> FloatArray:
    """Scores of the diamond: alpha and beta for label +1 of the two types, `coupling` for equal neighbours.

    State 0 is the label +1 and state 1 the label -1, so that ties go to +1 where they go to the first state.

    Examples
    --------
    >>> diamond_graph().score(diamond_theta(1.0, -0.95, 5.0), [[0, 0, 0, 0], [1, 1, 1, 1]]).round(9).tolist()
    [25.1, 25.0]
    """
    own = {"A": alpha, "B": beta}
    nodes = [[own[kind], 0.0] for kind in _NODE_TYPES]
    return diamond_graph().pack(variables=nodes, tables=[coupling * np.eye(2)] * len(_DIAMOND_EDGES))


def diamond_examples(coupling: float = 5000.0) -> list[Example]:
    r"""Two diamonds that exact and LP-relaxed inference can learn, and parallel belief propagation never does.

    The two weights multiply features of the nodes; the coupling of neighbours is fixed. By exact inference all nodes
    take the label +1 where :math:`w \cdot (x_A + x_B) > 0`. Max-product belief propagation in parallel counts the nodes
    of type B :math:`\gamma = 1.089` times, which turns both labels around.

    Parameters
    ----------
    coupling : float
        Logarithm of the score for equal neighbours, large against the weights.

    References
    ----------
    Kulesza2007, Section 4 and Figures 2 and 3.

    Examples
    --------
    >>> one = diamond_examples()[0]
    >>> one.scores.theta(np.array([1.0, -1.0]))[:8].tolist(), one.labels.y.tolist()
    ([1.0, 0.0, -0.95, 0.0, -0.95, 0.0, 1.0, 0.0], [1, 1, 1, 1])
    """
    check_number(coupling, "diamond_examples: coupling", low=0.0)
    graph, made = diamond_graph(), []
    fixed = diamond_theta(0.0, 0.0, float(coupling))
    for of_a, of_b, label in DIAMOND_INPUTS:
        matrix = np.zeros((graph.n_theta, 2))
        for node, kind in enumerate(_NODE_TYPES):
            matrix[int(graph.variable_ptr[node])] = of_a if kind == "A" else of_b
        made.append(example(MatrixScores(graph, matrix, fixed), [label] * 4))
    return made
