"""Warnings about a model learned without labels: its matches do not agree, or blocking misses many of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray
from intarsia.clusters.fellegi_sunter.pair_model import ColumnModel, FellegiSunter
from intarsia.exceptions import UnreliableModelWarning

# Fraction of the information of all columns in which matches may disagree: customers of whom half live in households
# have 0.4 and an F1 of 0.6; nine data sets on which EM finds the entities have at most 0.2.
MOST_DISAGREEING = 1 / 3
MOST_MISSED = 0.15  # estimated fraction of the matches that blocking may miss
_FEWEST_MATCHES = 30  # from which the fraction is estimated
_SHOWN = 6


def check_matcher(matcher: FellegiSunter) -> bool:
    """Warn if the matches of EM disagree in columns that identify records; return whether they do.

    A column contradicts the matches if most of them differ in it, or if equal values count less than different ones.
    """
    information = np.array([-np.log(column.u[-1]) for column in matcher.columns])
    contradicts = np.array([_contradicts(column) for column in matcher.columns])
    fraction = float(information[contradicts].sum() / information.sum())
    if fraction <= MOST_DISAGREEING:
        return False
    rows = sorted(zip(matcher.columns, contradicts, strict=True), key=lambda row: -row[0].m[0])
    differing, agreeing = (
        ", ".join([f"{column.levels.column} ({column.m[0]:.0%})" for column, bad in rows if bad == kind][:_SHOWN])
        for kind in (True, False)
    )
    warn_caller(
        f"do not trust these entities. The pairs that EM took for matches mostly differ in {differing}, which hold "
        f"{fraction:.0%} of the information; expected at most {MOST_DISAGREEING:.0%}. They probably have only other "
        f"things in common, such as an address: {agreeing or 'nothing'} (in brackets: pairs that differ). Pass known "
        f"entities of some records to fit, or comparisons= without the columns that different entities share.",
        UnreliableModelWarning,
    )
    return True


def _contradicts(column: ColumnModel) -> bool:
    """Return whether matches mostly differ in a column, or equal values speak against a match."""
    weights = np.log(column.m) - np.log(column.u)
    return bool(column.m[0] > 0.5 or weights[-1] < weights[0])


def check_blocking(shared: NDArray[np.bool_], names: list[str]) -> None:
    """Warn if blocking misses many matches, by how often columns select the same matches (see `missed_fraction`)."""
    missed, fractions = missed_fraction(shared)
    if len(shared) < _FEWEST_MATCHES or len(names) < 2 or missed <= MOST_MISSED:
        return
    columns = ", ".join(f"{name} {fraction:.0%}" for name, fraction in zip(names, fractions.tolist(), strict=True))
    warn_caller(
        f"the default blocking misses about {missed:.0%} of the matches (estimated). It compares pairs that share a "
        f"word of at most 50 records, which selects too few of them: {columns}. Pass blocking= with rules that select "
        f"more pairs, such as SharedTokens(max_records=500), or SharedValues of two columns.",
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
