"""Partitions of records: incremental statistics of clusters, proposals, walks that learn or decode, agglomeration.

The score is a sum over clusters of features of the cluster's *statistics*, a row of numbers that can be combined: for
disjoint sets A and B, `T(A + B) = T(A) + T(B) + X(A, B)`, where X holds the pairs between them (the last entries are
minima and maxima, which combine likewise). Merging, splitting and moving are one operation: some records MOVED leave
cluster `a` for cluster `b`, or for a new one (b = -1). That changes the pairs between them and the two clusters and
nothing else.

Layout of a row of statistics: number of present pairs; sums of the d pair features; numbers of pairs above a level; for
each column of codes the number of records with a code and of agreeing pairs; the sum of c_v^2 / t_v over the true
entities v (c_v of its t_v records are in the cluster); then minima, and maxima, of the columns that the model uses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from intarsia._core.jit import borrowing_kernel, kernel, prefetch
from intarsia._core.validation import FloatArray, IntArray

# Kinds of cluster features; `argument` is a pair feature, a counted level or a column of codes, `level` a size.
SUM, ABSENT, MEAN, LEAST, MOST, EXISTS, FOR_ALL, LOG_SIZE, SIZE, AGREEING, ALL_EQUAL, UNKNOWN = range(12)
# Features of the records of a cluster, and of pairs of clusters.
SPAN, DISTINCT, REPRESENTATIVE, BETWEEN, BETWEEN_MEAN, BETWEEN_EXISTS = range(12, 18)
# Counters of a walk.
PROPOSED, VALID, ACCEPTED, RANKED, ERRORS, UPDATES = range(6)
# How a walk accepts proposals, and how a ranking error is corrected.
BY_MODEL, BY_TRUTH, ALWAYS = range(3)
PERCEPTRON, MIRA, ADAGRAD = range(3)
PAIRWISE_F1, B_CUBED_F1, PAIR_ACCURACY = range(3)

UNKNOWN_NUMBER = 1e300
EQUAL_METRIC = 1e-12  # differences of the metric below this are rounding
EQUAL_SCORE = 1e-9  # a climb must gain more than rounding, or it would never end


# Rows of the arrays below: with an array for each the loops took ten times as long to compile. Numba's cache stores the
# names of the tuples: after renaming one, delete the cache. An ordinary kernel counts references to all arrays of a
# tuple that it takes, which takes longer than adding a pair: kernels called often borrow their arrays.
LABEL, AFTER, BEFORE, HEAD, SIZES, SLOTS, PLACE, COUNT = range(8)  # a partition; COUNT holds one number
MOVED, REST, ORDER, MARK, SIDE, SEEN, TAKEN, MEMBERS = range(8)  # scratch; MARK to TAKEN are all 0 between calls
PTR, ATOM, ATOM_PTR, ATOM_IDX, CANNOT_PTR, SOURCE = range(6)  # of each record
KIND, ARGUMENT, LEVEL = range(3)  # of each feature
COMPLETE, TRUTH, SOURCES, LINKED, ACROSS = range(5)  # flags; TRUTH is a column of codes or -1
NOW, THEN = range(2)  # rows of `totals`
ALONG_PAIRS, ABSENT_SCORE, FIRST_PAIR, LAST_PAIR = range(3, 7)  # of a proposer, after the three probabilities
N_PARTITION, N_LISTS, N_OF_RECORD, N_SPARE_STATS, N_SPARE_PHI = 8, 8, 6, 4, 3


class World(NamedTuple):
    """Records, pairs and features, read only.

    `rows` has the rows PTR .. SOURCE; `near` the partners of a record and the rows of those pairs; `table` the kinds,
    arguments and levels of the features; `levels` the columns and levels whose pairs are counted; `extremes` the
    columns whose minima and maxima are stored; `numbers` the numbers of each record.
    """

    rows: IntArray
    near: IntArray
    ends: IntArray
    values: FloatArray
    cannot: IntArray
    codes: IntArray
    inverse: FloatArray
    table: FloatArray
    levels: FloatArray
    extremes: IntArray
    flags: IntArray
    numbers: FloatArray


class State(NamedTuple):
    """Partition with the statistics and features of its clusters by slot, and scratch.

    After the slots `stats` has four rows (of the moved records, pairs between, remaining cluster, joined cluster) and
    `phi` three (remaining, joined, change). `totals` are the sums of the metric now and after the move (agreeing pairs,
    joined pairs, precisions, recalls). `linked` is scratch for pairs with other clusters.
    """

    partition: IntArray
    lists: IntArray
    stats: FloatArray
    phi: FloatArray
    totals: FloatArray
    linked: FloatArray


class Proposer(NamedTuple):
    """Distribution of proposals, and the scores of all pairs.

    `numbers` holds the cumulative probabilities of the three kinds of proposals, then ALONG_PAIRS .. LAST_PAIR. Pairs
    are drawn from row FIRST_PAIR to before row LAST_PAIR: where there are many, a range that fits into the cache.
    """

    numbers: FloatArray
    affinity: FloatArray


class WalkRules(NamedTuple):
    """How a walk accepts proposals and how it learns from them.

    Attributes
    ----------
    cooling : float
        Factor of the temperature before each proposal.
    hastings : bool
        Whether acceptance corrects for the probabilities of proposals (Metropolis-Hastings).
    walk, rule, metric : int
        Constants of this module: how proposals are accepted, how ranking errors are corrected, how truth is measured.
    learn : bool
        Whether the weights are updated.
    rate, required : float
        Learning rate, and the margin below which a ranking counts as an error.
    constants : float array (3,)
        See `measure`.
    learned : float array
        State of the learning rule.
    counters : int array (6,)
        PROPOSED .. UPDATES.
    """

    cooling: float
    hastings: bool
    walk: int
    learn: bool
    rule: int
    rate: float
    required: float
    metric: int
    constants: FloatArray
    sums: FloatArray
    counters: IntArray


# ---------------------------------------------------------------- membership


@borrowing_kernel
def _move_record(r, slot, partition):
    """Move a record from its cluster to the head of another; the lists of slots are not changed."""
    old, after, before = partition[LABEL, r], partition[AFTER, r], partition[BEFORE, r]
    if before >= 0:
        partition[AFTER, before] = after
    else:
        partition[HEAD, old] = after
    if after >= 0:
        partition[BEFORE, after] = before
    partition[SIZES, old] -= 1
    first = partition[HEAD, slot]
    partition[AFTER, r] = first
    partition[BEFORE, r] = -1
    if first >= 0:
        partition[BEFORE, first] = r
    partition[HEAD, slot] = r
    partition[LABEL, r] = slot
    partition[SIZES, slot] += 1


@borrowing_kernel
def relocate(lists, m, b, partition):
    """Move the m records of row MOVED, all of one cluster, to cluster b or to a new one (-1); return their slot."""
    a = partition[LABEL, lists[MOVED, 0]]
    if b < 0:
        b = partition[SLOTS, partition[COUNT, 0]]
        partition[COUNT, 0] += 1
    for t in range(m):
        _move_record(lists[MOVED, t], b, partition)
    if partition[SIZES, a] == 0:  # swap the empty slot with the last one in use
        partition[COUNT, 0] -= 1
        end = partition[COUNT, 0]
        last, position = partition[SLOTS, end], partition[PLACE, a]
        partition[SLOTS, position] = last
        partition[SLOTS, end] = a
        partition[PLACE, last] = position
        partition[PLACE, a] = end
    return b


@borrowing_kernel
def collect(slot, lists, row, m, partition):
    """Write the members of a cluster to a row of lists, from position m on; return the position after them."""
    r = partition[HEAD, slot]
    while r >= 0:
        lists[row, m] = r
        m += 1
        r = partition[AFTER, r]
    return m


# ---------------------------------------------------------------- statistics


@borrowing_kernel
def _find_pair(i, j, complete, rows, near):
    """Return the row of the features of a pair; -1 if it is absent."""
    if complete:
        low, high, n = min(i, j), max(i, j), rows.shape[1] - 1
        e = low * (2 * n - low - 1) // 2 + high - low - 1
    else:
        first, last = rows[PTR, i], rows[PTR, i + 1]
        end = last
        while first < last:
            middle = (first + last) >> 1
            if near[0, middle] < j:
                first = middle + 1
            else:
                last = middle
        e = near[1, first] if first < end and near[0, first] == j else -1
    return e


@borrowing_kernel
def _add_pair(stats, out, e, low, values, levels, extremes):
    """Add one present pair to a row of statistics; minima begin at column `low`."""
    d, n_extremes = values.shape[1], extremes.shape[0]
    stats[out, 0] += 1.0
    for k in range(d):
        stats[out, 1 + k] += values[e, k]
    for k in range(n_extremes):
        value = values[e, extremes[k]]
        stats[out, low + k] = min(stats[out, low + k], value)
        stats[out, low + n_extremes + k] = max(stats[out, low + n_extremes + k], value)
    for c in range(levels.shape[1]):
        if values[e, int(levels[0, c])] > levels[1, c]:
            stats[out, 1 + d + c] += 1.0


@borrowing_kernel
def _add_pairs(out, row, m, other, n, slot, token, low, complete, rows, near, values, levels, extremes, *state):
    """Add the pairs of m listed records with n listed members of a cluster, marked by `token`.

    Where both lists are the same, each pair is added once.
    """
    partition, lists, stats = state
    below = row == other
    for s in range(m):
        i = lists[row, s]
        first, last = rows[PTR, i], rows[PTR, i + 1]
        search = complete or last - first > 4 * n
        for t in range(n if search else last - first):
            e = -1
            if search:
                j = lists[other, t]
                if not below or j < i:
                    e = _find_pair(i, j, complete, rows, near)
            else:
                j = near[0, first + t]
                if partition[LABEL, j] == slot and lists[MARK, j] == token and (not below or j < i):
                    e = near[1, first + t]
            if e >= 0:
                _add_pair(stats, out, e, low, values, levels, extremes)


@borrowing_kernel
def _n_added(world):
    """Return the number of statistics that are sums."""
    return 2 + world.values.shape[1] + world.levels.shape[1] + 2 * world.codes.shape[1]


@borrowing_kernel
def _clear(stats, out, n_added):
    """Set a row to the statistics of an empty set."""
    d = (stats.shape[1] - n_added) // 2
    for s in range(n_added):
        stats[out, s] = 0.0
    for k in range(d):
        stats[out, n_added + k] = np.inf
        stats[out, n_added + d + k] = -np.inf


@borrowing_kernel
def _codes_within(out, row, m, base, truth, codes, inverse, lists, stats):
    """Count records with a code and agreeing pairs of each column of codes, from column `base` on."""
    recall = base + 2 * codes.shape[1]
    for c in range(codes.shape[1]):
        for t in range(m):
            v = codes[lists[row, t], c]
            if v >= 0:
                count = lists[SEEN, v]
                stats[out, base + 2 * c] += 1.0
                stats[out, base + 2 * c + 1] += count
                if c == truth:
                    stats[out, recall] += (2 * count + 1) * inverse[v]  # (c + 1)^2 - c^2
                lists[SEEN, v] += 1
        for t in range(m):
            v = codes[lists[row, t], c]
            if v >= 0:
                lists[SEEN, v] = 0


@borrowing_kernel
def _codes_across(out, m, n, base, truth, codes, inverse, lists, stats):
    """Count agreeing pairs between the m records MOVED and the n records REST, in each column of codes."""
    recall = base + 2 * codes.shape[1]
    for c in range(codes.shape[1]):
        for t in range(m):
            v = codes[lists[MOVED, t], c]
            if v >= 0:
                lists[SEEN, v] += 1
        for t in range(n):
            v = codes[lists[REST, t], c]
            if v >= 0:
                count = lists[SEEN, v]
                stats[out, base + 2 * c + 1] += count
                if c == truth:
                    stats[out, recall] += 2 * count * inverse[v]
        for t in range(m):
            v = codes[lists[MOVED, t], c]
            if v >= 0:
                lists[SEEN, v] = 0


@borrowing_kernel
def _stats_within(out, row, m, slot, token, world, state):
    """Compute the statistics of those records of a cluster that are marked by `token`, from all their pairs."""
    rows, near, _, values, _, codes, inverse, _, levels, extremes, flags, _ = world
    partition, lists, stats, _, _, _ = state
    base = 1 + values.shape[1] + levels.shape[1]
    low = base + 1 + 2 * codes.shape[1]
    _clear(stats, out, low)
    pairs = (flags[COMPLETE], rows, near, values, levels, extremes)
    _add_pairs(out, row, m, row, m, slot, token, low, *pairs, partition, lists, stats)
    _codes_within(out, row, m, base, flags[TRUTH], codes, inverse, lists, stats)


@borrowing_kernel
def _stats_across(out, m, n, slot, world, state):
    """Compute the statistics of the pairs between the m records MOVED and the n unmarked records REST of a cluster."""
    rows, near, _, values, _, codes, inverse, _, levels, extremes, flags, _ = world
    partition, lists, stats, _, _, _ = state
    base = 1 + values.shape[1] + levels.shape[1]
    low = base + 1 + 2 * codes.shape[1]
    _clear(stats, out, low)
    pairs = (flags[COMPLETE], rows, near, values, levels, extremes)
    _add_pairs(out, MOVED, m, REST, n, slot, 0, low, *pairs, partition, lists, stats)
    _codes_across(out, m, n, base, flags[TRUTH], codes, inverse, lists, stats)


@borrowing_kernel
def _copy(table, target, source):
    """Copy one row of a table to another."""
    for s in range(table.shape[1]):
        table[target, s] = table[source, s]


@borrowing_kernel
def _join(stats, out, other, n_added):
    """Combine two rows of statistics: add sums, take minima and maxima."""
    d = (stats.shape[1] - n_added) // 2
    for s in range(n_added):
        stats[out, s] += stats[other, s]
    for k in range(n_added, n_added + d):
        stats[out, k] = min(stats[out, k], stats[other, k])
        stats[out, k + d] = max(stats[out, k + d], stats[other, k + d])


@borrowing_kernel
def _features(phi, out, stats, row, size, world):
    """Compute the features of a cluster from its statistics; absent pairs have the value 0, single records no pairs."""
    d, n_levels = world.values.shape[1], world.levels.shape[1]
    low = _n_added(world)
    n_pairs = 0.5 * size * (size - 1.0)
    absent = n_pairs - stats[row, 0]
    for f in range(world.table.shape[1]):
        kind, k = int(world.table[KIND, f]), int(world.table[ARGUMENT, f])
        value = 0.0
        if kind == SUM:
            value = stats[row, 1 + k]
        elif kind == LOG_SIZE:
            value = np.log(size)
        elif kind == SIZE:
            value = 1.0 if size >= world.table[LEVEL, f] else 0.0
        elif kind == UNKNOWN:
            value = 1.0 if stats[row, 1 + d + n_levels + 2 * k] < 0.5 else 0.0
        elif size < 1.5 or kind >= SPAN:  # the latter are computed from the records
            value = 0.0
        elif kind == ABSENT:
            value = absent
        elif kind == MEAN:
            value = stats[row, 1 + k] / n_pairs
        elif kind == LEAST:
            value = stats[row, low + k]
            if absent > 0.5 and value > 0.0:
                value = 0.0
        elif kind == MOST:
            value = stats[row, low + world.extremes.shape[0] + k]
            if absent > 0.5 and value < 0.0:
                value = 0.0
        elif kind in (EXISTS, FOR_ALL):
            above = stats[row, 1 + d + k] + (absent if world.levels[1, k] < 0.0 else 0.0)
            value = 1.0 if above > (0.5 if kind == EXISTS else n_pairs - 0.5) else 0.0
        else:
            n_known, agreeing = stats[row, 1 + d + n_levels + 2 * k], stats[row, 2 + d + n_levels + 2 * k]
            if n_known > 1.5:
                value = agreeing / (0.5 * n_known * (n_known - 1.0))
                if kind == ALL_EQUAL:
                    value = 1.0 if value > 1.0 - 1e-12 else 0.0
        phi[out, f] = value


@borrowing_kernel
def _record_features(phi, out, row, m, n, world, lists):
    """Compute the features of a cluster that need its records: m records in a row of lists and n records in REST."""
    for f in range(world.table.shape[1]):
        kind, k = int(world.table[KIND, f]), int(world.table[ARGUMENT, f])
        value = 0.0
        if kind == SPAN and m + n > 1:
            low_number, high_number = UNKNOWN_NUMBER, -UNKNOWN_NUMBER
            for t in range(m + n):
                number = world.numbers[lists[row, t] if t < m else lists[REST, t - m], k]
                if number < UNKNOWN_NUMBER:
                    low_number, high_number = min(low_number, number), max(high_number, number)
            value = high_number - low_number if high_number > low_number else 0.0
        elif kind == DISTINCT and m + n > 1:
            for t in range(m + n):
                v = world.codes[lists[row, t] if t < m else lists[REST, t - m], k]
                if v >= 0:
                    value += lists[SEEN, v] == 0
                    lists[SEEN, v] = 1
            for t in range(m + n):
                v = world.codes[lists[row, t] if t < m else lists[REST, t - m], k]
                if v >= 0:
                    lists[SEEN, v] = 0
            value = max(value - 1.0, 0.0)
        elif kind == REPRESENTATIVE and m + n > 1:
            best, best_degree = -1, -1
            for t in range(m + n):
                r = lists[row, t] if t < m else lists[REST, t - m]
                degree = world.rows[PTR, r + 1] - world.rows[PTR, r]
                if degree > best_degree or (degree == best_degree and r < best):
                    best, best_degree = r, degree
            for t in range(m + n):
                r = lists[row, t] if t < m else lists[REST, t - m]
                if r != best:
                    e = _find_pair(best, r, world.flags[COMPLETE], world.rows, world.near)
                    value += world.values[e, k] if e >= 0 else 0.0
            value /= m + n - 1
        if kind in (SPAN, DISTINCT, REPRESENTATIVE):
            phi[out, f] = value


@borrowing_kernel
def _sum_across(n, slot, skipped, target, f, world, state):
    """Sum a feature over the pairs of a cluster, whose n records are in MEMBERS, with the clusters that a pair links.

    Marked records belong to cluster `target` if it is not negative. The cluster `skipped` does not count; if it is -2,
    clusters of smaller slots do not.
    """
    partition, lists, linked = state.partition, state.lists, state.linked
    kind, k, level = int(world.table[KIND, f]), int(world.table[ARGUMENT, f]), world.table[LEVEL, f]
    total = 0.0
    for stage in range(2):
        for t in range(n):
            r = lists[MEMBERS, t]
            for q in range(world.rows[PTR, r], world.rows[PTR, r + 1]):
                j = world.near[0, q]
                other = target if target >= 0 and lists[MARK, j] == 1 else partition[LABEL, j]
                if slot == other or (skipped == -2 and other < slot) or other == skipped:
                    continue
                if stage == 0:
                    value = world.values[world.near[1, q], k]
                    if linked[1, other] < 0.5:
                        linked[0, other] = value
                    elif kind == BETWEEN_MEAN:
                        linked[0, other] += value
                    else:
                        linked[0, other] = max(linked[0, other], value)
                    linked[1, other] += 1.0
                elif linked[1, other] > 0.5:
                    if kind == BETWEEN_EXISTS:
                        total += 1.0 if linked[0, other] > level else 0.0
                    else:
                        total += linked[0, other] / (linked[1, other] if kind == BETWEEN_MEAN else 1.0)
                    linked[1, other] = 0.0
    return total


@borrowing_kernel
def between_totals(out, world, state):
    """Write the sums of the features of pairs of clusters, over all pairs of clusters that a listed pair links."""
    for f in range(world.table.shape[1]):
        if world.table[KIND, f] >= BETWEEN:
            out[f] = 0.0
            for c in range(state.partition[COUNT, 0]):
                slot = state.partition[SLOTS, c]
                n = collect(slot, state.lists, MEMBERS, 0, state.partition)
                out[f] += _sum_across(n, slot, -2, -1, f, world, state)


@borrowing_kernel
def _change_across(m, b, world, state):
    """Compute the change of the features of pairs of clusters if the records MOVED joined cluster b or a new one."""
    partition, lists, phi = state.partition, state.lists, state.phi
    a, n = partition[LABEL, lists[MOVED, 0]], partition.shape[1]
    n_rest = partition[SIZES, a] - m
    target = b if b >= 0 else n  # the new cluster
    for t in range(m):
        lists[MARK, lists[MOVED, t]] = 1
    for f in range(world.table.shape[1]):
        if world.table[KIND, f] < BETWEEN:
            continue
        value = -_sum_across(collect(a, lists, MEMBERS, 0, partition), a, -1, -1, f, world, state)
        if b >= 0:
            value -= _sum_across(collect(b, lists, MEMBERS, 0, partition), b, a, -1, f, world, state)
        if n_rest > 0:
            count, r = 0, partition[HEAD, a]
            while r >= 0:
                if lists[MARK, r] == 0:
                    lists[MEMBERS, count] = r
                    count += 1
                r = partition[AFTER, r]
            value += _sum_across(count, a, -1, target, f, world, state)
        count = collect(b, lists, MEMBERS, 0, partition) if b >= 0 else 0
        for t in range(m):
            lists[MEMBERS, count + t] = lists[MOVED, t]
        value += _sum_across(count + m, target, a if n_rest > 0 else -1, target, f, world, state)
        phi[phi.shape[0] - 1, f] = value
    for t in range(m):
        lists[MARK, lists[MOVED, t]] = 0


@borrowing_kernel
def _truth_column(world):
    """Return the column of the number of records with a true entity, -1 without a truth; agreeing pairs follow."""
    column = 1 + world.values.shape[1] + world.levels.shape[1] + 2 * world.flags[TRUTH]
    return column if world.flags[TRUTH] >= 0 else -1


@borrowing_kernel
def _add_totals(totals, row, stats, source, sign, column, n_added):
    """Add the contribution of a cluster, times `sign`, to the sums of the metric."""
    if column >= 0:
        n_known, agreeing = stats[source, column], stats[source, column + 1]
        if n_known > 0.5:
            totals[row, 0] += sign * agreeing
            totals[row, 1] += sign * 0.5 * n_known * (n_known - 1.0)
            totals[row, 2] += sign * (2.0 * agreeing + n_known) / n_known
            totals[row, 3] += sign * stats[source, n_added - 1]


@borrowing_kernel
def measure(totals, row, metric, constants):
    """Return the metric from its sums; `constants`: true pairs, records with a true entity, pairs of these."""
    agreeing, joined_pairs = totals[row, 0], totals[row, 1]
    true_pairs, n_known, all_pairs = constants[0], constants[1], constants[2]
    if metric == PAIRWISE_F1:
        return 2.0 * agreeing / (joined_pairs + true_pairs) if joined_pairs + true_pairs > 0.5 else 1.0
    if metric == B_CUBED_F1:
        precision, recall = totals[row, 2], totals[row, 3]
        return 2.0 * precision * recall / (n_known * (precision + recall)) if n_known > 0.5 else 1.0
    return 1.0 - (joined_pairs + true_pairs - 2.0 * agreeing) / all_pairs if all_pairs > 0.5 else 1.0


@borrowing_kernel
def rebuild(world, state):
    """Compute the statistics, features and sums of all clusters again."""
    for s in range(4):
        state.totals[NOW, s] = 0.0
    for c in range(state.partition[COUNT, 0]):
        slot = state.partition[SLOTS, c]
        m = collect(slot, state.lists, REST, 0, state.partition)
        _stats_within(slot, REST, m, slot, 0, world, state)
        _features(state.phi, slot, state.stats, slot, float(m), world)
        _record_features(state.phi, slot, REST, m, 0, world, state.lists)
        _add_totals(state.totals, NOW, state.stats, slot, 1.0, _truth_column(world), _n_added(world))


# ---------------------------------------------------------------- one move


@borrowing_kernel
def is_allowed(m, b, world, state):
    """Return whether the records MOVED may join cluster b: no cannot-link between them, no source twice."""
    partition, lists = state.partition, state.lists
    good = True
    if b >= 0 and world.cannot.shape[0] > 0:
        for t in range(m):
            r = lists[MOVED, t]
            for q in range(world.rows[CANNOT_PTR, r], world.rows[CANNOT_PTR, r + 1]):
                good = good and partition[LABEL, world.cannot[q]] != b
    if b >= 0 and world.flags[SOURCES] and good:
        for t in range(m):
            source = world.rows[SOURCE, lists[MOVED, t]]
            if source >= 0:
                lists[TAKEN, source] = 1
        r = partition[HEAD, b]
        while r >= 0:
            source = world.rows[SOURCE, r]
            good = good and (source < 0 or lists[TAKEN, source] == 0)
            r = partition[AFTER, r]
        for t in range(m):
            source = world.rows[SOURCE, lists[MOVED, t]]
            if source >= 0:
                lists[TAKEN, source] = 0
    return good


@borrowing_kernel
def _subtract(stats, rest_row, within_row, across_row, n_rest, a, n_added):
    """Subtract moved records from cluster a; return whether the result is invalid because an extreme may be gone."""
    is_stale = n_rest < 2
    for s in range(n_added):
        stats[rest_row, s] = stats[a, s] - stats[within_row, s] - stats[across_row, s]
    for k in range(n_added, stats.shape[1]):
        stats[rest_row, k] = stats[a, k]
        is_stale = is_stale or stats[within_row, k] == stats[a, k] or stats[across_row, k] == stats[a, k]
    return is_stale


@borrowing_kernel
def evaluate(m, b, world, state):
    """Compute the change of features and metric sums if the records MOVED joined cluster b or a new one (-1)."""
    partition, lists, stats, phi, totals, _ = state
    a = partition[LABEL, lists[MOVED, 0]]
    n, n_added, column = partition.shape[1], _n_added(world), _truth_column(world)
    within_row, across_row, rest_row, joined_row = n, n + 1, n + 2, n + 3
    rest_phi, joined_phi, change = n, n + 1, n + 2
    n_rest = partition[SIZES, a] - m
    n_joined = partition[SIZES, b] if b >= 0 else 0
    for s in range(4):
        totals[THEN, s] = totals[NOW, s]
    _add_totals(totals, THEN, stats, a, -1.0, column, n_added)
    if n_rest == 0:
        _copy(stats, within_row, a)
    else:
        for t in range(m):
            lists[MARK, lists[MOVED, t]] = 1
        rest, r = 0, partition[HEAD, a]
        while r >= 0:
            if lists[MARK, r] == 0:
                lists[REST, rest] = r
                rest += 1
            r = partition[AFTER, r]
        _stats_within(within_row, MOVED, m, a, 1, world, state)
        _stats_across(across_row, m, n_rest, a, world, state)
        if _subtract(stats, rest_row, within_row, across_row, n_rest, a, n_added):
            _stats_within(rest_row, REST, n_rest, a, 0, world, state)
        for t in range(m):
            lists[MARK, lists[MOVED, t]] = 0
        _features(phi, rest_phi, stats, rest_row, float(n_rest), world)
        _record_features(phi, rest_phi, REST, n_rest, 0, world, lists)
        _add_totals(totals, THEN, stats, rest_row, 1.0, column, n_added)
    _copy(stats, joined_row, within_row)
    if n_joined > 0:
        collect(b, lists, REST, 0, partition)
        _stats_across(across_row, m, n_joined, b, world, state)
        _join(stats, joined_row, b, n_added)
        _join(stats, joined_row, across_row, n_added)
        _add_totals(totals, THEN, stats, b, -1.0, column, n_added)
    _features(phi, joined_phi, stats, joined_row, float(n_joined + m), world)
    _record_features(phi, joined_phi, MOVED, m, n_joined, world, lists)
    _add_totals(totals, THEN, stats, joined_row, 1.0, column, n_added)
    for f in range(phi.shape[1]):
        value = phi[joined_phi, f] - phi[a, f]
        if n_rest > 0:
            value += phi[rest_phi, f]
        if n_joined > 0:
            value -= phi[b, f]
        phi[change, f] = value
    if world.flags[ACROSS]:
        _change_across(m, b, world, state)


@borrowing_kernel
def _gain(weights, state):
    """Return the change of the score by the move that was just evaluated."""
    gain, change = 0.0, state.phi.shape[0] - 1
    for f in range(weights.shape[0]):
        gain += weights[f] * state.phi[change, f]
    return gain


@borrowing_kernel
def commit(m, b, state):
    """Make the move that was just evaluated; return the slot of the records."""
    partition, lists, stats, phi, totals, _ = state
    n = partition.shape[1]
    a = partition[LABEL, lists[MOVED, 0]]
    if partition[SIZES, a] > m:
        _copy(stats, a, n + 2)
        _copy(phi, a, n)
    b = relocate(lists, m, b, partition)
    _copy(stats, b, n + 3)
    _copy(phi, b, n + 1)
    _copy(totals, NOW, THEN)
    return b


# ---------------------------------------------------------------- proposals


@borrowing_kernel
def _affinity(g, m, side, world, lists, proposer):
    """Return the score of the pairs between an atom and those of the m records REST that are on a side."""
    score = 0.0
    for u in range(world.rows[ATOM_PTR, g], world.rows[ATOM_PTR, g + 1]):
        for t in range(m):
            q = lists[REST, t]
            if lists[SIDE, world.rows[ATOM, q]] == side:
                e = _find_pair(world.rows[ATOM_IDX, u], q, world.flags[COMPLETE], world.rows, world.near)
                score += proposer.affinity[e] if e >= 0 else proposer.numbers[ABSENT_SCORE]
    return score


@borrowing_kernel
def _gather_atoms(i, j, world, state):
    """Write the records of the clusters of i and j to REST, their other atoms to ORDER; return both numbers.

    The side of i's atom is 1, that of j's is 2.
    """
    partition, lists = state.partition, state.lists
    m = collect(partition[LABEL, i], lists, REST, 0, partition)
    if partition[LABEL, i] != partition[LABEL, j]:
        m = collect(partition[LABEL, j], lists, REST, m, partition)
    lists[SIDE, world.rows[ATOM, i]] = 1
    lists[SIDE, world.rows[ATOM, j]] = 2
    n = 0
    for t in range(m):
        g = world.rows[ATOM, lists[REST, t]]
        if lists[SIDE, g] == 0:
            lists[SIDE, g] = -1
            lists[ORDER, n] = g
            n += 1
    return m, n


@borrowing_kernel
def _allocate(rng, i, j, sequential, with_probability, world, state, proposer):
    """Allocate the atoms of the clusters of i and j to two sides, i's and j's; return the log-probability.

    If i and j are in one cluster, the sides are drawn and MOVED receives the smaller; the second result is its size. If
    not, the probability is that of the two present clusters, and nothing is moved. The order of a sequential allocation
    is always uniform, so that it cancels between a split and the merge that reverses it. Without `with_probability` the
    affinities of present clusters are not computed and their log-probability is not valid; the random numbers are the
    same, so that a seed leads to the same proposals.
    """
    partition, lists = state.partition, state.lists
    a, split = partition[LABEL, i], partition[LABEL, i] == partition[LABEL, j]
    m, n = _gather_atoms(i, j, world, state)
    log_probability = 0.0
    for t in range(n):
        if sequential:
            s = t + int(rng.random() * (n - t))
            g = lists[ORDER, s]
            lists[ORDER, s] = lists[ORDER, t]
            p = 0.5
            if split or with_probability:
                odds = _affinity(g, m, 1, world, lists, proposer) - _affinity(g, m, 2, world, lists, proposer)
                p = 1.0 / (1.0 + np.exp(-min(max(odds, -30.0), 30.0)))  # no allocation is impossible
        else:
            g, p = lists[ORDER, t], 0.5
        if split:
            first = rng.random() < p
        else:
            first = partition[LABEL, world.rows[ATOM_IDX, world.rows[ATOM_PTR, g]]] == a
        lists[SIDE, g] = 1 if first else 2
        log_probability += np.log(p if first else 1.0 - p)
    n_moved = 0
    if split:
        ones = 0
        for t in range(m):
            ones += lists[SIDE, world.rows[ATOM, lists[REST, t]]] == 1
        smaller = 1 if 2 * ones <= m else 2
        for t in range(m):
            if lists[SIDE, world.rows[ATOM, lists[REST, t]]] == smaller:
                lists[MOVED, n_moved] = lists[REST, t]
                n_moved += 1
    for t in range(m):
        lists[SIDE, world.rows[ATOM, lists[REST, t]]] = 0
    return log_probability, n_moved


@kernel
def allocate(rng, i, j, sequential, world, state, proposer):
    """Run `_allocate` for callers in Python, whose generator needs a counted reference."""
    return _allocate(rng, i, j, sequential, True, world, state, proposer)


@borrowing_kernel
def _prefetch_row(table, row):
    """Prefetch a row of a table; cache lines have eight numbers."""
    for s in range(0, table.shape[1], 8):
        prefetch(table, (np.int64(row), s))


@borrowing_kernel
def _draw_pair(rng, proposer, world, n):
    """Draw two different records, along a listed pair or any; the distribution does not depend on the partition."""
    if rng.random() < proposer.numbers[ALONG_PAIRS]:
        first, last = int(proposer.numbers[FIRST_PAIR]), int(proposer.numbers[LAST_PAIR])
        e = first + int(rng.random() * (last - first))
        _prefetch_row(world.values, e)
        turn = int(rng.random() < 0.5)
        return world.ends[e, turn], world.ends[e, 1 - turn]
    i = int(rng.random() * n)
    j = int(rng.random() * (n - 1))
    return i, j + int(j >= i)


@borrowing_kernel
def _propose(rng, with_ratio, world, state, proposer):
    """Draw a move into MOVED; return its number of records, cluster, log ratio, and whether it moves one atom.

    The log ratio is that of the backward and forward probabilities, without those of `log_ratio_of_atom`. It is valid
    only with `with_ratio`.

    The number of records is 0 if no move is possible with the drawn pair.
    """
    partition, lists = state.partition, state.lists
    n = partition.shape[1]
    u = rng.random()
    kind = 0
    while kind < 2 and u >= proposer.numbers[kind]:
        kind += 1
    i, j = _draw_pair(rng, proposer, world, n)
    a, b = partition[LABEL, i], partition[LABEL, j]
    _prefetch_row(state.stats, a)
    _prefetch_row(state.stats, b)
    _prefetch_row(state.phi, a)
    _prefetch_row(state.phi, b)
    m, target, log_ratio = 0, b, 0.0
    if world.rows[ATOM, i] != world.rows[ATOM, j]:
        if kind == 2:
            g = world.rows[ATOM, i]
            for q in range(world.rows[ATOM_PTR, g], world.rows[ATOM_PTR, g + 1]):
                lists[MOVED, m] = world.rows[ATOM_IDX, q]
                m += 1
            target = -1 if a == b else b
        elif a == b:
            log_probability, m = _allocate(rng, i, j, kind == 1, with_ratio, world, state, proposer)
            target, log_ratio = -1, -log_probability
        else:
            if kind == 0 and not world.flags[LINKED]:  # every other record is allocated with probability 1/2
                log_ratio = -np.log(2.0) * (partition[SIZES, a] + partition[SIZES, b] - 2)
            else:
                log_ratio, m = _allocate(rng, i, j, kind == 1, with_ratio, world, state, proposer)
            small = a if partition[SIZES, a] <= partition[SIZES, b] else b
            target = a + b - small
            m = collect(small, lists, MOVED, 0, partition)
    return m, target, log_ratio, kind == 2


@kernel
def propose(rng, world, state, proposer):
    """Run `_propose` for callers in Python, whose generator needs a counted reference."""
    return _propose(rng, True, world, state, proposer)


@borrowing_kernel
def _two_atoms(rng, slot, world, state):
    """Draw a record of each of two different atoms of a cluster."""
    lists, r, m = state.lists, state.partition[HEAD, slot], 0
    while r >= 0:
        if world.rows[ATOM_IDX, world.rows[ATOM_PTR, world.rows[ATOM, r]]] == r:
            lists[REST, m] = r
            m += 1
        r = state.partition[AFTER, r]
    i = int(rng.random() * m)
    j = int(rng.random() * (m - 1))
    return lists[REST, i], lists[REST, j + int(j >= i)]


@borrowing_kernel
def _value(m, target, by_score, weights, metric, constants, world, state):
    """Return the change of the score, or of the metric, by the move in MOVED; -inf if it is not allowed."""
    value = -np.inf
    if is_allowed(m, target, world, state):
        evaluate(m, target, world, state)
        if by_score:
            value = _gain(weights, state)
        else:
            current = measure(state.totals, NOW, metric, constants)
            value = measure(state.totals, THEN, metric, constants) - current
    return value


@kernel
def try_choices(
    rng, candidates, splits, merges, sequential, values, best, by_score, weights, metric, constants, *parts
):
    """Compute the values of candidate splits, each divided at random, and, from their number on, of merges.

    A value is the change of the score, or of the metric; -inf where the move is not allowed. The records of the best
    move are written to `best`. Returns their number and the cluster that they join.
    """
    world, state, proposer = parts
    partition, lists = state.partition, state.lists
    highest, n_best, best_target = -np.inf, 0, -1
    for t in range(candidates.shape[0]):
        k, target = candidates[t], -1
        if k < splits.shape[0]:
            i, j = _two_atoms(rng, splits[k], world, state)
            m = _allocate(rng, i, j, sequential, False, world, state, proposer)[1]
        else:
            a, b = merges[k - splits.shape[0], 0], merges[k - splits.shape[0], 1]
            small = a if partition[SIZES, a] <= partition[SIZES, b] else b
            target = a + b - small
            m = collect(small, lists, MOVED, 0, partition)
        values[t] = _value(m, target, by_score, weights, metric, constants, world, state)
        if values[t] > highest:
            highest, n_best, best_target = values[t], m, target
            for q in range(m):
                best[q] = lists[MOVED, q]
    return n_best, best_target


@kernel
def try_proposals(rng, n_draws, best, by_score, weights, metric, constants, *parts):
    """Draw moves of a split-merge proposer; write the records of the best one to `best`.

    Returns the number of these records, the cluster that they join, and the value of the move as in `try_choices`.
    """
    world, state, proposer = parts
    highest, n_best, best_target = -np.inf, 0, -1
    for _ in range(n_draws):
        m, target = _propose(rng, False, world, state, proposer)[:2]
        value = _value(m, target, by_score, weights, metric, constants, world, state) if m > 0 else -np.inf
        if value > highest:
            highest, n_best, best_target = value, m, target
            for q in range(m):
                best[q] = state.lists[MOVED, q]
    return n_best, best_target, highest


@borrowing_kernel
def log_ratio_of_atom(m, b, world, state, proposer):
    """Return the log ratio of the backward and forward probabilities of moving one atom.

    The move is from a cluster in which other records stay to one with other records: each probability is that of
    drawing a partner there, now and afterwards.
    """
    partition, lists, along_pairs = state.partition, state.lists, proposer.numbers[ALONG_PAIRS]
    first, last = proposer.numbers[FIRST_PAIR], proposer.numbers[LAST_PAIR]
    n, a = partition.shape[1], partition[LABEL, lists[MOVED, 0]]
    n_rest = partition[SIZES, a] - m
    ratio = 0.0
    if b >= 0 and n_rest > 0:
        n_there = n_here = 0  # pairs that may be drawn
        for t in range(m):
            r = lists[MOVED, t]
            for q in range(world.rows[PTR, r], world.rows[PTR, r + 1]):
                j = world.near[0, q]
                if first <= world.near[1, q] < last and world.rows[ATOM, j] != world.rows[ATOM, r]:
                    n_there += partition[LABEL, j] == b
                    n_here += partition[LABEL, j] == a
        pair_rate = 0.5 * along_pairs / (last - first) if last > first else 0.0
        any_rate = (1.0 - along_pairs) / (n * (n - 1.0))
        backward = pair_rate * n_here + any_rate * m * n_rest
        forward = pair_rate * n_there + any_rate * m * partition[SIZES, b]
        ratio = np.log(backward / forward) if backward > 0.0 else -np.inf
    return ratio


# ---------------------------------------------------------------- learning and walking


@borrowing_kernel
def mend(weights, sums, change, sign, margin, rule, rate, required, n_before):
    """Update the weights after a ranking error (SampleRank), towards the better of two neighbours.

    `sums` has two rows: the sums of squared changes (AdaGrad), and of the steps, each times the number of proposals
    before it, from which the mean of the weights follows. Returns False if the two neighbours have the same features.
    """
    norm = 0.0
    for f in range(change.shape[0]):
        norm += change[f] * change[f]
    length = rate
    if rule == MIRA and norm > 0.0:
        length = min(rate, (required - margin) / norm)
    for f in range(change.shape[0]):
        step = sign * length * change[f]
        if rule == ADAGRAD and change[f] != 0.0:
            sums[0, f] += change[f] * change[f]
            step /= np.sqrt(sums[0, f])
        weights[f] += step
        sums[1, f] += n_before * step
    return norm > 0.0


@kernel
def walk_partition(n_steps, rng, weights, temperature, rules, proposer, world, state):
    """Make `n_steps` proposals: evaluate, learn if `rules.learn`, accept or reject; return the total change of score.

    The change of each step is measured under the weights of that step.
    """
    cooling, hastings, walk, learn, rule = rules.cooling, rules.hastings, rules.walk, rules.learn, rules.rule
    rate, required, metric, constants = rules.rate, rules.required, rules.metric, rules.constants
    sums, counters = rules.sums, rules.counters
    total_gain = 0.0
    current = measure(state.totals, NOW, metric, constants)
    change = state.phi[state.phi.shape[0] - 1]
    limited = world.cannot.shape[0] > 0 or world.flags[SOURCES] != 0
    with_ratio = hastings and walk == BY_MODEL and temperature > 0.0
    for _ in range(n_steps):
        n_before = counters[PROPOSED]
        counters[PROPOSED] += 1
        temperature *= cooling
        m, b, log_ratio, one_atom = _propose(rng, with_ratio, world, state, proposer)
        if m == 0 or (limited and not is_allowed(m, b, world, state)):
            continue
        counters[VALID] += 1
        evaluate(m, b, world, state)
        gain = _gain(weights, state)
        proposed = measure(state.totals, THEN, metric, constants)
        if learn and abs(proposed - current) > EQUAL_METRIC:
            counters[RANKED] += 1
            sign = 1.0 if proposed > current else -1.0
            margin = sign * gain
            counters[ERRORS] += margin <= 0.0
            if margin <= 0.0 or margin < required:
                counters[UPDATES] += mend(weights, sums, change, sign, margin, rule, rate, required, n_before)
                gain = _gain(weights, state)
        if walk != BY_MODEL:
            accept = walk == ALWAYS or proposed > current + EQUAL_METRIC
        elif temperature > 0.0:
            if not hastings:
                log_ratio = 0.0
            elif one_atom:
                log_ratio = log_ratio_of_atom(m, b, world, state, proposer)
            accept = np.log(rng.random()) < gain / temperature + log_ratio
        else:
            accept = gain > EQUAL_SCORE
        if accept:
            counters[ACCEPTED] += 1
            total_gain += gain
            current = proposed
            commit(m, b, state)
    return total_gain


# ---------------------------------------------------------------- agglomeration


@borrowing_kernel
def _sift(keys, entries, n, position, rising):
    """Restore a heap of n keys (greatest first) after a change at one position, upwards or downwards."""
    while True:
        other = (position - 1) >> 1 if rising else 2 * position + 1
        if rising:
            if position == 0 or keys[other] >= keys[position]:
                return
        else:
            if other + 1 < n and keys[other + 1] > keys[other]:
                other += 1
            if other >= n or keys[position] >= keys[other]:
                return
        keys[position], keys[other] = keys[other], keys[position]
        for s in range(4):
            entries[position, s], entries[other, s] = entries[other, s], entries[position, s]
        position = other


@borrowing_kernel
def find_neighbours(slot, only_later, world, state):
    """Write the clusters that a listed pair leads to (`only_later`: of later slots) to ORDER; return their number."""
    partition, lists = state.partition, state.lists
    n, r = 0, partition[HEAD, slot]
    while r >= 0:
        for q in range(world.rows[PTR, r], world.rows[PTR, r + 1]):
            other = partition[LABEL, world.near[0, q]]
            if other != slot and lists[SIDE, other] == 0 and (not only_later or other > slot):
                lists[SIDE, other] = 1
                lists[ORDER, n] = other
                n += 1
        r = partition[AFTER, r]
    for t in range(n):
        lists[SIDE, lists[ORDER, t]] = 0
    return n


@borrowing_kernel
def merge_gain(slot, other, weights, world, state):
    """Return the change of the score if two clusters were merged; -inf if that is not allowed."""
    partition = state.partition
    small = slot if partition[SIZES, slot] <= partition[SIZES, other] else other
    large = slot + other - small
    m = collect(small, state.lists, MOVED, 0, partition)
    gain = -np.inf
    if is_allowed(m, large, world, state):
        evaluate(m, large, world, state)
        gain = _gain(weights, state)
    return gain


@kernel
def agglomerate(weights, min_gain, world, state):
    """Merge the two clusters whose union gains most while the gain exceeds `min_gain`; return total gain and merges."""
    partition, lists = state.partition, state.lists
    version = np.zeros(partition.shape[1], dtype=np.int64)
    keys, entries, size = np.empty(1024), np.empty((1024, 4), dtype=np.int64), 0
    total_gain, merges, first = 0.0, 0, 0
    while True:
        # Neighbours of each cluster in turn at first, of the last union afterwards.
        slot = partition[SLOTS, first] if first < partition[COUNT, 0] and merges == 0 else -1
        if slot >= 0:
            first += 1
        else:
            while size > 0 and (version[entries[0, 0]] != entries[0, 2] or version[entries[0, 1]] != entries[0, 3]):
                size -= 1
                keys[0] = keys[size]
                for s in range(4):
                    entries[0, s] = entries[size, s]
                _sift(keys, entries, size, 0, False)
            if size == 0:
                break
            gain = merge_gain(entries[0, 0], entries[0, 1], weights, world, state)
            if world.flags[ACROSS] and not gain > min_gain:  # a neighbouring cluster has changed since
                entries[0, 2] = -1
                continue
            total_gain += gain
            m = partition[SIZES, partition[LABEL, lists[MOVED, 0]]]
            slot = entries[0, 0] + entries[0, 1] - partition[LABEL, lists[MOVED, 0]]
            version[entries[0, 0]] += 1
            version[entries[0, 1]] += 1
            commit(m, slot, state)
            merges += 1
        n = find_neighbours(slot, merges == 0, world, state)
        for t in range(n):
            other = lists[ORDER, t]
            gain = merge_gain(slot, other, weights, world, state)
            if gain > min_gain:
                if size == keys.shape[0]:
                    keys = np.concatenate((keys, np.empty(size)))
                    entries = np.concatenate((entries, np.empty((size, 4), dtype=np.int64)))
                keys[size] = gain
                entries[size, 0], entries[size, 1] = slot, other
                entries[size, 2], entries[size, 3] = version[slot], version[other]
                size += 1
                _sift(keys, entries, size, size - 1, True)
    return total_gain, merges
