"""The reverse pass of coordinate ascent on factorised distributions (Domke2013 Algorithm 2), any scope.

Adjoints are those of the variables' marginals. Going back through the update of j, its adjoint, the normalisation taken
out, belongs to its field: to theta_j, times the other marginals to each table at j, and through the tables to the other
marginals. Everywhere 0 * -inf is 0: a state without probability has no adjoint and passes nothing on.
"""

from __future__ import annotations

from intarsia._jit import fast_kernel, kernel


@kernel
def _spread(pair, theta, weights, mu, pulled, adjoint, n_axes, first, start, size, variable_ptr, scope_idx, digits):
    """Pass on what arrived at a factor whose entry e counts `weights` of its state at `pair` times the other marginals.

    With `pair` < 0 the entry counts `theta[e]` times all marginals; then only the marginals receive.
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
                    pulled[e] += product
                for a in range(n_axes):
                    if a != target:
                        at = variable_ptr[scope_idx[first + a]] + digits[a]
                        adjoint[at] += theta[e] * product / mu[at]
        a = n_axes - 1
        while a >= 0:
            digits[a] += 1
            if digits[a] < variable_ptr[scope_idx[first + a] + 1] - variable_ptr[scope_idx[first + a]]:
                break
            digits[a] = 0
            a -= 1


@fast_kernel
def _spread_pair(first, table, nu, adjoint):
    """The same for two variables and a table without hard zeros, whose own share is left to `gather_tables`.

    Rows are slices so that loops vectorise.
    """
    k, n = nu.shape[0], adjoint.shape[0]
    if first:
        for x in range(k):
            weight, row = nu[x], table[x * n : x * n + n]
            for y in range(n):
                adjoint[y] += weight * row[y]
    else:
        for y in range(n):
            row = table[y * k : y * k + k]
            total = 0.0
            for x in range(k):
                total += nu[x] * row[x]
            adjoint[y] += total


@kernel
def back_sweep_mean_field(
    hard, theta, mu, before, adjoint, pulled, fields, nu, digits, variable_ptr, pair_ptr, pair_idx, factor_of_pair,
    scope_ptr, scope_idx, table_ptr,
):  # fmt: skip
    """Undo one sweep: `mu` becomes `before`, adjoints those of `before`; returns the largest one met.

    `fields` receives the adjoints of the fields. `hard` says that some table has a hard zero.
    """
    largest = 0.0
    for v in range(variable_ptr.shape[0] - 2, -1, -1):
        start, end = variable_ptr[v], variable_ptr[v + 1]
        mean = 0.0
        for a in range(start, end):
            mean += adjoint[a] * mu[a]
        some = False
        for a in range(start, end):
            nu[a - start] = mu[a] * (adjoint[a] - mean)
            pulled[a] += nu[a - start]
            fields[a] += nu[a - start]
            some = some or nu[a - start] != 0.0
            largest = max(largest, abs(nu[a - start]))
            mu[a] = before[a]
            adjoint[a] = 0.0
        if not some:
            continue
        for k in range(pair_ptr[v], pair_ptr[v + 1]):
            pair = pair_idx[k]
            c = factor_of_pair[pair]
            first, last = scope_ptr[c], scope_ptr[c + 1]
            if hard or last - first > 2:
                _spread(
                    pair, theta, nu, mu, pulled, adjoint, last - first, first, table_ptr[c],
                    table_ptr[c + 1] - table_ptr[c], variable_ptr, scope_idx, digits,
                )  # fmt: skip
                continue
            u = scope_idx[first + last - 1 - pair]
            size, n_other = table_ptr[c + 1] - table_ptr[c], variable_ptr[u + 1] - variable_ptr[u]
            _spread_pair(
                pair == first, theta[table_ptr[c] : table_ptr[c] + size], nu[: end - start],
                adjoint[variable_ptr[u] : variable_ptr[u] + n_other],
            )  # fmt: skip
    return largest


@fast_kernel
def _add_outer(left, right, out):
    """Add the outer product."""
    n = right.shape[0]
    for x in range(left.shape[0]):
        weight, row = left[x], out[x * n : x * n + n]
        for y in range(n):
            row[y] += weight * right[y]


@fast_kernel
def gather_tables(stack, fields, pulled, variable_ptr, scope_ptr, scope_idx, table_ptr):
    """Add to each table of two variables what all sweeps gave it; row n of `fields` was met undoing sweep n.

    One table after the other, so that each is fetched once, not once a sweep. When the earlier variable moved in sweep
    n, the later one still stood at row n of `stack`; when the later one moved, the earlier one was at row n + 1 already
    (the last row, where there is only one).
    """
    last = stack.shape[0] - 1
    for c in range(scope_ptr.shape[0] - 1):
        if scope_ptr[c + 1] - scope_ptr[c] != 2:
            continue
        i, j = scope_idx[scope_ptr[c]], scope_idx[scope_ptr[c] + 1]
        left, right = slice(variable_ptr[i], variable_ptr[i + 1]), slice(variable_ptr[j], variable_ptr[j + 1])
        out = pulled[table_ptr[c] : table_ptr[c + 1]]
        for n in range(fields.shape[0] - 1, -1, -1):  # as segments of a longer stack come in
            new = min(n + 1, last)
            _add_outer(fields[n, left], stack[n if i < j else new, right], out)
            _add_outer(stack[new if i < j else n, left], fields[n, right], out)


@kernel
def fold_factor_gradient(gradient, mu, adjoint, digits, variable_ptr, scope_ptr, scope_idx, table_ptr):
    """A factor's marginals are products: pass the gradient in them on to the variables' marginals."""
    for c in range(scope_ptr.shape[0] - 1):
        _spread(
            -1, gradient, mu, mu, mu, adjoint, scope_ptr[c + 1] - scope_ptr[c], scope_ptr[c], table_ptr[c],
            table_ptr[c + 1] - table_ptr[c], variable_ptr, scope_idx, digits,
        )  # fmt: skip
