"""Message passing over factors of any scope and state counts, with hard zeros: sum- and max-product, any rho.

Messages are logarithms. Those of sum-product are normalised to sum to one in the linear domain, those of max-product
have their largest entry at 0. The table of a factor is read in the linear domain with its maximum subtracted. Whenever
a result is so small that underflow may have hidden a possible state, that message is computed again by log-sum-exp, so
an underflow never looks like a hard zero.

A pair is a position of `scope_idx`: a factor with one of its variables. Message `p` goes from the pair's factor to its
variable and is stored at `message_ptr[p]`. `finite` and `n_impossible` hold, for every state of every variable,

    theta_i(x) + sum over factors d at i of rho_d log m_d(x)                                  (Domke2013 Eq. 18)

split into its finite terms and the number of terms that are -inf, so that one message can be subtracted again.

Scratch arrays are passed in and all tables are full: each allocation and each further kind of factor would add about a
second to the time that the first call takes to compile.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import inline_kernel, kernel

TINY = 1e-250  # below this a linear-domain result is computed again in the log domain
LOWEST = -1e100  # messages that diverge stop here, long before their sums overflow and look like a hard zero
PRODUCT, MAXIMUM, EXPONENTIALS = 0, 1, 2  # modes of `_contract`


@kernel
def gather_beliefs(model, state):
    """Fill `state.finite` and `state.n_impossible` from theta and all messages (Domke2013 Eq. 18)."""
    variable_ptr, scope_idx, factor_of_pair = model.variable_ptr, model.scope_idx, model.factor_of_pair
    theta, rho, message_ptr = model.theta, model.rho, model.message_ptr
    messages, finite, n_impossible = state.messages, state.finite, state.n_impossible
    for a in range(finite.shape[0]):
        n_impossible[a] = theta[a] == -np.inf
        finite[a] = 0.0 if n_impossible[a] else theta[a]
    for p in range(scope_idx.shape[0]):
        start = variable_ptr[scope_idx[p]] - message_ptr[p]
        weight = rho[factor_of_pair[p]]
        for m in range(message_ptr[p], message_ptr[p + 1]):
            if messages[m] == -np.inf:
                n_impossible[start + m] += 1
            else:
                finite[start + m] += weight * messages[m]


@kernel
def _contract(mode, table, start, scale, sizes, n_axes, target, factors, digits, out, shift):
    """Combine a table with one row of factors per axis, and reduce all axes but the target.

    PRODUCT: out[x] = sum of table * factors. MAXIMUM: shift[x] = max of scale * table + factors. EXPONENTIALS: out[x] =
    sum of exp(scale * table + factors - shift[x]). The row of factors of the target axis is neutral.
    """
    last = n_axes - 1
    width = sizes[last]
    rows = 1
    for a in range(last):
        rows *= sizes[a]
        digits[a] = 0
    for x in range(sizes[target]):
        out[x] = 0.0
        if mode == MAXIMUM:
            shift[x] = -np.inf
    entry = start
    for _ in range(rows):
        prefix = 1.0 if mode == PRODUCT else 0.0
        for a in range(last):
            if mode == PRODUCT:
                prefix *= factors[a, digits[a]]
            else:
                prefix += factors[a, digits[a]]
        if mode == PRODUCT and target < last:
            total = 0.0
            for x in range(width):
                total += table[entry + x] * factors[last, x]
            out[digits[target]] += prefix * total
        else:
            for x in range(width):
                t = x if target == last else digits[target]
                if mode == PRODUCT:
                    out[t] += prefix * table[entry + x]
                else:
                    value = prefix + scale * table[entry + x] + factors[last, x]
                    if mode == MAXIMUM:
                        shift[t] = max(shift[t], value)
                    elif value > -np.inf:
                        out[t] += np.exp(value - shift[t])
        entry += width
        a = last - 1
        while a >= 0:
            digits[a] += 1
            if digits[a] < sizes[a]:
                break
            digits[a] = 0
            a -= 1


@inline_kernel
def _compute(p, maximise, model, state):
    """Compute the normalised new message of pair p in `state.row` (Domke2013 Eq. 18); return False if it is all -inf.

    log m_c(x_i) = log sum over x_{c - i} of exp(theta_c / rho_c + sum_{j in c - i} (b_j - log m_c(x_j))) - log Z, or
    with a maximum instead of the sum.
    """
    theta, exp_tables, exp_ptr, table_start = model.theta, model.exp_tables, model.exp_ptr, model.table_start
    variable_ptr, scope_ptr, scope_idx = model.variable_ptr, model.scope_ptr, model.scope_idx
    factor_of_pair, message_ptr, rho = model.factor_of_pair, model.message_ptr, model.rho
    messages, finite, n_impossible = state.messages, state.finite, state.n_impossible
    sizes, digits, logs, weights = state.sizes, state.digits, state.logs, state.weights
    out, shift = state.row, state.shift
    c = factor_of_pair[p]
    first = scope_ptr[c]
    n_axes = scope_ptr[c + 1] - first
    for a in range(n_axes):
        v = scope_idx[first + a]
        sizes[a] = variable_ptr[v + 1] - variable_ptr[v]
        maximum = -np.inf
        for x in range(sizes[a]):
            value = 0.0
            if first + a != p:
                state = variable_ptr[v] + x
                # A state that any factor rules out stays impossible.
                value = -np.inf if n_impossible[state] else finite[state] - messages[message_ptr[first + a] + x]
            logs[a, x] = value
            maximum = max(maximum, value)
        if maximum == -np.inf:
            return False
        for x in range(sizes[a]):
            logs[a, x] -= maximum
            weights[a, x] = np.exp(logs[a, x])
    target = p - first
    n = sizes[target]
    linear = not maximise
    for mode in range(3):  # a loop, since three calls with constants would be compiled three times
        if mode == PRODUCT and not maximise:
            _contract(mode, exp_tables, exp_ptr[c], 1.0, sizes, n_axes, target, weights, digits, out, shift)
            for x in range(n):
                linear = linear and out[x] > TINY
        elif (mode == MAXIMUM and not linear) or (mode == EXPONENTIALS and not (linear or maximise)):
            _contract(mode, theta, table_start[c], 1.0 / rho[c], sizes, n_axes, target, logs, digits, out, shift)
    maximum = -np.inf
    for x in range(n):
        if linear:
            out[x] = np.log(out[x])
        elif maximise or shift[x] == -np.inf:
            out[x] = shift[x]
        else:
            out[x] = shift[x] + np.log(out[x])
        maximum = max(maximum, out[x])
    if maximum == -np.inf:
        return False
    if not maximise:
        total = 0.0
        for x in range(n):
            total += np.exp(out[x] - maximum)
        maximum += np.log(total)
    for x in range(n):
        out[x] = max(out[x] - maximum, LOWEST) if out[x] > -np.inf else -np.inf
    return True


@kernel
def _settle(p, maximise, damping, message_ptr, messages, out):
    """Damp the new message in `out` and return how much it differs from the old one.

    Damping averages probabilities, or scores for max-product. The change is that of probabilities, or of logarithms for
    max-product, where a state that becomes impossible counts 1. Damping keeps no state possible that the update rules
    out: a hard zero is certain at once, and an average with the old message would never reach zero.
    """
    change = 0.0
    for x in range(message_ptr[p + 1] - message_ptr[p]):
        old, new = messages[message_ptr[p] + x], out[x]
        if damping > 0.0 and maximise:
            new = (1.0 - damping) * new + damping * old
        elif damping > 0.0 and new > -np.inf:
            maximum = max(old, new)
            new = maximum + np.log((1.0 - damping) * np.exp(new - maximum) + damping * np.exp(old - maximum))
        out[x] = new
        if new == old:
            continue
        if not maximise:
            change = max(change, abs(np.exp(new) - np.exp(old)))
        elif new == -np.inf or old == -np.inf:
            change = max(change, 1.0)
        else:
            change = max(change, abs(new - old))
    return change


@kernel
def _store(p, v, weight, variable_ptr, message_ptr, messages, source, start, finite, n_impossible):
    """Replace message p by `source[start:]` and update the beliefs of its variable."""
    for x in range(message_ptr[p + 1] - message_ptr[p]):
        old, new = messages[message_ptr[p] + x], source[start + x]
        state = variable_ptr[v] + x
        if old == -np.inf:
            n_impossible[state] -= 1
        else:
            finite[state] -= weight * old
        if new == -np.inf:
            n_impossible[state] += 1
        else:
            finite[state] += weight * new
        messages[message_ptr[p] + x] = new


@kernel
def sweep_messages(order, in_place, damping, maximise, model, state, new_messages):
    """Update each message of `order` once; each sees those before it (`in_place`) or only the old ones.

    Beliefs are gathered first. Returns the residual, the largest change of a message; NaN when a message has no
    possible state (the model is infeasible). If not in place, the new messages are written to `new_messages`.
    """
    variable_ptr, scope_idx, factor_of_pair = model.variable_ptr, model.scope_idx, model.factor_of_pair
    rho, message_ptr, out = model.rho, model.message_ptr, state.row
    messages, finite, n_impossible = state.messages, state.finite, state.n_impossible
    gather_beliefs(model, state)
    residual = 0.0
    for k in range(order.shape[0]):
        p = order[k]
        possible = _compute(p, maximise, model, state)
        if not possible:
            return np.nan
        residual = max(residual, _settle(p, maximise, damping, message_ptr, messages, out))
        if in_place:
            weight = rho[factor_of_pair[p]]
            _store(p, scope_idx[p], weight, variable_ptr, message_ptr, messages, out, 0, finite, n_impossible)
        else:
            for x in range(message_ptr[p + 1] - message_ptr[p]):
                new_messages[message_ptr[p] + x] = out[x]
    return residual


@kernel
def _sift(heap, position_of, priority, position):
    """Restore the max-heap order around `position`; `position_of` maps each pair to its position in the heap."""
    n = heap.shape[0]
    item = heap[position]
    while position > 0 and priority[heap[(position - 1) // 2]] < priority[item]:
        heap[position] = heap[(position - 1) // 2]
        position_of[heap[position]] = position
        position = (position - 1) // 2
    while True:
        child = 2 * position + 1
        if child >= n:
            break
        if child + 1 < n and priority[heap[child + 1]] > priority[heap[child]]:
            child += 1
        if priority[heap[child]] <= priority[item]:
            break
        heap[position] = heap[child]
        position_of[heap[position]] = position
        position = child
    heap[position] = item
    position_of[item] = position


@kernel
def sweep_residual(fresh, pending, damping, maximise, model, state, new_messages):
    """Make as many single updates as there are messages, always of the message that would change most.

    `new_messages` holds every message as it would be after its update, `pending.priority` how much that changes it;
    both are computed for all messages if `fresh`. Returns the largest change still pending, NaN when the model is
    infeasible.
    """
    pair_ptr, pair_idx = model.pair_ptr, model.pair_idx
    priority, heap, position_of, queue = pending.priority, pending.heap, pending.position, pending.queue
    variable_ptr, scope_ptr, scope_idx = model.variable_ptr, model.scope_ptr, model.scope_idx
    factor_of_pair, message_ptr, rho = model.factor_of_pair, model.message_ptr, model.rho
    messages, finite, n_impossible = state.messages, state.finite, state.n_impossible
    out = state.row
    gather_beliefs(model, state)
    n_pairs = scope_idx.shape[0]
    for update in range(n_pairs + 1):
        n_queue = 0
        if update == 0:
            if fresh:
                for p in range(n_pairs):
                    queue[p] = heap[p] = position_of[p] = p
                    priority[p] = 0.0
                n_queue = n_pairs
        else:
            p = heap[0]
            if priority[p] == 0.0:
                break
            v = scope_idx[p]
            weight = rho[factor_of_pair[p]]
            _store(
                p, v, weight, variable_ptr, message_ptr, messages, new_messages, message_ptr[p], finite, n_impossible
            )
            queue[0] = p
            n_queue = 1
            for k in range(pair_ptr[v], pair_ptr[v + 1]):
                d = factor_of_pair[pair_idx[k]]
                for q in range(scope_ptr[d], scope_ptr[d + 1]):
                    if scope_idx[q] != v:
                        queue[n_queue] = q
                        n_queue += 1
        for k in range(n_queue):
            p = queue[k]
            possible = _compute(p, maximise, model, state)
            if not possible:
                return np.nan
            priority[p] = _settle(p, maximise, damping, message_ptr, messages, out)
            for x in range(message_ptr[p + 1] - message_ptr[p]):
                new_messages[message_ptr[p] + x] = out[x]
            _sift(heap, position_of, priority, position_of[p])
    return priority[heap[0]] if n_pairs else 0.0
