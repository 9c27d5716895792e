"""Cache of values that depend only on a graph: computed at first use and stored with the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from intarsia.graph.factor_graph import FactorGraph

T = TypeVar("T")


class OncePerGraph(Generic[T]):
    """Decorator that computes a function of a graph only once for each graph.

    The value is stored with the graph and is freed together with the graph, even where the value refers to the graph.
    Pickles do not contain it. Threads that share a graph wait for the one that computes the value, under the graph's
    lock; a value that callers extend, such as a dict, must be changed under the same lock.

    Examples
    --------
    >>> from intarsia.graph.shapes import chain_graph
    >>> calls = []
    >>> @OncePerGraph
    ... def n_pairs(graph: FactorGraph) -> int:
    ...     calls.append(graph)
    ...     return int(graph.scope_idx.size)
    >>> graph = chain_graph(3, 2)
    >>> n_pairs(graph), n_pairs(graph), len(calls)
    (4, 4, 1)
    """

    def __init__(self, compute: Callable[[FactorGraph], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __call__(self, graph: FactorGraph) -> T:
        """Return the stored value, computed if this is the first call for the graph."""
        if self not in graph._computed:
            with graph._lock:
                if self not in graph._computed:
                    graph._computed[self] = self.compute(graph)
        return cast("T", graph._computed[self])

    def store(self, graph: FactorGraph, value: T) -> None:
        """Store a value that the caller has already computed."""
        graph._computed[self] = value
