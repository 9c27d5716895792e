"""Small random models: Hypothesis strategies (ragged states, any scope, zeros, ties) and seeded ones under stress."""

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
    """Strategy for (graph, theta), small enough for enumeration.

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
        allowed[graph.table_ptr[:-1][graph.table_kind >= 2]] = False  # weights of truncated factors must be finite
        theta[allowed & (rng.random(graph.n_theta) < draw(st.sampled_from([0.05, 0.3])))] = -np.inf
    return graph, theta


def stress_model(seed: int, *, max_variables: int = 8, max_assignments: int = 600):
    """Make a model (graph, theta) from a seed, with scores that are difficult for methods.

    20 to 50 % of the entries are hard zeros, in tables and sometimes at variables; the finite scores reach +-1000, are
    tied, or both; scopes have up to 3 variables, state counts are ragged or equal (which the fast paths need). About a
    third of the models are binary and pairwise; some are forests, some infeasible.
    """
    rng = np.random.default_rng(seed)
    shape = rng.choice(["ragged", "equal", "binary"])
    n = int(rng.integers(2, max_variables + 1))
    n_states: list[int] = []
    for _ in range(n):
        most = max(1, min(4, max_assignments // int(np.prod(n_states, dtype=np.int64))))
        n_states.append(int(rng.integers(1, most + 1)) if shape == "ragged" else 2)
    if shape == "equal":
        k = int(rng.integers(2, 4))
        n_states = [k] * min(n, int(np.log(max_assignments) / np.log(k)))
    n = len(n_states)
    widest = 2 if shape != "ragged" else 3
    scopes: list[tuple[int, ...]] = []
    group = list(range(n))
    forest = rng.random() < 0.2
    for _ in range(int(rng.integers(n // 2 + 1, 5 * n // 2 + 2))):
        scope = rng.permutation(n)[: int(rng.integers(2, widest + 1))].tolist()
        if forest:
            scope = [v for i, v in enumerate(scope) if group[v] not in {group[u] for u in scope[:i]}]
            merged = {group[v] for v in scope}
            group = [min(merged) if g in merged else g for g in group]
        scopes.append(tuple(scope))
    graph = FactorGraph(
        n_states, np.concatenate([[0], np.cumsum([len(s) for s in scopes])]).astype(int), np.concatenate(scopes)
    )
    size = float(rng.choice([1.0, 10.0, 100.0, 1000.0]))
    style = rng.choice(["uniform", "two values", "three values", "mixed"])
    theta = {
        "uniform": lambda: rng.uniform(-size, size, graph.n_theta),
        "two values": lambda: rng.choice([-size, size], graph.n_theta),
        "three values": lambda: rng.choice([-size, 0.0, size], graph.n_theta),
        "mixed": lambda: np.where(rng.random(graph.n_theta) < 0.3, size, 1.0) * rng.standard_normal(graph.n_theta),
    }[style]()
    share = rng.uniform(0.2, 0.5) if rng.random() < 0.85 else 0.0
    zero = rng.random(graph.n_theta) < share
    if rng.random() < 0.6:
        zero[: graph.variable_ptr[-1]] = False
    if rng.random() < 0.8 and share:  # keep one labelling possible
        planted = graph.statistics(np.array([int(rng.integers(k)) for k in n_states]))
        zero[planted > 0] = False
    theta[zero] = -np.inf
    return graph, theta
