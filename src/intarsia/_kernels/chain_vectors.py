"""Arithmetic of vectors over many sequences in one pass over memory, and projections under energies of counts.

Block s of a vector is `starts[s]` to `starts[s + 1]` - 1.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import fast_kernel, kernel
from intarsia._kernels.chains import (
    DONE,
    INFEASIBLE,
    _backward,
    _exponentiate_scores,
    _forward,
    _log_partition,
)


@kernel
def move_parts(starts, tilt, slope, fractions, result):
    """Compute `result = tilt + fraction (slope - tilt)`, with one fraction per block."""
    for s in range(starts.shape[0] - 1):
        fraction = fractions[s]
        for i in range(starts[s], starts[s + 1]):
            result[i] = tilt[i] + fraction * (slope[i] - tilt[i])


@fast_kernel
def multiply_parts(starts, a, b, products):
    """Add the inner product of each block of `a` and `b` to `products`."""
    for s in range(starts.shape[0] - 1):
        total = 0.0
        for i in range(starts[s], starts[s + 1]):
            total += a[i] * b[i]
        products[s] += total


@kernel
def compare_parts(starts, a, b, largest):
    """Raise `largest` to the largest absolute difference of `a` and `b` in each block."""
    for s in range(starts.shape[0] - 1):
        first, last = starts[s], starts[s + 1]
        whole = last - (last - first) % 4
        top0 = top1 = top2 = top3 = largest[s]
        for i in range(first, whole, 4):  # four independent comparisons at a time
            d0, d1, d2, d3 = (
                abs(a[i] - b[i]),
                abs(a[i + 1] - b[i + 1]),
                abs(a[i + 2] - b[i + 2]),
                abs(a[i + 3] - b[i + 3]),
            )
            top0, top1 = d0 if d0 > top0 else top0, d1 if d1 > top1 else top1
            top2, top3 = d2 if d2 > top2 else top2, d3 if d3 > top3 else top3
        for i in range(whole, last):
            d0 = abs(a[i] - b[i])
            top0 = d0 if d0 > top0 else top0
        largest[s] = max(max(top0, top1), max(top2, top3))


@kernel
def copy_parts(starts, mask, source, target):
    """Copy the blocks of `source` that `mask` selects to `target`."""
    for s in range(starts.shape[0] - 1):
        if mask[s]:
            target[starts[s] : starts[s + 1]] = source[starts[s] : starts[s + 1]]


@kernel
def row_spans(rows, maxima, spans):
    """Compute the largest entry of each row, and its distance to the smallest finite entry."""
    n, width = rows.shape
    for i in range(n):
        row = rows[i]
        high, low = -np.inf, np.inf
        for x in range(width):
            high = max(high, row[x])
            if row[x] > -np.inf:
                low = min(low, row[x])
        maxima[i] = high
        spans[i] = high - low if high > -np.inf else 0.0


# Outcomes of `project_counts`; larger changes of a score than this are left to the general method.
CONVERGED, STOPPED, NOT_DONE = 0, 1, 2
_LARGEST_CHANGE = 300.0


@kernel
def _count(nodes, scores, offset, table, transposed, transitions, floor, rows, scratch, columns, counts):
    """Compute expected numbers of labels and transitions of one sequence in `counts`; return outcome and log Z."""
    n = nodes.shape[0]
    tops, floors, totals, message = scratch.tops, scratch.floors, scratch.totals, scratch.message
    alpha, onward, dense = scratch.alpha[:n], scratch.onward[:n], transitions.dense
    _exponentiate_scores(nodes, scores.start, scores.end, offset, rows, tops, floors)
    outcome = _forward(rows, floors, table, 0, floor, dense, alpha, message, totals)
    if outcome != DONE:
        return outcome, -np.inf
    log_z = _log_partition(totals[:n], tops, transitions.tops, 0)
    outcome = _backward(rows, floors, table, transposed, 0, floor, dense, 1.0, alpha, onward, message)
    if outcome != DONE:
        return outcome, log_z
    n_labels = columns.labels.shape[0]
    for i in range(n_labels):
        total, x = 0.0, columns.labels[i]
        for t in range(n):
            total += rows[t, x]
        counts[i] = total
    for i in range(columns.first.shape[0]):
        total, x, y = 0.0, columns.first[i], columns.second[i]
        for t in range(n - 1):
            total += alpha[t, x] * onward[t + 1, y]
        counts[n_labels + i] = total * table[0, x, y]
    return DONE, log_z


@kernel
def _measure(columns, counts, readings):
    """Compute the readings of counts."""
    for j in range(readings.shape[0]):
        total = 0.0
        for i in range(counts.shape[0]):
            total += columns.coefficients[j, i] * counts[i]
        readings[j] = total


@kernel
def _judge(readings, strengths, functions, slope):
    """Compute the slopes of the penalties at the readings; return the energy."""
    energy = 0.0
    for j in range(readings.shape[0]):
        distance = readings[j] - functions.shift[j]
        u = min(max(distance * functions.steepness[j], functions.low[j]), functions.high[j])
        slope[j] = u
        energy += strengths[j] * u * (distance - functions.half_width[j] * u)
    return energy


@kernel
def _tilt(strengths, slope, columns, base, offset, table, transposed, floor):
    """Write the changes of scores by these slopes to `offset` and to the tables; return whether they are small."""
    n_labels, n_readings = columns.labels.shape[0], slope.shape[0]
    floor[0] = base.floors[0]
    for i in range(n_labels + columns.first.shape[0]):
        total = 0.0
        for j in range(n_readings):
            total += strengths[j] * slope[j] * columns.coefficients[j, i]
        if abs(total) > _LARGEST_CHANGE:
            return False
        if i < n_labels:
            offset[columns.labels[i]] = total
        else:
            x, y = columns.first[i - n_labels], columns.second[i - n_labels]
            value = base.tables[0, x, y] * np.exp(-total)
            table[0, x, y] = value
            transposed[y, x] = value
            if value > 0.0 and value < floor[0]:
                floor[0] = value
    return True


@kernel
def project_counts(
    scores, transitions, scratch, columns, functions, strengths, max_iter, tol, beta, slopes, readings, numbers, state
):
    """Compute projections by regularized dual averaging, sequence by sequence, if energies are penalties of counts.

    These are the steps of `bethe_chains`. Results of sequence s: row s of `slopes` (mean slopes without strengths) and
    of `readings`; objective, number of steps and residual in row s of `numbers`; CONVERGED, STOPPED (after `max_iter`
    steps) or NOT_DONE (numbers too large) in `state`. With 0 steps the model without tilt is the result, because it
    has no slope, or because its slope changes the readings by at most `tol`.
    """
    ptr, n_readings, k = scores.ptr, slopes.shape[1], scores.nodes.shape[1]
    offset, zero, floor = np.zeros(k), np.zeros(n_readings), np.empty(1)
    table, transposed = transitions.tables.copy(), transitions.transposed.copy()
    rows_of_longest = np.empty((scratch.totals.shape[0], k))
    counts = np.empty(columns.labels.shape[0] + columns.first.shape[0])
    old, new, slope, mean = np.empty(n_readings), np.empty(n_readings), np.empty(n_readings), np.empty(n_readings)
    for s in range(state.shape[0]):
        nodes, rows, strength = scores.nodes[ptr[s] : ptr[s + 1]], rows_of_longest[: ptr[s + 1] - ptr[s]], strengths[s]
        _tilt(strength, zero, columns, transitions, offset, table, transposed, floor)
        outcome, log_z = _count(
            nodes, scores, offset, table, transposed, transitions, floor, rows, scratch, columns, counts
        )
        state[s] = NOT_DONE
        if outcome == INFEASIBLE:
            counts[:] = 0.0
        elif outcome != DONE:
            continue
        _measure(columns, counts, old)
        energy = _judge(old, strength, functions, slope)
        readings[s], slopes[s], mean[:] = old, slope, 0.0
        numbers[s, 0], numbers[s, 1], numbers[s, 2] = energy - log_z, 0.0, 0.0
        largest = 0.0
        for j in range(n_readings):
            largest = max(largest, abs(strength[j] * slope[j]))
        if outcome == INFEASIBLE or largest == 0.0:
            state[s] = CONVERGED
            continue
        slopes[s] = 0.0
        is_converged = False
        for step in range(1, max_iter + 1):
            weight = 1.0 / (step + beta)
            for j in range(n_readings):
                mean[j] += weight * (slope[j] - mean[j])
            if not _tilt(strength, mean, columns, transitions, offset, table, transposed, floor):
                outcome = NOT_DONE
                break
            outcome, log_z = _count(
                nodes, scores, offset, table, transposed, transitions, floor, rows, scratch, columns, counts
            )
            if outcome != DONE:
                break
            _measure(columns, counts, new)
            energy = _judge(new, strength, functions, slope)
            change, objective = 0.0, energy - log_z
            for j in range(n_readings):
                change = max(change, abs(new[j] - old[j]))
                objective -= strength[j] * mean[j] * new[j]
                old[j] = new[j]
            if step == 1 and beta == 0.0 and change <= tol:  # a full step, so the start is a fixed point
                slopes[s], numbers[s, 2], is_converged = mean, change, True
                break
            numbers[s, 1], numbers[s, 2] = step, change / weight
            if objective < numbers[s, 0]:
                numbers[s, 0], slopes[s], readings[s] = objective, mean, new
            if change / weight > tol:
                continue
            # The residual is an estimate, so another pass verifies that the readings are a fixed point.
            if not _tilt(strength, slope, columns, transitions, offset, table, transposed, floor):
                outcome = NOT_DONE
                break
            outcome, log_z = _count(
                nodes, scores, offset, table, transposed, transitions, floor, rows, scratch, columns, counts
            )
            if outcome != DONE:
                break
            _measure(columns, counts, new)
            largest = 0.0
            for j in range(n_readings):
                largest = max(largest, abs(new[j] - old[j]))
            if largest <= tol:
                numbers[s, 0], slopes[s], readings[s] = objective, mean, old
                is_converged = True
                break
        if outcome == DONE:
            state[s] = CONVERGED if is_converged else STOPPED
