"""Max-product sweeps over pairwise graphs whose variables all have k states, in the log domain, with hard zeros.

Slots, ranks and half-sweeps are those of `pairwise_messages`; messages are scores with their largest entry at 0.
Parametric factors take O(k): Potts by the best two states, truncated linear by a distance transform in two passes,
truncated quadratic by the upper envelope of parabolas (Felzenszwalb2006). These methods need a non-negative weight; for
a negative one all pairs of states are compared.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel
from intarsia._kernels.factor_kinds import POTTS, TRUNCATED_LINEAR


@kernel
def _best_in_table(table, k, forward, cavity, out):
    """Compute the largest of table + cavity over the sender's states; the first axis is the earlier variable."""
    for y in range(k):
        out[y] = -np.inf
    for x in range(k):
        row = table[x * k : x * k + k]
        if forward:
            for y in range(k):
                out[y] = max(out[y], cavity[x] + row[y])
        else:
            for y in range(k):
                out[x] = max(out[x], row[y] + cavity[y])


@kernel
def _best_by_distance(kind, score, k, cavity, out, site, border):
    """Compute out[x] = max_y score[|x - y|] + cavity[y] for a parametric factor.

    `score` falls with the distance; where it does not, all pairs of states are compared.
    """
    best, second, best_state = -np.inf, -np.inf, -1
    for x in range(k):
        out[x] = cavity[x]
        if cavity[x] > best:
            best, second, best_state = cavity[x], best, x
        elif cavity[x] > second:
            second = cavity[x]
    if kind == POTTS:
        for x in range(k):
            out[x] = max(score[1] + (second if x == best_state else best), score[0] + cavity[x])
    elif score[1] > 0.0:
        for x in range(k):
            for y in range(k):
                out[x] = max(out[x], cavity[y] + score[abs(x - y)])
    elif kind == TRUNCATED_LINEAR:
        for x in range(1, k):
            out[x] = max(out[x], out[x - 1] + score[1])
        for x in range(k - 2, -1, -1):
            out[x] = max(out[x], out[x + 1] + score[1])
    elif score[1] < 0.0:
        n = 0
        for y in range(k):
            if cavity[y] == -np.inf:
                continue
            while n > 0:
                z = int(site[n - 1])
                border[n] = (z + y) / 2.0 - (cavity[z] - cavity[y]) / (2.0 * score[1] * (y - z))
                if n == 1 or border[n] > border[n - 1]:
                    break
                n -= 1
            site[n] = y
            n += 1
        j = 0
        for x in range(k):
            while j + 1 < n and border[j + 1] < x:
                j += 1
            y = int(site[j])
            out[x] = cavity[y] + score[1] * (x - y) ** 2
    if kind != POTTS and score[1] <= 0.0:  # beyond the truncation the score is constant, so the best partner is used
        for x in range(k):
            out[x] = max(out[x], best + score[k - 1])


@kernel
def sweep_max(forward, kind, model, damping, old, new, after, work):
    """Update the messages of a half-sweep; return the largest change, -1 when a message has no possible state.

    A row of `model.tables` holds k * k scores (`kind` None) or k scores by distance. A state that becomes impossible
    counts as a change of 1. `work` is (5, k) scratch.
    """
    slot_ptr, middle, backward, opposite = model.slot_ptr, model.middle, model.backward, model.opposite
    table_of_slot, tables, unary, rho = model.table_of_slot, model.tables, model.unary, model.rho
    common, cavity, out, site, border = work[0], work[1], work[2], work[3], work[4]
    n, k = unary.shape
    residual = 0.0
    for step in range(n):
        i = step if forward else backward[step]
        start, end = slot_ptr[i], slot_ptr[i + 1]
        a, b = (middle[i], end) if forward else (start, middle[i])
        if a == b:
            continue
        for x in range(k):
            common[x] = unary[i, x]
        for q in range(start, end):
            if rho != 1.0 or q < a or q >= b:
                for x in range(k):
                    common[x] += rho * old[q, x]
        if rho == 1.0:  # leave one out by sums from both ends
            for x in range(k):
                after[b - 1 - a, x] = 0.0
            for q in range(b - 2, a - 1, -1):
                for x in range(k):
                    after[q - a, x] = after[q + 1 - a, x] + old[q + 1, x]
        for q in range(a, b):
            for x in range(k):
                if rho == 1.0:
                    cavity[x] = common[x] + after[q - a, x]
                    common[x] += old[q, x]
                else:  # a state whose own message is -inf is impossible
                    cavity[x] = common[x] - old[q, x] if old[q, x] > -np.inf else -np.inf
            if kind is None:  # full tables; the compiler drops the rest
                _best_in_table(tables[table_of_slot[q]], k, forward, cavity, out)
            else:
                _best_by_distance(kind, tables[table_of_slot[q]], k, cavity, out, site, border)
            maximum = -np.inf
            for x in range(k):
                maximum = max(maximum, out[x])
            if maximum == -np.inf:
                return -1.0
            o = opposite[q]
            for x in range(k):
                before, value = old[o, x], out[x] - maximum
                if damping > 0.0:
                    value = (1.0 - damping) * value + damping * before
                if value != before:
                    both_finite = value > -np.inf and before > -np.inf
                    residual = max(residual, abs(value - before) if both_finite else 1.0)
                new[o, x] = value
    return residual
