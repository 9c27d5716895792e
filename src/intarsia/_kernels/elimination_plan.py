"""Bucket tree of an elimination order, and the program that its passes follow.

Both functions are run through `symbolic.run_loops`.
"""

from __future__ import annotations

from intarsia._core.jit import kernel

# Entries of a bucket worked on together: two or three such blocks should fit into the fastest cache.
BLOCK = 2048
# A turn has at least this many rows, however many states the own variable has.
FEWEST_ROWS = 16


@kernel
def find_separators(scopes, result):
    """Find separator and parent of each bucket, and the size of its message; return -1 if `sep_rank` is too short.

    A bucket holds the factors whose first eliminated variable is its own. Its separator is the set of all other
    variables of its pieces, and its parent the bucket of the first eliminated variable among these. Variables are given
    as positions in the elimination order.
    """
    n_states, order, scope_ptr, scope_rank = scopes.n_states, scopes.order, scopes.scope_ptr, scopes.scope_rank
    factor_ptr, factor_idx = scopes.factor_ptr, scopes.factor_idx
    parent, first_child, next_child, last_bucket = (
        result.parent, result.first_child, result.next_child, result.last_bucket,
    )  # fmt: skip
    members, cells, sep_ptr, sep_rank = result.members, result.cells, result.sep_ptr, result.sep_rank
    for k in range(len(order)):
        last_bucket[k] = k
        size = 0
        for f in range(factor_ptr[k], factor_ptr[k + 1]):
            for s in range(scope_ptr[factor_idx[f]], scope_ptr[factor_idx[f] + 1]):
                rank = scope_rank[s]
                if last_bucket[rank] != k:
                    last_bucket[rank] = k
                    members[size] = rank
                    size += 1
        child = first_child[k]
        while child >= 0:
            for s in range(sep_ptr[child], sep_ptr[child + 1]):
                rank = sep_rank[s]
                if last_bucket[rank] != k:
                    last_bucket[rank] = k
                    members[size] = rank
                    size += 1
            child = next_child[child]
        start = sep_ptr[k]
        if start + size > len(sep_rank):
            return -1
        sep_ptr[k + 1] = start + size
        product = 1.0
        for a in range(size):  # insertion sort: separators are short
            rank = members[a]
            b = start + a
            while b > start and sep_rank[b - 1] > rank:
                sep_rank[b] = sep_rank[b - 1]
                b -= 1
            sep_rank[b] = rank
            product *= n_states[order[rank]]
        cells[k] = product
        if size > 0:
            above = sep_rank[start]
            parent[k] = above
            next_child[k] = first_child[above]
            first_child[above] = k
    return 0


