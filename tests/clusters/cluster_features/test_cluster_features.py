"""Features of clusters: incremental values against recomputation, user-written ones, training, files and errors."""

from __future__ import annotations

import numpy as np
import pytest

import intarsia
from intarsia.clusters import (
    AllEqual,
    ClusterFeature,
    ClusterModel,
    DistinctValues,
    EntityClusterer,
    NoKnownValue,
    PairAggregate,
    Span,
    SplitMerge,
    decode,
    pair_features,
)
from intarsia.clusters.cluster_features.feature_world import FeatureWorld, feature_names, make_feature_world
from intarsia.datasets import make_customers
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.metrics import clustering_scores


class Spread(ClusterFeature):
    """Span of the years, and half the number of missing ones, in Python."""

    name = "spread"
    columns = ("year",)

    def value(self, columns):
        present = [value for value in columns["year"] if value is not None]
        return (max(present) - min(present) if present else 0.0) + 0.5 * (len(columns["year"]) - len(present))


BUILT_IN = [
    AllEqual("town"),
    DistinctValues("town"),
    NoKnownValue("town"),
    Span("year"),
    PairAggregate("representative", "f0"),
]


def make_world(seed, features, n=10):
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(n, 1)
    listed = rng.random(first.size) < 0.5
    pairs = pair_features(n, np.stack([first[listed], second[listed]], axis=1), rng.normal(size=(listed.sum(), 1)))
    columns = {
        "year": [None if rng.random() < 0.2 else int(rng.integers(1990, 1996)) for _ in range(n)],
        "town": [None if rng.random() < 0.2 else "abc"[int(rng.integers(3))] for _ in range(n)],
    }
    proposer = SplitMerge(random=1, sequential=1, move_one=1)
    truth = rng.integers(0, 4, n)
    world = make_feature_world(pairs, ClusterModel(absent=True), features, columns, truth=truth, proposer=proposer)
    return world, columns


def recomputed(world, columns, feature):
    clusters = [np.flatnonzero(world.labels == label) for label in np.unique(world.labels)]
    return sum(feature.value({name: [columns[name][r] for r in cluster] for name in columns}) for cluster in clusters)


@pytest.mark.parametrize("seed", range(8))
def test_incremental_values_equal_recomputation_after_random_moves(seed):
    features = [*BUILT_IN, Spread()]
    world, columns = make_world(seed, features)
    assert isinstance(world, FeatureWorld)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=world.n_weights)
    names = list(world.feature_names)
    assert tuple(names) == feature_names(ClusterModel(absent=True), world.pairs.names, features)
    for _ in range(30):
        move = world.propose(rng, weights)
        if move is None:
            continue
        before = world.features()
        change = world.feature_change(move)
        world.apply(move)
        assert world.features() - before == pytest.approx(change, abs=1e-9)
        for feature in (*BUILT_IN[:3], Spread()):
            expected = recomputed(world, columns, feature)
            assert world.features()[names.index(feature.label)] == pytest.approx(expected, abs=1e-9)
        if rng.random() < 0.3:
            world.undo()
            assert world.features() == pytest.approx(before, abs=1e-9)


@pytest.mark.parametrize("decoder", ["agglomeration", "hill_climbing"])
def test_python_loops_find_what_compiled_loops_find(decoder):
    class SameSpan(ClusterFeature):
        """Span in Python."""

        name = "same span"
        columns = ("year",)

        def value(self, columns):
            return Span("year").value(columns)

    for seed in range(5):
        compiled, _ = make_world(seed, [Span("year")])
        written, _ = make_world(seed, [SameSpan()])
        weights = np.array([2.0, -0.3, -0.4])
        expected = decode(compiled, weights, decoder)
        assert decode(written, weights, decoder).score == pytest.approx(expected.score, abs=0.5)
        if decoder == "agglomeration":
            assert decode(written, weights, decoder).labels.tolist() == expected.labels.tolist()


COMPARISONS = {"first_name": "jaro_winkler", "last_name": "jaro_winkler", "city": "exact"}


@pytest.fixture(scope="module")
def customers():
    return make_customers(60, max_copies=3, typos=2.0, random_state=1), make_customers(40, max_copies=3, random_state=2)


class Initials(ClusterFeature):
    """Number of distinct initials beyond the first."""

    name = "initials"
    columns = ("last_name",)

    def value(self, columns):
        return float(max(len({value[:1] for value in columns["last_name"] if value}) - 1, 0))


