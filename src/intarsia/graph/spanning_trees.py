"""Edge appearance probabilities: how often a random forest contains each factor, and a test of their validity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray, as_float_array, check_number, read_only
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.once_per_graph import OncePerGraph
from intarsia.graph.reduction import in_normal_form

_TOLERANCE = 1e-9


def check_appearance(graph: FactorGraph, rho: ArrayLike) -> FloatArray:
    """Return rho as a float vector with one entry in (0, 1] per factor; a single number is used for all factors.

    Raises
    ------
    InvalidInputError
        If the length is wrong or an entry lies outside (0, 1].

    Examples
    --------
    >>> from intarsia.graph.shapes import grid_graph
    >>> check_appearance(grid_graph(2, 2, 2), 0.5)
    array([0.5, 0.5, 0.5, 0.5])
    """
    values = as_float_array(rho, "rho")
    if values.ndim == 0:
        values = np.full(graph.n_factors, float(values))
    if values.shape != (graph.n_factors,):
        raise InvalidInputError(
            f"rho has shape {values.shape}, but this graph has {graph.n_factors} factors. Pass one appearance "
            f"probability per factor, or one number for all."
        )
    outside = ~((values > 0) & (values <= 1))
    if outside.any():
        c = int(np.argmax(outside))
        raise InvalidInputError(
            f"rho[{c}] is {values[c]}, but an appearance probability must lie in (0, 1]. "
            f"Use appearance_probabilities(graph) for valid values."
        )
    return values


def is_valid_appearance(graph: FactorGraph, rho: ArrayLike, *, max_work: float = 2e8) -> bool | None:
    r"""Return whether factor weights make the tree-reweighted entropy an upper bound on the entropy.

    With :math:`I` the multi-information, the bound states that :math:`\sum_c \rho_c I(\mu_c) \le I(\mu)` for every
    distribution. It holds if and only if, for every nonempty set T of variables,

    .. math:: \sum_c \rho_c \max(|c \cap T| - 1, 0) \le |T| - 1 .

    For pairwise graphs this is the forest polytope. For larger scopes the condition is stronger than
    :math:`\sum_{c \subseteq T} (|c| - 1) \rho_c \le |T| - 1`, which would accept 0.75 for factors over (0, 1, 2) and
    (0, 1, 3), although a model in which only 0 and 1 depend on each other then violates the bound.

    *Peeling*, in linear time, removes a variable if the factors that connect it to remaining variables have a total
    weight of at most 1; a smallest violated set contains no such variable. It proves the condition for forests with 1,
    4-connected grids with 1/2 and 8-connected grids with 1/4. On the remaining core, the condition is tested for all T
    by transport problems (maximum flows).

    Parameters
    ----------
    graph : FactorGraph
        Any factor graph. Factors over equal sets of variables count as one factor with the largest of their weights.
    rho : (n_factors,) array or float
        Weights in (0, 1].
    max_work : float
        Total number of steps that the transport problems may take; the default is a few seconds.

    Returns
    -------
    bool or None
        True if proven (to 1e-9), False if some set T violates the condition, None if the core is too large to decide.

    Notes
    -----
    The condition is necessary: let the variables of T be equal and the others independent. It is sufficient: f(S), the
    multi-information of the variables S, is supermodular and 0 on single variables. For t >= 0 let P_t be the coarsest
    partition of the variables that maximises the sum over its blocks B of f(B) - t (|B| - 1). The maximum is convex in
    t with slope |P_t| - n, equals f(all) at t = 0 and 0 for large t, so f(all) is the integral of n - |P_t|. The same
    holds for the subsets of a factor c, whose partitions refine P_t (otherwise uncrossing would merge blocks of P_t
    without loss), so f(c) is at most the integral of the sum over B of (|c and B| - 1)+. Summing with weights rho, and
    using the condition for each B, yields the bound.

    Examples
    --------
    >>> from intarsia.graph.shapes import complete_graph
    >>> triangle = complete_graph(3, 2)
    >>> is_valid_appearance(triangle, 2 / 3), is_valid_appearance(triangle, 0.7)
    (True, False)
    """
    from intarsia._kernels.spanning_trees import MAX_SCOPE, find_overloaded_root, label_components, peel_variables

    values = check_appearance(graph, rho)
    group, scope_ptr, scope_idx = distinct_scopes(graph)
    weights = np.zeros(scope_ptr.size - 1)
    has_set = group >= 0
    np.maximum.at(weights, group[has_set], values[has_set])
    is_in_core = peel_variables(
        scope_ptr, scope_idx, *_pairs_by_variable(scope_ptr, scope_idx, graph.n_variables), weights, _TOLERANCE
    )
    if not is_in_core.any():
        return True
    scope_ptr, scope_idx, weights = _restrict(scope_ptr, scope_idx, weights, is_in_core)
    n_core = int(is_in_core.sum())
    component, n_components = label_components(scope_ptr, scope_idx, n_core)
    verdict: bool | None = True
    components = _split(scope_ptr, scope_idx, weights, component, n_components)
    for ptr, idx, component_weights, n_variables in components:
        # Each root takes at least one pass over the pairs, so cores that are too large are skipped.
        if np.diff(ptr).max() > MAX_SCOPE or n_variables * (idx.size // 8) > max_work:
            verdict = None
            continue
        pairs = _pairs_by_variable(ptr, idx, n_variables)
        overloaded, work = find_overloaded_root(ptr, idx, *pairs, component_weights, _TOLERANCE, max_work)
        if overloaded >= 0:
            return False
        max_work -= work
        if max_work <= 0:
            verdict = None
    return verdict


def distinct_scopes(graph: FactorGraph) -> tuple[IntArray, IntArray, IntArray]:
    """Return the distinct scopes of at least two variables: index of the set of each factor (or -1), and CSR lists."""
    if in_normal_form(graph):
        return np.arange(graph.n_factors), graph.scope_ptr, graph.scope_idx
    widths = np.diff(graph.scope_ptr)
    group = np.full(graph.n_factors, -1)
    blocks, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    n_sets = 0
    for width in np.unique(widths[widths > 1]):
        factors = np.flatnonzero(widths == width)
        rows = np.sort(graph.scope_idx[graph.scope_ptr[factors][:, None] + np.arange(width)], axis=1)
        sets, number = np.unique(rows, axis=0, return_inverse=True)
        group[factors] = n_sets + number.reshape(-1)
        blocks.append(sets.reshape(-1))
        sizes.append(np.full(len(sets), width))
        n_sets += len(sets)
    scope_ptr = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return group, scope_ptr.astype(np.int64), np.concatenate(blocks)


def _pairs_by_variable(
    scope_ptr: IntArray, scope_idx: IntArray, n_variables: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return CSR lists of the positions in `scope_idx` of each variable, and the factor of each position."""
    ptr = np.concatenate([[0], np.cumsum(np.bincount(scope_idx, minlength=n_variables))])
    factor = np.repeat(np.arange(scope_ptr.size - 1), np.diff(scope_ptr))
    return ptr.astype(np.int64), np.argsort(scope_idx, kind="stable"), factor


