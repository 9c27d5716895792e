"""Probabilities of segments of sequences: backward recursions from the end of each segment."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel


@kernel
def _previous_labels(row, table, y, products):
    """Compute the probabilities of the labels before a position, given its label y and everything after it.

    They are proportional to exp(row(x) + table(x, y)), where `row` is the logarithm of the forward message.
    """
    k = row.shape[0]
    top = -np.inf
    for x in range(k):
        products[x] = row[x] + table[x, y]
        top = max(top, products[x])
    total = 0.0
    for x in range(k):
        products[x] = np.exp(products[x] - top) if top > -np.inf else 0.0
        total += products[x]
    for x in range(k):
        products[x] = products[x] / total if total > 0.0 else 0.0


@kernel
def sum_over_segments(ptr, segments, log_alpha, marginals, tables, fields, continues, scratch, log_probabilities):
    """Compute the log-probability of each segment, -inf where it is impossible.

    Rows of `segments` are sequence, start, end (positions of the batch, end exclusive) and field. A segment is in a
    labelling if all its labels have the field, each continues the segment of the label before it, and the segment goes
    on neither before its start nor after its end. `log_alpha` are logarithms of forward messages, up to a constant per
    row, and `marginals` are the probabilities of labels. `scratch` has three rows of labels.
    """
    k = log_alpha.shape[1]
    stride = 1 if tables.shape[0] > 1 else 0
    current, previous, products = scratch[0], scratch[1], scratch[2]
    for i in range(segments.shape[0]):
        s, start, end, field = segments[i, 0], segments[i, 1], segments[i, 2], segments[i, 3]
        t = end - 1
        for x in range(k):
            current[x] = marginals[t, x] if end == ptr[s + 1] and fields[x] == field else 0.0
        if end < ptr[s + 1]:
            for y in range(k):
                if marginals[end, y] > 0.0:
                    _previous_labels(log_alpha[t], tables[(t - s) * stride], y, products)
                    for x in range(k):
                        if fields[x] == field and not continues[x, y]:
                            current[x] += marginals[end, y] * products[x]
        log_probability = 0.0
        while t > start:
            top = 0.0
            for y in range(k):
                top = max(top, current[y])
            if top == 0.0:
                break
            log_probability += np.log(top)
            t -= 1
            for x in range(k):
                previous[x] = 0.0
            for y in range(k):
                if current[y] > 0.0:
                    _previous_labels(log_alpha[t], tables[(t - s) * stride], y, products)
                    for x in range(k):
                        if fields[x] == field and continues[x, y]:
                            previous[x] += current[y] / top * products[x]
            current, previous = previous, current
        total = 0.0
        for y in range(k):
            if current[y] > 0.0 and t == start:
                if start == ptr[s]:
                    total += current[y]
                    continue
                _previous_labels(log_alpha[start - 1], tables[(start - 1 - s) * stride], y, products)
                for x in range(k):
                    if not continues[x, y]:
                        total += current[y] * products[x]
        log_probabilities[i] = log_probability + np.log(total) if total > 0.0 else -np.inf
