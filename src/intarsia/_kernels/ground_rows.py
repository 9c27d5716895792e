"""Groundings of a rule without sums as compressed rows."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def fold_groundings(atoms, coef, constant, values, n_variables, below, above, rounding, row_idx, row_coef, row_const):
    """Write a row for every grounding that is not settled; return the number of rows and of entries, and row lengths.

    Grounding j has the atoms `atoms[:, j]` with the coefficients `coef`; atoms from `n_variables` on are known and go
    into the constant, those below 0 are false. A variable that stands twice counts once. Left out is what has no
    variable, and what over the unit box neither exceeds 0 (asked for with `above`) nor falls below it (`below`).
    """
    n_atoms, n = atoms.shape
    length = np.empty(n, dtype=np.int64)
    n_rows = n_entries = 0
    for j in range(n):
        const, first = constant, n_entries
        end = first
        for k in range(n_atoms):
            atom = atoms[k, j]
            if atom >= n_variables:
                const += coef[k] * values[atom - n_variables]
            elif atom >= 0:
                # Few entries, kept in rising order.
                place = first
                while place < end and row_idx[place] < atom:
                    place += 1
                if place < end and row_idx[place] == atom:
                    row_coef[place] += coef[k]
                else:
                    for later in range(end, place, -1):
                        row_idx[later] = row_idx[later - 1]
                        row_coef[later] = row_coef[later - 1]
                    row_idx[place] = atom
                    row_coef[place] = coef[k]
                    end += 1
        kept, high, low = first, const, const
        for e in range(first, end):
            if row_coef[e] != 0.0:
                row_idx[kept] = row_idx[e]
                row_coef[kept] = row_coef[e]
                high += max(row_coef[e], 0.0)
                low += min(row_coef[e], 0.0)
                kept += 1
        if kept > first and ((above and high > rounding) or (below and low < -rounding)):
            row_const[n_rows] = const
            length[n_rows] = kept - first
            n_rows += 1
            n_entries = kept
    return n_rows, n_entries, length
