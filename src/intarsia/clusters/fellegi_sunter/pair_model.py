"""The Fellegi-Sunter model of pairs of records: log odds of a match from agreement levels, learned without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intarsia._core.status import Status
from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters.comparisons import Comparison, compare_pairs
from intarsia.clusters.fellegi_sunter.em import count_patterns, estimate_matches, log_ratios, smoothed
from intarsia.clusters.fellegi_sunter.levels import MISSING, AgreementLevels, ColumnValues, pair_levels, read_values
from intarsia.clusters.tables import Table

# Random pairs from which the u probabilities are estimated; smaller tables use all pairs.
MAX_RANDOM_PAIRS = 300_000
# The prior starts at one match for two records and does not fall below this fraction of it.
_SMALLEST_FRACTION = 0.1


@dataclass(frozen=True, eq=False)
class ColumnModel:
    """Parameters of one comparison.

    Attributes
    ----------
    levels : AgreementLevels
        Column, comparison and levels.
    m, u : arrays (n_levels,)
        Probability of each level if two records match, and if they do not.
    counts : dict of str -> int
        Number of records with each value that occurs at least twice, for term-frequency adjustments.
    n_present : int
        Number of records with a value.
    """

    levels: AgreementLevels
    m: FloatArray
    u: FloatArray
    counts: dict[str, int] = field(repr=False)
    n_present: int


@dataclass(frozen=True, eq=False)
class FellegiSunter:
    r"""Fellegi-Sunter model of pairs: :math:`\log \lambda / (1 - \lambda) + \sum_c \log m_c(\gamma_c) / u_c(\gamma_c)`.

    Built by `fit_fellegi_sunter`; `EntityClusterer.fit` without labels stores it as `matcher_`. With term-frequency
    adjustments, agreement on a rare value counts more than on a frequent one: for equal values u is replaced by the
    relative frequency of the value.

    Attributes
    ----------
    prior : float
        Probability :math:`\lambda` that two random records match.
    columns : list of ColumnModel
        Parameters of each comparison.
    term_frequencies : bool
        Whether equal values are weighted by their frequency.
    history : dict of str -> array
        Log-likelihood of each iteration of EM.
    status : Status
        Whether EM converged.
    """

    prior: float
    columns: list[ColumnModel]
    term_frequencies: bool
    history: dict[str, FloatArray] = field(default_factory=dict, repr=False)
    status: Status = Status.CONVERGED

    @property
    def parameters(self) -> dict[str, list[Any]]:
        """Table of the parameters: comparison, level, m, u and weight log2 m / u (Splink's match weight)."""
        rows: dict[str, list[Any]] = {"comparison": [], "level": [], "m": [], "u": [], "match_weight": []}
        for column in self.columns:
            for k, label in enumerate(column.levels.labels):
                m, u = float(column.m[k]), float(column.u[k])
                values = (column.levels.name, label, m, u, float(np.log2(m / u)))
                for name, value in zip(rows, values, strict=True):
                    rows[name].append(value)
        return rows

    def log_odds(self, table: Table, features: FloatArray, pairs: IntArray) -> FloatArray:
        """Return the log odds that the rows of each pair match.

        Parameters
        ----------
        table : Table
            Records.
        features : (n_pairs, n_features) array
            Features of the comparisons, as `compare_pairs` returns them.
        pairs : (n_pairs, 2) int array
            Rows of each pair.
        """
        contributions = self.contributions(table, features, pairs)
        return np.asarray(np.log(self.prior) - np.log1p(-self.prior) + contributions.sum(axis=1), dtype=np.float64)

    def contributions(self, table: Table, features: FloatArray, pairs: IntArray) -> FloatArray:
        """Return the log ratios log m / u of each pair (row) and column; they and the prior add up to the log odds."""
        levels = [column.levels for column in self.columns]
        values = [read_values(table, level) for level in levels]
        of_pairs = pair_levels(levels, values, features, pairs)
        total = np.empty((len(pairs), len(levels)))
        for k, (column, column_values) in enumerate(zip(self.columns, values, strict=True)):
            total[:, k] = log_ratios(of_pairs[:, [k]], [column.m], [column.u])
            if self.term_frequencies:
                equal = of_pairs[:, k] == column.levels.n_levels - 1
                frequency = column_values.frequencies(column.counts, column.n_present)
                codes = column_values.codes[pairs[equal, 0]]
                total[equal, k] += np.log(column.u[-1]) - np.log(frequency[codes])
        return total


def fit_fellegi_sunter(
    table: Table, comparisons: Sequence[tuple[str, Comparison]], features: FloatArray, pairs: IntArray,
    record_of: IntArray, rng: np.random.Generator, *, side: IntArray | None = None, term_frequencies: bool = True,
) -> FellegiSunter:  # fmt: skip
    """Estimate a Fellegi-Sunter model from a table without labels.

    u probabilities come from random pairs of rows, those of equal values from the frequencies of the values; m
    probabilities and the prior by EM over the candidate pairs.

    Parameters
    ----------
    table : Table
        Records.
    comparisons : list of (column, comparison)
        Columns and their comparisons.
    features, pairs : arrays
        Features of the candidate pairs, and the records of each.
    record_of : (n_rows,) int array
        Record of each row: equal rows are one record, whose pairs count once for each of its rows.
    rng : Generator
        Source of the random pairs.
    side : (n_rows,) int array, optional
        Table (0 or 1) of each row: only pairs across two tables are considered.
    term_frequencies : bool
        Whether the log odds weight equal values by their frequency.

    References
    ----------
    Fellegi1969.
    """
    levels = [AgreementLevels(column, comparison) for column, comparison in comparisons]
    values = [read_values(table, level) for level in levels]
    n_all_pairs, sampled_pairs = random_pairs(table.n_rows, side, rng)
    random_features = compare_pairs(table, comparisons, sampled_pairs[:, 0], sampled_pairs[:, 1])
    random_levels = pair_levels(levels, values, random_features, sampled_pairs)
    u = [
        u_probabilities(random_levels[:, k], level.n_levels, equal_fraction(*_value_counts(values[k], side)))
        for k, level in enumerate(levels)
    ]
    n_levels = [level.n_levels for level in levels]
    first_row, n_copies = np.unique(record_of, return_index=True, return_counts=True)[1:]
    of_pairs = pair_levels(levels, values, features, first_row[pairs])
    n_row_pairs = n_copies[pairs].prod(axis=1).astype(np.float64)
    if side is None:  # equal rows agree on every value that is present
        copied = np.flatnonzero(n_copies > 1)
        equal = np.column_stack(
            [
                np.where(column.codes[first_row[copied]] >= 0, n - 1, MISSING)
                for column, n in zip(values, n_levels, strict=True)
            ]
        )
        of_pairs = np.concatenate([of_pairs, equal])
        n_row_pairs = np.concatenate([n_row_pairs, n_copies[copied] * (n_copies[copied] - 1) / 2.0])
    patterns, counts = count_patterns(of_pairs, n_levels, n_row_pairs)
    value_counts = [(column.counts(), int((column.codes >= 0).sum())) for column in values]
    return estimate_model(levels, u, (patterns, counts), value_counts, table.n_rows, n_all_pairs, term_frequencies)


def estimate_model(
    levels: Sequence[AgreementLevels],
    u: Sequence[FloatArray],
    patterns: tuple[IntArray, FloatArray],
    values: Sequence[tuple[dict[str, int], int]],
    n_rows: int,
    n_all_pairs: float,
    term_frequencies: bool,
) -> FellegiSunter:
    """Estimate m probabilities and the prior by EM over the distinct patterns of levels.

    Parameters
    ----------
    levels : list of AgreementLevels
        Columns and their comparisons.
    u : list of arrays
        Probability of each level of each column among pairs that do not match.
    patterns : (n_patterns, n_columns) int array, (n_patterns,) array
        Distinct rows of levels of the candidate pairs, and the number of pairs of each.
    values : list of (dict, int)
        For each column, the number of rows of each value that occurs at least twice, and of rows with a value.
    n_rows : int
        Number of records.
    n_all_pairs : float
        Number of pairs of records, candidates or not.
    term_frequencies : bool
        Whether the log odds weight equal values by their frequency.
    """
    prior = float(np.clip(0.5 * n_rows / max(n_all_pairs, 1.0), 1e-9, 0.1))
    smallest = _SMALLEST_FRACTION * prior
    estimate = estimate_matches(*patterns, u, max(n_all_pairs, 1.0), prior, smallest_prior=smallest)
    columns = [
        ColumnModel(level, m, u[k], *values[k]) for k, (level, m) in enumerate(zip(levels, estimate.m, strict=True))
    ]
    status = Status.CONVERGED if estimate.converged else Status.MAX_ITER
    history = {"log_likelihood": np.array(estimate.log_likelihood)}
    return FellegiSunter(estimate.prior, columns, term_frequencies, history, status)


def random_pairs(n_rows: int, side: IntArray | None, rng: np.random.Generator) -> tuple[float, IntArray]:
    """Return the number of all pairs, and a random sample of them; all pairs if there are few."""
    if side is None:
        n_all = n_rows * (n_rows - 1) // 2
        if n_all <= MAX_RANDOM_PAIRS:
            return float(n_all), np.column_stack(np.triu_indices(n_rows, 1)).astype(np.int64)
        first = rng.integers(0, n_rows, MAX_RANDOM_PAIRS)
        second = rng.integers(0, n_rows - 1, MAX_RANDOM_PAIRS)
        return float(n_all), np.column_stack([first, second + (second >= first)])
    left_rows, right_rows = np.flatnonzero(side == 0), np.flatnonzero(side == 1)
    n_all = len(left_rows) * len(right_rows)
    if n_all <= MAX_RANDOM_PAIRS:
        first, second = np.repeat(left_rows, len(right_rows)), np.tile(right_rows, len(left_rows))
    else:
        first, second = (rng.choice(rows, MAX_RANDOM_PAIRS) for rows in (left_rows, right_rows))
    return float(n_all), np.column_stack([first, second]).astype(np.int64)


def _value_counts(values: ColumnValues, side: IntArray | None) -> tuple[FloatArray, FloatArray | None]:
    """Return the number of rows of each value; of two tables, in each of them."""
    present, n_distinct = values.codes >= 0, len(values.keys)
    if side is None:
        return np.bincount(values.codes[present], minlength=n_distinct).astype(np.float64), None
    counts, others = (
        np.bincount(values.codes[present & (side == k)], minlength=n_distinct).astype(np.float64) for k in (0, 1)
    )
    return counts, others


def equal_fraction(counts: FloatArray, others: FloatArray | None) -> float:
    """Return the fraction of the pairs of present values that are equal, over all pairs.

    Parameters
    ----------
    counts : array
        Number of rows of each value.
    others : array, optional
        Number of rows of each value in a second table: only pairs across the tables count.

    Examples
    --------
    >>> equal_fraction(np.array([2.0, 1.0]), None), equal_fraction(np.array([1.0, 1.0]), np.array([1.0, 0.0]))
    (0.3333333333333333, 0.5)
    """
    if others is None:
        n = counts.sum()
        return float((counts * (counts - 1.0)).sum() / (n * (n - 1.0))) if n > 1 else 0.0
    return float(counts @ others / max(counts.sum() * others.sum(), 1.0))


def u_probabilities(levels: IntArray, n_levels: int, equal: float) -> FloatArray:
    """Return the probability of each level among random pairs; that of equal values is known exactly."""
    n_pairs = np.bincount(levels[levels >= 0], minlength=n_levels).astype(np.float64)
    others = smoothed(n_pairs[:-1]) * (1.0 - equal)
    return smoothed(np.append(others, equal) * max(n_pairs.sum(), 1.0))
