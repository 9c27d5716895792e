"""Linear measurements of marginals: expected counts of labels, segments and transitions, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from intarsia._core.registry import Parts
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, check_number
from intarsia.energies.binding.label_index import Label, LabelIndex
from intarsia.energies.registry import ENERGY_PARTS
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Entries:
    """Rows of a sparse matrix over mu, as triplets (row, column, value)."""

    rows: IntArray
    columns: IntArray
    values: FloatArray
    n_rows: int = 1

    def matrix(self, n_columns: int) -> csr_array:
        """Return the rows as a CSR matrix; duplicate entries are summed."""
        matrix = csr_array((self.values, (self.rows, self.columns)), shape=(self.n_rows, n_columns))
        matrix.sum_duplicates()
        return matrix


def one_row(columns: IntArray, values: FloatArray | float = 1.0) -> Entries:
    """Return the entries of a single measurement."""
    return Entries(np.zeros(columns.size, np.int64), columns, np.broadcast_to(values, columns.shape).astype(np.float64))


class Measurement(Settings, ABC):
    """Base class of linear measurements `a . mu` of the marginals, which can be added, subtracted and scaled.

    A subclass implements `entries`: the coefficients a on one graph.
    """

    @abstractmethod
    def entries(self, index: LabelIndex) -> Entries:
        """Return the coefficients a on the graph of an index of labels."""

    def __add__(self, other: Any) -> Combination:
        return Combination([*_terms(self), *_terms(other)]) if isinstance(other, Measurement) else NotImplemented

    def __sub__(self, other: Any) -> Combination:
        return self + other * -1.0 if isinstance(other, Measurement) else NotImplemented

    def __mul__(self, factor: Any) -> Combination:
        if not isinstance(factor, (int, float, np.integer, np.floating)):
            return NotImplemented
        check_number(factor, "Measurement: factor", low=-1e200, high=1e200)
        return Combination([(float(factor) * c, term) for c, term in _terms(self)])

    def __neg__(self) -> Combination:
        return self * -1.0

    __rmul__ = __mul__


def _terms(measurement: Measurement) -> list[tuple[float, Measurement]]:
    return list(measurement.terms) if isinstance(measurement, Combination) else [(1.0, measurement)]


class Combination(Measurement):
    """Linear combination of measurements; created by `+`, `-` and `*`.

    Parameters
    ----------
    terms : list of (float, Measurement)
        Coefficients and measurements.

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
        """Return the weighted sum of the coefficients of all terms."""
        terms = [(coefficient, measurement.entries(index)) for coefficient, measurement in self.terms]
        n_rows = terms[0][1].n_rows
        other = next((entries.n_rows for _, entries in terms if entries.n_rows != n_rows), n_rows)
        if other != n_rows:
            raise InvalidInputError(
                f"Combination: one term has {n_rows} rows and another has {other} rows. Combine measurements with "
                f"equal numbers of rows."
            )
        return Entries(
            np.concatenate([entries.rows for _, entries in terms]),
            np.concatenate([entries.columns for _, entries in terms]),
            np.concatenate([coefficient * entries.values for coefficient, entries in terms]),
            n_rows,
        )


class Count(Measurement):
    """Expected number of variables with a label.

    Parameters
    ----------
    label : str or int
        Name of the label, or number of the state.
    variables : int array, optional
        Variables to count; by default all.

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
        """Return 1 at the state of the label of each variable."""
        if self.variables is None:
            return one_row(index.positions(self.label))
        names = np.ravel(np.asarray(self.variables)).tolist()
        variables = np.array([index.graph.variable_index(v) for v in names], int)
        states = index.states(self.label)[variables]
        return one_row((index.layout.variable_ptr[variables] + states)[states >= 0])


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
        """Return 1 at the entry of the pair in each table."""
        return one_row(index.transitions(self.source, self.target))


class SegmentStarts(Measurement):
    """Expected number of segments of one kind.

    If labels are BIO or BIOES tags (B-x, I-x, E-x, S-x), a segment starts at B-x or S-x, and the measurement reads only
    variables. Otherwise a segment is a maximal run of the label x. The number of runs is the number of variables with x
    minus the number of steps from x to x, so the measurement also reads the tables.

    Parameters
    ----------
    kind : str or int
        Name of the kind without the prefix ("title" for B-title), or the label itself.

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
        """Return 1 at the tags that begin a segment, or 1 at the label and -1 at its steps to itself."""
        opening = index.opening(self.kind)
        if opening:
            return one_row(np.concatenate([index.positions(name) for name in opening]))
        label = index.body(self.kind)
        inside, stays = index.positions(label), index.transitions(label, label)
        return one_row(np.concatenate([inside, stays]), np.repeat([1.0, -1.0], [inside.size, stays.size]))


class StartsAfter(Measurement):
    """For each variable except the first: whether `late` starts there, plus the number of earlier starts of `early`.

    A value above 1 means that a segment of `late` starts after the start of a segment of `early`. There is one row per
    variable (in their order), so the number of non-zero entries grows with the square of the length. Labels without
    BIO prefixes need a table for each step.

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
        """Return one row per variable except the first."""
        n = index.layout.n_variables
        early, late = (_starts_by_variable(kind, index) for kind in (self.early, self.late))
        rows, columns, values = [late[0] - 1], [late[1]], [late[2]]
        for t in range(1, n):
            is_earlier = early[0] < t
            rows.append(np.full(int(is_earlier.sum()), t - 1))
            columns.append(early[1][is_earlier])
            values.append(early[2][is_earlier])
        row, column, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
        has_row = row >= 0
        return Entries(row[has_row], column[has_row], value[has_row], max(n - 1, 0))


def _starts_by_variable(kind: Label, index: LabelIndex) -> tuple[IntArray, IntArray, FloatArray]:
    """Return variables, entries of mu and coefficients of the starts of a kind of segment."""
    opening = index.opening(kind)
    labels = opening or [index.body(kind)]
    positions = np.concatenate([index.positions(name) for name in labels])
    variables = np.searchsorted(index.layout.variable_ptr, positions, side="right") - 1
    if opening:
        return variables, positions, np.ones(positions.size)
    graph = index.graph
    if graph.shares_tables:
        raise InvalidInputError(
            f"StartsAfter: the starts of segments of {kind!r} depend on single steps, but the steps of this graph "
            f"share a table, so mu has only their sum. Use BIO tags (B-x, I-x), or a graph with one table per step."
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
    """Sparse vector of coefficients over mu.

    Parameters
    ----------
    positions : int array
        Entries of mu; see `FactorGraph.variable_ptr` and `table_ptr`.
    values : float array
        Coefficients of these entries.

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
        """Return the vector."""
        columns = as_int_array(self.positions, "SparseVector: positions").reshape(-1)
        values = as_float_array(self.values, "SparseVector: values")
        n = index.layout.n_theta
        if values.ndim and values.shape != columns.shape:
            raise InvalidInputError(
                f"SparseVector: there are {columns.size} positions but {values.size} values. Pass one value per "
                f"position, or one number for all."
            )
        is_outside = (columns < 0) | (columns >= n)
        if is_outside.any():
            raise InvalidInputError(
                f"SparseVector: position {columns[is_outside][0]} is outside mu, which has {n} entries. Pass positions "
                f"in 0 .. {n - 1}."
            )
        if not np.isfinite(values).all():
            raise InvalidInputError("SparseVector: all values must be finite. Remove NaN and infinite values.")
        return one_row(columns, values)
