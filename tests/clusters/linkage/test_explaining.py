"""Explanations of `EntityClusterer` add up to the log odds and scores that decide, for every way to decide."""

from __future__ import annotations

import copy
import json
import math
import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from intarsia.clusters import Agglomeration, ClusterFeature, EntityClusterer, HillClimbing, Span
from intarsia.clusters.linkage.resolved import resolve_records
from intarsia.datasets import make_customers
from intarsia.exceptions import InvalidInputError
from intarsia.report import plot_explanation

CUSTOMERS = make_customers(60, random_state=4)
COMPARISONS = {"first_name": "jaro_winkler", "last_name": "jaro_winkler", "street": "token_overlap", "phone": "exact"}


class NumberOfRecords(ClusterFeature):
    name = "records"
    columns = ("city",)

    def value(self, columns):
        return float(len(columns["city"])) ** 2 / 10


def check_sum(explanation):
    total = math.fsum(item.log_odds for item in explanation.contributions)
    assert total == pytest.approx(explanation.total, abs=1e-12)
    json.dumps(explanation.as_dict())
    assert plot_explanation(explanation).axes


def entity_of(labels, rows):
    return sorted(rows[labels == labels[0]])


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_without_labels(engine):
    clusterer = EntityClusterer(COMPARISONS, engine=engine)
    entity = clusterer.fit_predict(CUSTOMERS.columns)
    record_pairs, log_odds, links = clusterer._prepare(CUSTOMERS.columns, None, None, (), ())
    resolution = resolve_records(record_pairs, log_odds, links)
    matcher, prior = clusterer.matcher_, clusterer.matcher_.prior
    for row in range(0, len(log_odds), 37):
        first, second = (int(record_pairs.first_row[end]) for end in record_pairs.pairs[row])
        explanation = clusterer.explain(first, second)
        check_sum(explanation)
        assert explanation.log_odds == pytest.approx(resolution.log_odds[row], abs=1e-9)
        terms = {item.name: item.log_odds for item in explanation.contributions}
        assert terms["prior"] == pytest.approx(math.log(prior / (1 - prior)))
        assert sum(terms[name] for name in ["prior", *(f"{c} {k.name}" for c, k in clusterer.comparisons_)]) == (
            pytest.approx(log_odds[row], abs=1e-9)
        )
        assert explanation.same_entity == (entity[first] == entity[second])
    largest = int(np.bincount(entity).argmax())
    members = np.flatnonzero(entity == largest)
    explanation = clusterer.explain(int(members[-1]))
    check_sum(explanation)
    assert sorted(explanation.records) == members.tolist()
    inside = np.isin(record_pairs.first_row[record_pairs.pairs], members).all(axis=1)
    n_records = len(np.unique(record_pairs.record_of[members]))
    n_absent = n_records * (n_records - 1) // 2 - inside.sum()
    expected = resolution.log_odds[inside].sum() + n_absent * resolution.calibration.absent
    assert explanation.score == pytest.approx(expected, abs=1e-8)
    assert {item.name for item in explanation.contributions} >= {"prior", "phone exact"}
    assert matcher is clusterer.matcher_


@pytest.mark.parametrize(
    "settings",
    [
        {"decoder": HillClimbing()},
        {"decoder": HillClimbing(), "features": "all"},
        {"decoder": HillClimbing(), "cluster_features": [NumberOfRecords(), Span("postcode")]},
        {"decoder": Agglomeration()},
        {},
    ],
)
def test_with_labels(settings):
    """The score of a clustering is the sum of the scores of its entities, which the explanations add up to."""
    clusterer = EntityClusterer(COMPARISONS, **settings).fit(CUSTOMERS.columns, CUSTOMERS.entity)
    entity = clusterer.predict(CUSTOMERS.columns)
    record_pairs, log_odds, _ = clusterer._prepare(CUSTOMERS.columns, None, None, (), ())
    row = int(np.argmax(log_odds))
    first, second = (int(record_pairs.first_row[end]) for end in record_pairs.pairs[row])
    pair = clusterer.explain(first, second)
    check_sum(pair)
    assert pair.log_odds == pytest.approx(log_odds[row] + clusterer.shift_ * (clusterer.decision_ == "resolve"))
    members = np.flatnonzero(entity == np.bincount(entity).argmax())
    explanation = clusterer.explain(int(members[0]))
    check_sum(explanation)
    assert sorted(explanation.records) == members.tolist()
    assert explanation.split.cost == pytest.approx(min(_split_costs(clusterer, record_pairs, members)), abs=1e-8)
    if "cluster_features" in settings:
        by_name = {item.name: item.log_odds for item in explanation.contributions}
        n = len(members)
        assert by_name["records"] == pytest.approx(clusterer.weights_["records"] * n**2 / 10)


