"""Whether given appearance probabilities make the tree-reweighted entropy an upper bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._validation import FloatArray, IntArray, as_float_array
from intarsia.exceptions import InvalidInputError
from intarsia.graph.factor_graph import FactorGraph
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
    >>> from intarsia.graph import grid_graph
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
    >>> from intarsia.graph import complete_graph
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
