"""Covariances of the labels of sequences with a sum of amounts over their labels."""

from __future__ import annotations

from intarsia._core.jit import kernel


@kernel
def covariances_with_sums(ptr, amounts, nodes, steps, before, after, means):
    """Replace marginals by their covariances with D, the sum of `amounts` over the labels of a sequence.

    `nodes` are the probabilities of labels and `steps` those of pairs of labels; both are overwritten. A chain is a
    Markov process, so that the expectation of D under a fixed label at a position is the sum of two conditional means:
    of the amounts up to there (`before`), and of those after it (`after`), by one recursion each. `means` receives the
    expectation of D for each sequence.
    """
    k = nodes.shape[1]
    for s in range(ptr.shape[0] - 1):
        first, last = ptr[s], ptr[s + 1] - 1
        for y in range(k):
            before[first, y] = amounts[first, y]
            after[last, y] = 0.0
        for t in range(first + 1, last + 1):
            table = steps[t - 1 - s]
            for y in range(k):
                total = 0.0
                if nodes[t, y] > 0.0:
                    for x in range(k):
                        total += table[x, y] * before[t - 1, x]
                    total /= nodes[t, y]
                before[t, y] = amounts[t, y] + total
        for t in range(last - 1, first - 1, -1):
            table = steps[t - s]
            for x in range(k):
                total = 0.0
                if nodes[t, x] > 0.0:
                    for y in range(k):
                        total += table[x, y] * (amounts[t + 1, y] + after[t + 1, y])
                    total /= nodes[t, x]
                after[t, x] = total
        mean = 0.0
        for y in range(k):
            mean += nodes[last, y] * before[last, y]
        means[s] = mean
        for t in range(first, last + 1):
            if t < last:
                table = steps[t - s]
                for x in range(k):
                    for y in range(k):
                        table[x, y] *= before[t, x] + amounts[t + 1, y] + after[t + 1, y] - mean
            for y in range(k):
                nodes[t, y] *= before[t, y] + after[t, y] - mean
