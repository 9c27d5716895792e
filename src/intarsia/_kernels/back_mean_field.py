"""Backward pass of coordinate ascent on factorised distributions (Domke2013 Algorithm 2), factors of any scope.

Adjoints are gradients of the loss with respect to the variables' marginals. The update of variable j is mu_j =
softmax(field_j), so the adjoint of its field is mu_j (adjoint_j - <mu_j, adjoint_j>). It is added to the gradient of
theta_j; times the other marginals, to the gradient of each table at j; and through the tables to the adjoints of the
other marginals. Everywhere 0 * -inf is 0: a state of probability 0 has no adjoint and contributes nothing.
"""

from __future__ import annotations

from intarsia._core.jit import fast_kernel, kernel


@kernel
def _spread(
    pair, theta, weights, mu, table_gradient, adjoint, n_axes, first, start, size, variable_ptr, scope_idx, digits
):
    """Propagate an adjoint through one factor, to its table and to the marginals of its other variables.

    With `pair` >= 0, entry e of the table contributes `weights` of the state at `pair` times the other marginals. With
    `pair` < 0, it contributes `theta[e]` times all marginals, and only the marginals receive gradients.
    """
    for a in range(n_axes):
        digits[a] = 0
    target = pair - first if pair >= 0 else -1
    for e in range(start, start + size):
        nu = weights[digits[target]] if target >= 0 else 1.0
        if nu != 0.0:
            product = nu
            for a in range(n_axes):
                if a != target:
                    product *= mu[variable_ptr[scope_idx[first + a]] + digits[a]]
            # The adjoint of a state of probability 0 is never used, so such products need no care.
            if product != 0.0:
                if target >= 0:
                    table_gradient[e] += product
                for a in range(n_axes):
                    if a != target:
                        position = variable_ptr[scope_idx[first + a]] + digits[a]
                        adjoint[position] += theta[e] * product / mu[position]
        a = n_axes - 1
        while a >= 0:
            digits[a] += 1
            if digits[a] < variable_ptr[scope_idx[first + a] + 1] - variable_ptr[scope_idx[first + a]]:
                break
            digits[a] = 0
            a -= 1


@fast_kernel
def _spread_pair(first, table, nu, adjoint):
    """Propagate the adjoint `nu` of one variable's field through a pairwise table without hard zeros.

    Add table^T nu (`first`: the variable is the first axis) or table nu to `adjoint` of the other variable;
    `gather_tables` adds the gradient of the table. Four rows at a time, so that `adjoint` or `nu` is loaded a quarter
    as often. Rows are slices so that loops vectorise.
    """
    k, n = nu.shape[0], adjoint.shape[0]
    if first:
        whole = k // 4 * 4
        for x in range(0, whole, 4):
            w0, w1, w2, w3 = nu[x], nu[x + 1], nu[x + 2], nu[x + 3]
            row0, row1 = table[x * n : (x + 1) * n], table[(x + 1) * n : (x + 2) * n]
            row2, row3 = table[(x + 2) * n : (x + 3) * n], table[(x + 3) * n : (x + 4) * n]
            for y in range(n):
                adjoint[y] += (w0 * row0[y] + w1 * row1[y]) + (w2 * row2[y] + w3 * row3[y])
        for x in range(whole, k):
            w0, row0 = nu[x], table[x * n : (x + 1) * n]
            for y in range(n):
                adjoint[y] += w0 * row0[y]
    else:
        whole = n // 4 * 4
        for y in range(0, whole, 4):
            row0, row1 = table[y * k : (y + 1) * k], table[(y + 1) * k : (y + 2) * k]
            row2, row3 = table[(y + 2) * k : (y + 3) * k], table[(y + 3) * k : (y + 4) * k]
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for x in range(k):
                w0 = nu[x]
                t0 += row0[x] * w0
                t1 += row1[x] * w0
                t2 += row2[x] * w0
                t3 += row3[x] * w0
            adjoint[y] += t0
            adjoint[y + 1] += t1
            adjoint[y + 2] += t2
            adjoint[y + 3] += t3
        for y in range(whole, n):
            row0 = table[y * k : (y + 1) * k]
            t0 = 0.0
            for x in range(k):
                t0 += row0[x] * nu[x]
            adjoint[y] += t0


