"""Features of a cluster: the base class of user-written ones, and the built-in ones, which the kernels compute."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia.clusters.tables import plain_text
from intarsia.exceptions import NotSupportedError

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class ClusterFeature(Settings):
    """Abstract base of features of a cluster, which `EntityClusterer` learns a weight for.

    Derive from it to write your own: set `name` and `columns`, and define `value`. A move of records changes two
    clusters only, so `value` is called for these two. For large clusters you can also define `change`, which computes
    the new value from the old one. Features of your own run in Python, which is slower than the built-in ones, and a
    model with them cannot be saved.

    Examples
    --------
    >>> class MissingFraction(ClusterFeature):
    ...     name = "missing phone"
    ...     columns = ("phone",)
    ...     def value(self, columns):
    ...         return sum(value is None for value in columns["phone"]) / len(columns["phone"])
    >>> MissingFraction().value({"phone": ["12", None]})
    0.5
    """

    name: ClassVar[str]
    """Name of the feature."""
    columns: Sequence[str] = ()
    """Columns that the feature reads."""

    @property
    def label(self) -> str:
        """Name of the weight of the feature."""
        return self.name

    @abstractmethod
    def value(self, columns: Mapping[str, list[Any]]) -> float:
        """Return the value of a cluster from the values of its records, None where they are missing."""

    def change(
        self, value: float, records: Mapping[str, list[Any]], rest: Mapping[str, list[Any]], is_added: bool
    ) -> float | None:
        """Return the change of the value if records join or leave a cluster; None, the default, calls `value`.

        The result is compared with `value` for the first moves; an error names a feature whose `change` differs.

        Parameters
        ----------
        value : float
            Value of the cluster before the move.
        records : dict of str -> list
            Values of the records that join or leave.
        rest : mapping of str -> list
            Values of the other records of the cluster, at least one; a column is collected only when it is read.
        is_added : bool
            Whether the records join the cluster; otherwise they leave it.

        Examples
        --------
        >>> class NumberOfRecords(ClusterFeature):
        ...     name, columns = "size", ("phone",)
        ...     def value(self, columns):
        ...         return float(len(columns["phone"]))
        ...     def change(self, value, records, rest, is_added):
        ...         return len(records["phone"]) if is_added else -len(records["phone"])
        >>> NumberOfRecords().change(3.0, {"phone": ["12", None]}, {"phone": ["12", "7", None]}, True)
        2
        """
        return None


class _ColumnFeature(ClusterFeature):
    """Feature of one column that the kernels compute."""

    setting: ClassVar[str]

    def __init__(self, column: str) -> None:
        self.column = column

    @property
    def columns(self) -> Sequence[str]:  # type: ignore[override]
        """Return the column that the feature reads."""
        return (self.column,)

    @property
    def label(self) -> str:
        """Name of the weight of the feature."""
        return f"{self.setting.replace('_', ' ')} {self.column}"


class AllEqual(_ColumnFeature):
    """Whether all known values of a column are equal, in clusters with at least two known values.

    Examples
    --------
    >>> AllEqual("year").value({"year": ["1994", None, "1994"]})
    1.0
    """

    name = "all_values_equal"
    setting = "all_equal"

    def value(self, columns: Mapping[str, list[Any]]) -> float:
        """Return 1 if all known values are equal, else 0."""
        codes = value_codes(columns[self.column])
        present = codes[codes >= 0]
        return float(len(present) > 1 and len(set(present.tolist())) == 1)


class DistinctValues(_ColumnFeature):
    """Number of distinct known values of a column beyond the first, such as surnames.

    Examples
    --------
    >>> DistinctValues("surname").value({"surname": ["Lee", "lee", "Ray", None]})
    1.0
    """

    name = "distinct_values"
    setting = "distinct"

    def value(self, columns: Mapping[str, list[Any]]) -> float:
        """Return the number of distinct values minus 1, at least 0."""
        codes = value_codes(columns[self.column])
        return float(max(len(set(codes[codes >= 0].tolist())) - 1, 0))


class NoKnownValue(_ColumnFeature):
    """Whether no record of a cluster has a known value of a column, such as an entity without a name.

    Unlike the other features it is also 1 for single records.

    Examples
    --------
    >>> NoKnownValue("surname").value({"surname": [None, None]})
    1.0
    """

    name = "no_known_value"
    setting = "unknown"

    def value(self, columns: Mapping[str, list[Any]]) -> float:
        """Return 1 if all values are missing, else 0."""
        return float(all(value is None for value in columns[self.column]))


class Span(_ColumnFeature):
    """Difference between the largest and the smallest number in a column, such as the span of years.

    The first number in a string is read: 1994 in "(1994)".

    Examples
    --------
    >>> Span("year").value({"year": ["(1994)", None, 1997]})
    3.0
    """

    name = "span"
    setting = "span"

    def value(self, columns: Mapping[str, list[Any]]) -> float:
        """Return the span of the known numbers; 0 if there are none."""
        numbers = value_numbers(columns[self.column])
        present = numbers[~np.isnan(numbers)]
        return float(present.max() - present.min()) if present.size else 0.0


class PairAggregate(ClusterFeature):
    """Aggregate of a pair feature over the pairs of a cluster.

    Parameters
    ----------
    how : {"mean", "minimum", "maximum", "exists", "for_all", "representative", "between", "between_mean"}
        Aggregate; "representative" is the mean over the pairs with the record that has most candidate pairs, "between"
        and "between_mean" the maximum and the mean over the pairs across two clusters, summed over pairs of clusters.
    feature : str
        Pair feature: "match" (log odds) or, with `features="all"`, one of a comparison.
    level : float
        For "exists" and "for_all": the level that a pair has to exceed.

    Examples
    --------
    >>> PairAggregate("exists", level=2.0).label
    'exists match > 2'
    """

    name = "pair_aggregate"

    def __init__(self, how: str = "representative", feature: str = "match", level: float = 0.0) -> None:
        self.how = how
        self.feature = feature
        self.level = level

    @property
    def label(self) -> str:
        """Name of the weight of the feature."""
        level = f" > {self.level:g}" if self.how in ("exists", "for_all") else ""
        return f"{self.how.replace('_', ' ')} {self.feature}{level}"

    def value(self, columns: Mapping[str, list[Any]]) -> float:
        """Raise, because the aggregate is computed from pairs, not from columns."""
        raise NotSupportedError("PairAggregate reads pairs of records, not columns. Use it in an EntityClusterer.")

    def check(self) -> None:
        """Raise if the aggregate is unknown."""
        choices = ("mean", "minimum", "maximum", "exists", "for_all", "representative", "between", "between_mean")
        check_choice(self.how, choices, "PairAggregate: how")


CLUSTER_FEATURES: Registry[ClusterFeature] = Registry(
    "cluster feature",
    "intarsia.clusters.cluster_features",
    {
        "all_values_equal": "cluster_feature:AllEqual",
        "distinct_values": "cluster_feature:DistinctValues",
        "no_known_value": "cluster_feature:NoKnownValue",
        "span": "cluster_feature:Span",
        "pair_aggregate": "cluster_feature:PairAggregate",
    },
    ClusterFeature,  # type: ignore[type-abstract]
)


def value_codes(values: Sequence[Any]) -> IntArray:
    """Return a number for each distinct value, -1 if missing; strings without case and accents.

    Examples
    --------
    >>> value_codes(["Ann", None, "ann", "Bob"])
    array([ 0, -1,  0,  1])
    """
    code_of: dict[Any, int] = {}
    keys = [plain_text(value) if isinstance(value, str) else value for value in values]
    codes = [-1 if key is None else code_of.setdefault(key, len(code_of)) for key in keys]
    return np.array(codes, dtype=np.int64)


def value_numbers(values: Sequence[Any]) -> FloatArray:
    """Return the first number in each value, NaN if there is none.

    Examples
    --------
    >>> value_numbers(["(1994)", 3, None, "?"])
    array([1994.,    3.,   nan,   nan])
    """
    numbers = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if isinstance(value, (int, float, np.number)) and np.isfinite(value):
            numbers[row] = value
        elif isinstance(value, str):
            match = _NUMBER.search(value)
            numbers[row] = float(match[0]) if match else np.nan
    return numbers
