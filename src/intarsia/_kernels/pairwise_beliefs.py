"""Marginals and the free energy on the fast path of sum-product; `pairwise_messages.py` explains slots and ranks.

With cavities mu_j / m_c the objective of `beliefs.factor_beliefs` becomes

    sum_i mu_i (theta_i - log mu_i) + sum_c rho (log Z_c + sum_j sum_x mu_c(x_j) log m_c(x_j)),

and `checks` are documented there: the largest inconsistency, the bounds on log Z, and the size of their terms.
"""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import fast_kernel


@fast_kernel
def _belief(i, slot_ptr, unary, rho, messages, belief):
    """Compute the unnormalised belief of the variable of rank i, exp(theta_i) prod_q m_q^rho; return its sum."""
    k = unary.shape[1]
    for x in range(k):
        belief[x] = 1.0
    for q in range(slot_ptr[i], slot_ptr[i + 1]):
        for x in range(k):
            belief[x] *= messages[q, x]
    if rho == 0.5:  # on a grid; a square root is much cheaper than a power
        for x in range(k):
            belief[x] = np.sqrt(belief[x])
    elif rho != 1.0:
        for x in range(k):
            belief[x] = belief[x] ** rho
    total = 0.0
    for x in range(k):
        belief[x] *= unary[i, x]
        total += belief[x]
    return total


@fast_kernel
def variable_marginals_alone(model, variable_of_rank, messages, variable_ptr, mu):
    """Write the variables' marginals into `mu`; return whether each variable has a possible state."""
    slot_ptr, unary, rho = model.slot_ptr, model.unary, model.rho
    n, k = unary.shape
    for i in range(n):
        start = variable_ptr[variable_of_rank[i]]
        belief = mu[start : start + k]
        total = _belief(i, slot_ptr, unary, rho, messages, belief)
        if total == 0.0:
            return False
        inverse = 1.0 / total
        for x in range(k):
            belief[x] *= inverse
    return True


@fast_kernel
def variable_marginals(model, variable_of_rank, messages, variable_ptr, mu, beliefs, totals):
    """Compute marginals by rank (`beliefs`) and in the layout of theta (`mu`), and their sums before normalisation.

    Returns whether each variable has a possible state. The caller takes the logarithms, which NumPy computes many at a
    time.
    """
    slot_ptr, unary, rho = model.slot_ptr, model.unary, model.rho
    n, k = unary.shape
    for i in range(n):
        belief = beliefs[i]
        total = _belief(i, slot_ptr, unary, rho, messages, belief)
        if total == 0.0:
            return False
        totals[i] = total
        start = variable_ptr[variable_of_rank[i]]
        for x in range(k):
            belief[x] /= total
            mu[start + x] = belief[x]
    return True


@fast_kernel
def binary_edge_marginals(model, edges, messages, log_messages, mu, beliefs, work, joint, checks):
    """Add the marginals of all factors between binary variables to mu; return their terms of the objective.

    mu_c(x, y) is proportional to table(x, y) times both cavities. Returns NaN where a factor has no possible joint
    state.
    """
    slot_ptr, middle, opposite, rank = model.slot_ptr, model.middle, model.opposite, edges.rank
    pair_of_slot, edge_of_slot = edges.pair_of_slot, edges.edge_of_slot
    factor_of_edge, flipped = edges.factor_of_edge, edges.flipped
    table_of_slot, tables, rho = model.table_of_slot, model.tables, model.rho
    scope_idx, table_of_factor, table_ptr, table_top = (
        edges.scope_idx, edges.table_of_factor, edges.table_ptr, edges.table_top,
    )  # fmt: skip
    objective = 0.0
    for i in range(middle.shape[0]):
        for q in range(middle[i], slot_ptr[i + 1]):
            o, t, edge = opposite[q], table_of_slot[q], edge_of_slot[q]
            j = rank[scope_idx[pair_of_slot[q] ^ 1]]
            a0, a1, b0, b1 = beliefs[i, 0], beliefs[i, 1], beliefs[j, 0], beliefs[j, 1]
            c0 = a0 / messages[q, 0] if a0 > 0.0 else 0.0
            c1 = a1 / messages[q, 1] if a1 > 0.0 else 0.0
            d0 = b0 / messages[o, 0] if b0 > 0.0 else 0.0
            d1 = b1 / messages[o, 1] if b1 > 0.0 else 0.0
            j00, j01 = tables[t, 0] * c0 * d0, tables[t, 1] * c0 * d1
            j10, j11 = tables[t, 2] * c1 * d0, tables[t, 3] * c1 * d1
            total = (j00 + j01) + (j10 + j11)
            if total == 0.0:
                return np.nan
            inverse = 1.0 / total
            j00, j01, j10, j11 = j00 * inverse, j01 * inverse, j10 * inverse, j11 * inverse
            start = table_ptr[table_of_factor[factor_of_edge[edge]]]
            mu[start] += j00
            mu[start + 1] += j10 if flipped[edge] else j01
            mu[start + 2] += j01 if flipped[edge] else j10
            mu[start + 3] += j11
            first, second = j00 + j01, j00 + j10
            log_total = rho * np.log(total) + table_top[t]
            objective += log_total
            for x in range(2):
                first_mass, second_mass = first if x == 0 else j10 + j11, second if x == 0 else j01 + j11
                objective += rho * first_mass * log_messages[q, x] if first_mass > 0.0 else 0.0
                objective += rho * second_mass * log_messages[o, x] if second_mass > 0.0 else 0.0
            checks[0] = max(checks[0], abs(first - a0), abs(second - b0))
            # mu_c(x_i) / mu_i(x_i) exceeds 1 for one state of a variable if it falls short of it for the other.
            r0, r1 = first / a0 if a0 > 0.0 else 1.0, (j10 + j11) / a1 if a1 > 0.0 else 1.0
            s0, s1 = second / b0 if b0 > 0.0 else 1.0, (j01 + j11) / b1 if b1 > 0.0 else 1.0
            highest, lowest = max(r0, r1, s0, s1), min(r0, r1, s0, s1)
            near = highest - lowest <= 1e-9
            checks[1] += log_total + rho * (highest - 1.0 if near else np.log(highest))
            checks[2] += log_total + rho * (lowest - 1.0 if near else np.log(lowest))
            checks[3] += abs(log_total)
    return objective


