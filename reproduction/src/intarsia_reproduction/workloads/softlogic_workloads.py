"""Hinge-loss MRFs for timing inference: random clauses in Lukasiewicz logic, with priors."""

from __future__ import annotations

import hashlib

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia.softlogic import HingeLossMRF, LinearRows

_LEVELS = 20  # number of distinct weights; few, so that a PSL program of some hundred rules grounds to this model
_SIZES = {"w5_small": (10_000, 40_000, 501), "w5_big": (100_000, 400_000, 502)}  # variables, clauses, seed


def hinge_workload(name: str) -> HingeLossMRF:
    """Return the model "w5_small" or "w5_big", on which other solvers were measured.

    Clauses have two or three literals and weights of 0.05 to 1. They cost their distance to satisfaction, every second
    one squared. A tenth of the variables has priors towards a random value, from both sides.

    Examples
    --------
    >>> hinge_workload("w5_small").n_terms              # 40,000 clauses, 1,000 variables with two priors
    42000
    """
    return clause_model(*_SIZES[check_choice(name, _SIZES, "workload")])


def clause_model(n: int, m: int, seed: int) -> HingeLossMRF:
    """Draw a model of `hinge_workload`; the order of the draws must not change.

    Examples
    --------
    >>> clause_model(30, 60, seed=1).n_variables
    30
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 4, size=m)
    variables, signs = [], []
    for length in lengths.tolist():
        variables.append(rng.choice(n, size=length, replace=False) if n < 1000 else _distinct(rng, n, length))
        signs.append(np.where(rng.random(length) < 0.5, 1.0, -1.0))
    clauses = _Clauses(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(variables), np.concatenate(signs))
    return clauses.with_priors(n, rng)


def many_clauses(m: int, seed: int = 503) -> HingeLossMRF:
    """Draw a model as in `clause_model` with about m terms, without a loop, for large sizes.

    Examples
    --------
    >>> model = many_clauses(8400)
    >>> model.n_terms, model.n_variables
    (8400, 2000)
    """
    rng = np.random.default_rng(seed)
    n = max(m * 10 // 42, 10)
    m -= 2 * (n // 10)
    lengths = rng.integers(2, 4, size=m)
    ptr: IntArray = np.concatenate([[0], np.cumsum(lengths)])
    step = rng.integers(1, n // 3, size=m)  # so that the variables of a clause differ
    position = np.arange(ptr[-1]) - np.repeat(ptr[:-1], lengths)
    variables = (np.repeat(rng.integers(0, n, size=m), lengths) + position * np.repeat(step, lengths)) % n
    signs = np.where(rng.random(variables.size) < 0.5, 1.0, -1.0)
    return _Clauses(ptr, variables, signs).with_priors(n, rng)


def checksum(model: HingeLossMRF) -> str:
    """Return the SHA-256 of ptr, idx, coef, const, weight and power, to compare models between machines.

    Examples
    --------
    >>> checksum(clause_model(30, 60, seed=1)) == checksum(clause_model(30, 60, seed=1))
    True
    """
    rows = model.terms
    digest = hashlib.sha256()
    for array, kind in (
        (rows.ptr, "<i8"), (rows.idx, "<i4"), (rows.coef, "<f8"), (rows.const, "<f8"), (model.weight, "<f8"),
        (model.power, "<i1"),
    ):  # fmt: skip
        digest.update(array.astype(kind).tobytes())
    return digest.hexdigest()


def _distinct(rng: np.random.Generator, n: int, k: int) -> IntArray:
    """Draw k distinct integers below n."""
    while True:
        sample = rng.integers(0, n, size=k)
        if len(set(sample.tolist())) == k:
            return sample


class _Clauses:
    """Disjunctions: clause j has the literals ptr[j] to ptr[j + 1], negated if the sign is -1."""

    def __init__(self, ptr: IntArray, variables: IntArray, signs: FloatArray) -> None:
        self.ptr, self.variables, self.signs = ptr, variables, signs

    def with_priors(self, n: int, rng: np.random.Generator) -> HingeLossMRF:
        """Return the model where clause j costs `max(0, 1 - sum of its literals)`, with random weights and priors."""
        m, k = self.ptr.size - 1, n // 10
        weight = np.ceil(rng.random(m) * _LEVELS) / _LEVELS
        with_prior = rng.choice(n, size=k, replace=False)
        target = rng.random(k)
        prior = np.ceil(rng.random(k) * _LEVELS) / _LEVELS
        negated = np.add.reduceat(self.signs < 0, self.ptr[:-1], dtype=np.int64)
        rows = LinearRows(
            np.concatenate([self.ptr, self.ptr[-1] + np.arange(1, 2 * k + 1)]),
            np.concatenate([self.variables, with_prior, with_prior]).astype(np.int32),
            np.concatenate([-self.signs, np.ones(k), -np.ones(k)]),
            np.concatenate([1.0 - negated, -target, target]),
        )
        power = [np.where(np.arange(size) % 2 == 0, 2, 1).astype(np.int8) for size in (m, k, k)]
        return HingeLossMRF(n, rows, np.concatenate([weight, prior, prior]), np.concatenate(power))
