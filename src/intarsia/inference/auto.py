"""Choice of the method for `method="auto"`: exact where affordable, else the approximate method for the task."""

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

# Number of table entries that elimination processes in the time that the approximate method needs per score. Measured
# on grids: elimination takes 5 ns per entry (2 ns for "map"); tree_reweighted takes 4 ns per score and sweep, with 20
# to 1000 sweeps; dual_decomposition takes 150 ns, with 5 to 100 sweeps.
_ENTRIES_PER_SCORE = {"marginals": 160.0, "map": 2000.0}
# Eliminating this many entries takes a few milliseconds, about as long as preparing a run.
_FREE_ENTRIES = 1e6


def auto_candidates(task: str, n_samples: int, n_best: int, settings: Mapping[str, Any]) -> list[InferenceMethod]:
    """Return the methods that `auto` considers, best first; the last is used where no exact method is affordable.

    A method that lacks one of the settings is skipped. So a setting that only approximate methods have, such as
    `max_iter` or `damping`, selects the approximate method. The last method receives only the settings that it has.

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
    settings_of = {name: set(METHODS.get(name)._get_param_names()) for name in [*exact, *approximate]}
    for key in settings:
        check_choice(key, set().union(*settings_of.values()), "setting")
    names = [name for name in exact if settings_of[name].issuperset(settings)]
    # If exact methods are candidates, the approximate fallback need not have their settings.
    required = set() if names else set(settings)
    names += [name for name in approximate if settings_of[name] >= required][:1]
    if not names:
        raise InvalidInputError(
            f"method='auto' considers no method that has all of the settings {', '.join(settings)}. Name a method."
        )
    methods = []
    for name in names:
        extra = {"n_restarts": 0} if name == "junction_tree" else {}  # a restart takes as long as the elimination
        methods.append(
            METHODS.resolve(name, extra | {key: value for key, value in settings.items() if key in settings_of[name]})
        )
    return methods


def is_affordable(method: InferenceMethod, graph: FactorGraph, task: str) -> bool:
    """Return whether an exact method applies to a graph in normal form and is no slower than the approximate one.

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
