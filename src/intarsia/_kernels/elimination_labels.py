"""Labellings from the messages of a bucket tree: best completions and samples, root to leaves."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _local_products(program, head, y, values, n_scores, first_value, in_log, products):
    """Compute the product (or sum) of a bucket's pieces for each own state, given the separator's labels."""
    n_own, n_axes, n_pieces = program[head + 1], program[head + 2], program[head + 8]
    for x in range(n_own):
        products[x] = 0.0 if in_log else 1.0
    axes = head + 10
    pieces, width = axes + 2 * n_axes, 3 + n_axes
    for p in range(n_pieces):
        piece = pieces + p * width
        read = program[piece]
        if program[piece + 1] < n_scores:
            read += first_value
        for a in range(n_axes):
            read += program[piece + 3 + a] * y[program[axes + 2 * a]]
        step = abs(program[piece + 2])
        for x in range(n_own):
            if in_log:
                products[x] += values[read + x * step]
            else:
                products[x] *= values[read + x * step]


@kernel
def sample_buckets(program, bucket_ptr, n_table, n_scores, in_log, values, rng, products, labels):
    """Fill each row of `labels` with a sample, after an upward pass with sums; `in_log` are the buckets' domains."""
    for k in range(bucket_ptr.shape[0] - 2, -1, -1):
        head = bucket_ptr[k]
        n_own = program[head + 1]
        first_value = 0 if in_log[k] else n_table
        for m in range(labels.shape[0]):
            _local_products(program, head, labels[m], values, n_scores, first_value, in_log[k] != 0, products)
            if in_log[k]:
                maximum = -np.inf
                for x in range(n_own):
                    maximum = max(maximum, products[x])
                for x in range(n_own):
                    products[x] = np.exp(products[x] - maximum)
            total = 0.0
            for x in range(n_own):
                total += products[x]
            remainder = rng.random() * total
            state = -1
            for x in range(n_own):
                if products[x] > 0.0:  # rounding may leave a remainder: then it is the last possible state
                    state = x
                    remainder -= products[x]
                    if remainder < 0.0:
                        break
            labels[m, program[head]] = state


@kernel
def complete_best(program, bucket_ptr, n_scores, stop, values, variable_ptr, products, y, gaps):
    """Set the variables of buckets stop - 1 to 0 to their best states, after an upward pass with maxima.

    `gaps`, in the layout of the variables' scores, receives the loss of the best total if this variable takes another
    state and everything below is optimal again; -inf at the best state.
    """
    for k in range(stop - 1, -1, -1):
        head = bucket_ptr[k]
        _local_products(program, head, y, values, n_scores, 0, True, products)
        v, n_own = program[head], program[head + 1]
        best = 0
        for x in range(n_own):
            if products[x] > products[best]:
                best = x
        y[v] = best
        for x in range(n_own):
            gaps[variable_ptr[v] + x] = products[x] - products[best]
        gaps[variable_ptr[v] + best] = -np.inf
