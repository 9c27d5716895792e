"""Arithmetic of vectors over many sequences, each pass over memory once: part s is `starts[s] .. starts[s + 1] - 1`."""

from __future__ import annotations

from intarsia._jit import fast_kernel, kernel


@kernel
def move_parts(starts, tilt, slope, share, moved):
    """`moved = tilt + share (slope - tilt)`, with a share for each part."""
    for s in range(starts.shape[0] - 1):
        own = share[s]
        for i in range(starts[s], starts[s + 1]):
            moved[i] = tilt[i] + own * (slope[i] - tilt[i])


@fast_kernel
def multiply_parts(starts, a, b, products):
    """Add the inner product of each part to `products`."""
    for s in range(starts.shape[0] - 1):
        total = 0.0
        for i in range(starts[s], starts[s + 1]):
            total += a[i] * b[i]
        products[s] += total


@kernel
def compare_parts(starts, a, b, largest):
    """Raise `largest` to the largest absolute difference of each part."""
    for s in range(starts.shape[0] - 1):
        top = largest[s]
        for i in range(starts[s], starts[s + 1]):
            difference = abs(a[i] - b[i])
            if difference > top:
                top = difference
        largest[s] = top


@kernel
def copy_parts(starts, chosen, source, target):
    """Copy the parts that are chosen."""
    for s in range(starts.shape[0] - 1):
        if chosen[s]:
            target[starts[s] : starts[s + 1]] = source[starts[s] : starts[s + 1]]
