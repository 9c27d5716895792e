"""Warnings about a model learned without labels: its matches do not agree, or blocking misses many of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray
from intarsia.clusters.fellegi_sunter.pair_model import ColumnModel, FellegiSunter
from intarsia.exceptions import UnreliableModelWarning

# Fraction of the information of all columns that may contradict the matches: customers in households have 0.24
# to 0.8 (F1 0.6 to 0.1), data sets on which EM finds the entities at most 0.18. One column may be free text.
MOST_CONTRADICTING = 0.2
MOST_MISSED = 0.15  # estimated fraction of the matches that blocking may miss
_FEWEST_MATCHES = 30  # from which the fraction is estimated
_SHOWN = 6


def check_matcher(matcher: FellegiSunter) -> bool:
    """Warn if the matches of EM differ in columns that identify records; return whether they do.

    A column contradicts the matches if most of them differ in it, or if equal values count less than different ones.
    """
    information = np.array([-np.log(column.u[-1]) for column in matcher.columns])
    contradicts = np.array([_contradicts(column) for column in matcher.columns])
    fraction = float(information[contradicts].sum() / information.sum()) if contradicts.sum() >= 2 else 0.0
    if fraction <= MOST_CONTRADICTING:
        return False
    bad = [column for column, is_bad in zip(matcher.columns, contradicts, strict=True) if is_bad]
    differing = _listed([(column, column.m[0], "of them") for column in bad if column.m[0] > 0.5])
    unordered = _listed([(column, column.m[-1], "are equal") for column in bad if column.m[0] <= 0.5])
    equal = _listed([(column, column.m[-1], "of them") for column in matcher.columns if column.m[-1] > 0.5])
    warn_caller(
        f"do not trust these entities. The pairs that EM took for matches differ in {differing}; equal values count "
        f"less than different ones in {unordered}. These columns hold {fraction:.0%} of the information, expected at "
        f"most {MOST_CONTRADICTING:.0%}. The pairs are equal in {equal}, which different entities may share, such as "
        f"an address. Pass known entities of some records to fit, or comparisons= without the shared columns.",
        UnreliableModelWarning,
    )
    return True


def _listed(rows: list[tuple[ColumnModel, float, str]]) -> str:
    """Return the columns with their fractions of the matches, the largest first."""
    largest = sorted(rows, key=lambda row: -row[1])[:_SHOWN]
    return ", ".join(f"{column.levels.column} ({value:.0%} {text})" for column, value, text in largest) or "no column"


def _contradicts(column: ColumnModel) -> bool:
    """Return whether matches mostly differ in a column, or equal values speak against a match."""
    weights = np.log(column.m) - np.log(column.u)
    return bool(column.m[0] > 0.5 or weights[-1] < weights[0])


def check_blocking(shared: NDArray[np.bool_], names: list[str]) -> None:
    """Warn if blocking misses many matches, by how often columns select the same matches (see `missed_fraction`)."""
    fraction, by_column = missed_fraction(shared)
    if len(shared) < _FEWEST_MATCHES or len(names) < 2 or fraction <= MOST_MISSED:
        return
    columns = ", ".join(f"{name} {value:.0%}" for name, value in zip(names, by_column.tolist(), strict=True))
    warn_caller(
        f"the default blocking misses about {fraction:.0%} of the matches of different rows (an estimate). It compares "
        f"pairs that share a word of at most 50 records, which selects too few: {columns}. Pass blocking= with rules "
        f"that select more pairs, such as SharedTokens(max_records=500), or SharedValues of two columns.",
        UnreliableModelWarning,
    )


def missed_fraction(shared: NDArray[np.bool_]) -> tuple[float, FloatArray]:
    r"""Estimate the fraction of the matches that no column selects, and the fraction that each column selects.

    Capture-recapture: among the matches that another column selects, the fraction :math:`c_k` that column k selects
    too does not depend on what blocking misses; with independent columns :math:`\prod_k (1 - c_k)` are missed.

    Parameters
    ----------
    shared : (n_matches, n_columns) bool array
        Whether each column selects each match.

    Examples
    --------
    Each of two columns selects half of what the other selects: a quarter is missed.

    >>> missed_fraction(np.array([[True, True], [True, False], [False, True]]))
    (0.25, array([0.5, 0.5]))
    """
    by_others = (shared.sum(axis=1)[:, None] - shared) > 0
    fractions = (shared & by_others).sum(axis=0) / np.maximum(by_others.sum(axis=0), 1)
    return float(np.prod(1.0 - fractions)), np.asarray(fractions, dtype=np.float64)
