"""Linkage of two tables, with and without labels, and the choice of how clusters are decided."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.clusters import EntityClusterer, SharedTokens, TokenOverlap
from intarsia.datasets import make_customers
from intarsia.exceptions import InvalidInputError
from intarsia.metrics import clustering_scores

BRANDS = ["sony", "canon", "nikon", "apple", "dell", "hp", "samsung", "lg", "epson", "asus"]
KINDS = ["camera", "printer", "laptop", "monitor", "phone", "tablet", "speaker", "router"]
WORDS = ["black", "silver", "pro", "mini", "ultra", "series", "wireless", "digital", "compact", "new", "edition", "hd"]


def make_products(seed, n=300):
    """Return two tables of products with many near duplicates, half of them in both, and the matches."""
    rng = np.random.default_rng(seed)
    tables, matches = ([], []), []
    for _ in range(n):
        brand, kind, code = rng.choice(BRANDS), rng.choice(KINDS), f"m{rng.integers(1, 40) * 10}"
        price, draw = float(np.exp(rng.normal(4.5, 0.8))), rng.random()
        sides = (0, 1) if draw < 0.5 else (0,) if draw < 0.75 else (1,)
        for side in sides:
            words = [brand, kind, code, *rng.choice(WORDS, rng.integers(2, 6), replace=False)]
            rng.shuffle(words)
            tables[side].append((" ".join(words), round(price * float(np.exp(rng.normal(0, 0.15))), 2)))
        if len(sides) == 2:
            matches.append((len(tables[0]) - 1, len(tables[1]) - 1))
    return (*({"title": [row[0] for row in rows], "price": [row[1] for row in rows]} for rows in tables), matches)


def truth_of(left, right, matches):
    labels = np.arange(len(left["title"]) + len(right["title"]))
    for first, second in matches:
        labels[len(left["title"]) + second] = labels[first]
    return labels


SETTINGS = {"comparisons": {"title": "token_overlap", "price": "numeric"}, "blocking": SharedTokens("title", 400)}


def test_labelled_training_on_products_does_not_leave_every_record_alone():
    train, test = make_products(1), make_products(2)
    fitted = EntityClusterer(**SETTINGS).fit(train[0], train[1], matches=train[2])
    predicted = fitted.predict(test[0], test[1])
    f1 = clustering_scores(truth_of(*test), predicted).pairwise.f1
    ranking = EntityClusterer(decoder="hill_climbing", **SETTINGS).fit(train[0], right=train[1], matches=train[2])
    before = clustering_scores(truth_of(*test), ranking.predict(test[0], test[1])).pairwise.f1
    assert f1 > 0.2
    assert f1 > before + 0.1
    assert fitted.decision_performance_[fitted.decision_] == max(fitted.decision_performance_.values())
    weighted = SETTINGS | {"comparisons": {"title": TokenOverlap("tfidf", levels=(0.2, 0.4, 0.6)), "price": "numeric"}}
    fitted = EntityClusterer(**weighted).fit(train[0], train[1], matches=train[2])
    predicted = fitted.predict(test[0], test[1])
    assert clustering_scores(truth_of(*test), predicted).pairwise.f1 > 0.6


def customers_in_two_tables(seed):
    customers = make_customers(150, max_copies=2, random_state=seed)
    seen, side = set(), np.zeros(len(customers), dtype=int)
    for row, entity in enumerate(customers.entity.tolist()):
        side[row] = entity in seen
        seen.add(entity)
    tables = [
        {
            name: [value for value, k in zip(values, side, strict=True) if k == which]
            for name, values in customers.columns.items()
        }
        for which in (0, 1)
    ]
    return tables, [customers.entity[side == which] for which in (0, 1)]


def test_two_tables_without_labels_are_linked_one_to_one():
    (left, right), entities = customers_in_two_tables(1)
    entity = EntityClusterer().fit_predict(left, right)
    n_left = len(entities[0])
    assert len(entity) == n_left + len(entities[1])
    assert clustering_scores(np.concatenate(entities), entity).pairwise.f1 > 0.97
    assert len(set(entity[:n_left].tolist())) == n_left  # no two records of one table are together
    assert len(set(entity[n_left:].tolist())) == len(entities[1])


def test_labels_in_every_form_give_the_same_model(tmp_path):
    (left, right), (left_entity, right_entity) = customers_in_two_tables(2)
    settings = {"comparisons": {"last_name": "jaro_winkler", "email": "jaro_winkler"}}
    both = np.concatenate([left_entity, right_entity])
    row_of = {entity: row for row, entity in enumerate(left_entity.tolist())}
    matches = [(row_of[entity], row) for row, entity in enumerate(right_entity.tolist())]
    fits = [
        EntityClusterer(**settings).fit(left, both, right=right),
        EntityClusterer(**settings).fit(left, (left_entity, right_entity), right=right),
        EntityClusterer(**settings).fit(left, right, matches=matches),
        EntityClusterer(**settings).fit(
            left | {"e": left_entity.tolist()}, "e", right=right | {"e": right_entity.tolist()}
        ),
    ]
    assert all(fitted.weights_ == pytest.approx(fits[0].weights_) for fitted in fits)
    fits[0].save(tmp_path / "model.npz")
    loaded = intarsia.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(left, right), fits[0].predict(left, right))
    pairs = fits[0].predict_pairs(left, right)
    assert max(pairs["id1"]) < len(left_entity)
    assert max(pairs["id2"]) < len(right_entity)
    apart = fits[0].predict(left, right, cannot_link=[matches[0]])
    assert apart[matches[0][0]] != apart[len(left_entity) + matches[0][1]]


def test_errors_of_two_tables():
    (left, right), _ = customers_in_two_tables(3)
    with pytest.raises(InvalidInputError, match="the right table has no record with id 99999"):
        EntityClusterer().fit(left, right, matches=[(0, 99999)])
    with pytest.raises(InvalidInputError, match="matches= needs two tables"):
        EntityClusterer().fit(left, matches=[(0, 1)])
    with pytest.raises(InvalidInputError, match="edges= and a second table"):
        EntityClusterer().fit(left, right, edges={"id1": [0], "id2": [1], "score": [1.0]})
