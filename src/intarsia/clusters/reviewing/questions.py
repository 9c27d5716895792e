"""Choose the questions of a review: the decisions that would change most record pairs, weighted by their doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from intarsia._core.validation import IntArray
from intarsia.clusters.resolution.explain import join_obstacle
from intarsia.clusters.resolution.splits import EntityGraph

if TYPE_CHECKING:
    from intarsia.clusters.resolution.resolve import Resolution

_CANDIDATES = 3  # times the number of questions: how many decisions of each kind are examined


@dataclass(frozen=True)
class Question:
    """Pair of records to ask about, and the decision that depends on it.

    Attributes
    ----------
    first, second : ids
        Records to compare.
    kind : {"split", "join", "pair"}
        Decision: split an entity, join two entities, or only the pair itself.
    cost : float
        Log odds that the score loses by the opposite decision.
    value : float
        Expected number of record pairs that the answer changes: pairs between the sides times the probability of the
        opposite decision.
    sides : pair of tuples of ids
        Records on the two sides of the decision, the two that are compared first.
    """

    first: Any
    second: Any
    kind: str
    cost: float
    value: float
    sides: tuple[tuple[Any, ...], tuple[Any, ...]]


def choose_questions(resolution: Resolution, n_questions: int) -> list[Question]:
    """Return the most valuable questions about a clustering, each pair of records once.

    Examples
    --------
    >>> from intarsia.clusters import resolve
    >>> edges = {"id1": ["a", "c", "b"], "id2": ["b", "d", "c"], "log_odds": [5.0, 0.5, -1.0]}
    >>> for question in choose_questions(resolve(edges, calibrate=None, absent=0.0), 2):
    ...     print(question.kind, question.first, question.second, round(question.value, 2))
    join b c 1.08
    split c d 0.38
    """
    graph = EntityGraph(resolution)
    n_candidates = _CANDIDATES * n_questions
    questions = [*_splits(resolution, graph, n_candidates), *_joins(resolution, graph, n_candidates)]
    questions += _pairs(resolution, n_candidates)
    question_of_pair: dict[frozenset[Any], Question] = {}
    for question in sorted(questions, key=lambda item: -item.value):
        question_of_pair.setdefault(frozenset((question.first, question.second)), question)
    return list(question_of_pair.values())[:n_questions]


def _splits(resolution: Resolution, graph: EntityGraph, limit: int) -> list[Question]:
    """Return a question for each of the entities that are split most cheaply."""
    costs = graph.split_costs()
    questions = []
    for entity in np.argsort(costs, kind="stable")[:limit]:
        split = graph.cheapest_split(int(entity))
        if split is None:
            break
        records = np.flatnonzero(resolution.labels == graph.first_record[entity])
        second = np.isin(graph.node_of[records], graph.nodes(int(entity))[split.side])
        questions.append(_question(resolution, "split", split.cost, records[~second], records[second]))
    return questions


def _joins(resolution: Resolution, graph: EntityGraph, limit: int) -> list[Question]:
    """Return a question for each of the pairs of entities that are nearly joined and may be joined."""
    entities, gains = graph.join_gains()
    n_records = graph.n_records()
    values = n_records[entities[:, 0]] * n_records[entities[:, 1]] * expit(gains)
    questions = []
    for row in np.argsort(-values, kind="stable")[:limit]:
        if not join_obstacle(resolution, graph, *entities[row].tolist()):
            sides = [np.flatnonzero(resolution.labels == graph.first_record[entity]) for entity in entities[row]]
            questions.append(_question(resolution, "join", -float(gains[row]), *sides))
    return questions


def _pairs(resolution: Resolution, limit: int) -> list[Question]:
    """Return a question for each of the scored pairs whose log odds are nearest to 0, as labels for a calibration."""
    log_odds = resolution.log_odds
    ids = resolution.pairs.ids
    questions = []
    for row in np.argsort(np.abs(log_odds), kind="stable")[:limit]:
        first, second = (ids[record] for record in resolution.pairs.pairs[row])
        cost = abs(float(log_odds[row]))
        questions.append(Question(first, second, "pair", cost, float(expit(-cost)), ((first,), (second,))))
    return questions


def _question(resolution: Resolution, kind: str, cost: float, first: IntArray, second: IntArray) -> Question:
    """Ask about the scored pair between two sides that has the highest log odds, or about their first records."""
    pairs, ids = resolution.pairs, resolution.pairs.ids
    side = np.zeros(len(ids), dtype=np.int64)
    side[first], side[second] = 1, 2
    rows = np.flatnonzero(side[pairs.pairs].sum(axis=1) == 3)
    rows = rows[(side[pairs.pairs[rows]] > 0).all(axis=1)]
    a, b = int(first[0]), int(second[0])
    if rows.size:
        a, b = pairs.pairs[rows[pairs.log_odds[rows].argmax()]].tolist()
        if side[a] == 2:
            a, b = b, a
    sides = tuple(
        tuple(ids[record] for record in sorted(records.tolist(), key=lambda record: record != asked_record))
        for records, asked_record in ((first, a), (second, b))
    )
    value = len(first) * len(second) * float(expit(-cost))
    return Question(ids[a], ids[b], kind, cost, value, (sides[0], sides[1]))
