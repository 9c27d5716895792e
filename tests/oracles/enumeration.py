"""Exact inference by plain Python enumeration; shares no code with the library except the graph arrays."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Enumerated:
    labellings: np.ndarray  # (n, n_variables), only those with a finite score
    scores: np.ndarray
    log_partition: float
    mu: np.ndarray  # in the layout of theta
    factor_marginals: list[np.ndarray]
    best_score: float


def _statistic(kind: int, truncation: float, states: list[int]) -> float:
    if kind > 3:  # 1 if a count constraint is violated; from kind 7 on the last variable is counted when it is 0
        *inputs, last = states
        count = sum(inputs) + (last if kind < 7 else 1 - last)
        allowed = {4: count <= truncation, 5: count >= truncation, 6: count == truncation}[(kind - 4) % 3 + 4]
        return 0.0 if allowed else 1.0
    gap = abs(states[0] - states[1])
    return [None, float(gap == 0), -min(gap, truncation), -min(gap * gap, truncation)][kind]


def enumerate_model(graph, theta, evidence=None, temperature=1.0) -> Enumerated:
    """Enumerate all assignments that agree with the evidence."""
    evidence = evidence or {}
    choices = [[evidence[v]] if v in evidence else range(k) for v, k in enumerate(graph.n_states.tolist())]
    scopes = [graph.scope(c).tolist() for c in range(graph.n_factors)]
    tables = graph.table_of_factor.tolist()
    labellings, scores, statistics = [], [], []
    for y in itertools.product(*choices):
        entries = [(int(graph.variable_ptr[v]) + y[v], 1.0) for v in range(graph.n_variables)]
        for scope, t in zip(scopes, tables, strict=True):
            start = int(graph.table_ptr[t])
            if graph.table_kind[t] == 0:
                position = 0
                for v in scope:
                    position = position * int(graph.n_states[v]) + y[v]
                entries.append((start + position, 1.0))
            else:
                value = _statistic(int(graph.table_kind[t]), float(graph.table_truncation[t]), [y[v] for v in scope])
                if value:
                    entries.append((start, value))
        score = math.fsum(theta[at] * weight for at, weight in entries)
        if score > -math.inf:
            labellings.append(y)
            scores.append(score)
            statistics.append(entries)
    labels = np.array(labellings, dtype=int).reshape(len(labellings), graph.n_variables)
    mu = np.zeros(graph.n_theta)
    joint = [np.zeros([int(graph.n_states[v]) for v in scope]) for scope in scopes]
    if not scores:
        return Enumerated(labels, np.array([]), -math.inf, mu, joint, -math.inf)
    values = np.array(scores)
    top = values.max()
    weights = np.exp((values - top) / temperature)
    log_partition = float(top + temperature * math.log(weights.sum()))
    weights /= weights.sum()
    for weight, y, entries in zip(weights, labellings, statistics, strict=True):
        for at, value in entries:
            mu[at] += weight * value
        for c, scope in enumerate(scopes):
            joint[c][tuple(y[v] for v in scope)] += weight
    return Enumerated(labels, values, log_partition, mu, joint, float(top))