def test_estimator_learns_weights_of_cluster_features(customers, tmp_path):
    train, test = customers
    features = [DistinctValues("birth_date"), Initials()]
    fitted = EntityClusterer(COMPARISONS, cluster_features=features).fit(train.columns, train.entity)
    assert {"distinct birth_date", "initials"} <= set(fitted.weights_)
    assert clustering_scores(test.entity, fitted.predict(test.columns)).b_cubed.f1 > 0.7
    with pytest.raises(InvalidInputError, match="Initials cannot be saved"):
        fitted.save(tmp_path / "model.npz")


def test_built_in_features_are_saved(customers, tmp_path):
    train, test = customers
    features = [DistinctValues("birth_date"), AllEqual("city"), PairAggregate("between")]
    fitted = EntityClusterer(COMPARISONS, cluster_features=features).fit(train.columns, train.entity)
    fitted.save(tmp_path / "model.npz")
    loaded = intarsia.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(test.columns), fitted.predict(test.columns))
    assert loaded.weights_ == fitted.weights_
    assert loaded.decision_ == fitted.decision_


def test_errors_name_the_feature(customers):
    class Broken(ClusterFeature):
        """Feature that fails."""

        name = "broken"
        columns = ("city",)

        def value(self, columns):
            return 1 / 0

    train, _ = customers
    with pytest.raises(InvalidInputError, match="cluster feature 'broken' raised ZeroDivisionError"):
        EntityClusterer(COMPARISONS, cluster_features=[Broken()]).fit(train.columns, train.entity)
    with pytest.raises(InvalidInputError, match="expected ClusterFeature objects"):
        EntityClusterer(COMPARISONS, cluster_features=["span"]).fit(train.columns, train.entity)
    with pytest.raises(InvalidInputError, match="twice"):
        EntityClusterer(COMPARISONS, cluster_features=[Span("x"), Span("x")]).fit(train.columns, train.entity)
    with pytest.raises(InvalidInputError, match="birth_dat"):
        EntityClusterer(COMPARISONS, cluster_features=[Span("birth_dat")]).fit(train.columns, train.entity)


def test_an_aggregate_of_pairs_has_no_value_of_columns():
    with pytest.raises(NotSupportedError, match="Use it in an EntityClusterer"):
        PairAggregate("mean").value({"name": ["Ann", "Bob"]})


class Total(ClusterFeature):
    """Sum of the years, which changes by the years that move."""

    name = "total"
    columns = ("year",)

    def value(self, columns):
        return float(sum(value or 0 for value in columns["year"]))

    def change(self, value, moved, rest, is_added):
        assert len(rest["year"]) > 0
        return self.value(moved) if is_added else -self.value(moved)


class WrongTotal(Total):
    """Sum whose change forgets that records can leave."""

    name = "wrong total"

    def change(self, value, moved, rest, is_added):
        return self.value(moved)


class SometimesTotal(Total):
    """Sum that computes only the changes of single records."""

    name = "sometimes"

    def change(self, value, moved, rest, is_added):
        return super().change(value, moved, rest, is_added) if len(moved["year"]) == 1 else None


@pytest.mark.parametrize("seed", range(3))
def test_changes_of_written_features_equal_recomputation(seed):
    world, _ = make_world(seed, [Total(), Spread(), SometimesTotal()])
    rng, weights = np.random.default_rng(seed), np.zeros(world.n_weights)
    for _ in range(120):
        move = world.propose(rng, weights)
        if move is None:
            continue
        before, change = world.features(), world.feature_change(move)
        world.apply(move)
        incremental = world.features()
        np.testing.assert_allclose(incremental, before + change, atol=1e-6)
        world.refresh()
        np.testing.assert_allclose(world.features(), incremental, atol=1e-6)


def test_a_wrong_change_is_named():
    world, _ = make_world(0, [Total(), WrongTotal()])
    rng, weights = np.random.default_rng(0), np.zeros(world.n_weights)
    with pytest.raises(InvalidInputError, match=r"'wrong total': change gives .* left .* but value gives .*Correct"):
        world.search(weights, 50, rng, 1.0)

    class Broken(Total):
        name = "broken"

        def change(self, value, moved, rest, is_added):
            return rest["nothing"]

    broken_world, _ = make_world(0, [Broken()])
    with pytest.raises(InvalidInputError, match=r"'broken' raised KeyError.*Correct its method change"):
        broken_world.search(np.zeros(broken_world.n_weights), 50, rng, 1.0)