@kernel
def lay_out(tables, result):
    """Write the program of all buckets; that of bucket k begins at bucket_ptr[k].

    Head: variable, its states, axes, outer axes, rows, turns, first piece of the base, first mixed piece, pieces, start
    of the message. Then variable and size of each axis. Then for each piece its start, the slot of its log-range, the
    stride of the own variable (negative if its rows are contiguous) and those of the axes.

    `needs` receives the largest 2 * pieces, pieces * (turns + rows), 3 * own * rows + rows, cells of children and own
    states.
    """
    n_states, order, variable_ptr = tables.n_states, tables.order, tables.variable_ptr
    scope_ptr, scope_rank, factor_ptr, factor_idx = (
        tables.scope_ptr, tables.scope_rank, tables.factor_ptr, tables.factor_idx,
    )  # fmt: skip
    factor_start, factor_slot = tables.factor_start, tables.factor_slot
    child_ptr, child_idx, sep_ptr, sep_rank = tables.child_ptr, tables.child_idx, tables.sep_ptr, tables.sep_rank
    message_ptr, bucket_ptr, n_scores = tables.message_ptr, tables.bucket_ptr, tables.n_scores
    axis, n_of_kind, program, needs = result.axis, result.n_of_kind, result.program, result.needs
    for k in range(len(order)):
        head, v = bucket_ptr[k], order[k]
        n_own, n_axes = n_states[v], sep_ptr[k + 1] - sep_ptr[k]
        sizes = head + 10
        pieces, width = sizes + 2 * n_axes, 3 + n_axes
        for a in range(n_axes):
            place = sep_rank[sep_ptr[k] + a]
            axis[place] = a
            program[sizes + 2 * a] = order[place]
            program[sizes + 2 * a + 1] = n_states[order[place]]
        n_outer, n_rows = n_axes, 1
        while n_outer > 0 and (n_rows < FEWEST_ROWS or n_own * n_rows * program[sizes + 2 * n_outer - 1] <= BLOCK):
            n_outer -= 1
            n_rows *= program[sizes + 2 * n_outer + 1]
        n_turns = (message_ptr[k + 1] - message_ptr[k]) // n_rows
        n_factors, n_children = factor_ptr[k + 1] - factor_ptr[k], child_ptr[k + 1] - child_ptr[k]
        n_pieces = 1 + n_factors + n_children
        n_of_kind[0], n_of_kind[1], n_of_kind[2] = 1, 0, 0  # how many pieces have no row axes, no outer axes, both
        for emitting in range(2):
            if emitting == 1:
                first_base, first_mixed = n_of_kind[0], n_of_kind[0] + n_of_kind[1]
                n_of_kind[0], n_of_kind[1], n_of_kind[2] = 1, first_base, first_mixed
            for j in range(n_factors + n_children):
                if j < n_factors:
                    c = factor_idx[factor_ptr[k] + j]
                    scope, begin, end, start, slot = (
                        scope_rank, scope_ptr[c], scope_ptr[c + 1], factor_start[c], factor_slot[c],
                    )  # fmt: skip
                else:
                    c = child_idx[child_ptr[k] + j - n_factors]
                    scope, begin, end, start, slot = (
                        sep_rank, sep_ptr[c], sep_ptr[c + 1], message_ptr[c], n_scores[0] + c,
                    )  # fmt: skip
                in_rows, outside = False, n_outer == 0  # with a single turn, a base saves nothing
                for s in range(begin, end):
                    if scope[s] != k:
                        if axis[scope[s]] < n_outer:
                            outside = True
                        else:
                            in_rows = True
                kind = (2 if outside else 1) if in_rows else 0
                p = n_of_kind[kind]
                n_of_kind[kind] += 1
                if emitting == 0:
                    continue
                piece = pieces + p * width
                program[piece], program[piece + 1] = start, slot
                stride = 1
                for s in range(end - 1, begin - 1, -1):
                    place = scope[s]
                    if place == k:
                        program[piece + 2] = stride
                    else:
                        program[piece + 3 + axis[place]] = stride
                    stride *= n_states[order[place]]
                n_filled, a = 1, n_axes - 1
                while a >= n_outer and program[piece + 3 + a] == n_filled:
                    n_filled *= program[sizes + 2 * a + 1]
                    a -= 1
                if kind > 0 and a < n_outer:
                    program[piece + 2] = -program[piece + 2]
        program[pieces], program[pieces + 1], program[pieces + 2] = variable_ptr[v], v, 1
        program[head], program[head + 1], program[head + 2], program[head + 3] = v, n_own, n_axes, n_outer
        program[head + 4], program[head + 5], program[head + 6], program[head + 7] = (
            n_rows,
            n_turns,
            first_base,
            first_mixed,
        )
        program[head + 8], program[head + 9] = n_pieces, message_ptr[k]
        n_received = 0
        for i in range(child_ptr[k], child_ptr[k + 1]):
            n_received += message_ptr[child_idx[i] + 1] - message_ptr[child_idx[i]]
        needs[0] = max(needs[0], 2 * n_pieces)
        needs[1] = max(needs[1], n_pieces * (n_turns + n_rows))
        needs[2] = max(needs[2], (3 * n_own + 1) * n_rows)
        needs[3] = max(needs[3], n_received)
        needs[4] = max(needs[4], n_own)
    return 0
