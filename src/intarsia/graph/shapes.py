"""Factor graphs of regular shapes: chain, tree, grid, star, complete, from an edge list, from networkx."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.validation import IntArray, as_int_array, check_choice, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.factor_kinds import FactorKind
from intarsia.graph.reduction import declare_normal_form

_MAX_SIZE = 10**9  # largest number of variables or factors; more would not fit in memory
_KINDS = {kind.name.lower(): kind for kind in FactorKind}


def from_edges(
    n_states: int | ArrayLike,
    edges: ArrayLike,
    *,
    n_variables: int | None = None,
    shared: bool = False,
    kind: str = "table",
    truncation: float = np.inf,
) -> FactorGraph:
    """Build a pairwise factor graph (pairwise Markov random field) with one factor per edge.

    Parameters
    ----------
    n_states : int or (n_variables,) int array
        Number of states of each variable, or one number for all variables.
    edges : (n_edges, 2) int array
        The two variables that each factor joins, in the order of the axes of its table.
    n_variables : int, optional
        Number of variables if `n_states` is a single number. Default: the largest index in `edges`, plus 1.
    shared : bool
        Whether all factors share one table.
    kind : {"table", "potts", "truncated_linear", "truncated_quadratic"}
        Kind of all factors. The last three have one weight per table and need equal numbers of states.
    truncation : float
        Distance at which the truncated kinds level off.

    Raises
    ------
    InvalidInputError
        If `edges` has another shape, names a variable that does not exist, or joins a variable to itself.

    Examples
    --------
    >>> graph = from_edges(2, [[0, 1], [1, 2], [0, 2]])
    >>> graph
    FactorGraph(3 variables with 2 states, 3 factors of scope <= 2)
    """
    pairs = as_int_array(edges, "from_edges: edges")
    if pairs.size == 0:
        pairs = pairs.reshape(0, 2)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidInputError(f"from_edges: edges has shape {pairs.shape}; expected (n_edges, 2).")
    counts = as_int_array(n_states, "from_edges: n_states")
    if counts.ndim == 0:
        if n_variables is None:
            n_variables = int(pairs.max()) + 1 if pairs.size else 0
        check_number(n_variables, "from_edges: n_variables", low=0, high=_MAX_SIZE, integer=True)
        counts = np.full(int(n_variables), int(counts))
    elif n_variables is not None and n_variables != counts.size:
        raise InvalidInputError(
            f"from_edges: n_states lists {counts.size} variables, but n_variables={n_variables}. Drop n_variables."
        )
    check_choice(kind, _KINDS, "kind")
    check_number(truncation, "from_edges: truncation", low=0)
    n_tables = min(1, len(pairs)) if shared else len(pairs)
    return FactorGraph(
        counts,
        np.arange(0, 2 * len(pairs) + 1, 2),
        pairs.reshape(-1).copy(),
        np.zeros(len(pairs), np.int64) if shared else np.arange(len(pairs)),
        np.full(n_tables, int(_KINDS[kind])),
        np.full(n_tables, float(truncation)),
    )


def chain_graph(length: int, n_states: int, *, shared: bool = False, kind: str = "table") -> FactorGraph:
    """Build a chain 0 - 1 - ... - (length - 1), as in a linear-chain conditional random field.

    With `shared=True`, all steps share one transition table.

    Examples
    --------
    >>> chain_graph(4, 3, shared=True).n_theta      # 4 * 3 + 3 * 3
    21
    """
    check_number(length, "chain_graph: length", low=0, high=_MAX_SIZE, integer=True)
    check_number(n_states, "chain_graph: n_states", low=1, integer=True)
    length, n_states = int(length), int(n_states)
    first = np.arange(max(length - 1, 0))
    graph = from_edges(np.full(length, n_states), np.stack([first, first + 1], axis=1), shared=shared, kind=kind)
    return declare_normal_form(graph) if n_states > 1 else graph


def tree_graph(parents: ArrayLike, n_states: int | ArrayLike, *, shared: bool = False) -> FactorGraph:
    """Build a forest from the parent of each variable (-1 for a root), with one factor per (parent, child).

    Examples
    --------
    >>> tree_graph([-1, 0, 0, 1], 2).n_factors
    3
    """
    parent = as_int_array(parents, "tree_graph: parents").reshape(-1)
    children = np.flatnonzero(parent >= 0)
    if (parent < -1).any() or (parent >= parent.size).any():
        v = int(np.argmax((parent < -1) | (parent >= parent.size)))
        raise InvalidInputError(
            f"tree_graph: parents[{v}] is {parent[v]}, but must be -1 for a root or the index of another variable."
        )
    root = np.where(parent < 0, np.arange(parent.size), parent)
    for _ in range(int(np.ceil(np.log2(parent.size + 1)))):
        root = root[root]
    if (parent[root] >= 0).any():
        raise InvalidInputError(
            f"tree_graph: variable {int(np.argmax(parent[root] >= 0))} is an ancestor of itself. "
            f"Remove the cycle, or use from_edges."
        )
    counts = as_int_array(n_states, "tree_graph: n_states")
    if counts.ndim and counts.shape != parent.shape:
        raise InvalidInputError(
            f"tree_graph: n_states has shape {counts.shape}, but parents lists {parent.size} variables. "
            f"Pass one count per variable, or one for all."
        )
    counts = np.broadcast_to(counts, parent.shape)
    return from_edges(counts, np.stack([parent[children], children], axis=1), shared=shared)


def star_graph(n_leaves: int, n_states: int, *, shared: bool = False) -> FactorGraph:
    """Build a star with centre 0 and leaves 1 .. n_leaves.

    Examples
    --------
    >>> star_graph(3, 2).scope_idx.reshape(-1, 2).tolist()
    [[0, 1], [0, 2], [0, 3]]
    """
    check_number(n_leaves, "star_graph: n_leaves", low=0, high=_MAX_SIZE, integer=True)
    check_number(n_states, "star_graph: n_states", low=1, integer=True)
    leaves = np.arange(1, int(n_leaves) + 1)
    return from_edges(
        np.full(leaves.size + 1, int(n_states)), np.stack([np.zeros_like(leaves), leaves], axis=1), shared=shared
    )


def complete_graph(n_variables: int, n_states: int, *, shared: bool = False) -> FactorGraph:
    """Build a complete graph, in which a factor joins every pair of variables i < j.

    Examples
    --------
    >>> complete_graph(3, 2).scope_idx.reshape(-1, 2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    check_number(n_variables, "complete_graph: n_variables", low=0, high=int(np.sqrt(2 * _MAX_SIZE)), integer=True)
    check_number(n_states, "complete_graph: n_states", low=1, integer=True)
    first, second = np.triu_indices(int(n_variables), 1)
    return from_edges(np.full(int(n_variables), int(n_states)), np.stack([first, second], axis=1), shared=shared)


def grid_graph(
    height: int,
    width: int,
    n_states: int,
    *,
    connectivity: int = 4,
    shared: bool = False,
    kind: str = "table",
    truncation: float = np.inf,
) -> FactorGraph:
    """Build a grid of pixels in row-major order, each joined to its neighbours, as for image segmentation.

    Edges are ordered by direction (right, down, then for 8-connected grids down-right and down-left), and in row-major
    order within a direction. The first axis of a table is the upper or left pixel.

    Parameters
    ----------
    height, width : int
        Size of the image.
    n_states : int
        Number of labels per pixel.
    connectivity : {4, 8}
        Number of neighbours of an inner pixel.
    shared : bool
        Whether all factors of a direction share one table (2 or 4 tables in all).
    kind, truncation
        As in `from_edges`.

    Examples
    --------
    >>> grid_graph(3, 4, 2)
    FactorGraph(12 variables with 2 states, 17 factors of scope <= 2, grid 3x4)
    """
    for value, name in ((height, "height"), (width, "width"), (n_states, "n_states")):
        check_number(value, f"grid_graph: {name}", low=1, high=_MAX_SIZE, integer=True)
    check_number(height * width, "grid_graph: height * width", low=1, high=_MAX_SIZE, integer=True)
    height, width, n_states = int(height), int(width), int(n_states)
    check_choice(kind, _KINDS, "kind")
    check_number(truncation, "grid_graph: truncation", low=0)
    if connectivity not in (4, 8):
        raise InvalidInputError(
            f"grid_graph: connectivity must be 4 or 8, got {connectivity!r}. Use from_edges for other neighbourhoods."
        )
    directions = grid_edges(height, width, connectivity)
    edges = np.concatenate(directions)
    if shared:
        nonempty = [direction for direction in directions if len(direction)]
        table_of_factor = np.repeat(
            np.arange(len(nonempty)), [len(edges_of_direction) for edges_of_direction in nonempty]
        )
    else:
        table_of_factor = np.arange(len(edges))
    n_tables = int(table_of_factor.max()) + 1 if len(edges) else 0
    graph = FactorGraph(
        np.full(height * width, n_states),
        np.arange(0, 2 * len(edges) + 1, 2),
        edges.reshape(-1),
        table_of_factor,
        np.full(n_tables, int(_KINDS[kind])),
        np.full(n_tables, float(truncation)),
        grid_shape=(height, width),
    )
    return declare_normal_form(graph) if n_states > 1 else graph


def grid_edges(height: int, width: int, connectivity: int = 4) -> list[IntArray]:
    """Return the edges of a grid as one (n, 2) array per direction: right, down[, down-right, down-left]."""
    pixel = np.arange(height * width).reshape(height, width)
    pixel_pairs = [(pixel[:, :-1], pixel[:, 1:]), (pixel[:-1], pixel[1:])]
    if connectivity == 8:
        pixel_pairs += [(pixel[:-1, :-1], pixel[1:, 1:]), (pixel[:-1, 1:], pixel[1:, :-1])]
    return [np.stack([first.ravel(), second.ravel()], axis=1) for first, second in pixel_pairs]


def from_networkx(graph: Any, n_states: int | dict[Any, int] = 2) -> FactorGraph:
    """Build a pairwise factor graph with a variable per node and a factor per edge of a networkx graph.

    The networkx graph must be undirected. Variables are in the order of `graph.nodes` and are named `str(node)`;
    factors are in the order of `graph.edges`.

    Examples
    --------
    >>> import networkx as nx
    >>> from_networkx(nx.cycle_graph(4), 3)
    FactorGraph(4 variables with 3 states, 4 factors of scope <= 2)
    """
    if graph.is_directed():
        raise InvalidInputError("from_networkx: the graph is directed. Pass graph.to_undirected().")
    index = {node: v for v, node in enumerate(graph.nodes)}
    loops = [node for node, other in graph.edges() if node == other]
    if loops:
        raise InvalidInputError(f"from_networkx: node {loops[0]!r} has an edge to itself. Remove self-loops.")
    if isinstance(n_states, dict):
        missing = [node for node in index if node not in n_states]
        if missing:
            raise InvalidInputError(
                f"from_networkx: n_states has no entry for node {missing[0]!r}. Pass a number of states for every node."
            )
        counts = [n_states[node] for node in index]
    else:
        counts = [n_states] * len(index)
    edges = np.array([[index[a], index[b]] for a, b in graph.edges()], dtype=np.int64).reshape(-1)
    return FactorGraph(
        np.array(counts, dtype=np.int64),
        np.arange(0, edges.size + 1, 2),
        edges,
        names=tuple(str(node) for node in index),
    )
