"""Hypothesis strategies for small random models: ragged states, any scope, zeros, ties, loose ends."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from intarsia.graph import FactorGraph


@st.composite
def random_models(
    draw,
    *,
    max_variables: int = 6,
    max_factors: int = 7,
    max_scope: int = 4,
    max_states: int = 5,
    max_assignments: int = 2000,
    forest: bool = False,
    zeros: bool = True,
):
    """Strategy for (graph, theta) within reach of enumeration.

    Scopes have 1 to `max_scope` variables, scores are ties, hard zeros (unless `zeros=False`) and plain numbers of
    several magnitudes, and tables may be shared or parametric. Variables without a factor and graphs in several pieces
    come up by themselves. With `forest=True` the factor graph has no cycle.
    """
    n_states: list[int] = []
    for _ in range(draw(st.integers(1, max_variables))):
        most = max(1, min(max_states, max_assignments // int(np.prod(n_states, dtype=np.int64))))
        n_states.append(draw(st.integers(1, most)))
    n = len(n_states)
    group = list(range(n))  # for forests: variables that are connected
    scopes: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(0, max_factors))):
        scope = draw(st.permutations(range(n)))[: draw(st.integers(1, min(max_scope, n)))]
        if forest:
            scope = [v for i, v in enumerate(scope) if group[v] not in {group[u] for u in scope[:i]}]
            merged = {group[v] for v in scope}
            group = [min(merged) if g in merged else g for g in group]
        scopes.append(tuple(scope))
    kinds, tables, truncations = [], [], []
    by_shape: dict[tuple[int, tuple[int, ...]], int] = {}
    for scope in scopes:
        shape = tuple(n_states[v] for v in scope)
        pair = len(scope) == 2 and shape[0] == shape[1]
        kind = draw(st.sampled_from([0, 0, 0, 1, 2, 3])) if pair else 0
        known = by_shape.get((kind, shape))
        if known is not None and draw(st.booleans()):
            tables.append(known)
            continue
        by_shape[kind, shape] = len(kinds)
        tables.append(len(kinds))
        kinds.append(kind)
        truncations.append(draw(st.sampled_from([1.0, 2.5, np.inf])))
    graph = FactorGraph(
        n_states,
        np.concatenate([[0], np.cumsum([len(scope) for scope in scopes])]).astype(int),
        np.array([v for scope in scopes for v in scope], dtype=int),
        np.array(tables, dtype=int),
        np.array(kinds, dtype=int),
        np.array(truncations, dtype=float),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    style = draw(st.sampled_from(["normal", "ties", "strong", "huge"]))
    theta = {
        "normal": lambda: rng.standard_normal(graph.n_theta),
        "ties": lambda: rng.choice([0.0, 1.0], graph.n_theta),
        "strong": lambda: 20.0 * rng.standard_normal(graph.n_theta),
        "huge": lambda: rng.choice([-900.0, 0.0, 900.0], graph.n_theta),
    }[style]()
    if zeros and draw(st.booleans()):
        allowed = np.ones(graph.n_theta, dtype=bool)
        allowed[graph.table_ptr[:-1][graph.table_kind >= 2]] = False  # truncated weights stay finite
        theta[allowed & (rng.random(graph.n_theta) < draw(st.sampled_from([0.05, 0.3])))] = -np.inf
    return graph, theta
