"""Training labels: the states that each variable may have, from labels, hidden labels or label sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intarsia._core.validation import FloatArray, IntArray, as_float_array, frozen
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingLabels:
    """The allowed states of every variable of one graph; create it with `training_labels`.

    A variable with one allowed state is observed, one with all states allowed is hidden (unlabelled), anything between
    is a label set.

    Attributes
    ----------
    allowed : bool array
        Mask of the allowed states, in the layout of the variable blocks of theta.
    variable_ptr : int array
        Start of the block of each variable, as in the graph.
    weights : float array (n_variables,), optional
        Weight of each variable in a loss; None for 1 everywhere.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> labels = training_labels(chain_graph(3, 2), [1, -1, 0])
    >>> labels.allowed.reshape(3, 2).tolist()
    [[False, True], [True, True], [True, False]]
    >>> labels.observed.tolist()
    [True, False, True]
    """

    allowed: BoolArray
    variable_ptr: IntArray
    weights: FloatArray | None = None

    @cached_property
    def n_allowed(self) -> IntArray:
        """Number of allowed states of each variable."""
        if self.variable_ptr.size == 1:
            return np.empty(0, np.int64)
        return np.add.reduceat(self.allowed, self.variable_ptr[:-1], dtype=np.int64)

    @cached_property
    def observed(self) -> BoolArray:
        """Mask of the variables with exactly one allowed state."""
        return frozen(self.n_allowed == 1)

    @cached_property
    def hidden(self) -> BoolArray:
        """Mask of the variables with several states, all of them allowed: their labels carry no information."""
        return frozen((self.n_allowed == np.diff(self.variable_ptr)) & ~self.observed)

    @cached_property
    def y(self) -> IntArray:
        """State of each observed variable, -1 elsewhere."""
        labels = np.full(self.observed.size, -1)
        positions = np.flatnonzero(self.allowed & np.repeat(self.observed, np.diff(self.variable_ptr)))
        labels[self.observed] = positions - self.variable_ptr[:-1][self.observed]
        return frozen(labels)

    @cached_property
    def complete(self) -> bool:
        """Whether every variable is observed."""
        return bool(self.observed.all())

    def __repr__(self) -> str:
        n_sets = int((~self.observed & ~self.hidden).sum())
        return (
            f"TrainingLabels({self.observed.size} variables: {int(self.observed.sum())} observed, "
            f"{int(self.hidden.sum())} hidden, {n_sets} with a set)"
        )


def training_labels(
    graph: FactorGraph, y: ArrayLike | TrainingLabels, weights: ArrayLike | None = None
) -> TrainingLabels:
    """Create the labels of one graph from integers with -1 for hidden, or from a mask of allowed states.

    Parameters
    ----------
    graph : FactorGraph
        Graph whose variables are labelled.
    y : int array (n_variables,), or bool array (n_variables, n_states) or flat, or TrainingLabels
        Labels, -1 where hidden; or a mask of the states that each variable may have. A boolean array is flat if the
        variables have different numbers of states. TrainingLabels are checked against the graph and returned, with new
        weights if these are passed.
    weights : float array (n_variables,), optional
        Weight of each variable in a loss, at least 0; the term of a factor has the mean weight of its variables. Losses
        with `takes_weights` use them, other losses raise an error.

    Returns
    -------
    TrainingLabels

    Raises
    ------
    InvalidInputError
        For a label outside the states, fractions, a wrong shape, a variable with no allowed state, or a weight that is
        negative or not finite.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> graph = chain_graph(2, 3)
    >>> training_labels(graph, [2, -1])
    TrainingLabels(2 variables: 1 observed, 1 hidden, 0 with a set)
    >>> training_labels(graph, [[True, True, False], [False, False, True]]).y
    array([-1,  2])
    >>> training_labels(graph, [2, 0], weights=[1.0, 0.5]).weights
    array([1. , 0.5])
    """
    if isinstance(y, TrainingLabels):
        if not np.array_equal(y.variable_ptr, graph.variable_ptr):
            raise InvalidInputError(
                f"training_labels: these labels are of {y.observed.size} variables with other states than the "
                f"{graph.n_variables} of this graph. Create them from this graph."
            )
        return y if weights is None else TrainingLabels(y.allowed, y.variable_ptr, _check_weights(graph, weights))
    values = _as_array(y)
    valid_weights = None if weights is None else _check_weights(graph, weights)
    if values.dtype.kind == "b":
        return TrainingLabels(frozen(_check_sets(graph, values), y), graph.variable_ptr, valid_weights)
    labels = _check_labels(graph, values)
    allowed = np.repeat(labels < 0, graph.n_states)
    labelled = np.flatnonzero(labels >= 0)
    allowed[graph.variable_ptr[labelled] + labels[labelled]] = True
    return TrainingLabels(frozen(allowed), graph.variable_ptr, valid_weights)


def _as_array(y: ArrayLike) -> NDArray[Any]:
    """Return the labels as an array; raise for ragged lists."""
    try:
        return np.asarray(y)
    except ValueError:
        raise InvalidInputError(
            "training_labels: y is a ragged list. Pass one label per variable, or allowed states as one flat boolean "
            "array if variables have different numbers of states."
        ) from None


def _check_labels(graph: FactorGraph, values: NDArray[Any]) -> IntArray:
    """Return the labels as int64; raise for a wrong shape or type, or labels out of range."""
    if values.shape != (graph.n_variables,):
        raise InvalidInputError(
            f"training_labels: y has shape {values.shape}, but the graph has {graph.n_variables} variables. Pass one "
            f"label per variable, shape ({graph.n_variables},); use -1 for a hidden label."
        )
    if values.size and values.dtype.kind not in "iu":
        raise InvalidInputError(
            f"training_labels: labels must be integers, got dtype {values.dtype}. Pass integers; use -1 for a hidden "
            f"label."
        )
    bad = (values < -1) | (values >= graph.n_states)
    if bad.any():
        v = int(np.argmax(bad))
        raise InvalidInputError(
            f"training_labels: y[{v}] is {values[v]}, but {_name(graph, v)} has states 0..{graph.n_states[v] - 1}. "
            f"Pass a label in that range, or use -1 for a hidden label."
        )
    return values.astype(np.int64)


def _check_sets(graph: FactorGraph, values: NDArray[Any]) -> BoolArray:
    """Return the allowed states as a flat mask; raise for a wrong shape or a variable without a state."""
    total = int(graph.variable_ptr[-1])
    equal_sizes = graph.n_variables > 0 and (graph.n_states == graph.n_states[0]).all()
    shapes = [(total,)] + ([(graph.n_variables, int(graph.n_states[0]))] if equal_sizes else [])
    if values.shape not in shapes:
        raise InvalidInputError(
            f"training_labels: y is boolean, so it marks allowed states, and needs shape "
            f"{' or '.join(map(str, reversed(shapes)))}; got {values.shape}. If the labels are False and "
            f"True, pass y.astype(int)."
        )
    allowed = values.reshape(-1)
    if total:
        empty = ~np.logical_or.reduceat(allowed, graph.variable_ptr[:-1])
        if empty.any():
            v = int(np.argmax(empty))
            raise InvalidInputError(
                f"training_labels: {_name(graph, v)} has no allowed state. Allow at least one; all of them if its "
                f"label is hidden."
            )
    return allowed


def _check_weights(graph: FactorGraph, weights: ArrayLike) -> FloatArray:
    """Return the weights as a float array; raise for a wrong shape or values out of range."""
    values = as_float_array(weights, "training_labels: weights")
    if values.shape != (graph.n_variables,):
        raise InvalidInputError(
            f"training_labels: weights have shape {values.shape}, but the graph has {graph.n_variables} variables. "
            f"Pass one weight per variable, shape ({graph.n_variables},)."
        )
    bad = ~(values >= 0) | (values == np.inf)
    if bad.any():
        v = int(np.argmax(bad))
        raise InvalidInputError(
            f"training_labels: weights[{v}] of {_name(graph, v)} is {values[v]}. Weights must be finite and at least 0."
        )
    return frozen(values, weights)


def _name(graph: FactorGraph, v: int) -> str:
    """Return the number and name of a variable, for messages."""
    return f"variable {v} ({graph.names[v]!r})" if graph.names else f"variable {v}"
