"""Models of the zoo with a full table for each factor, and labels of every kind for them."""

from __future__ import annotations

import functools
import itertools

import numpy as np
from tests.oracles.enumeration import enumerate_model
from tests.zoo import HARD_ZEROS, INFEASIBLE, ZOO

from intarsia._core.validation import read_only
from intarsia.graph import FactorGraph
from intarsia.losses import training_labels

FEASIBLE = [name for name in ZOO if name not in INFEASIBLE]
LOOPY = ["grid", "grid_three_states", "complete", "three_way_factor", "four_way_factor", "unequal_state_counts"]
# Models for slower checks: scopes 2 to 4, unequal state counts, isolated variables, hard zeros.
SOME = [*LOOPY, "tree", "isolated_node", "one_state_variables", "same_scope_twice", *sorted(HARD_ZEROS)]
SORTS = ["observed", "hidden", "sets", "mixed", "all_hidden"]


@functools.cache
def learning_model(name):
    """Return (graph, theta) of the zoo with a separate table for each factor."""
    return unshared(*ZOO[name]())


def unshared(graph, theta):
    """Return the model with a full table for each factor, in plain NumPy."""
    alone = FactorGraph(graph.n_states, graph.scope_ptr, graph.scope_idx, grid_shape=graph.grid_shape)
    tables = [graph.factor_table(theta, c).reshape(-1) for c in range(graph.n_factors)]
    return alone, read_only(np.concatenate([theta[: graph.variable_ptr[-1]], *tables]))


@functools.cache
def enumerated(name):
    return enumerate_model(*learning_model(name))


def some_labels(name, sort, seed=0):
    """Return labels of a possible labelling: all observed, some hidden, as sets, or a mixture."""
    rng = np.random.default_rng(seed)
    graph, possible = learning_model(name)[0], enumerated(name).labellings
    y = possible[rng.integers(len(possible))]
    allowed = np.zeros(int(graph.variable_ptr[-1]), dtype=bool)
    allowed[graph.variable_ptr[:-1] + y] = True
    more = {"observed": 0.0, "hidden": 0.0, "sets": 0.5, "mixed": 0.3, "all_hidden": 1.0}[sort]
    allowed |= rng.random(allowed.size) < more
    if sort in ("hidden", "mixed"):
        allowed |= np.repeat(rng.random(graph.n_variables) < 0.3, graph.n_states)
    return training_labels(graph, allowed)


def weighted(graph, labels, seed=0):
    """Return the labels with random weights of the variables, some of them 0."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 2.0, graph.n_variables) * (rng.random(graph.n_variables) < 0.8)
    return training_labels(graph, labels, weights)


def as_sets(graph, labels):
    """Return the allowed states as a list of Python sets."""
    ends = graph.variable_ptr.tolist()
    return [set(np.flatnonzero(labels.allowed[a:b]).tolist()) for a, b in itertools.pairwise(ends)]


def check_slopes(function, point, gradient, n_directions=3, step=1e-5, tol=1e-5, seed=1):
    """Compare the gradient with central differences in random directions; entries of -inf stay."""
    rng = np.random.default_rng(seed)
    assert gradient.shape == point.shape
    assert np.isfinite(gradient).all()
    finite = np.isfinite(point)
    np.testing.assert_array_equal(gradient[~finite], 0.0)
    for _ in range(n_directions):
        direction = np.where(finite, rng.standard_normal(point.size), 0.0)
        slope = (function(point + step * direction) - function(point - step * direction)) / (2 * step)
        expected = float(direction @ gradient)
        assert abs(slope - expected) <= tol * max(1.0, abs(slope)), (slope, expected)
