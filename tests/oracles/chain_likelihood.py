"""Likelihood of chain models by definition: enumeration of all labellings in plain Python."""

from __future__ import annotations

import itertools
import math

import numpy as np


def path_score(states, transitions, features, path, start=None, end=None, edges=None, edge_features=None):
    """Return the score u(y_1) + sum of feature weights + transitions (+ features of steps) + v(y_n)."""
    score = sum(float(features[t] @ states[:, y]) for t, y in enumerate(path))
    for t, (x, y) in enumerate(itertools.pairwise(path)):
        score += transitions[x, y]
        if edges is not None:
            score += float(edge_features[t] @ edges[:, x, y])
    if start is not None:
        score += start[path[0]] + end[path[-1]]
    return score


def log_sum_exp(values):
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def log_probability(crf_parts, features, allowed, possible, edge_features=None):
    """Return the log-probability of the labellings in the product of `allowed`, given `possible(path)`."""
    k = crf_parts["states"].shape[1]
    paths = [path for path in itertools.product(range(k), repeat=len(features)) if possible(path)]
    scores = {
        path: path_score(features=features, path=path, edge_features=edge_features, **crf_parts) for path in paths
    }
    inside = [scores[path] for path in paths if all(y in some for y, some in zip(path, allowed, strict=True))]
    return log_sum_exp(inside) - log_sum_exp(list(scores.values())) if inside else -math.inf


def parts_of(layout, weights):
    """Return the parts of a weight vector by name, read entry by entry."""
    k, at = layout.n_labels, 0
    states = np.zeros((layout.n_features, k))
    for f in range(layout.n_features):
        every = range(k) if layout.pair_ptr is None else layout.pair_label[layout.pair_ptr[f] : layout.pair_ptr[f + 1]]
        for y in every:
            states[f, y] = weights[at]
            at += 1
    result = {"states": states, "transitions": weights[at : at + k * k].reshape(k, k)}
    at += k * k
    if layout.ends:
        result |= {"start": weights[at : at + k], "end": weights[at + k : at + 2 * k]}
        at += 2 * k
    if layout.n_edge_features:
        result["edges"] = weights[at:].reshape(-1, k, k)
    return result
