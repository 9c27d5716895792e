"""Cluster worlds: changes of score, features and performance compared with their definitions, and undo."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.partitions import pair_table, slow_features, slow_performance

from intarsia.clusters import (
    ClusterModel,
    ClusterWorld,
    Move,
    PartitionMetric,
    SplitMerge,
    dense_pair_features,
    link_constraints,
    pair_features,
)
from intarsia.clusters import partition as partition_module
from intarsia.clusters import world as world_module
from intarsia.clusters.choices import choices_of
from intarsia.exceptions import InvalidInputError

EVERYTHING = ClusterModel(
    within="all", between=["f1"], between_mean=["f0"], between_exists={"f1": 0.1},
    mean="all", minimum="all", maximum=["f0"], exists={"f0": 0.4, "f1": -0.3},
    for_all=-0.5, sizes=(1, 2, 4), log_size=True, agreement="all", all_equal=["kind"],
    distinct="all", unknown="all", span=["year"], representative="all",
)  # fmt: skip
YEARS = np.where(np.arange(40) % 5 == 3, np.nan, 1990.0 + np.arange(40) * 7 % 11)
METRICS = ("pairwise_f1", "b_cubed_f1", "pair_accuracy")


def random_world(seed, n=9, share=0.6, model=EVERYTHING, **more):
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(n, 1)
    kept = rng.random(first.size) < share
    values = np.round(rng.normal(size=(int(kept.sum()), 2)), 1)  # rounded, so that extremes tie
    pairs = pair_features(n, np.stack([first[kept], second[kept]], axis=1), values)
    attributes = {"kind": rng.integers(-1, 2, n), "place": rng.integers(-1, 3, n)}
    truth = rng.integers(-1, 3, n)
    numbers = {"year": YEARS[:n]}
    world = ClusterWorld(pairs, model, attributes=attributes, numbers=numbers, truth=truth, **more)
    return world, attributes, truth


def check(world, attributes, truth, metric="pairwise_f1", model=EVERYTHING):
    numbers = {"year": YEARS[: world.n_sites]}
    expected = slow_features(world.pairs, model, world.labels, attributes, numbers)
    assert world.features() == pytest.approx(expected, abs=1e-9)
    assert world.performance() == pytest.approx(slow_performance(metric, truth, world.labels), abs=1e-12)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.2, 0.6, 1.0]), metric=st.sampled_from(METRICS))
def test_changes_equal_rescoring_and_undo_restores(seed, share, metric):
    proposer = SplitMerge(random=1, sequential=1, move_one=1)
    world, attributes, truth = random_world(seed, share=share, metric=metric, proposer=proposer)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=world.n_weights)
    states = []
    for _ in range(20):
        move = world.propose(rng, weights)
        if move is None:
            continue
        before, f_before = world.features(), world.performance()
        states.append((world.labels, before))
        change, better, gain = (
            world.feature_change(move),
            world.performance_change(move),
            world.score_change(move, weights),
        )
        world.apply(move)
        check(world, attributes, truth, metric)
        assert world.features() - before == pytest.approx(change, abs=1e-9)
        assert gain == pytest.approx(weights @ change)
        assert world.performance() - f_before == pytest.approx(better, abs=1e-12)
    assert states
    for labels, features in reversed(states):
        world.undo()
        assert world.labels.tolist() == labels.tolist()
        assert world.features() == pytest.approx(features, abs=1e-9)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_searches_keep_constraints_and_statistics(seed):
    n = 12
    rng = np.random.default_rng(seed)
    source = np.array([0, 1, 2, 3, 0, 1, 2, 3, -1, -1, -1, -1])
    links = link_constraints(n, must_link=[[0, 5], [5, 10]], cannot_link=[[0, 2], [8, 9]], source=source)
    proposer = SplitMerge(random=1, sequential=1, move_one=1)
    world, attributes, truth = random_world(seed, n=n, constraints=links, proposer=proposer)
    weights = rng.normal(size=world.n_weights)
    seen = set()
    for temperature in (5.0, 1.0, 0.0):
        world.search(weights, 300, rng, temperature)
        labels = world.labels
        seen.add(tuple(labels))
        assert labels[0] == labels[5] == labels[10]
        assert labels[0] != labels[2]
        assert labels[8] != labels[9]
        for s in range(4):
            assert len(set(labels[source == s])) == 2
        check(world, attributes, truth)
    world.reset()
    world.agglomerate(weights)
    links.check(world.labels)
    check(world, attributes, truth)
    assert len(seen) > 1


def test_extremes_of_some_columns():
    model = ClusterModel(minimum=["f1"], maximum=["f0"])
    world, attributes, truth = random_world(3, model=model, proposer=SplitMerge(random=1, move_one=1))
    rng, weights, moved = np.random.default_rng(0), np.zeros(world.n_weights), 0
    for _ in range(30):
        move = world.propose(rng, weights)
        if move is not None:
            world.apply(move)
            moved += 1
            check(world, attributes, truth, model=model)
    assert moved > 10


def test_dense_and_sparse_pairs_agree():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(8, 8, 2))
    values += values.transpose(1, 0, 2)
    dense = dense_pair_features(values)
    assert dense.complete
    assert pair_table(dense)[2, 5] == pytest.approx(values[2, 5])
    attributes = {"kind": rng.integers(0, 2, 8)}
    world = ClusterWorld(dense, ClusterModel(minimum="all", mean="all"), attributes=attributes)
    world.search(rng.normal(size=world.n_weights), 200, rng, 1.0)
    expected = slow_features(dense, ClusterModel(minimum="all", mean="all"), world.labels, attributes)
    assert world.features() == pytest.approx(expected, abs=1e-9)
    assert world.partition.n_clusters < 8


def test_a_record_with_many_partners_in_small_clusters():
    """Rows of partners much longer than a cluster are searched by bisection."""
    rng = np.random.default_rng(0)
    pairs = pair_features(60, [[0, j] for j in range(1, 60)], rng.normal(size=(59, 2)))
    world = ClusterWorld(pairs, ClusterModel(minimum="all"))
    world.apply(world.merge(0, 40))
    world.apply(world.merge(0, 7))
    expected = slow_features(pairs, ClusterModel(minimum="all"), world.labels, {})
    assert world.features() == pytest.approx(expected)


def test_agglomeration_takes_the_best_merge_first():
    """Pairs 0-1, 1-2 and 0-2 have scores 2, 1 and -5: the second merge would decrease the score."""
    pairs = pair_features(3, [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -5.0])
    world = ClusterWorld(pairs, ClusterModel(absent=False))
    assert world.agglomerate(np.ones(1)) == 1
    assert world.labels.tolist() == [0, 0, 1]
    world.reset()
    assert world.agglomerate(np.ones(1), min_gain=2.0) == 0


def test_one_record_and_no_pairs():
    world = ClusterWorld(pair_features(1, [], np.zeros((0, 2))), truth=[0])
    assert world.search(np.zeros(world.n_weights), 10, np.random.default_rng(0), 1.0)[0] == 0.0
    assert world.labels.tolist() == [0]
    assert world.performance() == 1.0
    apart = ClusterWorld(pair_features(3, [], np.zeros((0, 1))))
    apart.search(np.array([0.0, 1.0]), 50, np.random.default_rng(0), 0.0)
    assert apart.labels.tolist() == [0, 0, 0]  # this model rewards absent pairs


def test_unknown_truth_is_ignored():
    world, _, _ = random_world(0)
    known = ClusterWorld(world.pairs, truth=[0, 0, -1, 1, -1, -1, -1, -1, -1])
    assert known.performance_change(known.merge(0, 2)) == 0.0
    assert known.performance_change(known.merge(0, 1)) == 1.0


def test_user_defined_metrics():
    calls = []

    def agreement(truth, labels):
        calls.append(1)
        return float(np.mean(np.asarray(truth) == labels))

    world = ClusterWorld(pair_features(2, [[0, 1]], [1.0]), truth=[0, 0], metric=agreement)
    move = world.merge(0, 1)
    assert world.performance_change(move) == 0.5
    assert world.labels.tolist() == [0, 1]
    world.apply(move)
    assert world.performance() == 1.0
    assert calls

    class Broken(PartitionMetric):
        def value(self, truth, partition):
            raise RuntimeError("mine")

        def change(self, truth, partition, move):
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        ClusterWorld(world.pairs, truth=[0, 0], metric=Broken()).performance_change(move)


def test_a_metric_that_raises_leaves_the_clustering_unchanged():
    def fussy(truth, labels):
        if labels[1] == 0:
            raise ValueError("no")
        return 0.0

    world = ClusterWorld(pair_features(2, [[0, 1]], [1.0]), truth=[0, 0], metric=fussy)
    with pytest.raises(ValueError, match="no"):
        world.performance_change(world.merge(0, 1))
    assert world.labels.tolist() == [0, 1]


def test_bad_input():
    pairs = pair_features(3, [[0, 1]], [1.0])
    with pytest.raises(InvalidInputError, match=r"truth has shape \(2,\), but there are 3"):
        ClusterWorld(pairs, truth=[0, 1])
    with pytest.raises(InvalidInputError, match="Did you mean 'b_cubed_f1'"):
        ClusterWorld(pairs, truth=[0, 1, 2], metric="b_cubed")
    with pytest.raises(InvalidInputError, match="metric must be a name"):
        ClusterWorld(pairs, metric=3)
    with pytest.raises(InvalidInputError, match="Pass truth="):
        ClusterWorld(pairs).performance()
    with pytest.raises(InvalidInputError, match="no move to revert"):
        ClusterWorld(pairs).undo()
    with pytest.raises(InvalidInputError, match="expected 2 finite numbers"):
        ClusterWorld(pairs).score([1.0, np.nan])
    with pytest.raises(InvalidInputError, match="constraints are for 4 records"):
        ClusterWorld(pairs, constraints=link_constraints(4))
    with pytest.raises(InvalidInputError, match="records 0 and 1 must be together"):
        ClusterWorld(pairs, constraints=link_constraints(3, must_link=[[0, 1]]), start=[0, 1, 2])
    with pytest.raises(InvalidInputError, match="records 0 and 1 are together but must not"):
        ClusterWorld(pairs, constraints=link_constraints(3, cannot_link=[[1, 0]]), start=[0, 0, 2])
    with pytest.raises(InvalidInputError, match="records 0 and 2 are together but come from the same source"):
        ClusterWorld(pairs, constraints=link_constraints(3, source=[5, 6, 5]), start=[0, 0, 0])
    with pytest.raises(InvalidInputError, match="changes nothing"):
        ClusterWorld(pairs).apply(Move(np.array([0]), -1))
    linked = ClusterWorld(pairs, constraints=link_constraints(3, must_link=[[0, 1]]))
    assert not linked.is_allowed(Move(np.array([0]), -1))
    assert linked.is_allowed(linked.merge(0, 2))


def test_bad_models():
    pairs = pair_features(3, [[0, 1]], [1.0], ["name"])
    with pytest.raises(InvalidInputError, match="ClusterModel: minimum='nam' is not known"):
        ClusterWorld(pairs, ClusterModel(minimum=["nam"]))
    with pytest.raises(InvalidInputError, match="no feature is selected"):
        ClusterWorld(pairs, ClusterModel(within=None, absent=False))
    with pytest.raises(InvalidInputError, match="ClusterModel: sizes"):
        ClusterWorld(pairs, ClusterModel(sizes=(0,)))
    with pytest.raises(InvalidInputError, match="ClusterModel: exists"):
        ClusterWorld(pairs, ClusterModel(exists={"name": np.nan}))


def test_walks_do_not_depend_on_the_integer_type(monkeypatch):
    """Arrays of 32 and of 64 bits lead to the same clusterings; more than 2**31 pairs need the latter."""
    results = []
    for dtype in (np.int32, np.int64):
        monkeypatch.setattr(partition_module, "index_dtype", lambda n, dtype=dtype: dtype)
        monkeypatch.setattr(world_module, "index_dtype", lambda n, dtype=dtype: dtype)
        world = random_world(3, proposer=SplitMerge(random=1.0, sequential=1.0, move_one=1.0))[0]
        assert (world._state.partition.dtype, world._state.lists.dtype, world._world.near.dtype) == (dtype,) * 3
        rng, weights = np.random.default_rng(5), np.linspace(-1.0, 1.0, world.n_weights)
        gains = [world.search(weights, 20, rng, 1.0)[0] for _ in range(10)]
        results.append((gains, world.labels.tolist(), world.agglomerate(weights), world.labels.tolist()))
    assert results[0] == results[1]


def test_arrays_of_a_proposer_follow_its_settings_and_the_weights():
    """A search after a change of settings or weights equals that of a new world."""
    proposer = SplitMerge(random=1.0, sequential=1.0)
    world = random_world(3, proposer=proposer)[0]
    weights = np.linspace(-1.0, 1.0, world.n_weights)
    for changes in ({}, {"temperature": 4.0}, {"sequential": 5.0}, {"along_pairs": 0.2}, {}):
        proposer.set_params(**changes)
        weights *= -0.5  # in place: the arrays must not be those of the same object
        fresh = random_world(3, proposer=proposer)[0]
        world.reset()
        gains = [item.search(weights, 200, np.random.default_rng(6), 1.0)[0] for item in (world, fresh)]
        assert gains[0] == gains[1]
        assert world.labels.tolist() == fresh.labels.tolist()


def test_sequential_allocation_needs_scores():
    world = random_world(3, start=np.zeros(9, dtype=int))[0]
    weights, rng = np.ones(world.n_weights), np.random.default_rng(4)
    without, sequential = (
        SplitMerge(random=1.0, sequential=share).arrays(world.pairs, world.table, weights) for share in (0.0, 1.0)
    )
    smaller = random_world(3, n=5)[0]
    with pytest.raises(
        InvalidInputError, match=r"^ClusterWorld\.allocate: sequential=True .* has no sequential splits"
    ):
        world.allocate(rng, 0, 1, True, without)
    with pytest.raises(
        InvalidInputError, match=r"^ClusterWorld\.allocate: sequential=True .* has the scores of \d+ pairs"
    ):
        world.allocate(rng, 0, 1, True, SplitMerge(sequential=1.0).arrays(smaller.pairs, smaller.table, weights))
    choices = choices_of(world)
    with pytest.raises(InvalidInputError, match=r"sequential=True .* has no sequential splits"):
        world.try_choices(choices, np.zeros(1, dtype=np.int64), rng, True, without, weights)
    for proposer, is_sequential in ((without, False), (sequential, False), (sequential, True)):
        log_probability, records = world.allocate(rng, 0, 1, is_sequential, proposer)
        assert log_probability < 0
        assert 1 <= records.size <= 4
        assert (0 in records) + (1 in records) == 1  # the two records are on different sides


@pytest.mark.parametrize(
    ("i", "j", "message"),
    [
        (0, 0, "records 0 and 0 are the same"),
        (0, 2, "records 0 and 2 are joined by must-links"),
        (9, 1, "i"),
        (1, -1, "j"),
    ],
)
def test_allocation_needs_two_records_that_can_be_separated(i, j, message):
    world = random_world(3, constraints=link_constraints(9, must_link=[[0, 2]]), start=np.zeros(9, dtype=int))[0]
    proposer = SplitMerge().arrays(world.pairs, world.table, np.ones(world.n_weights))
    with pytest.raises(InvalidInputError, match=rf"^ClusterWorld\.allocate: {message}"):
        world.allocate(np.random.default_rng(0), i, j, False, proposer)


def test_kernels_keep_no_references():
    """Kernels that borrow their arguments must not leave references behind: memory would never be freed."""
    world = random_world(3, proposer=SplitMerge(random=1.0, sequential=1.0, move_one=1.0))[0]
    weights, rng = np.ones(world.n_weights), np.random.default_rng(4)

    def count_references():
        return [sys.getrefcount(item) for item in (rng, weights, *world._world, *world._state)]

    def use_kernels():
        for _ in range(5):
            move = world.propose(rng, weights)
            if move is not None:
                world.score_change(move, weights)
                world.apply(move)
            world.search(weights, 5, rng, 1.0)
            world.allocate(rng, 0, 1, True, world.proposer.arrays(world.pairs, world.table, weights))
            world.agglomerate(weights)
            world.refresh()

    use_kernels()
    before = count_references()
    use_kernels()
    assert count_references() == before
