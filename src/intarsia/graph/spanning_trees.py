"""Edge appearance probabilities: how often each factor is in a random forest, and whether given ones are valid."""

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
    """Return rho as a float vector with one entry in (0, 1] per factor; one number stands for all factors.

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
            f"rho has shape {values.shape}, but this graph has {graph.n_factors} factors. Give one appearance "
            f"probability per factor, or one number for all."
        )
    outside = ~((values > 0) & (values <= 1))
    if outside.any():
        c = int(np.argmax(outside))
        raise InvalidInputError(
            f"rho[{c}] is {values[c]}, but an appearance probability lies in (0, 1]. "
            f"Use appearance_probabilities(graph) for valid ones."
        )
    return values


def is_valid_appearance(graph: FactorGraph, rho: ArrayLike, *, max_work: float = 2e8) -> bool | None:
    r"""Whether weights of factors make the tree-reweighted entropy an upper bound of the entropy.

    With :math:`I` the multi-information, the bound says that :math:`\sum_c \rho_c I(\mu_c) \le I(\mu)` for every
    distribution. It holds if and only if for every nonempty set T of variables

    .. math:: \sum_c \rho_c \max(|c \cap T| - 1, 0) \le |T| - 1 .

    With scopes of 2 this is the forest polytope. Above scope 2 it asks for more than
    :math:`\sum_{c \subseteq T} (|c| - 1) \rho_c \le |T| - 1`, which would let 0.75 pass for factors over (0, 1, 2) and
    (0, 1, 3), although a model in which only 0 and 1 depend on each other then breaks the bound.

    *Peeling*, in linear time, takes away a variable when the factors through which it still meets others weigh at
    most 1; a smallest violated set has no such variable. It proves forests with 1, 4-connected grids with 1/2 and
    8-connected ones with 1/4. On the core that is left, the condition is tested for all T by transports (max flows).

    Parameters
    ----------
    graph : FactorGraph
        Factors over equal sets of variables count as one, with the largest of their weights.
    rho : (n_factors,) array or float
        Weights in (0, 1].
    max_work : float
        How many steps the transports may take in all; the default is some seconds.

    Returns
    -------
    bool or None
        True if proven (to 1e-9), False if some set T violates the condition, None if the core is too large to tell.

    Notes
    -----
    Necessary: let the variables of T be equal and the others independent. Sufficient: f(S) = I of the variables S is
    supermodular and 0 on single variables. For t >= 0 let P_t be the coarsest partition of the variables that
    maximises the sum over its blocks B of f(B) - t (|B| - 1). The maximum is convex in t with slope |P_t| - n, is
    f(all) at t = 0 and 0 in the end, so f(all) is the integral of n - |P_t|. The same holds for the subsets of a
    factor c, whose partitions refine P_t (otherwise uncrossing would merge blocks of P_t without loss), so f(c) is at
    most the integral of the sum over B of (|c and B| - 1)+. Adding up with weights rho, and using the condition for
    each B, gives the bound.

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
    joined = group >= 0
    np.maximum.at(weights, group[joined], values[joined])
    left = peel_variables(scope_ptr, scope_idx, *_pairs(scope_ptr, scope_idx, graph.n_variables), weights, _TOLERANCE)
    if not left.any():
        return True
    scope_ptr, scope_idx, weights = _restrict(scope_ptr, scope_idx, weights, left)
    n_core = int(left.sum())
    component, n_components = label_components(scope_ptr, scope_idx, n_core)
    verdict: bool | None = True
    parts = _split(scope_ptr, scope_idx, weights, component, n_components)
    for ptr, idx, part_weights, n_variables in parts:
        # Each root costs a pass over the pairs at least, so hopeless cores are known beforehand.
        if np.diff(ptr).max() > MAX_SCOPE or n_variables * (idx.size // 8) > max_work:
            verdict = None
            continue
        pairs = _pairs(ptr, idx, n_variables)
        overloaded, work = find_overloaded_root(ptr, idx, *pairs, part_weights, _TOLERANCE, max_work)
        if overloaded >= 0:
            return False
        max_work -= work
        if max_work <= 0:
            verdict = None
    return verdict


def distinct_scopes(graph: FactorGraph) -> tuple[IntArray, IntArray, IntArray]:
    """Different sets of at least two variables among the scopes: number of each factor's set (-1), and CSR lists."""
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


def _pairs(scope_ptr: IntArray, scope_idx: IntArray, n_variables: int) -> tuple[IntArray, IntArray, IntArray]:
    """CSR lists of the positions in `scope_idx` at each variable, and the factor of each position."""
    ptr = np.concatenate([[0], np.cumsum(np.bincount(scope_idx, minlength=n_variables))])
    factor = np.repeat(np.arange(scope_ptr.size - 1), np.diff(scope_ptr))
    return ptr.astype(np.int64), np.argsort(scope_idx, kind="stable"), factor


def _restrict(
    scope_ptr: IntArray, scope_idx: IntArray, weights: FloatArray, left: NDArray[np.bool_]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Factors cut down to the variables that are left, without those of which less than two remain."""
    n_factors = scope_ptr.size - 1
    factor = np.repeat(np.arange(n_factors), np.diff(scope_ptr))
    size = np.bincount(factor, weights=left[scope_idx], minlength=n_factors).astype(np.int64)
    live = size >= 2
    keep = left[scope_idx] & live[factor]
    new_index = np.cumsum(left) - 1
    ptr = np.concatenate([[0], np.cumsum(size[live])])
    return ptr.astype(np.int64), new_index[scope_idx[keep]], weights[live]


def _split(
    scope_ptr: IntArray, scope_idx: IntArray, weights: FloatArray, component: IntArray, n_components: int
) -> Iterator[tuple[IntArray, IntArray, FloatArray, int]]:
    """Each connected component as scopes, weights and number of variables."""
    widths = np.diff(scope_ptr)
    of_factor = component[scope_idx[scope_ptr[:-1]]]
    order = np.argsort(of_factor, kind="stable")
    cuts = np.searchsorted(of_factor[order], np.arange(n_components + 1))
    for k in range(n_components):
        mine = order[cuts[k] : cuts[k + 1]]
        ptr = np.concatenate([[0], np.cumsum(widths[mine])])
        within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], widths[mine])
        names, idx = np.unique(scope_idx[np.repeat(scope_ptr[mine], widths[mine]) + within], return_inverse=True)
        yield ptr, idx, weights[mine], names.size


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


@OncePerGraph
def stored_appearance(graph: FactorGraph) -> FloatArray:
    """Return `appearance_probabilities` with their defaults, computed once for a graph."""
    return read_only(appearance_probabilities(graph))
