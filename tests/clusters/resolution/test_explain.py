"""Explanations add up, cheapest splits agree with enumeration, constraints are named."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from intarsia.clusters import resolve
from intarsia.clusters.resolution.splits import EntityGraph, _search_split
from intarsia.exceptions import InvalidInputError


def random_edges(seed, n=14, rate=0.7):
    """Return scored pairs of n records in two groups, with noise, as a dict of columns."""
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < rate]
    same = np.array([(a < n // 2) == (b < n // 2) for a, b in pairs])
    return {
        "id1": [f"r{a:02d}" for a, _ in pairs],
        "id2": [f"r{b:02d}" for _, b in pairs],
        "log_odds": (np.where(same, 1.0, -1.5) + rng.normal(size=len(pairs))).tolist(),
    }


def pair_log_odds(edges, absent):
    table = {frozenset(ends): value for *ends, value in zip(*edges.values(), strict=True)}
    return lambda a, b: table.get(frozenset((a, b)), absent)


def members(resolution, entity):
    return [name for name, label in zip(*resolution.table.values(), strict=True) if label == entity]


@pytest.mark.parametrize("seed", range(6))
def test_an_entity_agrees_with_enumeration(seed):
    edges = random_edges(seed)
    resolution = resolve(edges, calibrate=None, absent=-0.2)
    log_odds = pair_log_odds(edges, -0.2)
    entities = sorted(set(resolution.table["entity"]))
    total = 0.0
    for entity in entities:
        explanation = resolution.explain(entity)
        records = members(resolution, entity)
        assert list(explanation.records) == records
        score = sum(log_odds(a, b) for a, b in itertools.combinations(records, 2))
        assert explanation.score == pytest.approx(score)
        assert math.fsum(item.log_odds for item in explanation.contributions) == pytest.approx(score)
        total += score
        for record in records:
            attached = sum(log_odds(record, other) for other in records if other != record)
            assert explanation.attachments[record] == pytest.approx(attached, abs=1e-9)
        cuts = [
            sum(log_odds(a, b) for a in side for b in records if b not in side)
            for size in range(1, len(records))
            for side in itertools.combinations(records, size)
        ]
        if cuts:
            assert explanation.split.exact
            assert explanation.split.cost == pytest.approx(min(cuts))
            sides = (explanation.split.first, explanation.split.second)
            assert sum(log_odds(a, b) for a in sides[0] for b in sides[1]) == pytest.approx(min(cuts))
        gains = {
            other: sum(log_odds(a, b) for a in records for b in members(resolution, other))
            for other in entities
            if other != entity
        }
        if explanation.neighbour is not None:
            assert -explanation.neighbour.cost == pytest.approx(gains[explanation.neighbour.entity])
            assert -explanation.neighbour.cost == pytest.approx(max(gains.values()))
    assert total == pytest.approx(resolution.score)


def test_split_costs_of_all_entities_agree_with_those_of_each():
    edges = random_edges(3, n=30, rate=0.4)
    graph = EntityGraph(
        resolve(edges, ids=[*sorted({*edges["id1"], *edges["id2"]}), "alone"], calibrate=None, absent=-0.1)
    )
    costs = graph.split_costs()
    for entity in range(graph.n_entities):
        split = graph.cheapest_split(entity)
        assert costs[entity] == (math.inf if split is None else pytest.approx(split.cost))
    assert np.isinf(costs).any()
    assert np.isfinite(costs).any()


@pytest.mark.parametrize("seed", range(20))
def test_the_search_finds_the_cheapest_split_of_two_halves(seed):
    rng = np.random.default_rng(seed)
    n = 10
    weights = rng.normal(1.0, 0.5, (n, n))
    weights[: n // 2, n // 2 :] = rng.normal(0.02, 0.05, (n // 2, n // 2))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    split = _search_split(weights)
    best = min(
        weights[np.ix_(side, np.setdiff1d(range(n), side))].sum()
        for size in range(1, n)
        for side in map(list, itertools.combinations(range(n), size))
    )
    assert not split.exact
    assert split.cost == pytest.approx(best)
    assert weights[split.side][:, ~split.side].sum() == pytest.approx(split.cost)


@pytest.mark.parametrize("seed", range(2))
def test_rounding_does_not_prolong_the_search(seed):
    """Equal weights made improvements by rounding errors, and the search did not end."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.choice([6.359, 6.82, 7.01, -0.3], (240, 240)), 1)
    weights = weights + weights.T
    assert _search_split(weights).cost <= weights.sum(axis=1).min() + 1e-6


