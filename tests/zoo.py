"""Small named models on which every method is tested; all are small enough for enumeration.

`ZOO` maps a name to a function that returns (graph, theta). Everything is seeded.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intarsia.graph import (
    FactorGraph,
    batch_graphs,
    chain_graph,
    complete_graph,
    from_edges,
    grid_graph,
    star_graph,
    tree_graph,
)

Model = tuple[FactorGraph, np.ndarray]
ZOO: dict[str, Callable[[], Model]] = {}


def model(function: Callable[[], Model]) -> Callable[[], Model]:
    ZOO[function.__name__] = function
    return function


def random_theta(graph: FactorGraph, seed: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal(graph.n_theta)


def factors(n_states, scopes, **more) -> FactorGraph:
    """Graph from a list of scopes of any length."""
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in scopes])]).astype(int)
    return FactorGraph(n_states, ptr, np.array([v for s in scopes for v in s], dtype=int), **more)


@model
def one_node():
    graph = factors([3], [])
    return graph, np.array([0.5, -1.0, 0.25])


@model
def isolated_node():
    graph = from_edges([2, 2, 3], [[0, 1]])
    return graph, random_theta(graph, 1)


@model
def disconnected():
    batch = batch_graphs([chain_graph(3, 2), complete_graph(3, 2), chain_graph(1, 4)])
    return batch.graph, random_theta(batch.graph, 2)


@model
def chain():
    graph = chain_graph(5, 3)
    return graph, random_theta(graph, 3)


@model
def shared_chain():
    graph = chain_graph(5, 3, shared=True)
    return graph, random_theta(graph, 4)


@model
def tree():
    graph = tree_graph([-1, 0, 0, 1, 1, 2, -1, 6], [2, 3, 2, 2, 4, 3, 2, 2])
    return graph, random_theta(graph, 5)


@model
def star():
    graph = star_graph(6, 2)
    return graph, random_theta(graph, 6)


@model
def grid():
    graph = grid_graph(3, 3, 2)
    return graph, random_theta(graph, 7)


@model
def grid_three_states():
    graph = grid_graph(2, 4, 3)
    return graph, random_theta(graph, 8)


@model
def eight_connected_grid():
    graph = grid_graph(3, 3, 2, connectivity=8, shared=True)
    return graph, random_theta(graph, 9, 0.5)


@model
def complete():
    graph = complete_graph(5, 2)
    return graph, random_theta(graph, 10, 0.5)


@model
def three_way_factor():
    graph = factors([2, 3, 2, 2, 2], [(0, 1, 2), (2, 3), (4, 3, 1)])
    return graph, random_theta(graph, 11)


@model
def three_way_tree():
    graph = factors([2, 3, 2, 2, 2, 3], [(1, 0, 2), (2, 3), (5, 4, 3)])
    return graph, random_theta(graph, 12)


@model
def four_way_factor():
    graph = factors([2, 3, 2, 2, 2], [(0, 1, 2, 3), (3, 4), (4, 0)])
    return graph, random_theta(graph, 13)


@model
def unequal_state_counts():
    graph = from_edges([2, 5, 3, 2], [[0, 1], [1, 2], [3, 2], [3, 0]])
    return graph, random_theta(graph, 14)


@model
def one_state_variables():
    graph = factors([1, 2, 1, 3, 1], [(0, 1), (1, 2, 3), (3, 4), (0, 4)])
    return graph, random_theta(graph, 15)


@model
def unary_factors_twice():
    graph = factors([2, 3], [(0,), (0,), (0, 1), (1,), ()])
    return graph, random_theta(graph, 16)


@model
def same_scope_twice():
    graph = factors([2, 3, 2], [(0, 1), (1, 0), (1, 2), (0, 1)])
    return graph, random_theta(graph, 17)


@model
def ties():
    graph = grid_graph(2, 3, 2)
    return graph, graph.pack(tables=np.tile([[1.0, 0.0], [0.0, 1.0]], (graph.n_factors, 1, 1)))


@model
def tied_tree():
    graph = chain_graph(4, 3)
    return graph, graph.pack(tables=np.tile(-5.0 * np.eye(3), (graph.n_factors, 1, 1)))


@model
def uniform():
    graph = grid_graph(2, 3, 3)
    return graph, graph.zeros()


@model
def attractive():
    graph = grid_graph(3, 3, 2)
    rng = np.random.default_rng(18)
    strength = np.abs(rng.standard_normal(graph.n_factors))
    return graph, graph.pack(rng.standard_normal((9, 2)), strength[:, None, None] * np.eye(2))


@model
def repulsive():
    graph = complete_graph(4, 3)
    return graph, graph.pack(
        np.random.default_rng(19).standard_normal((4, 3)), np.tile(-1.0 * np.eye(3), (graph.n_factors, 1, 1))
    )


@model
def potts():
    graph = grid_graph(2, 4, 4, shared=True, kind="potts")
    return graph, graph.pack(np.random.default_rng(20).standard_normal((8, 4)), [0.7, -0.4])


@model
def truncated_linear():
    graph = grid_graph(2, 3, 5, kind="truncated_linear", truncation=2.0)
    rng = np.random.default_rng(21)
    return graph, graph.pack(rng.standard_normal((6, 5)), np.abs(rng.standard_normal(graph.n_factors)))


@model
def truncated_quadratic():
    graph = chain_graph(4, 5, kind="truncated_quadratic")
    graph = FactorGraph(
        graph.n_states, graph.scope_ptr, graph.scope_idx, graph.table_of_factor, graph.table_kind, np.full(3, 5.0)
    )
    rng = np.random.default_rng(22)
    return graph, graph.pack(rng.standard_normal((4, 5)), np.abs(rng.standard_normal(3)))


@model
def hard_zeros():
    """Proper colourings of a 5-cycle with a preference at each node."""
    graph = from_edges(3, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]])
    table = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)
    return graph, graph.pack(np.random.default_rng(23).standard_normal((5, 3)), np.tile(table, (5, 1, 1)))


@model
def hard_zeros_three_way():
    """Parity constraints over triples, and a state forbidden at a node."""
    graph = factors([2] * 5, [(0, 1, 2), (2, 3, 4)])
    parity = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 0.0, -np.inf)
    unary = np.random.default_rng(24).standard_normal((5, 2))
    unary[1, 0] = -np.inf
    return graph, graph.pack(unary, np.stack([parity, parity]))


@model
def hard_implications():
    """A chain of strict implications: x_t <= x_{t+1}."""
    graph = chain_graph(5, 2)
    table = np.array([[0.0, 0.0], [-np.inf, 0.0]])
    return graph, graph.pack(np.random.default_rng(25).standard_normal((5, 2)), np.tile(table, (4, 1, 1)))


@model
def constraints():
    """Exactly one of four, at most two of three, a soft implication, and an output of two inputs."""
    graph = factors(
        [2] * 6, [(0, 1, 2, 3), (3, 4, 5), (4, 1, 5), (0, 4, 2), (0, 5)],
        table_kind=[6, 4, 7, 9, 0], table_truncation=[1.0, 2.0, 2.0, 1.0, np.inf],
    )  # fmt: skip
    rng = np.random.default_rng(30)
    tables = np.concatenate([[-np.inf, -np.inf, -0.5, -1.5], rng.standard_normal(4)])
    return graph, graph.pack(rng.standard_normal((6, 2)), tables)


@model
def huge_potentials():
    """A feasible model with scores of +-1000: underflow must not be mistaken for a hard zero."""
    graph = grid_graph(2, 3, 2)
    rng = np.random.default_rng(26)
    return graph, graph.pack(rng.choice([-1000.0, 1000.0], (6, 2)), rng.choice([-1000.0, 1000.0], (7, 2, 2)))


@model
def infeasible():
    """A triangle cannot be coloured with two colours."""
    graph = complete_graph(3, 2)
    table = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)
    return graph, graph.pack(tables=np.tile(table, (3, 1, 1)))


@model
def infeasible_variable():
    graph = chain_graph(3, 2)
    theta = random_theta(graph, 27)
    graph.variable(theta, 1)[:] = -np.inf
    return graph, theta


@model
def no_variables():
    return factors(np.empty(0, dtype=int), []), np.empty(0)


INFEASIBLE = {"infeasible", "infeasible_variable"}
HARD_ZEROS = {"hard_zeros", "hard_zeros_three_way", "hard_implications", "constraints"}
# Binary, pairwise, and attractive, possibly after the states of some variables are exchanged.
ATTRACTIVE = {
    "star", "grid", "ties", "attractive", "hard_implications", "huge_potentials", "infeasible_variable", "no_variables",
}  # fmt: skip
FORESTS = {
    "one_node", "isolated_node", "chain", "shared_chain", "tree", "star", "three_way_tree", "truncated_quadratic",
    "hard_zeros_three_way", "hard_implications", "tied_tree", "unary_factors_twice", "one_state_variables",
    "same_scope_twice", "infeasible_variable", "no_variables",
}  # fmt: skip