@fast_kernel
def edge_marginals(model, edges, messages, log_messages, mu, beliefs, work, joint, checks):
    """Add the marginals of all factors between variables of k states to mu; return their terms of the objective.

    Computes `binary_edge_marginals` for any k. Returns NaN where a factor has no possible joint state.
    """
    slot_ptr, middle, opposite, rank = model.slot_ptr, model.middle, model.opposite, edges.rank
    pair_of_slot, edge_of_slot = edges.pair_of_slot, edges.edge_of_slot
    factor_of_edge, flipped = edges.factor_of_edge, edges.flipped
    table_of_slot, tables, rho = model.table_of_slot, model.tables, model.rho
    scope_idx, table_of_factor, table_ptr, table_top = (
        edges.scope_idx, edges.table_of_factor, edges.table_ptr, edges.table_top,
    )  # fmt: skip
    k = beliefs.shape[1]
    objective = 0.0
    first_cavity, second_cavity, first_sum, second_sum = work[0], work[1], work[2], work[3]
    for i in range(middle.shape[0]):
        for q in range(middle[i], slot_ptr[i + 1]):
            o, t, edge = opposite[q], table_of_slot[q], edge_of_slot[q]
            first, second = beliefs[i], beliefs[rank[scope_idx[pair_of_slot[q] ^ 1]]]
            table = tables[t]
            for x in range(k):
                first_cavity[x] = first[x] / messages[q, x] if first[x] > 0.0 else 0.0
                second_cavity[x] = second[x] / messages[o, x] if second[x] > 0.0 else 0.0
                second_sum[x] = 0.0
            total = 0.0
            for x in range(k):
                w = first_cavity[x]
                row, entries = table[x * k : x * k + k], joint[x * k : x * k + k]
                row_sum = 0.0
                for y in range(k):
                    entries[y] = w * row[y] * second_cavity[y]
                    row_sum += entries[y]
                    second_sum[y] += entries[y]
                first_sum[x] = row_sum
                total += row_sum
            if total == 0.0:
                return np.nan
            inverse = 1.0 / total
            start = table_ptr[table_of_factor[factor_of_edge[edge]]]
            target = mu[start : start + k * k]
            if flipped[edge]:
                for x in range(k):
                    for y in range(k):
                        target[y * k + x] += joint[x * k + y] * inverse
            else:
                for e in range(k * k):
                    target[e] += joint[e] * inverse
            log_total = rho * np.log(total) + table_top[t]
            objective += log_total
            highest, lowest = 0.0, np.inf
            for x in range(k):
                first_mass, second_mass = first_sum[x] * inverse, second_sum[x] * inverse
                if first_mass > 0.0:
                    objective += rho * first_mass * log_messages[q, x]
                    highest, lowest = max(highest, first_mass / first[x]), min(lowest, first_mass / first[x])
                if second_mass > 0.0:
                    objective += rho * second_mass * log_messages[o, x]
                    highest, lowest = max(highest, second_mass / second[x]), min(lowest, second_mass / second[x])
                checks[0] = max(checks[0], abs(first_mass - first[x]), abs(second_mass - second[x]))
            checks[1] += log_total + rho * np.log(highest)
            checks[2] += log_total + rho * np.log(lowest)
            checks[3] += abs(log_total)
    return objective
