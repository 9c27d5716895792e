"""Linear measurements of marginals: expected counts of labels, segments and transitions, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from intarsia._core.registry import Parts
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, check_number
from intarsia.energies.binding.label_index import Label, LabelIndex
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Entries:
    """Rows of a sparse matrix over mu, as triplets."""

    rows: IntArray
    columns: IntArray
    values: FloatArray
    n_rows: int = 1

    def matrix(self, n_columns: int) -> csr_array:
        """The rows as CSR; entries of the same place add up."""
        made = csr_array((self.values, (self.rows, self.columns)), shape=(self.n_rows, n_columns))
        made.sum_duplicates()
        return made


def one_row(columns: IntArray, values: FloatArray | float = 1.0) -> Entries:
    """Entries of a single measurement."""
    return Entries(np.zeros(columns.size, np.int64), columns, np.broadcast_to(values, columns.shape).astype(np.float64))


class Measurement(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of linear functions `a . mu` of the marginals; they add, subtract and scale."""

    @abstractmethod
    def entries(self, index: LabelIndex) -> Entries:
        """The vectors a on one graph."""

    def __add__(self, other: Any) -> Combination:
        return Combination([*_terms(self), *_terms(other)]) if isinstance(other, Measurement) else NotImplemented

    def __sub__(self, other: Any) -> Combination:
        return self + other * -1.0 if isinstance(other, Measurement) else NotImplemented

    def __mul__(self, factor: Any) -> Combination:
        if not isinstance(factor, (int, float, np.integer, np.floating)):
            return NotImplemented
        check_number(factor, "Measurement: factor", low=-1e200, high=1e200)
        return Combination([(float(factor) * c, part) for c, part in _terms(self)])

    def __neg__(self) -> Combination:
        return self * -1.0

    __rmul__ = __mul__


def _terms(measurement: Measurement) -> list[tuple[float, Measurement]]:
    return list(measurement.terms) if isinstance(measurement, Combination) else [(1.0, measurement)]


class Combination(Measurement):
    """Sum of multiples of measurements; made by `+`, `-` and `*`.

    Parameters
    ----------
    terms : list of (float, Measurement)
        Coefficient and measurement.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> index = LabelIndex(chain_graph(2, 2), ["a", "b"])
    >>> (Count("a") - 2 * Count("b")).entries(index).matrix(8).toarray()[0, :4]
    array([ 1., -2.,  1., -2.])
    """

    _parts: ClassVar[Parts] = {"terms": ENERGY_PARTS}

    def __init__(self, terms: Sequence[tuple[float, Measurement]]) -> None:
        self.terms = terms

    def entries(self, index: LabelIndex) -> Entries:
        """Sum of the parts' vectors."""
        parts = [(coefficient, part.entries(index)) for coefficient, part in self.terms]
        n_rows = parts[0][1].n_rows
        other = next((part.n_rows for _, part in parts if part.n_rows != n_rows), n_rows)
        if other != n_rows:
            raise InvalidInputError(
                f"Combination: one part has {n_rows} measurements and another {other}. Combine parts of equal number."
            )
        return Entries(
            np.concatenate([part.rows for _, part in parts]),
            np.concatenate([part.columns for _, part in parts]),
            np.concatenate([coefficient * part.values for coefficient, part in parts]),
            n_rows,
        )


class Count(Measurement):
    """Expected number of variables with a label.

    Parameters
    ----------
    label : str or int
        Name of the label, or number of the state.
    variables : int array, optional
        Only these variables; by default all.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> Count("verb").entries(LabelIndex(chain_graph(3, 2), ["noun", "verb"])).columns
    array([1, 3, 5])
    """

    def __init__(self, label: Label, *, variables: ArrayLike | None = None) -> None:
        self.label = label
        self.variables = variables

    def entries(self, index: LabelIndex) -> Entries:
        """1 at the label's state of each variable."""
        if self.variables is None:
            return one_row(index.positions(self.label))
        chosen = np.array([index.graph.variable_index(v) for v in np.ravel(np.asarray(self.variables)).tolist()], int)
        states = index.states(self.label)[chosen]
        return one_row((index.graph.variable_ptr[chosen] + states)[states >= 0])


class Transitions(Measurement):
    """Expected number of factors over two variables whose states are (source, target).

    Parameters
    ----------
    source, target : str or int
        Labels of the first and the second variable.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> Transitions(0, 1).entries(LabelIndex(chain_graph(3, 2, shared=True))).columns    # 6 + 0 x 2 + 1
    array([7])
    """

    def __init__(self, source: Label, target: Label) -> None:
        self.source = source
        self.target = target

    def entries(self, index: LabelIndex) -> Entries:
        """1 at the pair's entry of each table."""
        return one_row(index.transitions(self.source, self.target))