def test_a_large_entity_costs_at_most():
    names = [f"r{k:02d}" for k in range(16)]
    pairs = [(a, b) for a, b in itertools.combinations(range(16), 2) if (a < 8) == (b < 8)] + [(7, 8)]
    edges = {"id1": [names[a] for a, _ in pairs], "id2": [names[b] for _, b in pairs], "log_odds": [3.0] * len(pairs)}
    explanation = resolve(edges, calibrate=None, absent=0.0).explain("r03")
    assert explanation.split.cost == pytest.approx(3.0)  # the bridge
    assert not explanation.split.exact
    assert set(explanation.split.first) == set(names[:8])
    assert "costs at most 3.000" in repr(explanation)


def splink_edges():
    """Return pairs with weights of comparisons as Splink writes them: prior -9, names, city with term frequency."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(range(12), 2))
    parts = {f"mw_{name}": rng.normal(3.0, 3.0, len(pairs)) for name in ("name", "tf_adj_name", "city")}
    same = np.array([a // 4 == b // 4 for a, b in pairs])
    parts["mw_name"] = parts["mw_name"] + np.where(same, 10.0, -10.0)
    return {
        "unique_id_l": [a for a, _ in pairs],
        "unique_id_r": [b for _, b in pairs],
        "match_weight": sum(parts.values()) - 9.0,
        **parts,
    }


def test_comparisons_of_a_pair_add_up():
    edges = splink_edges()
    resolution = resolve(edges, calibrate=None)
    explanation = resolution.explain(3, 1, edges=edges)
    row = next(k for k in range(66) if (edges["unique_id_l"][k], edges["unique_id_r"][k]) == (1, 3))
    terms = {item.name: item.log_odds for item in explanation.contributions}
    assert terms["prior"] == pytest.approx(-9.0 * math.log(2))
    assert terms["name, term frequency"] == pytest.approx(edges["mw_tf_adj_name"][row] * math.log(2))
    assert math.fsum(terms.values()) == pytest.approx(edges["match_weight"][row] * math.log(2), abs=1e-12)
    assert explanation.log_odds == math.fsum(terms.values())
    assert explanation.same_entity
    assert json.loads(json.dumps(explanation.as_dict()))["log_odds"] == explanation.log_odds


def test_comparisons_of_an_entity_and_the_calibration_add_up(tmp_path):
    import pandas as pd

    edges = splink_edges()
    labels = {
        "id1": edges["unique_id_l"],
        "id2": edges["unique_id_r"],
        "match": [int(a // 4 == b // 4) for a, b in zip(edges["unique_id_l"], edges["unique_id_r"], strict=True)],
    }
    resolution = resolve(edges, calibrate=labels)
    path = tmp_path / "pairs.parquet"
    pd.DataFrame(edges).to_parquet(path)
    for table in (edges, path, str(path), pd.DataFrame(edges)):
        explanation = resolution.explain(0, edges=table)
        assert {item.name for item in explanation.contributions} == {
            "name", "name, term frequency", "city", "prior", "calibration",
        }  # fmt: skip
        assert explanation.score == pytest.approx(resolution.explain(0).score, abs=1e-9)
    pair = resolution.explain(0, 1, edges=edges)
    row = edges["match_weight"][0] * math.log(2)
    assert pair.contributions[-1].name == "calibration"
    assert pair.log_odds == pytest.approx(resolution.calibration.apply(np.array([row]))[0], abs=1e-12)


@pytest.mark.parametrize("repeated", ["mean", "max", "min"])
def test_repeated_pairs_add_up(repeated):
    edges = {"id1": ["a", "b"], "id2": ["b", "a"], "match_weight": [3.0, 1.0], "mw_x": [5.0, 3.0]}
    resolution = resolve(edges, calibrate=None, repeated=repeated)
    explanation = resolution.explain("a", "b", edges=edges)
    expected = {"mean": 2.0, "max": 3.0, "min": 1.0}[repeated]
    assert explanation.log_odds == pytest.approx(expected * math.log(2), abs=1e-12)
    assert [item.name for item in explanation.contributions] == ["x", "prior"]
    assert explanation.contributions[1].log_odds == pytest.approx(-2.0 * math.log(2), abs=1e-12)


def test_bayes_factors_without_a_match_weight():
    edges = {"id1": ["a"], "id2": ["b"], "match_probability": [0.8], "bf_x": [8.0]}
    explanation = resolve(edges, calibrate=None).explain("a", "b", edges=edges)
    terms = {item.name: item.log_odds for item in explanation.contributions}
    assert terms == {"x": pytest.approx(math.log(8.0)), "prior": pytest.approx(math.log(0.5))}


def test_constraints_are_named():
    edges = {"id1": ["a", "b", "c"], "id2": ["b", "c", "d"], "log_odds": [1.0, 1.0, -2.0]}
    resolution = resolve(edges, calibrate=None, must_link=[("a", "b")], cannot_link=[("b", "c")])
    assert resolution.explain("a", "b").constraint == "must-link"
    assert resolution.explain("b", "c").constraint == "cannot-link"
    assert resolution.explain("a").split is None  # the two records must stay together
    assert resolution.explain("a").neighbour.obstacle == "cannot-link"
    resolution = resolve(edges, calibrate=None, source={"b": 1, "c": 1})
    assert resolution.explain("b", "c").constraint == "one source"
    assert resolution.explain("c").neighbour.entity == "d"  # an allowed one, although it costs more
    assert resolve(edges, calibrate=None, max_size=2).explain("a").neighbour.obstacle == "max_size"


def test_must_links_stay_on_one_side():
    edges = {"id1": ["a", "a", "b"], "id2": ["b", "c", "c"], "log_odds": [0.1, 3.0, 2.0]}
    split = resolve(edges, calibrate=None, must_link=[("a", "b")]).explain("a").split
    assert (split.first, split.second, split.cost) == (("a", "b"), ("c",), 5.0)


def test_bad_input_is_named():
    edges = {"id1": [1], "id2": [2], "log_odds": [1.0]}
    resolution = resolve(edges)
    for arguments, message in [
        (("1",), "no record with id '1'. The ids are of type int"),
        ((1, 3), "no record with id 3"),
        ((1, 1), "both records are 1. Pass two different records"),
        ((np.array([1]),), "expected the id of a record, got a ndarray"),
        (({"id": [1]}, (1, 2)), r"explain\(first, second\): expected the id of a record, got a dict"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            resolution.explain(*arguments)
    with pytest.raises(InvalidInputError, match="no column begins with 'mw_' or 'bf_'"):
        resolution.explain(1, 2, edges=edges)
    with pytest.raises(InvalidInputError, match="pairs are of type int"):
        resolution.explain(1, 2, edges=3)


def test_html_is_escaped():
    edges = {"id1": ["<b>"], "id2": ["c"], "log_odds": [1.0]}
    resolution = resolve(edges, calibrate=None)
    for explanation in (resolution.explain("<b>"), resolution.explain("<b>", "c")):
        page = explanation._repr_html_()
        assert "<b>" not in page
        assert "&lt;b&gt;" in page
