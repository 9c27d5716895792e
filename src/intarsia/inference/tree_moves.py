"""Improve a labelling by joint moves of random forests; see `_kernels/tree_moves.py`."""

from __future__ import annotations

import numpy as np

from intarsia._kernels.tree_moves import move_forest
from intarsia._validation import FloatArray, IntArray
from intarsia.graph import FactorGraph
from intarsia.inference.icm import update_arrays
from intarsia.inference.method import Clock


def improve(
    graph: FactorGraph,
    theta: FloatArray,
    labelling: IntArray,
    rng: np.random.Generator,
    clock: Clock,
    *,
    max_moves: int,
    patience: int = 20,
) -> int:
    """Improve `labelling` in place by at most `max_moves` moves of random forests, each exact given the rest.

    Ends early after `patience` moves in a row without a gain, or when the clock is up. Returns the number of moves.

    Examples
    --------
    >>> import numpy as np
    >>> from intarsia.graph import chain_graph
    >>> graph, labelling = chain_graph(4, 2), np.array([0, 0, 0, 0])
    >>> theta = graph.pack(variables=[[0, 0.5]] * 4, tables=[[[1, 0], [0, 1]]] * 3)
    >>> n_moves = improve(graph, theta, labelling, np.random.default_rng(0), Clock(), max_moves=50)
    >>> labelling                                    # no single change would have helped
    array([1, 1, 1, 1])
    """
    n, k = graph.n_variables, int(graph.n_states.max(initial=1))
    chosen, held = np.empty(n, np.bool_), np.empty(graph.n_factors, np.int64)
    group, seen, queue, parent, link = (np.empty(n, np.int64) for _ in range(5))
    fields, choice = np.empty((n, k)), np.empty((n, k), np.int64)
    arrays = update_arrays(graph)
    score, idle, n_moves = float(graph.score(theta, labelling)), 0, 0
    while n_moves < max_moves and idle < patience and not clock.expired:
        n_moves += 1
        order = rng.permutation(n)
        move_forest(theta, labelling, order, chosen, group, held, seen, fields, choice, queue, parent, link, arrays)
        now = float(graph.score(theta, labelling))
        idle = 0 if now > score else idle + 1
        score = now
    return n_moves
