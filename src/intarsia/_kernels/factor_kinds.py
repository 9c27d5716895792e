"""Kinds of factors as integers that kernels compare with, and the conditions of constraints on counts."""

from __future__ import annotations

from intarsia._core.jit import kernel
from intarsia.graph.factor_kinds import FactorKind

TABLE = int(FactorKind.TABLE)
POTTS = int(FactorKind.POTTS)
TRUNCATED_LINEAR = int(FactorKind.TRUNCATED_LINEAR)
TRUNCATED_QUADRATIC = int(FactorKind.TRUNCATED_QUADRATIC)
AT_MOST = int(FactorKind.AT_MOST)
AT_LEAST = int(FactorKind.AT_LEAST)
AT_MOST_OUTPUT = int(FactorKind.AT_MOST_OUTPUT)
AT_LEAST_OUTPUT = int(FactorKind.AT_LEAST_OUTPUT)


@kernel
def violated(kind, number, count):
    """Return whether a count violates a constraint of this kind and number."""
    if kind in (AT_MOST, AT_MOST_OUTPUT):
        return count > number
    if kind in (AT_LEAST, AT_LEAST_OUTPUT):
        return count < number
    return count != number


@kernel
def count_on(c, a, b, y, kind, scope_ptr, scope_idx):
    """Return how many variables of c count, without pairs a and b; the output variable counts when it is off."""
    count = 0
    for s in range(scope_ptr[c], scope_ptr[c + 1]):
        if s != a and s != b:
            off = kind >= AT_MOST_OUTPUT and s == scope_ptr[c + 1] - 1
            count += 1 - y[scope_idx[s]] if off else y[scope_idx[s]]
    return count


@kernel
def allowed_counts(kind, number, width):
    """Return the smallest and largest count that satisfy a constraint over `width` variables; `width + 1` if none."""
    limit = int(min(number, width + 1))
    low = 0 if kind in (AT_MOST, AT_MOST_OUTPUT) else limit
    high = width if kind in (AT_LEAST, AT_LEAST_OUTPUT) else limit
    return low, high
