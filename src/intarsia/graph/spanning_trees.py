"""Edge appearance probabilities: how often each factor is in a random forest of factors."""

from __future__ import annotations

import numpy as np

from intarsia._validation import FloatArray, IntArray, check_number
from intarsia.graph.appearance_check import check_appearance, distinct_scopes, is_valid_appearance
from intarsia.graph.factor_graph import FactorGraph

__all__ = ["appearance_probabilities", "check_appearance", "is_valid_appearance"]


def appearance_probabilities(
    graph: FactorGraph,
    *,
    random_state: int | np.random.Generator | None = 0,
    exact_limit: int = 1500,
    min_forests: int | None = None,
) -> FloatArray:
    r"""Probability :math:`\rho_c` of each factor in a distribution over forests of the graph.

    Any such distribution makes the tree-reweighted entropy an upper bound (Domke2013, Section 3.3). In this order:

    * a forest: 1;
    * a plain grid (`graph.grid_shape`, and exactly its edges): 1/2 if 4-connected, 1/4 if 8-connected. One exponent
      for all edges makes tree-reweighted sweeps cheap;
    * components of at most `exact_limit` variables in a pairwise graph: the uniform distribution over spanning trees,
      where the probability of an edge is its effective resistance (Kirchhoff). Dense, cubic in the variables;
    * everything else: the mean over sampled maximal forests, each favouring the factors that were left out longest,
      until every factor is covered. Above scope 2 a forest is a set of factors whose bipartite graph has no cycle.
      Where a large pairwise graph has over 16 edges per variable, it would take too many trees: there, the mean over
      random orders in which each variable picks one of its earlier neighbours.

    Bridges have exactly 1, but for the last case. Factors over equal sets of variables are one factor here and have
    equal values; factors over one variable or none have 1.

    Parameters
    ----------
    graph : FactorGraph
        Any factor graph.
    random_state : int, Generator or None
        Seed for the sampled forests.
    exact_limit : int
        Largest component for which spanning trees are counted exactly.
    min_forests : int, optional
        How many forests to sample at least; by default 16 to 100, fewer for larger graphs.

    Returns
    -------
    float array (n_factors,)
        Values in (0, 1].

    Examples
    --------
    >>> from intarsia.graph import complete_graph
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
    # A component is a tree when its factors join as many variables as it has, less one.
    links = np.bincount(component_of_set, weights=np.diff(scope_ptr) - 1, minlength=n_components)
    size = np.bincount(component, minlength=n_components)
    cyclic = links > size - 1
    pairwise = np.bincount(component_of_set, weights=np.diff(scope_ptr) > 2, minlength=n_components) == 0
    exact = cyclic & pairwise & (size <= exact_limit)
    # Many middling components: the smallest first, as far as some seconds of cubic work go.
    by_size = np.flatnonzero(exact)[np.argsort(size[exact], kind="stable")]
    exact[by_size[np.cumsum(size[by_size].astype(float) ** 3) > 4e9]] = False
    rho = np.ones(n_sets)
    chosen = np.flatnonzero(exact[component_of_set])
    if chosen.size:
        edges = scope_idx[scope_ptr[chosen][:, None] + np.arange(2)]
        rho[chosen] = _effective_resistances(edges, component, size)
    chosen = np.flatnonzero((cyclic & ~exact)[component_of_set])
    if chosen.size:
        rng = np.random.default_rng(random_state)
        rho[chosen] = _sampled(scope_ptr, scope_idx, chosen, graph.n_variables, rng, min_forests)
    return np.where(group >= 0, rho[group], 1.0) if n_sets else np.ones(graph.n_factors)


def _grid_constant(graph: FactorGraph) -> float | None:
    """1/2 or 1/4 if the factors are exactly the edges of a 4- or 8-connected grid with a cycle."""
    from intarsia.graph.shapes import grid_edges

    if graph.grid_shape is None or min(graph.grid_shape) < 2:
        return None
    height, width = graph.grid_shape
    plain = height * (width - 1) + (height - 1) * width
    connectivity = {plain: 4, plain + 2 * (height - 1) * (width - 1): 8}.get(graph.n_factors)
    if connectivity is None or height * width != graph.n_variables or (np.diff(graph.scope_ptr) != 2).any():
        return None
    wanted = np.concatenate(grid_edges(height, width, connectivity))
    edges = graph.scope_idx.reshape(-1, 2)
    if not np.array_equal(edges, wanted):
        have, want = (np.sort(np.sort(part, axis=1) @ (graph.n_variables, 1)) for part in (edges, wanted))
        if not np.array_equal(have, want):
            return None
    return 2.0 / connectivity


def _effective_resistances(edges: IntArray, component: IntArray, size: IntArray) -> FloatArray:
    """Effective resistance of each edge when all edges are unit resistors; edges lie in components of any number."""
    # Local index of each variable in its component.
    order = np.argsort(component, kind="stable")
    first = np.cumsum(size) - size
    local = np.empty(component.size, np.int64)
    local[order] = np.arange(component.size) - first[component[order]]
    where = component[edges[:, 0]]
    resistance = np.empty(len(edges))
    by_size = np.lexsort((where, size[where]))
    sizes, starts = np.unique(size[where][by_size], return_index=True)
    for n, mine in zip(sizes.tolist(), np.split(by_size, starts[1:]), strict=True):
        present, slot = np.unique(where[mine], return_inverse=True)
        # Components of equal size are solved together, a few million matrix entries at a time.
        at_once = max(1, int(4e6) // (n * n))
        for low in range(0, present.size, at_once):
            a, b = np.searchsorted(slot, (low, low + at_once))
            some = mine[a:b]
            resistance[some] = _resistances(slot[a:b] - low, local[edges[some]], min(at_once, present.size - low), n)
    # An edge on a cycle of k <= n edges has at most 1 - 1/k, so what is nearer to 1 is a bridge.
    resistance[resistance > 1.0 - 0.5 / size[where]] = 1.0
    return resistance


def _resistances(slot: IntArray, ends: IntArray, n_slots: int, n: int) -> FloatArray:
    """Effective resistances in `n_slots` connected graphs of n nodes each."""
    laplacian = np.zeros((n_slots, n, n))
    a, b = ends.T
    np.add.at(laplacian, (slot, a, a), 1.0)
    np.add.at(laplacian, (slot, b, b), 1.0)
    laplacian[slot, a, b] = laplacian[slot, b, a] = -1.0
    # Grounding the last node makes the Laplacian invertible.
    green = np.zeros_like(laplacian)
    green[:, :-1, :-1] = np.linalg.inv(laplacian[:, :-1, :-1])
    found: FloatArray = green[slot, a, a] + green[slot, b, b] - green[slot, a, b] - green[slot, b, a]
    return found


def _sampled(
    scope_ptr: IntArray,
    scope_idx: IntArray,
    chosen: IntArray,
    n_variables: int,
    rng: np.random.Generator,
    min_forests: int | None,
) -> FloatArray:
    """Frequency of the chosen factors in sampled maximal forests of them."""
    from intarsia._kernels.spanning_trees import average_over_growth_orders, count_in_forests, label_components

    widths = np.diff(scope_ptr)[chosen]
    ptr = np.concatenate([[0], np.cumsum(widths)])
    within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], widths)
    names, idx = np.unique(scope_idx[np.repeat(scope_ptr[chosen], widths) + within], return_inverse=True)
    if widths.max() == 2 and chosen.size > 16 * names.size:
        pair_ptr = np.concatenate([[0], np.cumsum(np.bincount(idx))])
        return average_over_growth_orders(
            idx.reshape(-1, 2), pair_ptr, np.argsort(idx, kind="stable"), min_forests or 32, rng
        )
    _, n_components = label_components(ptr, idx, names.size)
    if min_forests is None:
        min_forests = int(np.clip(2e7 / chosen.size, 16, 100))
    # Sparse graphs: neighbours stay near in memory. Dense ones: a tree is found among few edges of a random order.
    reach = 4096 if chosen.size < 4 * names.size else chosen.size
    order = np.argsort(np.arange(chosen.size) + reach * rng.random(chosen.size))
    # With edges every tree is found to its end, so that bridges get exactly 1.
    patience_after = int(2e8) if widths.max() > 2 else np.iinfo(np.int64).max
    counts, n_forests = count_in_forests(ptr, idx, names.size, n_components, order, min_forests, patience_after)
    return counts / n_forests
