"""`EntityClusterer`: predictions, settings, edges, files, and invalid input."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import intarsia
from intarsia.clusters.blocking import SharedTokens, SharedValues
from intarsia.clusters.cluster_model import ClusterModel, pair_features
from intarsia.clusters.comparisons import JaroWinkler
from intarsia.clusters.components import connected_components
from intarsia.clusters.decoding import DECODERS, Agglomeration
from intarsia.clusters.entity_clusterer import EntityClusterer
from intarsia.clusters.entity_worlds import cluster_model
from intarsia.clusters.threshold_clusterer import ThresholdClusterer
from intarsia.clusters.world import ClusterWorld
from intarsia.datasets import make_customers
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.learning import StructuredPerceptron
from intarsia.learning.sample_rank import SampleRank
from intarsia.metrics import clustering_scores
from intarsia.worlds import MetropolisHastings, decode

COMPARED = {
    "first_name": "jaro_winkler", "last_name": "jaro_winkler", "street": "token_overlap", "postcode": "exact",
    "birth_date": "date", "email": JaroWinkler(levels=()),
}  # fmt: skip


@pytest.fixture(scope="module")
def train():
    return make_customers(80, max_copies=4, typos=2.0, random_state=1)


@pytest.fixture(scope="module")
def test():
    return make_customers(60, max_copies=4, typos=2.0, random_state=2)


@pytest.fixture(scope="module")
def fitted(train):
    return EntityClusterer(COMPARED).fit(train.columns, train.entity)


EDGE_IDS = list("abcdefgh")
EDGES = {
    "id1": ["a", "b", "c", "d", "f", "g"],
    "id2": ["b", "c", "d", "e", "g", "h"],
    "score": [0.95, 0.2, 0.9, 0.15, 0.9, 0.1],
}
EDGE_TRUTH = [0, 0, 1, 1, 2, 3, 3, 4]


@pytest.fixture(scope="module")
def edge_model():
    return EntityClusterer().fit(EDGE_IDS, EDGE_TRUTH, edges=EDGES)


# ---------------------------------------------------------------- predictions


def test_better_than_components_with_the_same_pair_features(fitted, train, test):
    entity = fitted.predict(test.columns)
    ours = clustering_scores(test.entity, entity)
    baseline = ThresholdClusterer(COMPARED).fit(train.columns, train.entity).predict(test.columns)
    theirs = clustering_scores(test.entity, baseline)
    assert ours.b_cubed.f1 >= theirs.b_cubed.f1
    assert ours.pairwise.f1 >= theirs.pairwise.f1
    assert ours.b_cubed.f1 > 0.97
    assert fitted.score(test.columns, test.entity) == ours.b_cubed.f1


def test_every_table_gives_one_entity_per_row_in_order(fitted, test):
    entity = fitted.predict(test.columns)
    assert entity.shape == (len(test),)
    first = [int(np.flatnonzero(entity == k)[0]) for k in range(entity.max() + 1)]
    assert first == sorted(first)
    np.testing.assert_array_equal(fitted.predict(pd.DataFrame(test.columns)), entity)
    np.testing.assert_array_equal(fitted.predict(pl.DataFrame(test.columns)), entity)


def test_clustering_does_not_depend_on_the_order_of_rows(fitted, test):
    order = np.random.default_rng(0).permutation(len(test))
    entity, other = fitted.predict(test.columns), fitted.predict(test.take(order).columns)
    assert clustering_scores(entity[order], other).b_cubed.f1 > 0.99


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_predictions_do_not_depend_on_n_jobs(fitted, test, n_jobs):
    parallel = clone(fitted).set_params(n_jobs=n_jobs)
    for name in ("comparisons_", "feature_names_", "matcher_", "weights_", "decision_", "shift_"):
        setattr(parallel, name, getattr(fitted, name))
    np.testing.assert_array_equal(parallel.predict(test.columns), fitted.predict(test.columns))
    some = test.take(np.arange(40)).columns
    assert parallel.predict_pairs(some, n_samples=5) == fitted.predict_pairs(some, n_samples=5)


def test_same_seed_same_weights(fitted, train):
    again = EntityClusterer(COMPARED).fit(pd.DataFrame(train.columns), train.entity.tolist())
    assert again.weights_ == fitted.weights_
    assert fitted.history_["updates"].sum() > 0
    assert fitted.weights_["within match"] > 0


def test_probabilities_of_pairs(fitted, test):
    found = fitted.predict_pairs(test.columns, n_samples=20)
    same = test.entity[np.array(found["id1"])] == test.entity[np.array(found["id2"])]
    probability = np.array(found["probability"])
    assert probability.min() >= 0
    assert probability.max() <= 1
    assert probability[same].mean() > 0.9
    assert probability[~same].mean() < 0.1


def test_probabilities_against_enumeration(edge_model):
    """Three records in a chain have five clusterings, which the sampler must draw in proportion to exp(score)."""
    edges = {"id1": ["a", "b", "a"], "id2": ["b", "c", "c"], "score": [0.6, 0.45, 0.5]}
    found = edge_model.predict_pairs(["a", "b", "c"], edges=edges, n_samples=1000)
    odds = edge_model.matcher_.log_odds(np.array(edges["score"])[:, None])
    pairs = [[0, 1], [1, 2], [0, 2]]
    world = ClusterWorld(
        pair_features(3, pairs, np.column_stack([odds, np.ones(3)]), ["match", "pair"]), cluster_model(None, "match")
    )
    weight, together = {}, np.zeros(3)
    for labels in ([0, 1, 2], [0, 0, 1], [0, 1, 1], [0, 1, 0], [0, 0, 0]):
        world.reset(labels)
        weight[tuple(labels)] = np.exp(world.score(list(edge_model.weights_.values())))
    for labels, mass in weight.items():
        together += [mass * (labels[i] == labels[j]) for i, j in pairs]
    expected = together / sum(weight.values())
    by_pair = {
        pair: p
        for *pair, p in zip(found["id1"], found["id2"], found["probability"], strict=True)
        for pair in [tuple(pair)]
    }
    got = [by_pair[pair] for pair in (("a", "b"), ("b", "c"), ("a", "c"))]
    assert 0.02 < expected.min() < expected.max() < 0.98
    np.testing.assert_allclose(got, expected, atol=0.05)


# ---------------------------------------------------------------- settings


def test_guessed_comparisons_and_a_column_of_clusters(train, test):
    columns = {**train.columns, "person": train.entity.tolist(), "key": train.ids}
    model = EntityClusterer(id_column="key", source_column="source").fit(pd.DataFrame(columns), "person")
    compared = dict(model.comparisons_)
    assert not {"person", "key", "source"} & set(compared)
    assert compared["birth_date"].name == "date"
    found = model.predict({**test.columns, "key": test.ids})
    assert clustering_scores(test.entity, found).b_cubed.f1 > 0.95
    # At most one record of a source in each entity.
    seen = set(zip(found.tolist(), test.columns["source"], strict=True))
    assert len(seen) == len(test)


def test_unknown_labels(fitted, train, test):
    some = [None if k % 3 == 0 else int(e) for k, e in enumerate(train.entity)]
    partly = EntityClusterer(COMPARED).fit(train.columns, some)
    assert partly.score(test.columns, test.entity) > 0.95
    numbers = EntityClusterer(COMPARED).fit(train.columns, np.array([-1 if e is None else e for e in some]))
    assert numbers.weights_ == partly.weights_
    whole = partly.fit_predict(train.columns, some)
    assert whole.shape == (len(train),)


def test_links(fitted, test):
    entity = fitted.predict(test.columns)
    apart = next((i, j) for i in range(len(test)) for j in range(i) if entity[i] != entity[j])
    together = next((i, j) for i in range(len(test)) for j in range(i) if entity[i] == entity[j])
    changed = fitted.predict(test.columns, must_link=[apart], cannot_link=[together])
    assert changed[apart[0]] == changed[apart[1]]
    assert changed[together[0]] != changed[together[1]]


def test_settings_of_components(train, test):
    model = EntityClusterer(
        COMPARED,
        [SharedValues("postcode"), SharedTokens(["last_name", "email"])],
        SampleRank(update="perceptron", step_size=0.1, max_iter=1, n_proposals=5),
        model=ClusterModel(within="all", log_size=True),
        features="all",
        metric="pairwise_f1",
    )
    model.fit(train.columns, train.entity)
    assert "within postcode exact" in model.weights_
    assert "log size" in model.weights_
    assert model.n_iter_ == 1
    assert model.score(test.columns, test.entity) > 0.9
    for decoder in ("agglomeration", MetropolisHastings(n_proposals=50)):
        assert model.set_params(decoder=decoder).score(test.columns, test.entity) > 0.9
    with pytest.raises(InvalidInputError, match="decoder='beam' is not known"):
        model.set_params(decoder="beam").predict(test.columns)
    with pytest.raises(InvalidInputError, match="learner is a StructuredPerceptron"):
        EntityClusterer(COMPARED, learner=StructuredPerceptron()).fit(train.columns, train.entity)


def test_user_defined_metric(train):
    small = train.take(np.arange(30))

    def share_of_pairs(truth, labels):
        same = (truth[:, None] == truth) == (labels[:, None] == labels)
        return same.mean()

    learner = SampleRank(n_proposals=3, max_iter=1, step_size=0.01)
    model = EntityClusterer(COMPARED, learner=learner, metric=share_of_pairs).fit(small.columns, small.entity)
    assert model.history_["proposals"].sum() == 90

    def broken(truth, labels):
        raise ZeroDivisionError("no pairs")

    with pytest.raises(InvalidInputError, match="metric raised ZeroDivisionError: no pairs"):
        EntityClusterer(COMPARED, learner=learner, metric=broken).fit(small.columns, small.entity)
    with pytest.raises(InvalidInputError, match="metric='f1' is not known"):
        EntityClusterer(COMPARED, metric="f1").fit(small.columns, small.entity)


# ---------------------------------------------------------------- edges


def test_scored_pairs(edge_model):
    assert edge_model.predict(EDGE_IDS, edges=EDGES).tolist() == EDGE_TRUTH
    assert edge_model.comparisons_ == []
    # A record without a pair is a singleton; ids and tables can be of any type.
    frame = pl.DataFrame({"id_l": [3, 1], "id_r": [1, 2], "score": [0.92, 0.1]})
    assert edge_model.predict([1, 2, 3, 4], edges=frame).tolist() == [0, 1, 0, 2]
    assert EntityClusterer(id_column="pid").fit(
        {"pid": EDGE_IDS}, EDGE_TRUTH, edges=EDGES
    ).predict({"pid": ["x"]}, edges={"id1": [], "id2": [], "score": []}).tolist() == [0]  # fmt: skip
    with pytest.raises(InvalidInputError, match=r"fitted to edges. Pass edges="):
        edge_model.predict(EDGE_IDS)
    with pytest.raises(InvalidInputError, match="features weight, but the model was fitted to score"):
        edge_model.predict(EDGE_IDS, edges={"id1": ["a"], "id2": ["b"], "weight": [3]})
    with pytest.raises(InvalidInputError, match="row 0: there is no record with id 'a'"):
        edge_model.predict(["b", "c"], edges=EDGES)


def test_a_wrong_link_does_not_chain(edge_model):
    """Two groups of four with strong links; one pair between them is strong too, the other pairs are weak."""
    ids = list(range(8))
    pairs = [(i, j) for i in range(8) for j in range(i + 1, 8)]
    score = [0.95 if (i < 4) == (j < 4) or (i, j) == (3, 4) else 0.1 for i, j in pairs]
    edges = {"id1": [i for i, _ in pairs], "id2": [j for _, j in pairs], "score": score}
    assert edge_model.predict(ids, edges=edges).tolist() == [0] * 4 + [1] * 4
    assert connected_components(8, pairs, score, 0.5).max() == 0


# ---------------------------------------------------------------- bad input


def test_empty_tables(fitted):
    nothing = {name: [] for name in COMPARED}
    assert fitted.predict(nothing).tolist() == []
    assert fitted.predict_pairs(nothing) == {"id1": [], "id2": [], "probability": []}
    for model in (EntityClusterer(COMPARED), EntityClusterer()):
        with pytest.raises(InvalidInputError, match="there are no records"):
            model.fit(nothing, [])


def test_one_record(fitted, train):
    one = train.take(np.array([0]))
    assert fitted.predict(one.columns).tolist() == [0]
    assert EntityClusterer(COMPARED).fit(one.columns, [7]).predict(one.columns).tolist() == [0]


def test_all_records_identical(fitted):
    same = {name: [value] * 300 for name, value in
            {"first_name": "Ann", "last_name": "Lee", "street": "1 Mill Lane", "postcode": "12345",
             "birth_date": "2001-02-03", "email": "ann@example.org"}.items()}  # fmt: skip
    assert set(fitted.predict(same).tolist()) == {0}
    learned = EntityClusterer(COMPARED).fit(same, [1] * 300)
    assert set(learned.predict(same).tolist()) == {0}


def test_equal_rows_are_one_record(fitted):
    """Copies of a row do not make its words frequent; only a cannot-link or a source separates them."""
    row = {"first_name": "Ann", "last_name": "Lee", "street": "1 Mill Lane", "postcode": "12345",
           "birth_date": "2001-02-03", "email": "ann.lee@example.org"}  # fmt: skip
    columns = {name: [value] * 100 for name, value in row.items()}
    columns["last_name"][7] = "Leee"
    assert set(fitted.predict(columns).tolist()) == {0}
    pairs = fitted.predict_pairs(columns, n_samples=5)
    assert len(pairs["id1"]) == 99
    assert pairs["probability"].count(1.0) >= 98
    parted = fitted.predict(columns, cannot_link=[(3, 5)])
    assert parted[3] != parted[5]
    assert len(set(parted.tolist())) == 2


def test_missing_values_everywhere(fitted):
    nothing = {name: [None] * 3 for name in COMPARED}
    assert fitted.predict(nothing).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("records", "clusters", "message"),
    [
        ({"id": ["x", "x"], "name": ["a", "b"]}, [0, 1], "id 'x' is in row 0 and in row 1"),
        ({"id": ["x", "y"], "name": ["a", "b"]}, [0], "there are 2 records, but 1 clusters"),
        ({"id": ["x", "y"], "name": ["a", "b"]}, [None, -1], "no record has a known cluster"),
        ({"id": ["x", "y"], "name": ["a", "b"]}, "entity", "column='entity' is not known"),
        ({"id": ["x", "y"], "nam": ["a", "b"]}, [0, 1], "column='name' is not known"),
        ({"id": ["x", "y"], "name": ["a"]}, [0, 1], "column 'id' has 2 values, but 'name' has 1"),
        (7, [0], "records are of type int"),
    ],
)
def test_bad_records(records, clusters, message):
    with pytest.raises(InvalidInputError, match=message):
        EntityClusterer({"name": "exact"}, id_column="id").fit(records, clusters)


def test_contradictory_links(fitted, test):
    with pytest.raises(InvalidInputError, match="0 and 2 must not be together, but must-links join them"):
        fitted.predict(test.columns, must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2)])
    with pytest.raises(InvalidInputError, match="must_link, row 0: there is no record with id 'c999'"):
        fitted.predict(test.columns, must_link=[("c999", 0)])


@pytest.mark.parametrize(
    "settings", [{"features": "some"}, {"l2": 0}, {"metric": "f1"}, {"n_jobs": 0}, {"comparisons": {"name": "jw"}}]
)
def test_bad_settings(settings, train):
    with pytest.raises(InvalidInputError, match=next(iter(settings)).rstrip("s")):
        EntityClusterer(**{"comparisons": COMPARED} | settings).fit(train.columns, train.entity)


# ---------------------------------------------------------------- files


def test_saved_and_loaded(fitted, test, tmp_path):
    fitted.save(tmp_path / "m.npz", notes={"from": "here"})
    back = EntityClusterer.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(back.predict(test.columns), fitted.predict(test.columns))
    assert back.weights_ == fitted.weights_
    assert intarsia.load(tmp_path / "m.npz").weights_ == fitted.weights_
    assert back.notes_ == {"from": "here"}
    assert back.get_params(deep=False).keys() == fitted.get_params(deep=False).keys()
    assert repr(back.comparisons) == repr(fitted.comparisons)
    back.save(tmp_path / "again.npz", notes={"from": "here"})
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "m.npz").read_bytes()


def test_saved_with_all_settings(train, test, tmp_path):
    model = EntityClusterer(
        {"last_name": ["exact", JaroWinkler(levels=(0.8,))], "email": "exact"},
        [SharedValues(("postcode",)), "shared_tokens"],
        SampleRank(max_iter=1, n_proposals=2),
        model=ClusterModel(within="all", exists={"match": 1.0}),
        features="all",
        edge_ids=("a", "b"),
        decoder=Agglomeration(min_gain=0.5),
        random_state=None,
    ).fit(train.columns, train.entity)
    model.save(tmp_path / "m.npz")
    back = EntityClusterer.load(tmp_path / "m.npz")
    assert repr(back) == repr(model)
    assert back.set_params(random_state=3).predict(test.columns).shape == (len(test),)


def test_damaged_files(fitted, tmp_path):
    path = tmp_path / "m.npz"
    fitted.save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        changed = bytearray(content)
        for k in rng.integers(len(content), size=3):
            changed[k] = rng.integers(256)
        path.write_bytes(changed)
        try:
            EntityClusterer.load(path)
        except FileFormatError:
            refused += 1
    assert refused > 30
    path.write_bytes(content[:500])
    with pytest.raises(FileFormatError):
        EntityClusterer.load(path)


@pytest.mark.parametrize("decoder", DECODERS.names)
def test_a_world_of_one_record_is_decoded(decoder):
    world = ClusterWorld(pair_features(1, [], np.empty((0, 1)), ["match"]), ClusterModel(absent=False))
    assert decode(world, [1.0], decoder).labels.tolist() == [0]


PEOPLE = {"name": ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays"], "town": ["Rye", "Rye", "Ayr", "Ayr"]}


@pytest.mark.parametrize(
    "change",
    [{"comparisons": {"name": "exact"}}, {"features": "all"}, {"model": ClusterModel(absent=False)}],
    ids=["comparisons", "features", "model"],
)
def test_settings_of_the_model_cannot_change_after_fit(change, tmp_path):
    fitted = EntityClusterer({"name": "jaro_winkler"}, "all_pairs").fit(X=PEOPLE, y=[0, 0, 1, 1])
    fitted.save(tmp_path / "model.npz")
    (name,) = change
    for model in (fitted, intarsia.load(tmp_path / "model.npz")):
        before = model.predict(PEOPLE)
        with pytest.raises(InvalidInputError, match=rf"EntityClusterer\.predict: {name} was changed after fit"):
            clone_settings(model, change).predict(PEOPLE)
        with pytest.raises(InvalidInputError, match=f"{name} was changed after fit"):
            clone_settings(model, change).predict_pairs(PEOPLE)
        np.testing.assert_array_equal(model.predict(PEOPLE), before)


def clone_settings(model, change):
    """Return a fitted model with one setting changed."""
    return copy.copy(model).set_params(**change)


def test_random_state_can_be_a_generator():
    fitted = EntityClusterer({"name": "jaro_winkler"}, "all_pairs").fit(PEOPLE, [0, 0, 1, 1])
    expected = fitted.predict_pairs(PEOPLE, n_samples=20)
    assert fitted.set_params(random_state=np.random.default_rng(0)).predict_pairs(PEOPLE, n_samples=20) == expected
    with pytest.raises(InvalidInputError, match="random_state must be"):
        fitted.set_params(random_state="0").predict(PEOPLE)
