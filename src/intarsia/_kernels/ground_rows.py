"""Groundings of a rule without sums as compressed rows."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def fold_groundings(atoms, coef, constant, values, n_variables, below, above, rounding, row_idx, row_coef, row_const):
    """Write a row for every grounding that can be violated; return the numbers of rows and entries, and row lengths.

    Grounding j has the atoms `atoms[:, j]` with the coefficients `coef`. Atoms from `n_variables` on are observed and
    added to the constant, those below 0 are false. A variable that occurs twice gets one entry. Groundings are left out
    if they have no variable, or if over the unit box they neither exceed 0 (checked with `above`) nor fall below 0
    (with `below`).
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
                # Insertion into the few entries of the row, which are in rising order.
                position = first
                while position < end and row_idx[position] < atom:
                    position += 1
                if position < end and row_idx[position] == atom:
                    row_coef[position] += coef[k]
                else:
                    for entry in range(end, position, -1):
                        row_idx[entry] = row_idx[entry - 1]
                        row_coef[entry] = row_coef[entry - 1]
                    row_idx[position] = atom
                    row_coef[position] = coef[k]
                    end += 1
        write, high, low = first, const, const
        for e in range(first, end):
            if row_coef[e] != 0.0:
                row_idx[write] = row_idx[e]
                row_coef[write] = row_coef[e]
                high += max(row_coef[e], 0.0)
                low += min(row_coef[e], 0.0)
                write += 1
        if write > first and ((above and high > rounding) or (below and low < -rounding)):
            row_const[n_rows] = const
            length[n_rows] = write - first
            n_rows += 1
            n_entries = write
    return n_rows, n_entries, length
