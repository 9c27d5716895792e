"""Layout of the marginals mu: which entries belong to a label, a transition or a segment."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia.exceptions import InvalidInputError
from intarsia.graph import FactorGraph, FactorKind, chain_graph, from_edges

Label = Hashable
# Prefixes of tags that begin a segment.
_BEGIN_PREFIXES = ("B-", "S-", "U-")


class MarginalLayout(Protocol):
    """Sizes and offsets of the blocks of mu; provided by `FactorGraph` and by `ChainShape`."""

    @property
    def n_variables(self) -> int:
        """Number of variables."""

    @property
    def n_states(self) -> IntArray:
        """Number of states of each variable."""

    @property
    def variable_ptr(self) -> IntArray:
        """Offset of the block of each variable in mu, and the end of the last block."""

    @property
    def n_theta(self) -> int:
        """Length of mu."""

    @property
    def table_ptr(self) -> IntArray:
        """Offset of each table in mu, and the end of the last table."""

    @property
    def table_of_factor(self) -> IntArray:
        """Table of each factor."""


@dataclass(frozen=True, eq=False)
class ChainShape:
    """Layout of mu of a chain, without the cost of building its `FactorGraph`.

    Parameters
    ----------
    length : int
        Number of positions, at least 1.
    n_labels : int
        Number of labels of each position.
    has_table : bool
        Whether mu ends with one table of expected transitions, summed over all steps.

    Examples
    --------
    >>> shape = ChainShape(3, 2, has_table=True)
    >>> shape.variable_ptr, shape.n_theta
    (array([0, 2, 4, 6]), 10)
    """

    length: int
    n_labels: int
    has_table: bool

    @property
    def n_variables(self) -> int:
        """Number of positions."""
        return self.length

    @cached_property
    def n_states(self) -> IntArray:
        """Number of labels at each position."""
        return np.full(self.length, self.n_labels, dtype=np.int64)

    @cached_property
    def variable_ptr(self) -> IntArray:
        """Offset of each position in mu, and the end of the last position."""
        return self.n_labels * np.arange(self.length + 1, dtype=np.int64)

    @property
    def n_theta(self) -> int:
        """Length of mu."""
        n_pairs = self.n_labels**2 if self.has_table and self.length > 1 else 0
        return self.length * self.n_labels + n_pairs

    @property
    def table_ptr(self) -> IntArray:
        """Offset of the table in mu, and its end."""
        return np.unique([self.length * self.n_labels, self.n_theta])

    @property
    def table_of_factor(self) -> IntArray:
        """Table of each step, which is always the first."""
        return np.zeros(self.length - 1 if self.has_table else 0, dtype=np.int64)

    @cached_property
    def graph(self) -> FactorGraph:
        """Factor graph of the chain, built at the first access."""
        if self.has_table:
            return chain_graph(self.length, self.n_labels, shared=True)
        return from_edges(self.n_labels, [], n_variables=self.length)


def graph_of(layout: MarginalLayout) -> FactorGraph:
    """Return the factor graph that has this layout."""
    return layout.graph if isinstance(layout, ChainShape) else layout  # type: ignore[return-value]


class LabelIndex:
    """Index from a label, a transition or the start of a segment to entries of mu.

    Parameters
    ----------
    layout : FactorGraph or ChainShape
        Model to which mu belongs.
    names : sequence, optional
        Names of the states: one list for all variables, or one list per variable. Without names, a label is the
        number of its state.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> index = LabelIndex(chain_graph(3, 2), ["noun", "verb"])
    >>> index.positions("verb")
    array([1, 3, 5])
    """

    def __init__(self, layout: MarginalLayout, names: Sequence[Any] | None = None) -> None:
        self.layout = layout
        self._shared_states: dict[Label, int] | None = None
        self._states_by_variable: list[dict[Label, int]] | None = None
        if names is None:
            return
        entries = list(names)
        if entries and isinstance(entries[0], (list, tuple, np.ndarray)):
            if len(entries) != layout.n_variables:
                raise InvalidInputError(
                    f"names has labels of {len(entries)} variables, but the graph has {layout.n_variables} variables. "
                    f"Pass one list of labels per variable, or one list for all variables."
                )
            for v, (labels, k) in enumerate(zip(entries, layout.n_states.tolist(), strict=True)):
                if len(labels) != k:
                    raise InvalidInputError(
                        f"names[{v}] has {len(labels)} labels, but variable {v} has {k} states. Pass one label per "
                        f"state."
                    )
            self._states_by_variable = [{_as_python(name): s for s, name in enumerate(labels)} for labels in entries]
            return
        mismatched = np.flatnonzero(layout.n_states != len(entries))
        if mismatched.size:
            v = int(mismatched[0])
            raise InvalidInputError(
                f"names has {len(entries)} labels, but variable {v} has {layout.n_states[v]} states. "
                f"Pass one name per state, or one list per variable."
            )
        self._shared_states = {_as_python(name): s for s, name in enumerate(entries)}

    @property
    def graph(self) -> FactorGraph:
        """Factor graph of the model; for a chain it is built at the first access."""
        return graph_of(self.layout)

    @property
    def labels(self) -> list[Label]:
        """All names in the order of first appearance, or the numbers of the states if there are no names."""
        if self._shared_states is not None:
            return list(self._shared_states)
        if self._states_by_variable is not None:
            return list(dict.fromkeys(name for states in self._states_by_variable for name in states))
        return list(range(int(self.layout.n_states.max(initial=0))))

    def has(self, label: Label) -> bool:
        """Return whether at least one variable has this label."""
        return bool((self._lookup(_as_python(label)) >= 0).any())

    def states(self, label: Label) -> IntArray:
        """Return the state of the label at each variable, -1 for variables without it; raise for an unknown label."""
        states = self._lookup(_as_python(label))
        if states.size and not (states >= 0).any():
            check_choice(str(label), [str(name) for name in self.labels], "label")
            raise InvalidInputError(
                f"label={label!r} is not a label, although a label of another type prints the same. Pass the label "
                f"with its type, such as '1' or 1."
            )
        return states

    def _lookup(self, label: Label) -> IntArray:
        n = self.layout.n_variables
        if self._shared_states is not None and label in self._shared_states:
            return np.full(n, self._shared_states[label])
        if self._states_by_variable is not None:
            states = np.array([by_name.get(label, -1) for by_name in self._states_by_variable], dtype=np.int64)
            if (states >= 0).any():
                return states
        if isinstance(label, int) and label >= 0:
            return np.where(label < self.layout.n_states, label, -1)
        return np.full(n, -1)

    def positions(self, label: Label) -> IntArray:
        """Return the entries of mu with the probability of the label, one per variable that has it."""
        states = self.states(label)
        variables = np.flatnonzero(states >= 0)
        return self.layout.variable_ptr[variables] + states[variables]

    def transitions(self, source: Label, target: Label) -> IntArray:
        """Return the entries of tables over two variables for the pair (source, target), one per table."""
        if isinstance(self.layout, ChainShape):
            return self._chain_transitions(source, target)
        graph = self.graph
        first = graph.first_factor_of_table
        width = np.diff(graph.scope_ptr)[first]
        tables = np.flatnonzero(width == 2)
        parametric = tables[graph.table_kind[tables] != FactorKind.TABLE]
        if parametric.size:
            raise InvalidInputError(
                f"table {int(parametric[0])} has one weight for all pairs of states, so single transitions cannot be "
                f"measured. Use factors of kind='table'."
            )
        a = graph.scope_idx[graph.scope_ptr[first[tables]]]
        b = graph.scope_idx[graph.scope_ptr[first[tables]] + 1]
        from_state, to_state = self.states(source)[a], self.states(target)[b]
        has = (from_state >= 0) & (to_state >= 0)
        return (graph.table_ptr[tables] + from_state * graph.n_states[b] + to_state)[has]

    def _chain_transitions(self, source: Label, target: Label) -> IntArray:
        from_state, to_state = self.states(source)[:1], self.states(target)[:1]
        end, k = int(self.layout.variable_ptr[-1]), int(self.layout.n_states[0])
        has_table = self.layout.n_theta > end
        return end + from_state * k + to_state if has_table else np.empty(0, dtype=np.int64)

    def opening(self, label: Label) -> list[Label]:
        """Return the tags that begin a segment of this kind (B-x, S-x, U-x); empty if the labels have no prefixes."""
        return [name for prefix in _BEGIN_PREFIXES if self.has(name := f"{prefix}{label}")]

    def body(self, label: Label) -> Label:
        """Return the only tag of a kind of segment without begin tags: the name itself, or I-x."""
        return f"I-{label}" if not self.has(label) and self.has(f"I-{label}") else label


def _as_python(name: Any) -> Label:
    """Convert a NumPy scalar to a Python object, so that it is found in a dict."""
    return name.item() if isinstance(name, np.generic) else name


def segment_kinds(names: Sequence[Any]) -> list[str]:
    """Return the kinds of segments of labels: the part after B-, I-, E-, S-, U- or L-, or the labels without prefixes.

    Examples
    --------
    >>> segment_kinds(["O", "B-title", "I-title", "B-year"])
    ['title', 'year']
    >>> segment_kinds(["author", "year"])
    ['author', 'year']
    """
    labels = [str(name) for name in names]
    tags = [name for name in labels if len(name) > 2 and name[1] == "-" and name[0] in "BIESUL"]
    return list(dict.fromkeys(name[2:] for name in tags)) if tags else labels


def subtract_from_all(scores: FloatArray, theta: FloatArray, out: FloatArray) -> None:
    """Subtract the same scores (..., k) of states from the scores (..., n k) of every variable.

    Examples
    --------
    >>> theta = np.array([[10.0, 20.0, 30.0, 40.0]])
    >>> subtract_from_all(np.array([[1.0, 2.0]]), theta, theta)
    >>> theta
    array([[ 9., 18., 29., 38.]])
    """
    k = scores.shape[-1]
    if theta.flags.c_contiguous and out.flags.c_contiguous and k:
        shape = (*theta.shape[:-1], theta.shape[-1] // k, k)
        np.subtract(theta.reshape(shape), scores[..., None, :], out=out.reshape(shape))
        return
    for first in range(0, theta.shape[-1], max(k, 1)):  # a slice of rows cannot be reshaped without a copy
        np.subtract(theta[..., first : first + k], scores, out=out[..., first : first + k])


def measurement_ranges(layout: MarginalLayout, measurements: csr_array) -> FloatArray:
    """Return upper bounds on `max_y a . S(y) - min_y a . S(y)` for each row a: the sum of the ranges in all blocks."""
    starts = np.concatenate([layout.variable_ptr[:-1], layout.table_ptr])
    sizes = np.diff(starts)
    n_blocks, n_rows, n_tables = sizes.size, measurements.shape[0], layout.table_ptr.size - 1
    n_uses = np.ones(n_blocks)
    n_uses[layout.n_variables :] = np.bincount(layout.table_of_factor, minlength=n_tables)
    row = np.repeat(np.arange(n_rows), np.diff(measurements.indptr))
    key = row * n_blocks + np.searchsorted(starts, measurements.indices, side="right") - 1
    blocks, block_of_entry, n_entries = np.unique(key, return_inverse=True, return_counts=True)
    row, block = blocks // n_blocks, blocks % n_blocks
    # A state without an entry has coefficient 0.
    is_sparse = n_entries < sizes[block]
    high, low = np.where(is_sparse, 0.0, -np.inf), np.where(is_sparse, 0.0, np.inf)
    np.maximum.at(high, block_of_entry, measurements.data)
    np.minimum.at(low, block_of_entry, measurements.data)
    span = high - low
    for i in np.flatnonzero((block >= layout.n_variables) & (sizes[block] == 1)).tolist():
        span[i] = _parametric_range(graph_of(layout), int(block[i]) - layout.n_variables, float(high[i]))
    return np.bincount(row, n_uses[block] * span, n_rows).astype(np.float64, copy=False)


def _parametric_range(graph: FactorGraph, table: int, coefficient: float) -> float:
    """Return the range over the pairs of states of the statistic of a parametric table, times its coefficient."""
    if graph.table_kind[table] == 0:
        return 0.0
    unit = np.zeros(graph.n_theta)
    unit[graph.table_ptr[table]] = 1.0
    statistic = graph.factor_table(unit, int(graph.first_factor_of_table[table]))
    return abs(coefficient) * float(statistic.max() - statistic.min())