def _restrict(
    scope_ptr: IntArray, scope_idx: IntArray, weights: FloatArray, is_in_core: NDArray[np.bool_]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Restrict factors to the variables of the core, and drop factors with fewer than two of them."""
    n_factors = scope_ptr.size - 1
    factor = np.repeat(np.arange(n_factors), np.diff(scope_ptr))
    size = np.bincount(factor, weights=is_in_core[scope_idx], minlength=n_factors).astype(np.int64)
    is_alive = size >= 2
    keep = is_in_core[scope_idx] & is_alive[factor]
    new_index = np.cumsum(is_in_core) - 1
    ptr = np.concatenate([[0], np.cumsum(size[is_alive])])
    return ptr.astype(np.int64), new_index[scope_idx[keep]], weights[is_alive]


def _split(
    scope_ptr: IntArray, scope_idx: IntArray, weights: FloatArray, component: IntArray, n_components: int
) -> Iterator[tuple[IntArray, IntArray, FloatArray, int]]:
    """Yield the scopes, weights and number of variables of each connected component."""
    widths = np.diff(scope_ptr)
    component_of_factor = component[scope_idx[scope_ptr[:-1]]]
    order = np.argsort(component_of_factor, kind="stable")
    bounds = np.searchsorted(component_of_factor[order], np.arange(n_components + 1))
    for k in range(n_components):
        factors = order[bounds[k] : bounds[k + 1]]
        ptr = np.concatenate([[0], np.cumsum(widths[factors])])
        offset = np.arange(ptr[-1]) - np.repeat(ptr[:-1], widths[factors])
        variables, idx = np.unique(
            scope_idx[np.repeat(scope_ptr[factors], widths[factors]) + offset], return_inverse=True
        )
        yield ptr, idx, weights[factors], variables.size


__all__ = ["appearance_probabilities", "check_appearance", "is_valid_appearance"]


def appearance_probabilities(
    graph: FactorGraph,
    *,
    random_state: int | np.random.Generator | None = 0,
    exact_limit: int = 1500,
    min_forests: int | None = None,
) -> FloatArray:
    r"""Compute the probability :math:`\rho_c` of each factor in a distribution over forests of the graph.

    Any such distribution makes the tree-reweighted entropy an upper bound on the entropy (Domke2013, Section 3.3). The
    first case that applies is used:

    * Forest: 1.
    * Regular grid (`graph.grid_shape`, with exactly the edges of that grid): 1/2 if 4-connected, 1/4 if 8-connected. A
      constant makes the sweeps of tree-reweighted message passing cheap.
    * Components of at most `exact_limit` variables in a pairwise graph: the uniform distribution over spanning trees,
      where the probability of an edge is its effective resistance (Kirchhoff). The cost is cubic in the variables.
    * Other components: the mean over sampled maximal forests, each of which prefers the factors that have been missing
      longest, until every factor is covered. For scopes above 2 a forest is a set of factors whose bipartite graph has
      no cycle. A large pairwise graph with more than 16 edges per variable would need too many trees; then the mean is
      over random orders in which each variable picks one of its earlier neighbours.

    Bridges have probability 1 exactly, except in that very last case. Factors over equal sets of variables count as one
    factor and have equal values. Factors over one variable or none have probability 1.

    Parameters
    ----------
    graph : FactorGraph
        Any factor graph.
    random_state : int, Generator or None
        Seed for the sampled forests.
    exact_limit : int
        Largest number of variables of a component for which spanning trees are counted exactly.
    min_forests : int, optional
        Smallest number of forests to sample; by default 16 to 100, fewer for larger graphs.

    Returns
    -------
    float array (n_factors,)
        Appearance probabilities in (0, 1].

    Examples
    --------
    >>> from intarsia.graph.shapes import complete_graph
    >>> appearance_probabilities(complete_graph(4, 2)).round(6)     # 3 of 6 edges are in a spanning tree
    array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """
    from intarsia._kernels.spanning_trees import label_components

    check_number(exact_limit, "appearance_probabilities: exact_limit", low=0, integer=True)
    if min_forests is not None:
        check_number(min_forests, "appearance_probabilities: min_forests", low=1, integer=True)
    constant = _grid_constant(graph)
    if constant is not None:
        return np.full(graph.n_factors, constant)
    group, scope_ptr, scope_idx = distinct_scopes(graph)
    n_sets = scope_ptr.size - 1
    component, n_components = label_components(scope_ptr, scope_idx, graph.n_variables)
    component_of_set = component[scope_idx[scope_ptr[:-1]]]
    # A component of n variables is a tree if the sum of (scope - 1) over its factors is n - 1.
    links = np.bincount(component_of_set, weights=np.diff(scope_ptr) - 1, minlength=n_components)
    size = np.bincount(component, minlength=n_components)
    cyclic = links > size - 1
    pairwise = np.bincount(component_of_set, weights=np.diff(scope_ptr) > 2, minlength=n_components) == 0
    exact = cyclic & pairwise & (size <= exact_limit)
    # With many components of medium size, process the smallest exactly, up to some seconds of cubic work.
    by_size = np.flatnonzero(exact)[np.argsort(size[exact], kind="stable")]
    exact[by_size[np.cumsum(size[by_size].astype(float) ** 3) > 4e9]] = False
    rho = np.ones(n_sets)
    sets = np.flatnonzero(exact[component_of_set])
    if sets.size:
        edges = scope_idx[scope_ptr[sets][:, None] + np.arange(2)]
        rho[sets] = _effective_resistances(edges, component, size)
    sets = np.flatnonzero((cyclic & ~exact)[component_of_set])
    if sets.size:
        rng = np.random.default_rng(random_state)
        rho[sets] = _forest_frequencies(scope_ptr, scope_idx, sets, graph.n_variables, rng, min_forests)
    return np.where(group >= 0, rho[group], 1.0) if n_sets else np.ones(graph.n_factors)


def _grid_constant(graph: FactorGraph) -> float | None:
    """Return 1/2 or 1/4 if the factors are exactly the edges of a 4- or 8-connected grid with a cycle, else None."""
    from intarsia.graph.shapes import grid_edges

    if graph.grid_shape is None or min(graph.grid_shape) < 2:
        return None
    height, width = graph.grid_shape
    n_edges = height * (width - 1) + (height - 1) * width
    connectivity = {n_edges: 4, n_edges + 2 * (height - 1) * (width - 1): 8}.get(graph.n_factors)
    if connectivity is None or height * width != graph.n_variables or (np.diff(graph.scope_ptr) != 2).any():
        return None
    expected_edges = np.concatenate(grid_edges(height, width, connectivity))
    edges = graph.scope_idx.reshape(-1, 2)
    if not np.array_equal(edges, expected_edges):
        edge_keys, expected_keys = (
            np.sort(np.sort(pairs, axis=1) @ (graph.n_variables, 1)) for pairs in (edges, expected_edges)
        )
        if not np.array_equal(edge_keys, expected_keys):
            return None
    return 2.0 / connectivity


def _effective_resistances(edges: IntArray, component: IntArray, size: IntArray) -> FloatArray:
    """Compute the effective resistance of each edge when all edges are unit resistors, for any number of components."""
    # Index of each variable within its component.
    order = np.argsort(component, kind="stable")
    start_of_component = np.cumsum(size) - size
    local = np.empty(component.size, np.int64)
    local[order] = np.arange(component.size) - start_of_component[component[order]]
    component_of_edge = component[edges[:, 0]]
    resistance = np.empty(len(edges))
    by_size = np.lexsort((component_of_edge, size[component_of_edge]))
    sizes, starts = np.unique(size[component_of_edge][by_size], return_index=True)
    for n, edges_of_size in zip(sizes.tolist(), np.split(by_size, starts[1:]), strict=True):
        present, slot = np.unique(component_of_edge[edges_of_size], return_inverse=True)
        # Solve components of equal size together, in batches of a few million matrix entries.
        batch_size = max(1, int(4e6) // (n * n))
        for low in range(0, present.size, batch_size):
            first_edge, last_edge = np.searchsorted(slot, (low, low + batch_size))
            batch = edges_of_size[first_edge:last_edge]
            resistance[batch] = _batch_resistances(
                slot[first_edge:last_edge] - low, local[edges[batch]], min(batch_size, present.size - low), n
            )
    # The resistance of an edge on a cycle of k <= n edges is at most 1 - 1/k, so larger values belong to bridges.
    resistance[resistance > 1.0 - 0.5 / size[component_of_edge]] = 1.0
    return resistance


def _batch_resistances(slot: IntArray, ends: IntArray, n_slots: int, n: int) -> FloatArray:
    """Compute the effective resistances in `n_slots` connected graphs of n nodes each."""
    laplacian = np.zeros((n_slots, n, n))
    a, b = ends.T
    np.add.at(laplacian, (slot, a, a), 1.0)
    np.add.at(laplacian, (slot, b, b), 1.0)
    laplacian[slot, a, b] = laplacian[slot, b, a] = -1.0
    # Removing the last node (grounding it) makes the Laplacian invertible.
    green = np.zeros_like(laplacian)
    green[:, :-1, :-1] = np.linalg.inv(laplacian[:, :-1, :-1])
    resistances: FloatArray = green[slot, a, a] + green[slot, b, b] - green[slot, a, b] - green[slot, b, a]
    return resistances


def _forest_frequencies(
    scope_ptr: IntArray,
    scope_idx: IntArray,
    sets: IntArray,
    n_variables: int,
    rng: np.random.Generator,
    min_forests: int | None,
) -> FloatArray:
    """Compute how often sampled maximal forests of some factors contain each of these factors."""
    from intarsia._kernels.spanning_trees import average_over_growth_orders, count_in_forests, label_components

    widths = np.diff(scope_ptr)[sets]
    ptr = np.concatenate([[0], np.cumsum(widths)])
    offset = np.arange(ptr[-1]) - np.repeat(ptr[:-1], widths)
    variables, idx = np.unique(scope_idx[np.repeat(scope_ptr[sets], widths) + offset], return_inverse=True)
    if widths.max() == 2 and sets.size > 16 * variables.size:
        pair_ptr = np.concatenate([[0], np.cumsum(np.bincount(idx))])
        return average_over_growth_orders(
            idx.reshape(-1, 2), pair_ptr, np.argsort(idx, kind="stable"), min_forests or 32, rng
        )
    _, n_components = label_components(ptr, idx, variables.size)
    if min_forests is None:
        min_forests = int(np.clip(2e7 / sets.size, 16, 100))
    # In sparse graphs, shuffle only locally, so that neighbours stay close in memory. In dense graphs, shuffle fully,
    # so that a tree is complete after few edges.
    window = 4096 if sets.size < 4 * variables.size else sets.size
    order = np.argsort(np.arange(sets.size) + window * rng.random(sets.size))
    # In pairwise graphs every tree is completed, so that bridges get probability 1 exactly.
    patience_after = int(2e8) if widths.max() > 2 else np.iinfo(np.int64).max
    counts, n_forests = count_in_forests(ptr, idx, variables.size, n_components, order, min_forests, patience_after)
    return counts / n_forests


@OncePerGraph
def stored_appearance(graph: FactorGraph) -> FloatArray:
    """Return `appearance_probabilities` with their defaults, computed once for a graph."""
    return read_only(appearance_probabilities(graph))
