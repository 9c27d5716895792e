"""Search for an assignment of finite score: generalised arc consistency inside backtracking.

Only factors with a forbidden entry (`hard` factors, listed per variable) are considered. `domain` marks the remaining
states, in the flat layout of the variables; `size` counts them; `trail` records removals so that they can be undone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.jit import kernel
from intarsia._core.validation import IntArray
from intarsia._kernels.factor_kinds import AT_LEAST, AT_LEAST_OUTPUT, AT_MOST, AT_MOST_OUTPUT, TABLE


class _Search(NamedTuple):
    """State of the search: domains with their sizes, removals, factors to revise, supported states, a tuple of states.

    The factors to revise are a circular queue between the two `ends`; `waiting` marks its members.
    """

    domain: NDArray[np.bool_]
    size: IntArray
    trail: IntArray
    queue: IntArray
    ends: IntArray
    waiting: NDArray[np.bool_]
    supported: NDArray[np.bool_]
    digits: IntArray


@kernel
def find_hard_factors(theta, table_of_factor, table_ptr, kind):
    """Return which factors forbid a joint state: an entry of -inf in a table, or a Potts weight of -inf."""
    n_tables = kind.shape[0]
    table_is_hard = np.zeros(n_tables, np.bool_)
    for t in range(n_tables):
        for position in range(table_ptr[t], table_ptr[t + 1]):
            if theta[position] == -np.inf:
                table_is_hard[t] = True
                break
    hard = np.empty(table_of_factor.shape[0], np.bool_)
    for c in range(table_of_factor.shape[0]):
        hard[c] = table_is_hard[table_of_factor[c]]
    return hard


@kernel
def _first_remaining(domain, start, state, n):
    """Return the smallest remaining state >= `state`, or n."""
    while state < n and not domain[start + state]:
        state += 1
    return state


@kernel
def _mark_counts(c, kind, number, domain, supported, variable_ptr, scope_ptr, scope_idx):
    """Mark the supported states of a constraint on counts; return how many remaining states are not supported.

    A state is supported if the numbers of variables that must count, and that can count, allow it.
    """
    first, last = scope_ptr[c], scope_ptr[c + 1]
    low = 0.0 if kind in (AT_MOST, AT_MOST_OUTPUT) else number
    high = last - first if kind in (AT_LEAST, AT_LEAST_OUTPUT) else number
    must, can, missing = 0, 0, 0
    for s in range(first, last):
        position = variable_ptr[scope_idx[s]]
        counting_state = 0 if kind >= AT_MOST_OUTPUT and s == last - 1 else 1
        must += not domain[position + 1 - counting_state]
        can += domain[position + counting_state]
    for s in range(first, last):
        position = variable_ptr[scope_idx[s]]
        counting_state = 0 if kind >= AT_MOST_OUTPUT and s == last - 1 else 1
        certain = not domain[position + 1 - counting_state]
        possible = domain[position + counting_state]
        fits_on = must + (not certain) <= high and can >= low
        fits_off = must <= high and can - possible >= low
        supported[position + counting_state] = fits_on
        supported[position + 1 - counting_state] = fits_off
        missing += (possible and not fits_on) + (not certain and not fits_off)
    return missing


@kernel
def _mark_supports(c, theta, domain, size, supported, digits, model):
    """Mark each state that occurs in an allowed tuple of factor c; return how many remaining states do not.

    Only tuples of remaining states are visited, until every state has its support.
    """
    n_states, variable_ptr, scope_ptr, scope_idx = model.n_states, model.variable_ptr, model.scope_ptr, model.scope_idx
    table_of_factor, table_ptr, kind, number = (
        model.table_of_factor, model.table_ptr, model.table_kind, model.table_truncation,
    )  # fmt: skip
    first, width = scope_ptr[c], scope_ptr[c + 1] - scope_ptr[c]
    t = table_of_factor[c]
    if kind[t] >= AT_MOST:
        return _mark_counts(c, kind[t], number[t], domain, supported, variable_ptr, scope_ptr, scope_idx)
    missing = 0
    for d in range(width):
        v = scope_idx[first + d]
        missing += size[v]
        supported[variable_ptr[v] : variable_ptr[v + 1]] = False
        digits[d] = _first_remaining(domain, variable_ptr[v], 0, n_states[v])
    while missing > 0:
        if kind[t] == TABLE:
            position = 0
            for d in range(width):
                position = position * n_states[scope_idx[first + d]] + digits[d]
            allowed = theta[table_ptr[t] + position] > -np.inf
        else:  # Potts with weight -inf
            allowed = digits[0] != digits[1]
        if allowed:
            for d in range(width):
                state_index = variable_ptr[scope_idx[first + d]] + digits[d]
                if not supported[state_index]:
                    supported[state_index] = True
                    missing -= 1
        d = width - 1
        while d >= 0:  # the next tuple, the last variable running fastest
            v = scope_idx[first + d]
            digits[d] = _first_remaining(domain, variable_ptr[v], digits[d] + 1, n_states[v])
            if digits[d] < n_states[v]:
                break
            digits[d] = _first_remaining(domain, variable_ptr[v], 0, n_states[v])
            d -= 1
        if d < 0:
            break
    return missing


@kernel
def _remove(v, x, domain, size, trail, n_trail, variable_ptr):
    """Remove state x from the domain of v and record it on the trail; return the new length of the trail."""
    domain[variable_ptr[v] + x] = False
    size[v] -= 1
    trail[n_trail, 0] = v
    trail[n_trail, 1] = x
    return n_trail + 1


@kernel
def _undo(domain, size, trail, n_trail, level, variable_ptr):
    """Restore the states removed since the trail had length `level`; return `level`."""
    for k in range(level, n_trail):
        domain[variable_ptr[trail[k, 0]] + trail[k, 1]] = True
        size[trail[k, 0]] += 1
    return level


@kernel
def _enqueue(v, but, queue, ends, waiting, hard_ptr, hard_idx):
    """Add the hard factors at v, other than factor `but`, to the queue of factors to revise."""
    n = queue.shape[0]
    for q in range(hard_ptr[v], hard_ptr[v + 1]):
        c = hard_idx[q]
        if c != but and not waiting[c]:
            waiting[c] = True
            queue[ends[1] % n] = c
            ends[1] += 1


@kernel
def _propagate(theta, n_trail, search, blame, weight, hard, model):
    """Remove states without support until none is left; return the trail's length, -1 - length at a dead end."""
    n_states, variable_ptr, scope_ptr, scope_idx = model.n_states, model.variable_ptr, model.scope_ptr, model.scope_idx
    domain, size, trail, queue, ends = search.domain, search.size, search.trail, search.queue, search.ends
    waiting, supported, digits = search.waiting, search.supported, search.digits
    hard_ptr, hard_idx = hard
    n = queue.shape[0]
    dead = False
    while ends[0] < ends[1]:
        c = queue[ends[0] % n]
        ends[0] += 1
        waiting[c] = False
        if dead or _mark_supports(c, theta, domain, size, supported, digits, model) == 0:
            continue
        for s in range(scope_ptr[c], scope_ptr[c + 1]):
            v = scope_idx[s]
            shrunk = False
            for x in range(n_states[v]):
                position = variable_ptr[v] + x
                if domain[position] and not supported[position]:
                    n_trail = _remove(v, x, domain, size, trail, n_trail, variable_ptr)
                    shrunk = True
            if size[v] == 0:
                dead = True
                break
            if shrunk:
                _enqueue(v, c, queue, ends, waiting, hard_ptr, hard_idx)
        if dead:
            blame[c] += 1.0
            for s in range(scope_ptr[c], scope_ptr[c + 1]):
                weight[scope_idx[s]] += 1.0
    return -1 - n_trail if dead else n_trail


