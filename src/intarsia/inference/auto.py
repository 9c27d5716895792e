"""The choice that `method="auto"` makes: exact where that is affordable, else the approximate method for the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from intarsia._core.validation import check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph
from intarsia.inference.method import InferenceMethod
from intarsia.inference.registry import METHODS

AUTO = "auto"

# Entries of tables that elimination handles in the time which the approximate method takes for one score. Measured on
# grids: 5 ns an entry (2 ns for "map"); tree_reweighted takes 4 ns a score and sweep, with 20 to 1000 sweeps;
# dual_decomposition 150 ns, with 5 to 100 sweeps.
_ENTRIES_PER_SCORE = {"marginals": 160.0, "map": 2000.0}
# Elimination of so many entries takes about as long as the preparation of a run: some milliseconds.
_FREE_ENTRIES = 1e6


def auto_candidates(task: str, n_samples: int, n_best: int, settings: Mapping[str, Any]) -> list[InferenceMethod]:
    """Return the methods that `auto` considers, best first; the last one is for graphs where no other is affordable.

    A method is left out if it lacks a setting. So a setting that only approximate methods have, such as `max_iter` or
    `damping`, leaves the approximate one. The last method is given those of the settings that it has.

    Examples
    --------
    >>> [method.name for method in auto_candidates("map", 0, 0, {})]
    ['tree', 'graph_cut', 'junction_tree', 'dual_decomposition']
    >>> [method.name for method in auto_candidates("map", 0, 0, {"damping": 0.5})]
    ['belief_propagation']
    """
    exact = ["tree", "graph_cut", "junction_tree"] if task == "map" and not n_best else ["tree", "junction_tree"]
    approximate = ["dual_decomposition", "belief_propagation"] if task == "map" else ["tree_reweighted"]
    if n_samples:
        approximate = ["gibbs"]
    if n_best:
        approximate = []
    known = {name: set(METHODS.get(name)._get_param_names()) for name in [*exact, *approximate]}
    for key in settings:
        check_choice(key, set().union(*known.values()), "setting")
    names = [name for name in exact if known[name].issuperset(settings)]
    # Settings of the exact methods do not matter to the approximate one that stands in for them.
    needed = set() if names else set(settings)
    names += [name for name in approximate if known[name] >= needed][:1]
    if not names:
        raise InvalidInputError(
            f"method='auto' considers no method that has all of the settings {', '.join(settings)}. Name a method."
        )
    methods = []
    for name in names:
        extra = {"n_restarts": 0} if name == "junction_tree" else {}  # restarts take as long as elimination itself
        methods.append(
            METHODS.resolve(name, extra | {key: value for key, value in settings.items() if key in known[name]})
        )
    return methods


def is_affordable(method: InferenceMethod, graph: FactorGraph, task: str) -> bool:
    """Whether an exact method applies to a graph in normal form and takes no longer than the approximate one would.

    Examples
    --------
    >>> from intarsia.graph import grid_graph
    >>> from intarsia.inference.exact.junction_tree import JunctionTree
    >>> [is_affordable(JunctionTree(), grid_graph(n, n, 2), "marginals") for n in (10, 30)]
    [True, False]
    """
    if method.name == "tree":
        return graph.n_factors == 0 or graph.is_forest
    if method.name == "graph_cut":
        return graph.max_scope <= 2 and bool((graph.n_states == 2).all())
    if method.name == "junction_tree":
        from intarsia.inference.exact.junction_tree import JunctionTree

        sizes = np.multiply.reduceat(graph.n_states[graph.scope_idx].astype(float), graph.scope_ptr[:-1])
        n_scores = float(sizes.sum() + graph.n_states.sum())
        limit = max(_FREE_ENTRIES, _ENTRIES_PER_SCORE[task] * n_scores)
        return isinstance(method, JunctionTree) and method.affords(graph, limit)
    return True
