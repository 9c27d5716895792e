"""Exact inference on forests (graphs without cycles)."""

from __future__ import annotations

from typing import ClassVar

from intarsia.exceptions import NotSupportedError
from intarsia.graph import FactorGraph
from intarsia.graph.elimination_order import forest_order
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.inference.exact.elimination import BucketTree
from intarsia.inference.method import Answer, InferenceMethod, Problem


class Tree(InferenceMethod):
    r"""Exact log Z, marginals, MAP (Viterbi), n-best and samples on forests, by eliminating leaves first.

    Choose it whenever the factor graph has no cycle: chains, trees and batches of these, with factors of any scope. It
    raises for graphs with cycles; use `junction_tree` for exact inference there. One pass towards the roots computes

    .. math:: m_v(x_s) = \sum_{x_v} \psi_v(x_v) \prod_{c} \psi_c(x_v, x_s) \prod_{u} m_u(x_v, x_s)

    for each variable v (:math:`\psi = \exp \theta`, s the other variables of its last factor, c its factors, u its
    children), with max instead of the sum for MAP; a backward pass computes marginals, labellings or samples. The cost
    is twice the total size of the tables. Messages are rescaled, and stored as logarithms where scores exceed the range
    of double precision, so neither long chains nor huge scores overflow. The time limit is checked after every 10^7
    table entries or so.

    Parameters
    ----------
    temperature : float, optional
        T in `<theta, mu> + T H(mu)`; by default 1 for marginals, 0 for MAP.

    Raises
    ------
    NotSupportedError
        If the factor graph has a cycle.
    TimeLimitError
        If `time_limit` is reached before the result is complete.

    Examples
    --------
    A chain of two coins that prefer to agree; the first prefers heads (state 1):

    >>> import intarsia, numpy as np
    >>> graph = intarsia.chain_graph(2, 2)
    >>> theta = graph.pack(variables=np.log([[1, 3], [1, 1]]), tables=np.log([[[2, 1], [1, 2]]]))
    >>> result = intarsia.infer(graph, theta, "tree")     # weights: 00: 2, 01: 1, 10: 3, 11: 6
    >>> round(np.exp(result.log_partition), 12), result.marginals(1).round(12).tolist()
    (np.float64(12.0), [0.416666666667, 0.583333333333])
    >>> intarsia.infer(graph, theta, "tree", task="map", n_best=3).best.tolist()
    [[1, 1], [1, 0], [0, 0]]
    """

    name: ClassVar[str] = "tree"
    summary: ClassVar[str] = "exact on chains, trees and forests, with factors of any scope"
    exact: ClassVar[bool] = True
    limited_to: ClassVar[str] = "no loops"
    gives_marginals: ClassVar[bool] = True
    gives_map: ClassVar[bool] = True
    gives_samples: ClassVar[bool] = True
    gives_best: ClassVar[bool] = True
    log_partition_is: ClassVar[str | None] = "exact"
    cost: ClassVar[str] = "twice the size of the tables"

    def __init__(self, *, temperature: float | None = None) -> None:
        self.temperature = temperature

    def run(self, problem: Problem) -> Answer:
        """Eliminate the variables from the leaves to the roots."""
        return _bucket_tree(problem.graph).answer(problem, "Tree")


@OncePerGraph
def _bucket_tree(graph: FactorGraph) -> BucketTree:
    """Return the elimination plan of a forest, computed once per graph; raise if the graph has a cycle."""
    order = forest_order(graph)
    if order is None:
        raise NotSupportedError(
            f"Tree: the factor graph has a cycle ({graph.n_variables} variables, {graph.n_factors} factors). "
            f"Use 'junction_tree' for exact inference if the graph is narrow, or 'belief_propagation' or "
            f"'tree_reweighted' for approximate inference."
        )
    return BucketTree(graph, order)