class SegmentStarts(Measurement):
    """Expected number of segments of one kind.

    Where labels are marked (B-x and I-x, or B-, I-, E-, S-), a segment starts at B-x or S-x, and the measurement
    reads only variables. Otherwise a segment is a longest run of the label x, and their number is that of the
    variables with x less that of the steps from x to x; then it reads the tables, too.

    Parameters
    ----------
    kind : str or int
        What follows the mark ("title" for B-title), or the label itself.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> index = LabelIndex(chain_graph(3, 3), ["O", "B-x", "I-x"])
    >>> SegmentStarts("x").entries(index).columns
    array([1, 4, 7])
    """

    def __init__(self, kind: Label) -> None:
        self.kind = kind

    def entries(self, index: LabelIndex) -> Entries:
        """1 at the marks, or 1 at the label and -1 at its steps to itself."""
        opening = index.opening(self.kind)
        if opening:
            return one_row(np.concatenate([index.positions(name) for name in opening]))
        label = index.body(self.kind)
        inside, stays = index.positions(label), index.transitions(label, label)
        return one_row(np.concatenate([inside, stays]), np.repeat([1.0, -1.0], [inside.size, stays.size]))


class StartsAfter(Measurement):
    """For each variable but the first: is this a start of `late`, plus the number of earlier starts of `early`.

    Values above 1 say that a segment of `late` begins after one of `early` began. There is one measurement per
    variable (in their order), so the number of non-zero entries grows with the square of the length. Labels without
    marks need a table for each step.

    Parameters
    ----------
    early, late : str or int
        Kinds of segments.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> index = LabelIndex(chain_graph(3, 3), ["O", "B-x", "B-y"])
    >>> StartsAfter("x", "y").entries(index).matrix(27).toarray()[:, :9]
    array([[0., 1., 0., 0., 0., 1., 0., 0., 0.],
           [0., 1., 0., 0., 1., 0., 0., 0., 1.]])
    """

    def __init__(self, early: Label, late: Label) -> None:
        self.early = early
        self.late = late

    def entries(self, index: LabelIndex) -> Entries:
        """A row per variable but the first."""
        n = index.graph.n_variables
        early, late = (_starts_by_variable(kind, index) for kind in (self.early, self.late))
        rows, columns, values = [late[0] - 1], [late[1]], [late[2]]
        for t in range(1, n):
            before = early[0] < t
            rows.append(np.full(int(before.sum()), t - 1))
            columns.append(early[1][before])
            values.append(early[2][before])
        row, column, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
        inside = row >= 0
        return Entries(row[inside], column[inside], value[inside], max(n - 1, 0))


def _starts_by_variable(kind: Label, index: LabelIndex) -> tuple[IntArray, IntArray, FloatArray]:
    """Entries of the starts of a kind of segments, with the variable at which each stands."""
    graph = index.graph
    opening = index.opening(kind)
    labels = opening or [index.body(kind)]
    positions = np.concatenate([index.positions(name) for name in labels])
    variables = np.searchsorted(graph.variable_ptr, positions, side="right") - 1
    if opening:
        return variables, positions, np.ones(positions.size)
    if graph.shares_tables:
        raise InvalidInputError(
            f"StartsAfter: where segments of {kind!r} start is told by single steps, but this graph's steps share a "
            f"table, so mu holds their sum. Use labels with marks (B-x, I-x), or a graph with a table per step."
        )
    stays = index.transitions(labels[0], labels[0])
    table = np.searchsorted(graph.table_ptr, stays, side="right") - 1
    target = graph.scope_idx[graph.scope_ptr[graph.first_factor_of_table[table]] + 1]
    return (
        np.concatenate([variables, target]),
        np.concatenate([positions, stays]),
        np.repeat([1.0, -1.0], [positions.size, stays.size]),
    )


class SparseVector(Measurement):
    """Any sparse vector over mu.

    Parameters
    ----------
    positions : int array
        Entries of mu; see `FactorGraph.variable_ptr` and `table_ptr`.
    values : float array
        Their coefficients.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> SparseVector([0, 5], [1.0, 0.5]).entries(LabelIndex(chain_graph(3, 2))).values
    array([1. , 0.5])
    """

    def __init__(self, positions: ArrayLike, values: ArrayLike = 1.0) -> None:
        self.positions = positions
        self.values = values

    def entries(self, index: LabelIndex) -> Entries:
        """The vector as given."""
        columns = as_int_array(self.positions, "SparseVector: positions").reshape(-1)
        values = as_float_array(self.values, "SparseVector: values")
        n = index.graph.n_theta
        if values.ndim and values.shape != columns.shape:
            raise InvalidInputError(f"SparseVector: {columns.size} positions but {values.size} values. Give one each.")
        bad = (columns < 0) | (columns >= n)
        if bad.any():
            raise InvalidInputError(f"SparseVector: position {columns[bad][0]} is outside mu, which has {n} entries.")
        if not np.isfinite(values).all():
            raise InvalidInputError("SparseVector: values must be finite.")
        return one_row(columns, values)