@kernel
def _choose_variable(undecided, size, weight, window):
    """Return the undecided variable with the smallest domain relative to its number of past dead ends, or -1.

    At most `window` undecided ones are compared, which keeps a step cheap on large graphs.
    """
    best, best_value, n_compared = -1, np.inf, 0
    for k in range(undecided.shape[0]):
        v = undecided[k]
        if size[v] <= 1:
            continue
        value = size[v] / weight[v]
        if value < best_value:
            best, best_value = v, value
        n_compared += 1
        if n_compared >= window:
            break
    return best


@kernel
def search_feasible(theta, domain, preference, order, blame, max_nodes, max_fails, window, hard, model):
    """Backtrack until a solution, a proof that there is none, or a limit; return (outcome, nodes, labelling).

    The outcome is 1 for a solution, 0 for a limit, -1 for infeasible. `domain` is changed. `order` lists the variables
    in hard factors; `preference` scores the states of each variable, and the best is tried first. `blame` counts the
    dead ends of each factor and guides later choices, also of later calls.
    """
    n_states, variable_ptr = model.n_states, model.variable_ptr
    hard_ptr, hard_idx = hard
    n_variables = n_states.shape[0]
    size = np.zeros(n_variables, np.int64)
    weight = np.ones(n_variables)
    for v in range(n_variables):
        for position in range(variable_ptr[v], variable_ptr[v + 1]):
            size[v] += domain[position]
        for q in range(hard_ptr[v], hard_ptr[v + 1]):
            weight[v] += blame[hard_idx[q]]
    supported = np.zeros(domain.shape[0], np.bool_)
    digits = np.zeros(64, np.int64)
    trail = np.empty((domain.shape[0] + 1, 2), np.int64)
    decisions = np.empty((n_variables + 1, 4), np.int64)  # variable, state, trail length before, cursor before
    queue = np.empty(blame.shape[0] + 1, np.int64)
    ends = np.zeros(2, np.int64)
    waiting = np.zeros(blame.shape[0], np.bool_)
    labelling = np.zeros(n_variables, np.int64)
    search = _Search(domain, size, trail, queue, ends, waiting, supported, digits)
    n_trail, depth, nodes, fails, cursor = 0, 0, 0, 0, 0
    for v in order:
        _enqueue(v, -1, queue, ends, waiting, hard_ptr, hard_idx)
    while True:
        n_trail = _propagate(theta, n_trail, search, blame, weight, hard, model)
        if n_trail < 0:  # a dead end: undo the last decision and forbid it
            n_trail = -1 - n_trail
            fails += 1
            while True:
                if depth == 0:
                    return -1, nodes, labelling
                depth -= 1
                v, x = decisions[depth, 0], decisions[depth, 1]
                n_trail = _undo(domain, size, trail, n_trail, decisions[depth, 2], variable_ptr)
                cursor = decisions[depth, 3]
                n_trail = _remove(v, x, domain, size, trail, n_trail, variable_ptr)
                if size[v] > 0:
                    break
            _enqueue(v, -1, queue, ends, waiting, hard_ptr, hard_idx)
            if fails >= max_fails:
                return 0, nodes, labelling
            continue
        while cursor < order.shape[0] and size[order[cursor]] <= 1:
            cursor += 1
        v = _choose_variable(order[cursor:], size, weight, window)
        if v < 0:
            break
        if nodes >= max_nodes:
            return 0, nodes, labelling
        nodes += 1
        best, best_value = -1, -np.inf
        for x in range(n_states[v]):
            position = variable_ptr[v] + x
            if domain[position] and (best < 0 or preference[position] > best_value):
                best, best_value = x, preference[position]
        decisions[depth, 0], decisions[depth, 1], decisions[depth, 2], decisions[depth, 3] = v, best, n_trail, cursor
        depth += 1
        for x in range(n_states[v]):
            if x != best and domain[variable_ptr[v] + x]:
                n_trail = _remove(v, x, domain, size, trail, n_trail, variable_ptr)
        _enqueue(v, -1, queue, ends, waiting, hard_ptr, hard_idx)
    for v in range(n_variables):
        best_value = -np.inf
        labelling[v] = -1
        for x in range(n_states[v]):
            position = variable_ptr[v] + x
            if domain[position] and (labelling[v] < 0 or preference[position] > best_value):
                labelling[v], best_value = x, preference[position]
    return 1, nodes, labelling
