"""Two small problems on which learning with approximate inference fails (Kulesza2007)."""

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
    """Return the scores of the triangle: three nodes, each with two of the labels A, B, C, and one weight per edge.

    Node 0 has the states A and B, node 1 has B and C, node 2 has C and A, in this order. Neighbours with equal labels
    get the edge's weight times its input.

    Parameters
    ----------
    inputs : three numbers
        Inputs of the edges 0-1 (label B), 1-2 (label C) and 2-0 (label A).

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
        # Entry 2 is the second state of the first node with the first state of the second.
        matrix[int(graph.table_ptr[edge]) + 2, edge] = inputs[edge]
    return MatrixScores(graph, matrix)


def triangle_examples() -> list[Example]:
    """Return three triangles that exact inference labels correctly with some weights, and LP relaxation with none.

    The edge with the largest input must have equal labels; the label of the third node is hidden.

    References
    ----------
    Kulesza2007, Section 3.2.

    Examples
    --------
    >>> [triangle.labels.y.tolist() for triangle in triangle_examples()]
    [[1, 0, -1], [-1, 1, 0], [0, -1, 1]]
    """
    labels = ([1, 0, -1], [-1, 1, 0], [0, -1, 1])
    return [example(triangle_scores(x), y) for x, y in zip(TRIANGLE_INPUTS, labels, strict=True)]


def diamond_graph() -> FactorGraph:
    """Return the diamond: four binary nodes of the types A, B, B, A; all pairs are connected except the two of type A.

    Examples
    --------
    >>> diamond_graph().n_factors
    5
    """
    return from_edges(2, np.array(_DIAMOND_EDGES))


def diamond_theta(alpha: float, beta: float, coupling: float) -> FloatArray:
    """Return the scores of the diamond: alpha and beta for label +1 of types A and B, `coupling` for equal neighbours.

    State 0 is the label +1 and state 1 the label -1, so that a tie that goes to the first state goes to +1.

    Examples
    --------
    >>> diamond_graph().score(diamond_theta(1.0, -0.95, 5.0), [[0, 0, 0, 0], [1, 1, 1, 1]]).round(9).tolist()
    [25.1, 25.0]
    """
    score_of_type = {"A": alpha, "B": beta}
    nodes = [[score_of_type[kind], 0.0] for kind in _NODE_TYPES]
    return diamond_graph().pack(variables=nodes, tables=[coupling * np.eye(2)] * len(_DIAMOND_EDGES))


def diamond_examples(coupling: float = 5000.0) -> list[Example]:
    r"""Return two diamonds that exact or LP-relaxed inference can learn, and parallel belief propagation cannot.

    The two weights multiply node features; the coupling of neighbours is fixed. With exact inference all nodes get the
    label +1 if :math:`w \cdot (x_A + x_B) > 0`. Parallel max-product belief propagation counts the nodes of type B
    :math:`\gamma = 1.089` times, which flips both labels.

    Parameters
    ----------
    coupling : float
        Score of equal neighbours; it should be large compared with the weights.

    References
    ----------
    Kulesza2007, Section 4 and Figures 2 and 3.

    Examples
    --------
    >>> diamond = diamond_examples()[0]
    >>> diamond.scores.theta(np.array([1.0, -1.0]))[:8].tolist(), diamond.labels.y.tolist()
    ([1.0, 0.0, -0.95, 0.0, -0.95, 0.0, 1.0, 0.0], [1, 1, 1, 1])
    """
    check_number(coupling, "diamond_examples: coupling", low=0.0)
    graph, examples = diamond_graph(), []
    fixed = diamond_theta(0.0, 0.0, float(coupling))
    for of_a, of_b, label in DIAMOND_INPUTS:
        matrix = np.zeros((graph.n_theta, 2))
        for node, kind in enumerate(_NODE_TYPES):
            matrix[int(graph.variable_ptr[node])] = of_a if kind == "A" else of_b
        examples.append(example(MatrixScores(graph, matrix, fixed), [label] * 4))
    return examples
