"""Which features a cluster has: sums over its pairs, aggregates of first order, its size, agreement of attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._kernels import partition as kernels
from intarsia._validation import FloatArray, IntArray, check_choice, check_number, frozen
from intarsia.exceptions import InvalidInputError

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
