"""Likelihoods of labels by definition in plain Python, as references for the losses.

`allowed` is a list with the set of allowed states of each variable.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.oracles.enumeration import enumerate_model


def log_sum(values) -> float:
    top = max(values, default=-math.inf)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(v - top) for v in values))


def negative_log_likelihood(graph, theta, allowed, truth=None) -> float:
    """Return log Z minus log Z of the allowed labellings; `truth` is the enumerated model, if available."""
    truth = truth or enumerate_model(graph, theta)
    inside = [
        score
        for y, score in zip(truth.labellings.tolist(), truth.scores.tolist(), strict=True)
        if all(state in states for state, states in zip(y, allowed, strict=True))
    ]
    return log_sum(truth.scores.tolist()) - log_sum(inside)


def conditional_negative_log_likelihood(graph, theta, allowed, patches, weights=None) -> float:
    """Return the sum over patches with observed neighbours of -log p(allowed | neighbours) x mean weight."""
    weights = np.ones(graph.n_variables) if weights is None else weights
    total = 0.0
    for patch in patches:
        factors = [c for c in range(graph.n_factors) if set(graph.scope(c).tolist()) & set(patch)]
        border = {int(v) for c in factors for v in graph.scope(c)} - set(patch)
        if any(len(allowed[v]) > 1 for v in border):
            continue
        everything, inside = [], []
        for states in itertools.product(*(range(int(graph.n_states[v])) for v in patch)):
            y = {v: next(iter(allowed[v])) for v in border} | dict(zip(patch, states, strict=True))
            terms = [float(graph.variable(theta, v)[y[v]]) for v in patch]
            terms += [float(graph.factor_table(theta, c)[tuple(y[int(v)] for v in graph.scope(c))]) for c in factors]
            everything.append(sum(terms))
            if all(y[v] in allowed[v] for v in patch):
                inside.append(everything[-1])
        total += float(np.mean(weights[patch])) * (log_sum(everything) - log_sum(inside))
    return total


def piecewise_negative_log_likelihood(graph, theta, allowed, weights=None) -> float:
    """Return the sum over variables and factors without hidden variables of their own likelihood x mean weight."""
    weights = np.ones(graph.n_variables) if weights is None else weights
    hidden = [1 < len(states) == k for states, k in zip(allowed, graph.n_states.tolist(), strict=True)]
    pieces = [((v,), graph.variable(theta, v)) for v in range(graph.n_variables)]
    pieces += [(tuple(graph.scope(c).tolist()), graph.factor_table(theta, c)) for c in range(graph.n_factors)]
    total = 0.0
    for scope, table in pieces:
        if not any(hidden[v] for v in scope):
            inside = [float(table[states]) for states in itertools.product(*(sorted(allowed[v]) for v in scope))]
            weight = float(np.mean(weights[list(scope)])) if scope else 1.0
            total += weight * (log_sum(np.ravel(table).tolist()) - log_sum(inside))
    return total
