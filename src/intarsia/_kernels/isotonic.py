"""Isotonic regression of a rate by pooling of adjacent violators."""

from __future__ import annotations

from intarsia._core.jit import kernel


@kernel
def pool_violators(blocks):
    """Merge neighbouring blocks until the rate strictly increases; return the number of blocks.

    Row 0 holds successes, row 1 trials, and further rows any sums. The merged blocks replace the first columns.
    """
    n_rows, n_blocks = blocks.shape
    last = -1
    for block in range(n_blocks):
        last += 1
        for row in range(n_rows):
            blocks[row, last] = blocks[row, block]
        while last > 0 and blocks[0, last - 1] * blocks[1, last] >= blocks[0, last] * blocks[1, last - 1]:
            for row in range(n_rows):
                blocks[row, last - 1] += blocks[row, last]
            last -= 1
    return last + 1
