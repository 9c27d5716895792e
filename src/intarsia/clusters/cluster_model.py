"""Features of pairs of records, and the model of a clustering: sums, aggregates, sizes and agreement of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_from
from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import (
    FloatArray,
    IntArray,
    as_float_array,
    as_int_array,
    check_choice,
    check_number,
    frozen,
)
from intarsia._kernels import partition as kernels
from intarsia.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Features of pairs of records, built by `pair_features` or `dense_pair_features`.

    Pairs that are not listed are *absent*: their features are 0.

    Attributes
    ----------
    n_records : int
        Number of records.
    pairs : int array (n_pairs, 2)
        Records of each pair, the smaller first, sorted.
    values : float array (n_pairs, n_features)
        Features of each pair.
    names : tuple of str
        Names of the features.
    ptr, idx, row : int arrays
        For record i, `idx[ptr[i]:ptr[i + 1]]` are its partners, ascending, and `row[...]` the rows of these pairs.

    Examples
    --------
    >>> features = pair_features(3, [[0, 2], [0, 1]], [[1.0, 0.5], [0.0, 2.0]], names=["name", "age"])
    >>> partners = slice(features.ptr[0], features.ptr[1])
    >>> features.idx[partners].tolist(), features.values[features.row[partners]].tolist()
    ([1, 2], [[0.0, 2.0], [1.0, 0.5]])
    >>> features.n_features, features.complete                  # the pair of 1 and 2 is absent
    (2, False)
    """

    n_records: int
    pairs: IntArray
    values: FloatArray
    names: tuple[str, ...]
    ptr: IntArray = field(repr=False)
    idx: IntArray = field(repr=False)
    row: IntArray = field(repr=False)

    @property
    def n_features(self) -> int:
        """Number of features of a pair."""
        return int(self.values.shape[1])

    @property
    def complete(self) -> bool:
        """Whether no pair is absent."""
        return 2 * self.pairs.shape[0] == self.n_records * (self.n_records - 1)


@errors_from("pair_features")
def pair_features(
    n_records: int, pairs: ArrayLike, values: ArrayLike, names: Sequence[str] | None = None
) -> PairFeatures:
    """Build pair features from a list of pairs; all other pairs are absent.

    Parameters
    ----------
    n_records : int
        Number of records.
    pairs : int array (n_pairs, 2)
        Two different records per pair, in either order; each pair once.
    values : float array (n_pairs, n_features) or (n_pairs,)
        Features of each pair; finite.
    names : sequence of str, optional
        Names of the features: f0, f1, ... by default.

    Examples
    --------
    >>> features = pair_features(3, [[2, 0], [0, 1]], [0.5, 0.9])
    >>> features.pairs.tolist(), features.values.ravel().tolist(), features.complete
    ([[0, 1], [0, 2]], [0.9, 0.5], False)
    """
    check_number(n_records, "n_records", low=1, integer=True)
    ends = as_int_array(pairs, "pairs")
    ends = ends.reshape(0, 2) if ends.size == 0 else ends
    table = as_float_array(values, "values")
    table = table[:, None] if table.ndim == 1 else table
    if ends.ndim != 2 or ends.shape[1] != 2 or table.ndim != 2 or table.shape[0] != ends.shape[0]:
        raise InvalidInputError(
            f"pairs has shape {ends.shape} and values {table.shape}; expected (n_pairs, 2) and (n_pairs, "
            f"n_features). Pass one row of features per pair."
        )
    if ends.min(initial=0) < 0 or ends.max(initial=-1) >= n_records:
        outside = np.flatnonzero(((ends < 0) | (ends >= n_records)).any(axis=1))
        raise InvalidInputError(
            f"pair {int(outside[0])} is {ends[outside[0]].tolist()}, but there are {n_records} records "
            f"(0..{int(n_records) - 1}). Pass numbers of existing records."
        )
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if loops.size:
        raise InvalidInputError(
            f"pair {int(loops[0])} joins record {int(ends[loops[0], 0])} with itself. Remove the pair."
        )
    if not np.isfinite(table).all():
        bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
        raise InvalidInputError(
            f"the features of pair {int(bad[0])}, {ends[bad[0]].tolist()}, are not all finite: "
            f"{table[bad[0]].tolist()[:6]}. Use 0 for missing values, and add a feature that marks them."
        )
    ends, order, repeated = sort_pairs(ends, int(n_records))
    table = table[order]
    if repeated is not None:
        raise InvalidInputError(f"pair {ends[repeated].tolist()} is listed twice. Pass each pair once.")
    feature_names = tuple(f"f{k}" for k in range(table.shape[1])) if names is None else tuple(map(str, names))
    if len(feature_names) != table.shape[1] or len(set(feature_names)) != len(feature_names):
        raise InvalidInputError(
            f"names {feature_names} must be {table.shape[1]} different names, one per feature. Pass that many."
        )
    return _index_by_record(int(n_records), ends, table, feature_names)


