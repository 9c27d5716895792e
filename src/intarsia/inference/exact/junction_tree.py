"""Exact inference on graphs of small treewidth by variable elimination (junction tree)."""

from __future__ import annotations

from typing import ClassVar

from intarsia._core.validation import check_choice, check_number
from intarsia.exceptions import TooLargeError
from intarsia.graph import FactorGraph
from intarsia.graph.elimination_order import ORDERINGS, search_order
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.inference.exact.elimination import BucketTree
from intarsia.inference.method import Answer, InferenceMethod, Problem


class JunctionTree(InferenceMethod):
    r"""Exact log Z, marginals, MAP, n-best and samples on graphs of small treewidth, by variable elimination.

    Choose it if you need exact inference and the graph is narrow: up to a treewidth of about 20 to 25 with binary
    variables, or cliques of about 10^7 joint states. Variables are eliminated in a greedy order; the message of
    variable v is a table over its separator s,

    .. math:: m_v(x_s) = \sum_{x_v} \psi_v(x_v) \prod_{c} \psi_c(x_v, x_s) \prod_{u} m_u(x_v, x_s)

    (:math:`\psi = \exp \theta`, c the factors and u the children of the bucket of v), with max instead of the sum for
    MAP. The buckets form a junction tree; a backward pass computes marginals, labellings or samples. Only messages are
    stored, never tables over cliques, and their memory is computed before any is allocated. Each joint state of each
    clique takes a few nanoseconds.

    Parameters
    ----------
    ordering : {"best", "min_fill", "min_degree"}
        How the next variable is selected. "min_fill": the fewest new pairs of neighbours. "min_degree": the smallest
        table. "best": the one of these two with the smaller total size.
    n_restarts : int
        Number of additional searches with random tie-breaking, made only if they are cheap compared with the tables.
    max_memory : float
        Maximum memory in bytes; larger problems raise TooLargeError.
    temperature : float, optional
        T in `<theta, mu> + T H(mu)`; by default 1 for marginals, 0 for MAP.

    Raises
    ------
    TooLargeError
        If more than `max_memory` is needed; no table is allocated then.
    TimeLimitError
        If `time_limit` is reached before the result is complete.

    Examples
    --------
    Three binary variables on a cycle, with weights 2 for equal and 1 for different neighbours: 2 x 8 + 6 x 2 = 28.

    >>> import intarsia, numpy as np
    >>> graph = intarsia.from_edges(2, [[0, 1], [1, 2], [0, 2]])
    >>> theta = graph.pack(tables=np.log([[[2, 1], [1, 2]]] * 3))
    >>> result = intarsia.infer(graph, theta, "junction_tree")
    >>> round(np.exp(result.log_partition), 10), result.status.name
    (np.float64(28.0), 'EXACT')
    """

    name: ClassVar[str] = "junction_tree"
    summary: ClassVar[str] = "exact on graphs of small treewidth (up to about 25 for binary variables)"
    exact: ClassVar[bool] = True
    gives_marginals: ClassVar[bool] = True
    gives_map: ClassVar[bool] = True
    gives_samples: ClassVar[bool] = True
    gives_best: ClassVar[bool] = True
    log_partition_is: ClassVar[str | None] = "exact"
    cost: ClassVar[str] = "exponential in the treewidth"

    def __init__(
        self,
        *,
        ordering: str = "best",
        n_restarts: int = 32,
        max_memory: float = 4e9,
        temperature: float | None = None,
    ) -> None:
        self.ordering = ordering
        self.n_restarts = n_restarts
        self.max_memory = max_memory
        self.temperature = temperature

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_choice(self.ordering, ORDERINGS, "JunctionTree: ordering")
        check_number(self.n_restarts, "JunctionTree: n_restarts", low=0, integer=True)
        check_number(self.max_memory, "JunctionTree: max_memory", low=0, open_low=True)

    def run(self, problem: Problem) -> Answer:
        """Find an elimination order, check its memory, and eliminate."""
        return self.prepare(problem.graph).answer(problem, "JunctionTree")

    def prepare(self, graph: FactorGraph) -> BucketTree:
        """Return the elimination plan of a graph, computed once; raise TooLargeError if it needs too much memory."""
        key = (self.ordering, int(self.n_restarts))
        with graph._lock:
            trees = _bucket_trees(graph)
            tree = trees.get(key)
            if tree is None:
                tree = self._plan(graph)
            if tree.n_bytes > self.max_memory:
                raise self._too_large(tree.n_bytes, tree.log2_width, "")
            trees[key] = tree
        return tree

    def affords(self, graph: FactorGraph, max_entries: float) -> bool:
        """Return whether a short search finds an elimination order with at most `max_entries` table entries.

        The search makes at most about `max_entries` steps and stores its order for `run`.
        """
        key = (self.ordering, int(self.n_restarts))
        with graph._lock:
            trees, failed_limits = _bucket_trees(graph), _failed_limits(graph)
            if key not in trees and max_entries > failed_limits.get(key, -1.0):
                order = search_order(
                    graph, self.ordering, n_restarts=int(self.n_restarts), max_cells=max_entries / 2,
                    max_steps=max_entries,
                )  # fmt: skip
                if order.complete and order.n_cells <= max_entries / 2:
                    trees[key] = BucketTree(graph, order.order)
                else:
                    failed_limits[key] = max_entries
            tree = trees.get(key)
        return tree is not None and bool(tree.entries.sum() <= max_entries and tree.n_bytes <= self.max_memory)

    def _plan(self, graph: FactorGraph) -> BucketTree:
        """Search for an elimination order; raise TooLargeError if it needs too much memory."""
        search = search_order(graph, self.ordering, n_restarts=int(self.n_restarts), max_cells=self.max_memory / 8)
        if not search.complete or 8.0 * search.n_cells > self.max_memory:
            raise self._too_large(8.0 * search.n_cells, search.log2_width, "" if search.complete else "more than ")
        return BucketTree(graph, search.order)

    def _too_large(self, n_bytes: float, log2_width: float, bound: str) -> TooLargeError:
        """Return the error for a graph that needs too much memory."""
        return TooLargeError(
            f"JunctionTree: the tables need {bound}{n_bytes / 2**30:.3g} GiB (the largest has {bound}"
            f"2**{log2_width:.0f} entries), but max_memory={self.max_memory:g} bytes allows "
            f"{self.max_memory / 2**30:.3g} GiB. Use 'tree_reweighted', 'belief_propagation', 'mean_field' or 'gibbs' "
            f"for an approximate answer, or raise max_memory."
        )


@OncePerGraph
def _bucket_trees(graph: FactorGraph) -> dict[tuple[str, int], BucketTree]:
    """Return the cache of bucket trees of a graph, by ordering and number of restarts."""
    return {}


@OncePerGraph
def _failed_limits(graph: FactorGraph) -> dict[tuple[str, int], float]:
    """Return the cache of the largest limit without an order in `affords`, by ordering and number of restarts."""
    return {}
