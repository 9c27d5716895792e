"""Agreement of two clusterings by definition: loops over records, pairs and sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import linear_sum_assignment


def as_sets(labels):
    """Return clusters as sets of records; `labels` is a dict from record to label."""
    result = {}
    for record, label in labels.items():
        result.setdefault(label, set()).add(record)
    return list(result.values())


def quotient(part, whole):
    return part / whole if whole else 0.0


def pairwise(true, predicted):
    """Return precision and recall of the pairs within clusters."""
    pairs = [
        {frozenset(pair) for cluster in as_sets(labels) for pair in combinations(sorted(cluster), 2)}
        for labels in (true, predicted)
    ]
    right = len(pairs[0] & pairs[1])
    return quotient(right, len(pairs[1])), quotient(right, len(pairs[0]))


def b_cubed(true, predicted):
    """Return the mean over records of precision and recall of their clusters."""

    def recall(key, response):
        total = 0.0
        for record, label in key.items():
            mates = {other for other in key if key[other] == label}
            result = {other for other in response if record in response and response[other] == response[record]}
            total += len(mates & result) / len(mates)
        return quotient(total, len(key))

    return recall(predicted, true), recall(true, predicted)


def muc(true, predicted):
    """Return precision and recall of links, by the number of parts into which the other clustering splits a cluster."""

    def recall(key, response):
        n_links = n_needed = 0
        for cluster in as_sets(key):
            parts = {("in", response[r]) if r in response else ("alone", r) for r in cluster}
            n_links += len(cluster) - len(parts)
            n_needed += len(cluster) - 1
        return quotient(n_links, n_needed)

    return recall(predicted, true), recall(true, predicted)


def ceaf_e(true, predicted):
    """Return precision and recall of the best one-to-one matching of clusters, from all similarities."""
    key, response = as_sets(true), as_sets(predicted)
    table = np.array([[2 * len(k & r) / (len(k) + len(r)) for r in response] for k in key]).reshape(
        len(key), len(response)
    )
    best = table[linear_sum_assignment(table, maximize=True)].sum()
    return quotient(best, len(response)), quotient(best, len(key))


def ceaf_m(true, predicted):
    """Return precision and recall of the best one-to-one matching of clusters by the number of common records."""
    key, response = as_sets(true), as_sets(predicted)
    table = np.array([[len(k & r) for r in response] for k in key]).reshape(len(key), len(response))
    best = table[linear_sum_assignment(table, maximize=True)].sum()
    return quotient(best, len(predicted)), quotient(best, len(true))


def lea(true, predicted):
    """Return link-based entity-aware precision and recall: the resolved fraction of each cluster, weighted by size."""

    def recall(key, response):
        total = 0.0
        for cluster in as_sets(key):
            if len(cluster) == 1:
                total += float(any(cluster == other for other in as_sets(response)))
                continue
            links = list(combinations(sorted(cluster), 2))
            common = sum(a in response and b in response and response[a] == response[b] for a, b in links)
            total += len(cluster) * common / len(links)
        return quotient(total, len(key))

    return recall(predicted, true), recall(true, predicted)