def sort_pairs(pairs: IntArray, n_records: int) -> tuple[IntArray, IntArray, int | None]:
    """Return the pairs sorted, the smaller record first; their rows in `pairs`; and the first pair that is repeated.

    Examples
    --------
    >>> ends, order, repeated = sort_pairs(np.array([[2, 0], [0, 1], [0, 2]]), 3)
    >>> ends.tolist(), int(order[0]), repeated
    ([[0, 1], [0, 2], [0, 2]], 1, 1)
    """
    first, second = np.minimum(pairs[:, 0], pairs[:, 1]), np.maximum(pairs[:, 0], pairs[:, 1])
    key = first * n_records + second  # sorting one number takes a fraction of the time of sorting two
    order = np.argsort(key)
    repeated = np.flatnonzero(np.diff(key[order]) == 0)
    return np.column_stack([first[order], second[order]]), order, int(repeated[0]) if repeated.size else None


@errors_from("dense_pair_features")
def dense_pair_features(values: ArrayLike, names: Sequence[str] | None = None) -> PairFeatures:
    """Build the features of all pairs from an array over records x records x features.

    Parameters
    ----------
    values : float array (n_records, n_records, n_features) or (n_records, n_records)
        Features, symmetric in the records; the diagonal is ignored.
    names : sequence of str, optional
        Names of the features.

    Examples
    --------
    >>> features = dense_pair_features([[0, 1, 2], [1, 0, 3], [2, 3, 0]])
    >>> features.values.ravel().tolist(), features.complete
    ([1.0, 2.0, 3.0], True)
    """
    array = as_float_array(values, "values")
    array = array[:, :, None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise InvalidInputError(
            f"values has shape {array.shape}, expected (n_records, n_records, n_features). Pass "
            f"the features of all pairs."
        )
    first, second = np.triu_indices(array.shape[0], 1)
    upper, lower = array[first, second], array[second, first]
    asymmetric = np.flatnonzero(~np.isclose(upper, lower, equal_nan=True).all(axis=1))
    if asymmetric.size:
        i, j = int(first[asymmetric[0]]), int(second[asymmetric[0]])
        raise InvalidInputError(f"values[{i}, {j}] and values[{j}, {i}] differ. Make the array symmetric.")
    return pair_features(array.shape[0], np.stack([first, second], axis=1), upper, names)


def _index_by_record(n_records: int, ends: IntArray, values: FloatArray, names: tuple[str, ...]) -> PairFeatures:
    """Return the pair features with the partners of each record, ascending, from sorted pairs."""
    owner = np.concatenate([ends[:, 1], ends[:, 0]])  # partners below a record come first, and in ascending order
    partner = np.concatenate([ends[:, 0], ends[:, 1]])
    order = np.argsort(owner, kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_records))]).astype(np.int64)
    row = np.tile(np.arange(ends.shape[0], dtype=np.int64), 2)[order]
    idx = partner[order]
    return PairFeatures(n_records, frozen(ends), frozen(values), names, frozen(ptr), frozen(idx), frozen(row))


