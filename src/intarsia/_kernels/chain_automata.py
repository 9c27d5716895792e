"""Sequences whose labellings are read by automata: joint states layer by layer, best paths, sums and samples.

Position t has the nodes (row, label): the label at t and the joint state after it, which is a row of layer t + 1. The
automata are deterministic, so each labelling is one path of nodes. `alpha[row, label]` is the highest score, or the
logarithm of the summed exponentials, of all paths that end in the node.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel
from intarsia._kernels.automaton_arguments import Layers
from intarsia._kernels.chain_paths import insert_candidate

# Automata with more states are not searched for equivalent states, which takes quadratic time.
MAX_MERGED_STATES = 64
# Sums below this limit are computed again in the log domain, because terms may have been rounded to 0.
SMALLEST_SUM = 1e-200


@kernel
def rank_states(tables, alive, ranks, states):
    """Number the states of each automaton in each layer, so that states with the same future have the same rank.

    `ranks[t, s]` is the rank of state s, counted through all automata, in layer t; -1 if no alive labels lead to
    acceptance. `states[t, state_ptr[r] + rank]` is a state of automaton r with this rank.
    """
    length, k = alive.shape
    for r in range(tables.step_ptr.shape[0]):
        a, b = tables.state_ptr[r], tables.state_ptr[r + 1]
        n_symbols = tables.n_symbols[r]
        is_alive, present = np.zeros(n_symbols, dtype=np.bool_), np.empty(n_symbols, dtype=np.int64)
        for t in range(length, -1, -1):
            n_present = 0
            if t < length:
                row = tables.symbol_ptr[r] + tables.kinds[r, t] * k
                for y in range(k):
                    symbol = tables.symbols[row + y]
                    if alive[t, y] and not is_alive[symbol]:
                        is_alive[symbol] = True
                        present[n_present] = symbol
                        n_present += 1
            n_ranks = 0
            for s in range(b - a):
                base = tables.step_ptr[r] + s * n_symbols
                can_end = False
                if t == length:
                    can_end = tables.final[a + s] > -np.inf
                else:
                    for i in range(n_present):
                        target = tables.step[base + present[i]]
                        can_end = can_end or (target >= 0 and ranks[t + 1, a + target] >= 0)
                rank = -1
                if can_end:
                    for other in range(n_ranks if b - a <= MAX_MERGED_STATES else 0):
                        representative = states[t, a + other]
                        if t == length:
                            is_equal = tables.final[a + s] == tables.final[a + representative]
                        else:
                            is_equal = True
                            other_base = tables.step_ptr[r] + representative * n_symbols
                            for i in range(n_present):
                                x, y = tables.step[base + present[i]], tables.step[other_base + present[i]]
                                rank_x = ranks[t + 1, a + x] if x >= 0 else -1
                                rank_y = ranks[t + 1, a + y] if y >= 0 else -1
                                score_x = tables.step_scores[base + present[i]]
                                score_y = tables.step_scores[other_base + present[i]]
                                if rank_x != rank_y or (rank_x >= 0 and score_x != score_y):
                                    is_equal = False
                                    break
                        if is_equal:
                            rank = other
                            break
                    if rank < 0:
                        rank = n_ranks
                        states[t, a + rank] = s
                        n_ranks += 1
                ranks[t, a + s] = rank
            for i in range(n_present):
                is_alive[present[i]] = False


@kernel
def _radixes(tables, ranks, t, radixes):
    """Set the number of ranks of each automaton in layer t; return whether joint states fit an integer."""
    product = 1.0
    for r in range(radixes.shape[0]):
        highest = 0
        for s in range(tables.state_ptr[r], tables.state_ptr[r + 1]):
            highest = max(highest, ranks[t, s] + 1)
        radixes[r] = highest
        product *= highest
    return product < 4e18


@kernel
def _log_sum(a, b):
    """Return log(exp(a) + exp(b)) for values that may be -inf."""
    high, low = (a, b) if a > b else (b, a)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@kernel
def _log_products(logs, table, exp_table, top, axis, scratch, sums):
    """Set `sums` to log sum_x exp(logs[x] + table[x, y]) for each y, or with the axes exchanged for axis 1.

    `exp_table` is exp(table - top). Sums that are too small for double precision are computed in the log domain.
    """
    k = logs.shape[0]
    maximum = logs.max()
    if maximum == -np.inf:
        sums[:] = -np.inf
        return
    for x in range(k):
        scratch[x] = np.exp(logs[x] - maximum)
    if axis == 0:
        sums[:] = 0.0
        for x in range(k):
            if scratch[x] > 0.0:
                for y in range(k):
                    sums[y] += scratch[x] * exp_table[x, y]
    else:
        for y in range(k):
            total = 0.0
            for x in range(k):
                total += scratch[x] * exp_table[y, x]
            sums[y] = total
    for y in range(k):
        if sums[y] > SMALLEST_SUM:
            sums[y] = np.log(sums[y]) + maximum + top
            continue
        total = -np.inf
        for x in range(k):
            total = _log_sum(total, logs[x] + (table[x, y] if axis == 0 else table[y, x]))
        sums[y] = total


@kernel
def _exponentiate(table, exp_table):
    """Set `exp_table` to exp(table - top), and return top, the largest entry."""
    top = table.max()
    top = 0.0 if top == -np.inf else top
    for x in range(table.shape[0]):
        for y in range(table.shape[1]):
            exp_table[x, y] = np.exp(table[x, y] - top)
    return top


@kernel
def build_layers(tables, alive, ranks, states, max_rows, has_scores, scores, threshold):
    """Return (is complete, layers, mass) with the joint states that can be reached by alive labels.

    It is not complete if more than `max_rows` rows are needed. With a positive threshold, steps from a joint state
    with a label are left out if the paths through them have less probability than the threshold in the chain without
    automata. `mass` is the probability that was left out.
    """
    (length, k), n_automata = alive.shape, tables.step_ptr.shape[0]
    ptr = np.zeros(length + 2, dtype=np.int64)
    capacity = min(max_rows, 4 * (length + 1))
    step = np.empty((capacity, k), dtype=np.int32)
    gain = np.zeros((capacity if has_scores else 1, k))
    radixes, next_radixes = np.empty(n_automata, dtype=np.int64), np.empty(n_automata, dtype=np.int64)
    current = np.empty(n_automata, dtype=np.int64)
    fits = _radixes(tables, ranks, 0, radixes)
    code, is_possible = 0, True
    for r in range(n_automata):
        rank = ranks[0, tables.state_ptr[r]]
        is_possible = is_possible and rank >= 0
        code = code * radixes[r] + rank
    codes = np.full(1 if is_possible else 0, code, dtype=np.int64)
    n_rows, mass = 0, 0.0
    alpha, sums, scratch = np.zeros((1, k)), np.zeros(k), np.empty(k)
    exp_table, top = np.empty((k, k)), 0.0
    table_stride = 1 if scores.tables.shape[0] > 1 else 0
    for t in range(length):
        ptr[t + 1] = ptr[t] + codes.shape[0]
        fits = fits and _radixes(tables, ranks, t + 1, next_radixes)
        if not fits or ptr[t + 1] > max_rows:
            return False, Layers(ptr, step, gain, np.empty(0)), mass
        while ptr[t + 1] > capacity:
            larger = min(2 * capacity, max_rows)
            new_step = np.empty((larger, k), dtype=np.int32)
            new_step[:n_rows] = step[:n_rows]
            step = new_step
            if has_scores:
                new_gain = np.zeros((larger, k))
                new_gain[:n_rows] = gain[:n_rows]
                gain = new_gain
            capacity = larger
        targets = np.empty(codes.shape[0] * k, dtype=np.int64)
        n_targets = 0
        joint = np.empty((codes.shape[0], k), dtype=np.int64)
        values = np.empty((codes.shape[0] if threshold > 0.0 else 0, k))
        table = scores.tables[max(t - 1, 0) * table_stride if threshold > 0.0 else 0]
        if threshold > 0.0 and (t == 1 or (t > 1 and table_stride)):
            top = _exponentiate(table, exp_table)
        for i in range(codes.shape[0]):
            code = codes[i]
            for r in range(n_automata - 1, -1, -1):
                current[r] = states[t, tables.state_ptr[r] + code % radixes[r]]
                code //= radixes[r]
            if threshold > 0.0 and t > 0:
                _log_products(alpha[i], table, exp_table, top, 0, scratch, sums)
            for y in range(k):
                target_code, score = 0, 0.0
                is_open = alive[t, y]
                if threshold > 0.0 and is_open:
                    values[i, y] = sums[y] + scores.nodes[t, y]
                    probability = np.exp(values[i, y] + scores.suffix[t, y])
                    if probability < threshold:
                        mass += probability
                        is_open = False
                if not is_open:
                    target_code = -1
                for r in range(n_automata if is_open else 0):
                    symbol = tables.symbols[tables.symbol_ptr[r] + tables.kinds[r, t] * k + y]
                    index = tables.step_ptr[r] + current[r] * tables.n_symbols[r] + symbol
                    state = tables.step[index]
                    rank = ranks[t + 1, tables.state_ptr[r] + state] if state >= 0 else -1
                    if rank < 0:
                        target_code = -1
                        break
                    target_code = target_code * next_radixes[r] + rank
                    score += tables.step_scores[index]
                joint[i, y] = target_code
                if target_code >= 0:
                    targets[n_targets] = target_code
                    n_targets += 1
                    if has_scores:
                        gain[n_rows + i, y] = score
        next_codes = np.unique(targets[:n_targets])
        if threshold > 0.0:
            alpha = np.full((next_codes.shape[0], k), -np.inf)
            for i in range(codes.shape[0]):
                for y in range(k):
                    if joint[i, y] >= 0:
                        j = np.searchsorted(next_codes, joint[i, y])
                        alpha[j, y] = _log_sum(alpha[j, y], values[i, y])
        for i in range(codes.shape[0]):
            for y in range(k):
                step[n_rows + i, y] = -1
                j = np.searchsorted(next_codes, joint[i, y])
                if j < next_codes.shape[0] and next_codes[j] == joint[i, y]:
                    step[n_rows + i, y] = ptr[t + 1] + j
        n_rows += codes.shape[0]
        codes = next_codes
        radixes[:] = next_radixes
    ptr[length + 1] = ptr[length] + codes.shape[0]
    final = np.zeros(codes.shape[0])
    for i in range(codes.shape[0]):
        code = codes[i]
        for r in range(n_automata - 1, -1, -1):
            final[i] += tables.final[tables.state_ptr[r] + states[length, tables.state_ptr[r] + code % radixes[r]]]
            code //= radixes[r]
    layers = Layers(ptr, step[:n_rows], gain[: n_rows if has_scores else 1], final)
    return ptr[length + 1] <= max_rows, layers, mass


@kernel
def highest_to_nodes(layers, nodes, tables, alpha):
    """Set `alpha` to the highest score of the paths that end in each node."""
    length, k = nodes.shape
    table_stride = 1 if tables.shape[0] > 1 else 0
    gain_stride = 1 if layers.gain.shape[0] > 1 else 0
    highest = np.empty(k)
    alpha[:] = -np.inf
    for t in range(length):
        for row in range(layers.ptr[t], layers.ptr[t + 1]):
            highest[:] = 0.0 if t == 0 else -np.inf
            if t > 0:
                table = tables[(t - 1) * table_stride]
                for x in range(k):
                    prefix = alpha[row, x]
                    if prefix == -np.inf:
                        continue
                    for y in range(k):
                        value = prefix + table[x, y]
                        highest[y] = value if value > highest[y] else highest[y]
            for y in range(k):
                target = layers.step[row, y]
                if target >= 0:
                    value = highest[y] + nodes[t, y] + layers.gain[row * gain_stride, y]
                    alpha[target, y] = max(alpha[target, y], value)


@kernel
def sum_to_nodes(layers, nodes, tables, alpha):
    """Set `alpha` to the logarithm of the summed exponential scores of the paths that end in each node."""
    length, k = nodes.shape
    table_stride = 1 if tables.shape[0] > 1 else 0
    gain_stride = 1 if layers.gain.shape[0] > 1 else 0
    sums, scratch, exp_table, top = np.zeros(k), np.empty(k), np.empty((k, k)), 0.0
    alpha[:] = -np.inf
    for t in range(length):
        table = tables[max(t - 1, 0) * table_stride]
        if t == 1 or (t > 1 and table_stride):
            top = _exponentiate(table, exp_table)
        for row in range(layers.ptr[t], layers.ptr[t + 1]):
            if t > 0:
                _log_products(alpha[row], table, exp_table, top, 0, scratch, sums)
            for y in range(k):
                target = layers.step[row, y]
                if target >= 0:
                    value = sums[y] + nodes[t, y] + layers.gain[row * gain_stride, y]
                    alpha[target, y] = _log_sum(alpha[target, y], value)


@kernel
def add_marginals(layers, nodes, tables, alpha, log_partition, node_marginals, step_marginals):
    """Add the probabilities of labels, and those of transitions, from the sums of `sum_to_nodes`.

    `step_marginals` has a table for each step, one table for their sum, or no table.
    """
    length, k = nodes.shape
    table_stride = 1 if tables.shape[0] > 1 else 0
    gain_stride = 1 if layers.gain.shape[0] > 1 else 0
    n_tables = step_marginals.shape[0]
    exp_table, top, scratch = np.empty((k, k)), 0.0, np.empty(k)
    suffix, beta = np.empty(k), np.full((layers.ptr[-1], k), -np.inf)
    first_row = layers.ptr[length]
    for row in range(first_row, layers.ptr[length + 1]):
        for y in range(k):
            beta[row, y] = layers.final[row - first_row]
            node_marginals[length - 1, y] += np.exp(alpha[row, y] + beta[row, y] - log_partition)
    for t in range(length - 1, 0, -1):
        table = tables[(t - 1) * table_stride]
        if t == length - 1 or table_stride:
            top = _exponentiate(table, exp_table)
        for row in range(layers.ptr[t], layers.ptr[t + 1]):
            for y in range(k):
                target = layers.step[row, y]
                suffix[y] = -np.inf
                if target >= 0:
                    suffix[y] = nodes[t, y] + layers.gain[row * gain_stride, y] + beta[target, y]
            _log_products(suffix, table, exp_table, top, 1, scratch, beta[row])
            for x in range(k):
                if alpha[row, x] == -np.inf or beta[row, x] == -np.inf:
                    continue
                node_marginals[t - 1, x] += np.exp(alpha[row, x] + beta[row, x] - log_partition)
                if n_tables:
                    prefix, joint = alpha[row, x] - log_partition, step_marginals[(t - 1) % n_tables]
                    for y in range(k):
                        if suffix[y] > -np.inf:
                            joint[x, y] += np.exp(prefix + table[x, y] + suffix[y])


@kernel
def find_best_nodes(layers, nodes, tables, alpha, path_nodes, scores, waiting_scores, waiting):
    """Fill the rows of `path_nodes` (n_best, length) with the best paths in falling order, from `highest_to_nodes`.

    A node is row * n_labels + label. Where there are fewer paths, `scores` keeps -inf. As in `find_best_paths`, the
    next best path branches off an earlier one.
    """
    (length, k), n_best = nodes.shape, path_nodes.shape[0]
    table_stride = 1 if tables.shape[0] > 1 else 0
    gain_stride = 1 if layers.gain.shape[0] > 1 else 0
    n_waiting, first_row = 0, layers.ptr[length]
    for row in range(first_row, layers.ptr[length + 1]):
        for y in range(k):
            value = alpha[row, y] + layers.final[row - first_row]
            if value > -np.inf:
                n_waiting = insert_candidate(value, 0, length - 1, row * k + y, n_waiting, waiting_scores, waiting)
    for rank in range(n_best):
        if n_waiting == 0:
            break
        n_waiting -= 1
        score = waiting_scores[n_waiting]
        parent, position, node = waiting[n_waiting]
        scores[rank] = score
        path = path_nodes[rank]
        for t in range(position + 1, length):
            path[t] = path_nodes[parent, t]
        path[position] = node
        for t in range(position - 1, -1, -1):
            target, y = path[t + 1] // k, path[t + 1] % k
            table = tables[t * table_stride]
            best, highest = -1, -np.inf
            for row in range(layers.ptr[t + 1], layers.ptr[t + 2]):
                if layers.step[row, y] != target:
                    continue
                for x in range(k):
                    value = alpha[row, x] + table[x, y] + layers.gain[row * gain_stride, y]
                    if value > highest:
                        best, highest = row * k + x, value
            path[t] = best
            if n_best == 1:
                continue
            for row in range(layers.ptr[t + 1], layers.ptr[t + 2]):
                if layers.step[row, y] != target:
                    continue
                for x in range(k):
                    value = alpha[row, x] + table[x, y] + layers.gain[row * gain_stride, y]
                    if value > -np.inf and row * k + x != best:
                        n_waiting = insert_candidate(
                            score + (value - highest), rank, t, row * k + x, n_waiting, waiting_scores, waiting
                        )


@kernel
def _draw(logs, maximum, rng):
    """Return an index with probability proportional to the exponential of its entry; -1 if all are -inf."""
    total = 0.0
    for i in range(logs.shape[0]):
        total += np.exp(logs[i] - maximum)
    remainder, index = rng.random() * total, -1
    for i in range(logs.shape[0]):
        weight = np.exp(logs[i] - maximum)
        if weight > 0.0:  # rounding may leave a remainder: then it is the last possible index
            index = i
            remainder -= weight
            if remainder < 0.0:
                break
    return index


@kernel
def draw_nodes(layers, nodes, tables, alpha, rng, paths):
    """Fill the rows of `paths` with labellings drawn by the sums of `sum_to_nodes`, last label first."""
    length, k = nodes.shape
    table_stride = 1 if tables.shape[0] > 1 else 0
    gain_stride = 1 if layers.gain.shape[0] > 1 else 0
    widest = 0
    for t in range(1, length + 1):
        widest = max(widest, layers.ptr[t + 1] - layers.ptr[t])
    logs = np.empty(widest * k)
    for m in range(paths.shape[0]):
        target, label = -1, 0
        for t in range(length - 1, -1, -1):
            first_row, last_row = layers.ptr[t + 1], layers.ptr[t + 2]
            maximum, i = -np.inf, 0
            for row in range(first_row, last_row):
                for x in range(k):
                    if t == length - 1:
                        logs[i] = alpha[row, x] + layers.final[row - first_row]
                    elif layers.step[row, label] == target:
                        score = tables[t * table_stride][x, label] + layers.gain[row * gain_stride, label]
                        logs[i] = alpha[row, x] + score
                    else:
                        logs[i] = -np.inf
                    maximum = max(maximum, logs[i])
                    i += 1
            if maximum == -np.inf:
                break
            index = _draw(logs[:i], maximum, rng)
            target, label = first_row + index // k, index % k
            paths[m, t] = label


@kernel
def score_paths(tables, ptr, labels, n_labels, scores):
    """Set `scores` (n_sequences, n_automata) to the score of each labelling under each automaton; -inf if rejected."""
    stride = 1 if tables.kinds.shape[1] > 1 else 0
    for s in range(ptr.shape[0] - 1):
        for r in range(scores.shape[1]):
            state, total = 0, 0.0
            for t in range(ptr[s], ptr[s + 1]):
                symbol = tables.symbols[
                    tables.symbol_ptr[r] + tables.kinds[r, (t - ptr[s]) * stride] * n_labels + labels[t]
                ]
                index = tables.step_ptr[r] + state * tables.n_symbols[r] + symbol
                state = tables.step[index]
                if state < 0:
                    break
                total += tables.step_scores[index]
            scores[s, r] = -np.inf if state < 0 else total + tables.final[tables.state_ptr[r] + state]
