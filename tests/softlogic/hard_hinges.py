"""Small random hinge-loss MRFs that are difficult to solve; numbers are multiples of 2^-10, so sums are exact."""

from __future__ import annotations

import numpy as np

from intarsia.softlogic import HingeLossMRF, LinearRows

KINDS = ("plain", "redundant", "thin", "point", "touching", "infeasible", "barely infeasible", "free")
SCALES = (1.0, 1.0, 1.0, 0.125, 8.0, 64.0, 2.0**-6)


def dyadic(values, bits=10):
    return np.round(np.asarray(values) * 2.0**bits) / 2.0**bits


def hard_mrf(seed, kind=None):
    """Return a model of two to eight variables, and the kind of its constraints."""
    rng = np.random.default_rng(seed)
    kind = KINDS[int(rng.integers(len(KINDS)))] if kind is None else kind
    n, n_terms = int(rng.integers(2, 9)), int(rng.integers(1, 14))
    n_used = max(1, n - int(rng.integers(0, 2)))  # sometimes the last variable is in no row
    inside = dyadic(rng.choice([0.0, 1.0, rng.random(), rng.random()], n), 4)
    n_parts = int(rng.integers(1, 3))
    spread = float(rng.choice([0.0, 1.0, 4.0]))

    def matrix(count):
        dense = np.zeros((count, n))
        for j in range(count):
            part = np.flatnonzero(np.arange(n_used) % n_parts == rng.integers(n_parts))
            at = rng.choice(part, min(part.size, int(rng.integers(0 if rng.random() < 0.05 else 1, 4))), replace=False)
            dense[j, at] = np.where(rng.random(at.size) < 0.5, rng.choice([-1.0, 1.0], at.size),
                                    dyadic(rng.normal(0.0, 1.0, at.size), 3)) * rng.choice(SCALES)  # fmt: skip
        return dense

    terms = matrix(n_terms)
    const = dyadic(rng.normal(0.0, 0.5, n_terms) - terms @ np.where(rng.random(n) < 0.5, inside, rng.random(n)))
    weight = dyadic(10.0 ** rng.uniform(-spread, spread, n_terms), 16) * (rng.random(n_terms) < 0.9)
    power = rng.choice([1, 2], n_terms, p=[(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)][int(rng.integers(3))])
    copied = rng.integers(0, n_terms, int(rng.integers(0, 3)))  # duplicate terms
    terms, const = np.vstack([terms, terms[copied]]), np.append(const, const[copied])
    weight, power = np.append(weight, weight[copied]), np.append(power, power[copied])
    equal, equal_const, below, below_const = _constraints(rng, kind, matrix, inside, n, n_used)
    return HingeLossMRF(
        n,
        LinearRows.from_scipy(terms, const),
        weight,
        power,
        equalities=LinearRows.from_scipy(equal, equal_const) if len(equal) else None,
        inequalities=LinearRows.from_scipy(below, below_const) if len(below) else None,
    ), kind


def _constraints(rng, kind, matrix, inside, n, n_used):
    """Return rows that are satisfied at `inside`, then the rows of this kind of constraints."""
    if kind == "free":
        return np.zeros((0, n)), np.zeros(0), np.zeros((0, n)), np.zeros(0)
    equal, below = matrix(int(rng.integers(0, 3))), matrix(int(rng.integers(0, 5)))
    equal_const = -equal @ inside
    slack = 0.0 if kind in ("point", "touching") else dyadic(rng.random(len(below)) * 0.25, 6)
    below_const = -below @ inside - slack
    if kind == "redundant":
        equal, equal_const = np.vstack([equal, -2.0 * equal]), np.append(equal_const, -2.0 * equal_const)
        below = np.vstack([below, 4.0 * below, below])
        below_const = np.append(below_const, [*(4.0 * below_const), *(below_const - 0.25)])
    if kind == "thin" or kind.endswith("infeasible"):  # a row has a lower and an upper bound
        row = matrix(1)
        row[0, 0] = row[0, 0] or 1.0
        width = {"thin": 2.0**-12, "infeasible": -0.25, "barely infeasible": -(2.0**-14)}[kind]
        below = np.vstack([below, row, -row])
        below_const = np.append(below_const, [*(-row @ inside - width), *(row @ inside)])
    if kind == "point":  # the constraints determine several variables
        for i in rng.choice(n_used, min(n_used, 2), replace=False):
            row = np.zeros((1, n))
            row[0, i] = rng.choice([1.0, 0.25, 16.0])
            equal, equal_const = np.vstack([equal, row]), np.append(equal_const, -row @ inside)
        row = np.zeros((1, n))
        row[0, :n_used] = 1.0
        below, below_const = np.vstack([below, -row]), np.append(below_const, row @ inside)
    return equal, equal_const, below, below_const