def _split_costs(clusterer, record_pairs, members):
    """Costs of all splits, from the features of whole clusterings."""
    from intarsia.clusters.linkage.explaining import ExplainedRecords, _trained, _world
    from intarsia.clusters.linkage.prediction import decided_way

    data = ExplainedRecords(clusterer, [CUSTOMERS.columns], clusterer._prepare(CUSTOMERS.columns, None, None, (), ()))
    if decided_way(clusterer) == "resolve":
        yield clusterer.explain(int(members[0])).split.cost
        return
    trained = _trained(data)
    everything = _world(data, trained, np.arange(record_pairs.n_records))
    labels = data.labels.copy()
    everything.reset(labels)
    score = everything.score(trained.weights)
    records = np.unique(record_pairs.record_of[members])
    for size in range(1, len(records)):
        for side in combinations(records, size):
            split = labels.copy()
            split[list(side)] = len(labels) - 1 if len(labels) - 1 not in labels else labels.max() + 1
            everything.reset(np.unique(split, return_inverse=True)[1])
            yield score - everything.score(trained.weights)


def test_two_tables():
    left, right = ({name: values[k::2] for name, values in CUSTOMERS.columns.items()} for k in (0, 1))
    clusterer = EntityClusterer(COMPARISONS)
    entity = clusterer.fit_predict(left, right)
    n = len(left["city"])
    first = next(k for k in range(n) if entity[k] in set(entity[n:]))
    second = int(np.flatnonzero(entity[n:] == entity[first])[0])
    explanation = clusterer.explain(first, second)
    check_sum(explanation)
    assert explanation.same_entity
    assert (explanation.first, explanation.second) == (("left", first), ("right", second))
    whole = clusterer.explain(("right", second))
    check_sum(whole)
    assert whole.records == (("left", first), ("right", second))
    with pytest.raises(InvalidInputError, match=r"both tables have a record with id 1\. Pass \('left', 1\)"):
        clusterer.explain(1)
    assert clusterer.explain(("left", 0), ("left", 1)).constraint == "one source"


def test_equal_rows_constraints_and_edges():
    columns = {name: [*values, values[0]] for name, values in CUSTOMERS.columns.items()}
    n = len(CUSTOMERS)
    clusterer = EntityClusterer(COMPARISONS).fit(columns)
    clusterer.predict(columns, cannot_link=[(0, 1)])
    assert clusterer.explain(0, 1).constraint == "cannot-link"
    assert clusterer.explain(2, 3, X=columns).constraint == ""
    clusterer.predict(columns)
    copies = clusterer.explain(0, n)
    assert copies.constraint == "equal rows"
    assert copies.same_entity
    assert {0, n} <= set(clusterer.explain(n).records)
    edges = {"unique_id_l": ["a", "b"], "unique_id_r": ["b", "c"], "match_weight": [9.0, -8.0], "mw_name": [4.0, -9.0]}
    scored = EntityClusterer()
    scored.predict(["a", "b", "c"], edges=edges)
    explanation = scored.explain("a", "b")
    check_sum(explanation)
    assert [item.name for item in explanation.contributions][:2] == ["name", "prior"]
    assert scored.explain("c").records == ("c",)


def test_records_are_not_saved_and_errors_are_clear(tmp_path):
    clusterer = EntityClusterer(COMPARISONS, id_column="id")
    columns = pd.DataFrame({**CUSTOMERS.columns, "id": CUSTOMERS.ids})
    clusterer.fit_predict(columns)
    assert clusterer.explain(CUSTOMERS.ids[0]).records
    for copied in (pickle.loads(pickle.dumps(clusterer)), copy.deepcopy(clusterer)):
        with pytest.raises(InvalidInputError, match=r"explain: there is no earlier prediction.*Pass the records as X="):
            copied.explain(CUSTOMERS.ids[0])
        assert copied.explain(CUSTOMERS.ids[0], X=columns).records
    with pytest.raises(InvalidInputError, match="no record with id 'nobody'"):
        clusterer.explain("nobody")
    for ids, kind in [((columns, ("a", "b")), "DataFrame"), ((["a", "b"],), "list"), (("a", {"b"}), "set")]:
        message = rf"explain\(first, second, X=records\): expected the id of a record, got a {kind}"
        with pytest.raises(InvalidInputError, match=message):
            clusterer.explain(*ids)
    with pytest.raises(InvalidInputError, match="must_link, row 1: expected the id of a record, got a list"):
        clusterer.predict(columns, must_link=[CUSTOMERS.ids[:2], (CUSTOMERS.ids[2], ["c2"])])
    with pytest.raises(InvalidInputError, match="both records are"):
        clusterer.explain(CUSTOMERS.ids[0], CUSTOMERS.ids[0])
    with pytest.raises(InvalidInputError, match="no earlier prediction"):
        EntityClusterer().explain("a")
