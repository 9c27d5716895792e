"""Mistake-driven learning of chain models: after each sequence a step towards its labels, away from the best path."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _best_path(nodes, length, table, prefix, back, path):
    """Fill `path` with the best labels (Viterbi); of equally good paths the one with the lowest labels from the end."""
    k = nodes.shape[1]
    for y in range(k):
        prefix[0, y] = nodes[0, y]
    for t in range(1, length):
        for y in range(k):
            best, previous = prefix[t - 1, 0] + table[0, y], 0
            for x in range(1, k):
                value = prefix[t - 1, x] + table[x, y]
                if value > best:
                    best, previous = value, x
            prefix[t, y], back[t, y] = best + nodes[t, y], previous
    last = length - 1
    path[last] = 0
    for y in range(1, k):
        if prefix[last, y] > prefix[last, path[last]]:
            path[last] = y
    for t in range(last, 0, -1):
        path[t - 1] = back[t, path[t]]


@kernel
def _path_score(nodes, length, table, path):
    """Return the score of a labelling."""
    score = nodes[0, path[0]]
    for t in range(1, length):
        score += table[path[t - 1], path[t]] + nodes[t, path[t]]
    return score


@kernel
def _note(index, amount, difference, is_listed, indices, n_touched):
    """Add `amount` to an entry of the difference, and list it when it first changes; return how many are listed."""
    if not is_listed[index]:
        is_listed[index] = True
        indices[n_touched] = index
        n_touched += 1
    difference[index] += amount
    return n_touched


@kernel
def _difference(a, length, data, layout, target, path, difference, is_listed, indices):
    """Compute the statistics of `target` less those of `path` for one sequence; return how many entries are listed."""
    row_ptr, columns, values = data.row_ptr, data.columns, data.values
    pair_ptr, pair_label, ends = layout.pair_ptr, layout.pair_label, layout.ends
    n_pairs, k = pair_label.shape[0], layout.start.shape[0]
    n_touched = 0
    for t in range(length):
        if target[t] == path[t]:
            continue
        for e in range(row_ptr[a + t], row_ptr[a + t + 1]):
            f = columns[e]
            for p in range(pair_ptr[f], pair_ptr[f + 1]):
                if pair_label[p] == target[t]:
                    n_touched = _note(p, values[e], difference, is_listed, indices, n_touched)
                elif pair_label[p] == path[t]:
                    n_touched = _note(p, -values[e], difference, is_listed, indices, n_touched)
    for t in range(1, length):
        if target[t] != path[t] or target[t - 1] != path[t - 1]:
            n_touched = _note(n_pairs + target[t - 1] * k + target[t], 1.0, difference, is_listed, indices, n_touched)
            n_touched = _note(n_pairs + path[t - 1] * k + path[t], -1.0, difference, is_listed, indices, n_touched)
    if ends:
        offset, last = n_pairs + k * k, length - 1
        if target[0] != path[0]:
            n_touched = _note(offset + target[0], 1.0, difference, is_listed, indices, n_touched)
            n_touched = _note(offset + path[0], -1.0, difference, is_listed, indices, n_touched)
        if target[last] != path[last]:
            n_touched = _note(offset + k + target[last], 1.0, difference, is_listed, indices, n_touched)
            n_touched = _note(offset + k + path[last], -1.0, difference, is_listed, indices, n_touched)
    return n_touched


@kernel
def learn_sequences(order, data, layout, rule, model):
    """Make one pass over the sequences in `order`; return how many labels were wrong when each was visited.

    A mistake changes weights by tau * variance * difference, with tau = 1 if `fixed`, else (margin + cost) / (sum of
    variance * difference^2 + slack), at most `max_step`. The cost is the root of the number of wrong labels (`loss` 1),
    that number (2), or 1 (0). With `gamma` > 0 the variances shrink: 1 / v += difference^2 / gamma. `total` accumulates
    changes times the number of sequences before, `count[0]`, from which the mean of the weights follows.
    """
    ptr, row_ptr, columns, values = data.ptr, data.row_ptr, data.columns, data.values
    states, allowed, importance = data.states, data.allowed, data.importance
    pair_ptr, pair_label, ends = layout.pair_ptr, layout.pair_label, layout.ends
    blocked, blocked_start, blocked_end = layout.transitions, layout.start, layout.end
    fixed, max_step, slack, loss, gamma = rule.fixed, rule.max_step, rule.slack, rule.loss, rule.gamma
    weights, total, variance, count = model.weights, model.total, model.variance, model.count
    k, n_pairs = blocked_start.shape[0], pair_label.shape[0]
    longest, room = 0, 0
    for s in range(ptr.shape[0] - 1):
        longest = max(longest, ptr[s + 1] - ptr[s])
        room = max(room, row_ptr[ptr[s + 1]] - row_ptr[ptr[s]])
    indices = np.empty(2 * (room + longest + 2), dtype=np.int64)  # two for each feature of a token, step and end
    difference, is_listed = np.zeros(weights.shape[0]), np.zeros(weights.shape[0], dtype=np.bool_)
    nodes, prefix = np.empty((longest, k)), np.empty((longest, k))
    back = np.empty((longest, k), dtype=np.int64)
    target, path = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    table = np.empty((k, k))
    n_wrong = 0.0
    for s in order:
        a, length = ptr[s], ptr[s + 1] - ptr[s]
        for x in range(k):
            for y in range(k):
                table[x, y] = weights[n_pairs + x * k + y] + blocked[x, y]
        nodes[:length] = 0.0
        for t in range(length):
            for e in range(row_ptr[a + t], row_ptr[a + t + 1]):
                f = columns[e]
                for p in range(pair_ptr[f], pair_ptr[f + 1]):
                    nodes[t, pair_label[p]] += values[e] * weights[p]
        for y in range(k):
            nodes[0, y] += blocked_start[y]
            nodes[length - 1, y] += blocked_end[y]
            if ends:
                nodes[0, y] += weights[n_pairs + k * k + y]
                nodes[length - 1, y] += weights[n_pairs + k * k + k + y]
        _best_path(nodes, length, table, prefix, back, path)
        fully_labelled = True
        for t in range(length):
            target[t] = states[a + t]
            fully_labelled = fully_labelled and target[t] >= 0
        score = _path_score(nodes, length, table, path)
        if not fully_labelled:  # then the best path that agrees with the labels is the target
            for t in range(length):
                for y in range(k):
                    if not allowed[a + t, y]:
                        nodes[t, y] = -np.inf
            _best_path(nodes, length, table, prefix, back, target)
        wrong = 0
        for t in range(length):
            wrong += target[t] != path[t]
        n_wrong += wrong
        if wrong > 0 and importance[s] > 0.0:
            n_touched = _difference(a, length, data, layout, target, path, difference, is_listed, indices)
            size = 0.0
            for i in range(n_touched):
                index = indices[i]
                size += variance[index] * difference[index] ** 2
            tau = 1.0
            if not fixed:
                cost = 1.0 if loss == 0 else (np.sqrt(wrong) if loss == 1 else float(wrong))
                margin = score - _path_score(nodes, length, table, target)
                tau = min(max_step, (margin + cost) / (size + slack)) if size + slack > 0.0 else 0.0
            tau *= importance[s]
            for i in range(n_touched):
                index = indices[i]
                d = difference[index]
                change = tau * variance[index] * d
                weights[index] += change
                total[index] += count[0] * change
                if gamma > 0.0:
                    variance[index] = 1.0 / (1.0 / variance[index] + d * d / gamma)
                difference[index], is_listed[index] = 0.0, False
        count[0] += 1.0
    return n_wrong