Columns = str | Sequence[str] | None
Levels = float | Mapping[str, float] | None


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features of a clustering in the form that the kernels read: names, and kind, argument and level of each."""

    names: tuple[str, ...]
    kind: IntArray
    argument: IntArray
    level: FloatArray
    count_column: IntArray
    count_level: FloatArray
    extreme_column: IntArray

    def pair_weights(self, weights: FloatArray, n_pair_features: int) -> tuple[FloatArray, float]:
        """Return the change of the score when a pair is joined, from sums: per pair feature, and for absent pairs."""
        pair_weight = np.zeros(n_pair_features)
        mask = self.kind == kernels.SUM
        np.add.at(pair_weight, self.argument[mask], weights[mask])
        return pair_weight, float(weights[self.kind == kernels.ABSENT].sum())


class ClusterModel(Settings):
    r"""Log-linear model of a clustering, with features summed over its clusters (Rohanimanesh2009, Eq. 1).

    With weights :math:`\Theta` the score of a clustering is :math:`\Theta \cdot \phi`, where :math:`\phi` sums the
    features of every cluster (:math:`f_w`) and of every pair of clusters that a listed pair links (:math:`f_b`). With
    sums over pairs alone this is correlation clustering. Parameters of type columns select pair features: "all"
    selects all of them, None none, and a list names them. Aggregates run over the pairs inside a cluster, including
    absent pairs with the value 0; a singleton has no pairs, so all its aggregates are 0.

    Parameters
    ----------
    within : columns
        Sum over the pairs inside clusters.
    between, between_mean : columns
        Maximum, and mean, over the listed pairs across two clusters, summed over pairs of clusters.
    between_exists : float or dict column -> float
        Number of pairs of clusters that a pair above this level links.
    absent : bool
        Number of absent pairs inside clusters, a penalty for joining records that blocking did not pair.
    mean, minimum, maximum : columns
        Aggregate over the pairs of each cluster.
    exists, for_all : float or dict column -> float
        Whether any pair, or every pair, of the cluster exceeds this level; a number applies to all columns.
    sizes : sequence of int
        For each size: number of clusters with at least this many records; 1 counts all clusters.
    log_size : bool
        Sum of the logarithms of the cluster sizes.
    agreement, all_equal, distinct : columns of attributes
        Fraction of the pairs of known values that agree, whether all agree, and number of distinct values beyond 1.
    unknown : columns of attributes
        Number of clusters in which no record has a known value, singletons included.
    span : columns of numbers
        Difference between the largest and the smallest known number of a cluster.
    representative : columns
        Mean over the other records of the pair with the record of the cluster that has most listed pairs.

    Examples
    --------
    >>> ClusterModel(minimum=["name"], sizes=(1,)).table(["name", "year"]).names
    ('within name', 'within year', 'absent', 'minimum name', 'size >= 1')
    """

    def __init__(
        self,
        *,
        within: Columns = "all",
        between: Columns = None,
        between_mean: Columns = None,
        between_exists: Levels = None,
        absent: bool = True,
        mean: Columns = None,
        minimum: Columns = None,
        maximum: Columns = None,
        exists: Levels = None,
        for_all: Levels = None,
        sizes: Sequence[int] = (),
        log_size: bool = False,
        agreement: Columns = None,
        all_equal: Columns = None,
        distinct: Columns = None,
        unknown: Columns = None,
        span: Columns = None,
        representative: Columns = None,
    ) -> None:
        self.within = within
        self.between = between
        self.between_mean = between_mean
        self.between_exists = between_exists
        self.absent = absent
        self.mean = mean
        self.minimum = minimum
        self.maximum = maximum
        self.exists = exists
        self.for_all = for_all
        self.sizes = sizes
        self.log_size = log_size
        self.agreement = agreement
        self.all_equal = all_equal
        self.distinct = distinct
        self.unknown = unknown
        self.span = span
        self.representative = representative

    def table(
        self, columns: Sequence[str], attributes: Sequence[str] = (), numbers: Sequence[str] = ()
    ) -> FeatureTable:
        """Return the features of a clustering for these pair features, attributes and numbers."""
        rows: list[tuple[str, int, int, float]] = []
        levels: list[tuple[int, float]] = []

        def add(setting: str, kind: int, names: Sequence[str], among: list[int] | None = None) -> None:
            for k in _column_indices(getattr(self, setting), names, setting):
                argument = k if among is None else among.index(k)
                rows.append((f"{setting.replace('_', ' ')} {names[k]}", kind, argument, 0.0))

        # Minima and maxima are updated for these columns only, because they cost more than sums.
        extremes = sorted(
            {k for name in ("minimum", "maximum") for k in _column_indices(getattr(self, name), columns, name)}
        )

        add("within", kernels.SUM, columns)
        add("between", kernels.BETWEEN, columns)
        add("between_mean", kernels.BETWEEN_MEAN, columns)
        for k, level in _column_levels(self.between_exists, columns, "between_exists"):
            rows.append((f"between exists {columns[k]} > {level:g}", kernels.BETWEEN_EXISTS, k, level))
        if self.absent:
            rows.append(("absent", kernels.ABSENT, 0, 0.0))
        add("mean", kernels.MEAN, columns)
        add("minimum", kernels.LEAST, columns, extremes)
        add("maximum", kernels.MOST, columns, extremes)
        for setting, kind in (("exists", kernels.EXISTS), ("for_all", kernels.FOR_ALL)):
            for k, level in _column_levels(getattr(self, setting), columns, setting):
                rows.append((f"{setting.replace('_', ' ')} {columns[k]} > {level:g}", kind, len(levels), 0.0))
                levels.append((k, level))
        for size in self.sizes:
            check_number(size, "ClusterModel: sizes", low=1, integer=True)
            rows.append((f"size >= {int(size)}", kernels.SIZE, 0, float(size)))
        if self.log_size:
            rows.append(("log size", kernels.LOG_SIZE, 0, 0.0))
        add("agreement", kernels.AGREEING, attributes)
        add("all_equal", kernels.ALL_EQUAL, attributes)
        add("distinct", kernels.DISTINCT, attributes)
        add("unknown", kernels.UNKNOWN, attributes)
        add("span", kernels.SPAN, numbers)
        add("representative", kernels.REPRESENTATIVE, columns)
        if not rows:
            raise InvalidInputError("ClusterModel: no feature is selected. Set at least one, such as within='all'.")
        table_names, kinds, arguments, sizes = zip(*rows, strict=True)
        return FeatureTable(
            tuple(table_names),
            frozen(np.array(kinds, dtype=np.int64)),
            frozen(np.array(arguments, dtype=np.int64)),
            frozen(np.array(sizes, dtype=np.float64)),
            frozen(np.array([k for k, _ in levels], dtype=np.int64)),
            frozen(np.array([level for _, level in levels], dtype=np.float64)),
            frozen(np.array(extremes, dtype=np.int64)),
        )


def read_numbers(values: ArrayLike, n_records: int, name: str) -> FloatArray:
    """Return one number per record, with a large value that the kernels skip in place of NaN."""
    numbers = as_float_array(values, f"ClusterWorld: numbers[{name!r}]")
    if numbers.shape != (n_records,) or np.isinf(numbers).any():
        raise InvalidInputError(
            f"ClusterWorld: numbers[{name!r}] has shape {numbers.shape}; expected {n_records} numbers, none infinite. "
            f"Pass one per record, NaN where it is unknown."
        )
    return np.where(np.isnan(numbers), kernels.UNKNOWN_NUMBER, numbers)


def _column_indices(selection: Columns, names: Sequence[str], setting: str) -> list[int]:
    """Return the indices of the selected columns."""
    if selection is None:
        return []
    if isinstance(selection, str):
        if selection == "all":
            return list(range(len(names)))
        selection = [selection]
    return [list(names).index(check_choice(name, names, f"ClusterModel: {setting}")) for name in selection]


def _column_levels(setting_levels: Levels, names: Sequence[str], setting: str) -> list[tuple[int, float]]:
    """Return the index and the level of each column that a setting names."""
    if setting_levels is None:
        return []
    level_of_name = setting_levels if isinstance(setting_levels, Mapping) else dict.fromkeys(names, setting_levels)
    levels = []
    for name, level in level_of_name.items():
        check_number(level, f"ClusterModel: {setting}", low=-np.inf, high=np.inf, open_low=True, open_high=True)
        levels.append((_column_indices([name], names, setting)[0], float(level)))
    return levels


CLUSTER_MODELS: Registry[ClusterModel] = Registry(
    "model", "intarsia.clusters", {"cluster_model": "ClusterModel"}, ClusterModel
)
