"""Posterior probabilities of pairs and records against enumeration of all clusterings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csgraph

from intarsia.clusters import resolve
from intarsia.clusters.resolution import confidence as module
from intarsia.exceptions import InvalidInputError


def partitions(n):
    """All partitions of n records, as label vectors."""
    rows = [[0]]
    for _ in range(1, n):
        rows = [[*row, label] for row in rows for label in range(max(row) + 2)]
    return [np.array(row) for row in rows]


def is_connected(members, pairs, support):
    inside = support & np.isin(pairs, members).all(axis=1)
    place = {record: k for k, record in enumerate(members)}
    rows, columns = ([place[record] for record in pairs[inside, side]] for side in (0, 1))
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(members),) * 2)
    return csgraph.connected_components(graph, directed=False)[0] == 1


def enumerated(n, pairs, odds, absent, entity, *, source=None, max_size=None, must=(), cannot=()):
    """Probability of each pair, and confidence of each record, by adding up all clusterings that count."""
    together, total, alone = np.zeros((n, n)), 0.0, np.zeros(n)
    support = odds > -5.0
    for labels in partitions(n):
        groups = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
        joined = np.concatenate([np.flatnonzero(support), []]).astype(int)
        links = np.concatenate([pairs[joined], np.array(must, dtype=int).reshape(-1, 2)])
        if (
            any(not is_connected(group, links, np.ones(len(links), dtype=bool)) for group in groups)
            or (max_size is not None and max(map(len, groups)) > max_size)
            or (source is not None and any(len(set(source[group])) < len(group) for group in groups))
            or any(labels[a] != labels[b] for a, b in must)
            or any(labels[a] == labels[b] for a, b in cannot)
        ):
            continue
        same = labels[:, None] == labels[None]
        scored = same[pairs[:, 0], pairs[:, 1]]
        n_absent = (same.sum() - n) / 2 - scored.sum()
        weight = np.exp(odds[scored].sum() + absent * n_absent)
        total += weight
        together += weight * same
        alone += weight * (same.sum(axis=1) == 1)
    together, alone = together / total, alone / total
    mates = (entity[:, None] == entity[None]) & ~np.eye(n, dtype=bool)
    record = [together[i][mates[i]].mean() if mates[i].any() else alone[i] for i in range(n)]
    return together[pairs[:, 0], pairs[:, 1]], np.array(record)


def random_case(rng, n):
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    pairs = pairs[rng.random(len(pairs)) < 0.7]
    settings = {}
    if rng.random() < 0.4:
        settings["source"] = rng.integers(0, 4, n)
    if rng.random() < 0.3:
        settings["max_size"] = int(rng.integers(2, n))
    if rng.random() < 0.3:
        settings["cannot"] = [tuple(pairs[rng.integers(len(pairs))].tolist())]
    return pairs, rng.normal(0, 2.5, len(pairs)), float(rng.choice([0.0, -0.4])), settings


def computed(n, pairs, odds, absent, settings, **arguments):
    edges = {"id1": pairs[:, 0], "id2": pairs[:, 1], "log_odds": odds}
    source = settings.get("source")
    resolution = resolve(
        edges,
        list(range(n)),
        calibrate=None,
        absent=absent,
        source=None if source is None else dict(enumerate(source.tolist())),
        max_size=settings.get("max_size"),
        must_link=settings.get("must", ()),
        cannot_link=settings.get("cannot", ()),
    )
    return resolution, resolution.confidence(**arguments)


def test_exact_probabilities_equal_enumeration():
    rng = np.random.default_rng(0)
    for case in range(40):
        n = int(rng.integers(2, 8))
        pairs, odds, absent, settings = random_case(rng, max(n, 3))
        n = max(n, 3)
        if not len(pairs):
            continue
        resolution, confidence = computed(n, pairs, odds, absent, settings)
        probability, record = enumerated(n, pairs, odds, absent, resolution.labels, **settings)
        np.testing.assert_allclose(confidence.probability, probability, atol=1e-9, err_msg=str(case))
        np.testing.assert_allclose(confidence.records["confidence"], record, atol=1e-9, err_msg=str(case))
        assert np.isinf(confidence.pairs["n_effective"]).all()


def test_must_links_count_as_one_node():
    rng = np.random.default_rng(5)
    for _ in range(10):
        pairs, odds, absent, _ = random_case(rng, 6)
        must = [(0, 3), (3, 5)]
        resolution, confidence = computed(6, pairs, odds, absent, {"must": must})
        probability, _ = enumerated(6, pairs, odds, absent, resolution.labels, must=must)
        locked = np.isin(pairs, (0, 3, 5)).all(axis=1)
        assert (confidence.probability[locked] == 1.0).all()
        np.testing.assert_allclose(confidence.probability[locked], probability[locked])


def test_sampled_probabilities_equal_enumeration(monkeypatch):
    monkeypatch.setattr(module, "_EXACT_NODES", 0)
    rng = np.random.default_rng(1)
    for case in range(12):
        n = 6
        pairs, odds, absent, settings = random_case(rng, n)
        resolution, confidence = computed(n, pairs, odds, absent, settings, n_samples=20_000, random_state=case)
        probability, record = enumerated(n, pairs, odds, absent, resolution.labels, **settings)
        n_effective = np.array(confidence.pairs["n_effective"])
        error = np.sqrt(probability * (1 - probability) / n_effective) + 1e-3
        assert (np.abs(confidence.probability - probability) <= 5 * error).all(), case
        assert n_effective.min() >= 200
        np.testing.assert_allclose(confidence.records["confidence"], record, atol=0.05, err_msg=str(case))


def cliques(size, odds):
    return [(f"{side}{i}", f"{side}{j}", odds) for side in "ab" for i in range(size) for j in range(i)]


def test_record_between_two_entities_has_confidence_one_half():
    """Once exactly (7 records) and once by sampling (13 records), with a switch between two entities."""
    for size in (3, 6):
        rows = cliques(size, 4.0)
        rows += [(f"a{i}", f"b{j}", -9.0) for i in range(size) for j in range(size)]
        rows += [(f"{side}{i}", "x", 3.0) for side in "ab" for i in range(size)]
        edges = pd.DataFrame(rows, columns=["id1", "id2", "log_odds"])
        confidence = resolve(edges, calibrate=None, absent=0.0).confidence(n_samples=4000)
        records = confidence.records.set_index("id")
        assert isinstance(confidence.records, pd.DataFrame)
        assert records.loc["x", "confidence"] == pytest.approx(0.5, abs=0.08)
        assert (records.drop("x")["confidence"] > 0.7).all()
        assert np.isinf(records["n_effective"]).all() == (size == 3)


def test_uncompared_records_are_not_joined():
    edges = {"id1": ["a", "c"], "id2": ["b", "d"], "log_odds": [2.0, -2.0]}
    confidence = resolve(edges, list("abcde"), calibrate=None, absent=0.0).confidence()
    odds = np.exp([2.0, -2.0])
    np.testing.assert_allclose(confidence.probability, odds / (1 + odds))
    expected = [odds[0] / (1 + odds[0])] * 2 + [1 / (1 + odds[1])] * 2 + [1.0]
    np.testing.assert_allclose(confidence.records["confidence"], expected)


def test_bad_settings_and_time_limit():
    edges = {"id1": [f"r{i}" for i in range(40)], "id2": [f"r{i + 1}" for i in range(40)], "log_odds": [0.5] * 40}
    resolution = resolve(edges, calibrate=None)
    with pytest.raises(InvalidInputError, match=r"Resolution\.confidence: n_samples"):
        resolution.confidence(n_samples=0)
    assert 0 < resolution.confidence(n_samples=2000, time_limit=0.0).n_samples < 2000
    first, second = resolution.confidence(random_state=3), resolution.confidence(random_state=3)
    assert first.records == second.records
