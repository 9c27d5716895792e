"""Features of pairs of records and of clusters: sums over pairs, aggregates of first order, size, agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from intarsia._core.error_context import errors_from
from intarsia._core.registry import Registry
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
    """Features of some pairs of records; make it with `pair_features` or `dense_pair_features`.

    Pairs that are not listed are *absent*: their features are 0.

    Attributes
    ----------
    n_records : int
        Number of records.
    pairs : int array (n_pairs, 2)
        Records of each pair, the smaller first, in ascending order.
    values : float array (n_pairs, n_features)
        Their features.
    names : tuple of str
        Names of the features.
    ptr, idx, row : int arrays
        For record i, `idx[ptr[i]:ptr[i + 1]]` are its partners, ascending, and `row[...]` the rows of those pairs.

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
    """Features of the pairs listed, by an edge list; all other pairs are absent.

    Parameters
    ----------
    n_records : int
        Number of records.
    pairs : int array (n_pairs, 2)
        Two different records each, in either order; each pair once.
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
            f"n_features). Give one row of features for each pair."
        )
    outside = np.flatnonzero(((ends < 0) | (ends >= n_records)).any(axis=1))
    if outside.size:
        raise InvalidInputError(
            f"pair {int(outside[0])} is {ends[outside[0]].tolist()}, but there are {n_records} records "
            f"(0..{int(n_records) - 1}). Name records that exist."
        )
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if loops.size:
        raise InvalidInputError(
            f"pair {int(loops[0])} joins record {int(ends[loops[0], 0])} with itself. Leave it out."
        )
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"the features of pair {int(bad[0])}, {ends[bad[0]].tolist()}, are not all finite: "
            f"{table[bad[0]].tolist()[:6]}. Put 0 for what is missing, and add a feature that tells so."
        )
    ends = np.sort(ends, axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, table = ends[order], table[order]
    twice = np.flatnonzero((ends[1:] == ends[:-1]).all(axis=1))
    if twice.size:
        raise InvalidInputError(f"pair {ends[twice[0]].tolist()} is given twice. Give each pair once.")
    titles = tuple(f"f{k}" for k in range(table.shape[1])) if names is None else tuple(map(str, names))
    if len(titles) != table.shape[1] or len(set(titles)) != len(titles):
        raise InvalidInputError(
            f"names {titles} must be {table.shape[1]} different names, one for each feature. Give as many."
        )
    return _by_record(int(n_records), ends, table, titles)


def dense_pair_features(values: ArrayLike, names: Sequence[str] | None = None) -> PairFeatures:
    """Features of all pairs, from an array over records x records x features.

    Parameters
    ----------
    values : float array (n_records, n_records, n_features) or (n_records, n_records)
        Symmetric in the records; the diagonal is not read.
    names : sequence of str, optional
        Names of the features.

    Examples
    --------
    >>> features = dense_pair_features([[0, 1, 2], [1, 0, 3], [2, 3, 0]])
    >>> features.values.ravel().tolist(), features.complete
    ([1.0, 2.0, 3.0], True)
    """
    array = as_float_array(values, "dense_pair_features: values")
    array = array[:, :, None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise InvalidInputError(
            f"dense_pair_features: values has shape {array.shape}, expected (n_records, n_records, n_features). Give "
            f"the features of all pairs."
        )
    first, second = np.triu_indices(array.shape[0], 1)
    upper, lower = array[first, second], array[second, first]
    odd = np.flatnonzero(~np.isclose(upper, lower, equal_nan=True).all(axis=1))
    if odd.size:
        i, j = int(first[odd[0]]), int(second[odd[0]])
        raise InvalidInputError(
            f"dense_pair_features: values[{i}, {j}] and values[{j}, {i}] differ. A pair has no order: make them equal."
        )
    return pair_features(array.shape[0], np.stack([first, second], axis=1), upper, names)


def _by_record(n_records: int, ends: IntArray, values: FloatArray, names: tuple[str, ...]) -> PairFeatures:
    """Partners of each record, ascending, from sorted pairs."""
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
    """Features of a clustering, as the kernels read them: kind, argument and level of each, and their names."""

    names: tuple[str, ...]
    kind: IntArray
    argument: IntArray
    level: FloatArray
    count_column: IntArray
    count_at: FloatArray
    extreme_column: IntArray

    def pair_weights(self, weights: FloatArray, n_pair_features: int) -> tuple[FloatArray, float]:
        """How the score changes when a pair comes together, from the sums alone: by feature, and for absent pairs."""
        found = np.zeros(n_pair_features)
        for kind, sign in ((kernels.SUM, 1.0), (kernels.BETWEEN, -1.0)):
            at = self.kind == kind
            np.add.at(found, self.argument[at], sign * weights[at])
        return found, float(weights[self.kind == kernels.ABSENT].sum())


class ClusterModel(BaseEstimator):  # type: ignore[misc]
    r"""Features of a clustering, each a sum over its clusters: the score is linear in them (Rohanimanesh2009, Eq. 1).

    With weights :math:`\Theta` the score of a clustering is :math:`\Theta \cdot \phi`, where :math:`\phi` sums the
    features of every cluster (:math:`f_w`) and of the pairs across clusters (:math:`f_b`). Where columns of pair
    features are asked for, "all" means all, None none, and a list names them. Aggregates run over the pairs inside a
    cluster, absent ones included with the value 0; a single record has no pairs, so all its aggregates are 0.

    Parameters
    ----------
    within : columns
        Sum over the pairs inside clusters.
    between : columns
        Sum over the pairs across clusters. With `within` on the same column one of the two is redundant.
    absent : bool
        Number of absent pairs inside clusters: the price of putting together what blocking found unlike.
    mean, minimum, maximum : columns
        Aggregate over the pairs of each cluster.
    exists, for_all : float or dict column -> float
        Whether some pair, or every pair, of the cluster has more than this; a number holds for all columns.
    sizes : sequence of int
        For each: number of clusters with at least so many records; 1 counts the clusters.
    log_size : bool
        Sum of the logarithms of the sizes.
    agreement, all_equal : columns of attributes
        Share of the pairs of known values that agree, and whether all do.

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
    ) -> None:
        self.within = within
        self.between = between
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

    def table(self, columns: Sequence[str], attributes: Sequence[str] = ()) -> FeatureTable:
        """Features for these pair features and attributes, in the order of the settings."""
        rows: list[tuple[str, int, int, float]] = []
        levels: list[tuple[int, float]] = []

        def add(setting: str, kind: int, known: Sequence[str], among: list[int] | None = None) -> None:
            for k in _columns(getattr(self, setting), known, setting):
                argument = k if among is None else among.index(k)
                rows.append((f"{setting.replace('_', ' ')} {known[k]}", kind, argument, 0.0))

        # Minima and maxima are kept of these columns only: to keep them costs more than to keep sums.
        extremes = sorted({k for name in ("minimum", "maximum") for k in _columns(getattr(self, name), columns, name)})

        add("within", kernels.SUM, columns)
        add("between", kernels.BETWEEN, columns)
        if self.absent:
            rows.append(("absent", kernels.ABSENT, 0, 0.0))
        add("mean", kernels.MEAN, columns)
        add("minimum", kernels.LEAST, columns, extremes)
        add("maximum", kernels.MOST, columns, extremes)
        for setting, kind in (("exists", kernels.EXISTS), ("for_all", kernels.FOR_ALL)):
            for k, at in _levels(getattr(self, setting), columns, setting):
                rows.append((f"{setting.replace('_', ' ')} {columns[k]} > {at:g}", kind, len(levels), 0.0))
                levels.append((k, at))
        for size in self.sizes:
            check_number(size, "ClusterModel: sizes", low=1, integer=True)
            rows.append((f"size >= {int(size)}", kernels.SIZE, 0, float(size)))
        if self.log_size:
            rows.append(("log size", kernels.LOG_SIZE, 0, 0.0))
        add("agreement", kernels.AGREEING, attributes)
        add("all_equal", kernels.ALL_EQUAL, attributes)
        if not rows:
            raise InvalidInputError("ClusterModel: no features are asked for. Set at least one, such as within='all'.")
        names, kinds, arguments, sizes = zip(*rows, strict=True)
        return FeatureTable(
            tuple(names),
            frozen(np.array(kinds, dtype=np.int64)),
            frozen(np.array(arguments, dtype=np.int64)),
            frozen(np.array(sizes, dtype=np.float64)),
            frozen(np.array([k for k, _ in levels], dtype=np.int64)),
            frozen(np.array([at for _, at in levels], dtype=np.float64)),
            frozen(np.array(extremes, dtype=np.int64)),
        )


def _columns(given: Columns, known: Sequence[str], setting: str) -> list[int]:
    """Numbers of the columns asked for."""
    if given is None:
        return []
    if isinstance(given, str):
        if given == "all":
            return list(range(len(known)))
        given = [given]
    return [list(known).index(check_choice(name, known, f"ClusterModel: {setting}")) for name in given]


def _levels(given: Levels, known: Sequence[str], setting: str) -> list[tuple[int, float]]:
    """Columns and the levels that their pairs are compared with."""
    if given is None:
        return []
    asked = given if isinstance(given, Mapping) else dict.fromkeys(known, given)
    found = []
    for name, at in asked.items():
        check_number(at, f"ClusterModel: {setting}", low=-np.inf, high=np.inf, open_low=True, open_high=True)
        found.append((_columns([name], known, setting)[0], float(at)))
    return found


CLUSTER_MODELS: Registry[ClusterModel] = Registry(
    "model", "intarsia.clusters", {"cluster_model": "ClusterModel"}, ClusterModel
)
