"""Exact inference on one sequence by enumeration of all labellings in plain Python."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np


@dataclass
class VisitedSequence:
    paths: list[tuple[int, ...]]  # possible labellings in descending order of score
    scores: list[float]
    log_partition: float
    nodes: np.ndarray
    steps: np.ndarray


def visit_paths(nodes, tables, start=None, end=None) -> VisitedSequence:
    """Enumerate the labellings of a sequence; `tables` has one table per step."""
    length, k = nodes.shape
    result = []
    for y in itertools.product(range(k), repeat=length):
        terms = [float(nodes[t, y[t]]) for t in range(length)]
        terms += [float(tables[t][y[t], y[t + 1]]) for t in range(length - 1)]
        terms += [] if start is None else [float(start[y[0]])]
        terms += [] if end is None else [float(end[y[-1]])]
        score = math.fsum(terms)
        if score > -math.inf:
            result.append((score, y))
    result.sort(key=lambda pair: -pair[0])
    marginals, joint = np.zeros((length, k)), np.zeros((length - 1, k, k))
    log_partition = -math.inf
    if result:
        top = result[0][0]
        total = math.fsum(math.exp(score - top) for score, _ in result)
        log_partition = top + math.log(total)
        for score, y in result:
            probability = math.exp(score - top) / total
            for t in range(length):
                marginals[t, y[t]] += probability
            for t in range(length - 1):
                joint[t, y[t], y[t + 1]] += probability
    return VisitedSequence([y for _, y in result], [score for score, _ in result], log_partition, marginals, joint)


def visit_batch(batch) -> list[VisitedSequence]:
    """Enumerate the labellings of every sequence of a ChainBatch."""
    answers = []
    for s, (a, b) in enumerate(itertools.pairwise(batch.ptr.tolist())):
        if batch.transitions.ndim == 3:
            tables = [batch.transitions[t - s] for t in range(a, b - 1)]
        else:
            tables = [batch.transitions] * (b - a - 1)
        answers.append(visit_paths(batch.nodes[a:b], tables, batch.start, batch.end))
    return answers