@fast_kernel
def back_sweep_mean_field(hard, theta, mu, before, adjoint, table_gradient, fields, nu, digits, graph):
    """Propagate adjoints back through one sweep; return the largest adjoint of a variable's field.

    `mu` is reset to `before`, the marginals before the sweep, and `adjoint` becomes the gradient with respect to
    `before`. `fields` accumulates the adjoints of the fields, which are also the gradients of the variables' scores.
    `table_gradient` receives the gradients of tables in the layout of theta. `hard` says whether some table has a hard
    zero; `nu` and `digits` are scratch.
    """
    variable_ptr, scope_ptr, scope_idx = graph.variable_ptr, graph.scope_ptr, graph.scope_idx
    pair_ptr, pair_idx, factor_of_pair = graph.pair_ptr, graph.pair_idx, graph.factor_of_pair
    table_ptr = graph.table_ptr
    largest = 0.0
    for v in range(variable_ptr.shape[0] - 2, -1, -1):
        start, end = variable_ptr[v], variable_ptr[v + 1]
        # Slices, since an index such as a - start keeps the compiler from vectorising.
        block, block_adjoint, old, field_adjoint = (
            mu[start:end],
            adjoint[start:end],
            before[start:end],
            fields[start:end],
        )
        n = block.shape[0]
        step = nu[:n]
        mean, size = 0.0, 0.0
        for x in range(n):
            mean += block_adjoint[x] * block[x]
        for x in range(n):
            step[x] = block[x] * (block_adjoint[x] - mean)
            field_adjoint[x] += step[x]
            block[x] = old[x]
            block_adjoint[x] = 0.0
            size += abs(step[x])
        if size == 0.0:
            continue
        if size > largest:
            largest = size
        for k in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[k]
            c = factor_of_pair[pair]
            first, last = scope_ptr[c], scope_ptr[c + 1]
            if hard or last - first > 2:
                _spread(
                    pair, theta, step, mu, table_gradient, adjoint, last - first, first, table_ptr[c],
                    table_ptr[c + 1] - table_ptr[c], variable_ptr, scope_idx, digits,
                )  # fmt: skip
                continue
            u = scope_idx[first + last - 1 - pair]
            table, others = theta[table_ptr[c] : table_ptr[c + 1]], adjoint[variable_ptr[u] : variable_ptr[u + 1]]
            _spread_pair(pair == first, table, step, others)
    return largest


@fast_kernel
def _add_outer(left, right, out):
    """Add the outer product of `left` and `right` to `out`, a flat table."""
    n = right.shape[0]
    for x in range(left.shape[0]):
        weight, row = left[x], out[x * n : x * n + n]
        for y in range(n):
            row[y] += weight * right[y]


@fast_kernel
def gather_tables(stack, fields, gradient, variable_ptr, scope_ptr, scope_idx, table_ptr):
    """Add to `gradient` of each pairwise table the outer products of field adjoints and marginals of all sweeps.

    Row n of `fields` holds the field adjoints of sweep n, row n of `stack` the marginals before sweep n. Tables are
    visited one after the other, so that each is loaded once and not once per sweep. When the earlier variable was
    updated in sweep n, the later variable still had row n of `stack`; when the later one was updated, the earlier one
    had row n + 1 already (the last row, where there is only one).
    """
    last = stack.shape[0] - 1
    for c in range(scope_ptr.shape[0] - 1):
        if scope_ptr[c + 1] - scope_ptr[c] != 2:
            continue
        i, j = scope_idx[scope_ptr[c]], scope_idx[scope_ptr[c] + 1]
        left, right = slice(variable_ptr[i], variable_ptr[i + 1]), slice(variable_ptr[j], variable_ptr[j + 1])
        out = gradient[table_ptr[c] : table_ptr[c + 1]]
        for n in range(fields.shape[0] - 1, -1, -1):  # in the order in which segments of a longer stack arrive
            new = min(n + 1, last)
            _add_outer(fields[n, left], stack[n if i < j else new, right], out)
            _add_outer(stack[new if i < j else n, left], fields[n, right], out)


@kernel
def fold_factor_gradient(gradient, mu, adjoint, digits, variable_ptr, scope_ptr, scope_idx, table_ptr):
    """Convert a gradient in the factors' marginals, which are products, into one in the variables' marginals."""
    for c in range(scope_ptr.shape[0] - 1):
        _spread(
            -1, gradient, mu, mu, mu, adjoint, scope_ptr[c + 1] - scope_ptr[c], scope_ptr[c], table_ptr[c],
            table_ptr[c + 1] - table_ptr[c], variable_ptr, scope_idx, digits,
        )  # fmt: skip
