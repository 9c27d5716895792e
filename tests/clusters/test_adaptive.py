"""The adaptive proposer: features and probabilities by enumeration, gradient by differences, benefit of learning."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import check_grad
from tests.oracles.partitions import all_partitions, canonical, clusters_of, pair_table, slow_features

from intarsia import SampleRank
from intarsia.clusters import (
    AdaptiveSplitMerge,
    CEMDecode,
    ClusterModel,
    ClusterWorld,
    Move,
    ProposalWeights,
    SplitMerge,
    choices_of,
    decode,
    dense_pair_features,
    link_constraints,
    pair_features,
)
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.worlds.log_linear_choice import cross_entropy

PLAIN = ClusterModel(absent=False)


def small_world(n=5, seed=0, share=0.7, **more):
    rng = np.random.default_rng(seed)
    every = np.array(list(itertools.combinations(range(n), 2)))
    kept = rng.random(len(every)) < share
    return ClusterWorld(pair_features(n, every[kept], rng.normal(size=(int(kept.sum()), 2))), **more)


def document(n=30, n_entities=8, noise=1.0, seed=0, **more):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_entities, n)
    values = np.where((truth[:, None] == truth)[:, :, None], 0.75, -0.75) + noise * rng.normal(size=(n, n, 3))
    return ClusterWorld(dense_pair_features((values + values.transpose(1, 0, 2)) / 2), PLAIN, truth=truth, **more)


def test_gradient_of_the_cross_entropy():
    rng = np.random.default_rng(0)
    features, counts = rng.normal(size=(7, 3)), rng.random(7)
    for _ in range(5):
        at = rng.normal(size=3)
        given = (features, counts, 0.3)
        assert (
            check_grad(lambda w, *g: cross_entropy(w, *g)[0], lambda w, *g: cross_entropy(w, *g)[1], at, *given) < 1e-6
        )
    empty = cross_entropy(np.ones(3), np.zeros((0, 3)), np.zeros(0), 0.5)
    assert empty[0] == 0.75
    assert empty[1].tolist() == [0.5] * 3


@pytest.mark.parametrize("seed", range(5))
def test_choices_and_their_features_equal_naive_loops(seed):
    world = small_world(n=8, seed=seed, share=0.5, start=np.random.default_rng(seed).integers(0, 4, 8))
    found, listed = choices_of(world), pair_table(world.pairs)
    number = {frozenset(world.partition.members(c).tolist()): c for c in world.partition.clusters}
    groups = clusters_of(world.labels)

    def describe(couples):
        rows = np.array([listed.get(tuple(sorted(pair)), np.zeros(2)) for pair in couples])
        absent = np.mean([tuple(sorted(pair)) not in listed for pair in couples])
        return np.concatenate([rows.mean(0), rows.min(0), rows.max(0), [absent, np.log(len(couples))]])

    splits = {number[frozenset(g)]: describe(list(itertools.combinations(g, 2))) for g in groups if len(g) > 1}
    assert found.splits.tolist() == sorted(splits)
    for k, c in enumerate(found.splits):
        assert found.split_features[k] == pytest.approx(splits[int(c)])
    merges = {}
    for g, h in itertools.combinations(groups, 2):
        couples = list(itertools.product(g, h))
        if any(tuple(sorted(pair)) in listed for pair in couples):
            merges[tuple(sorted((number[frozenset(g)], number[frozenset(h)])))] = describe(couples)
    assert [tuple(pair) for pair in found.merges.tolist()] == sorted(merges)
    for k, pair in enumerate(found.merges.tolist()):
        assert found.merge_features[k] == pytest.approx(merges[tuple(pair)])


def some_weights(world, seed=0, beta=0.4):
    rng = np.random.default_rng(seed)
    n = 3 * world.pairs.n_features + 2
    return ProposalWeights(0.4 * rng.normal(size=n), 0.4 * rng.normal(size=n), beta)


def chances(world, weights):
    """Probability of proposing each clustering from the current one with random allocation, by enumeration."""
    choices, found = choices_of(world), {}
    splits, merges = (np.exp(part) for part in choices.log_probabilities(weights))
    labels = world.labels
    for chance, c in zip(splits, choices.splits, strict=True):
        members = world.partition.members(int(c)).tolist()
        for i, j in itertools.combinations(members, 2):
            others = [r for r in members if r not in (i, j)]
            for sides in itertools.product((0, 1), repeat=len(others)):
                new = labels.copy()
                new[[j, *[r for r, side in zip(others, sides, strict=True) if side]]] = 99
                share = chance / len(list(itertools.combinations(members, 2))) / 2 ** len(others)
                found[canonical(new)] = found.get(canonical(new), 0.0) + share
    for chance, (a, b) in zip(merges, choices.merges, strict=True):
        new = labels.copy()
        new[world.partition.members(int(b))] = labels[world.partition.members(int(a))[0]]
        found[canonical(new)] = found.get(canonical(new), 0.0) + chance
    return found


def test_forward_and_backward_probabilities_of_moves():
    world = small_world(n=4, seed=2, share=1.0)
    proposer, weights, rng = AdaptiveSplitMerge(), some_weights(world), np.random.default_rng(0)
    table = {}
    for labels in all_partitions(4):
        world.reset(labels)
        table[labels] = chances(world, weights)
        assert sum(table[labels].values()) == pytest.approx(1.0)
    for labels, expected in table.items():
        world.reset(labels)
        choices, counts = choices_of(world), {}
        for draw in proposer.draw(world, choices, weights, rng, 100):
            ratio = proposer.log_ratio(world, draw, choices, weights)
            assert world.labels.tolist() == list(labels)
            world.apply(draw.move)
            there = tuple(world.labels.tolist())
            world.undo()
            counts[there] = counts.get(there, 0) + 1
            assert ratio == pytest.approx(np.log(table[there][labels] / expected[there]))
        for there, chance in expected.items():
            assert counts.get(there, 0) / 100 == pytest.approx(chance, abs=5 * np.sqrt(0.25 / 100))


def test_metropolis_hastings_with_sequential_allocation():
    world = small_world(n=4, seed=1, share=1.0, model=ClusterModel(absent=False, sizes=(1,)))
    theta = np.array([0.5, -0.4, 0.6])
    scores = np.array([theta @ slow_features(world.pairs, ClusterModel(absent=False, sizes=(1,)), np.array(labels), {})
                       for labels in all_partitions(4)])  # fmt: skip
    expected = np.exp(scores) / np.exp(scores).sum()
    proposer, weights, rng = AdaptiveSplitMerge(allocation="sequential"), some_weights(world), np.random.default_rng(0)
    counts = dict.fromkeys(all_partitions(4), 0)
    n_samples = 3000
    for _ in range(n_samples):
        choices = choices_of(world)
        (draw,) = proposer.draw(world, choices, weights, rng, 1, theta)
        log_ratio = proposer.log_ratio(world, draw, choices, weights)
        if np.log(rng.random()) < world.score_change(draw.move, theta) + log_ratio:
            world.apply(draw.move)
        counts[tuple(world.labels.tolist())] += 1
    assert np.abs(np.array(list(counts.values())) / n_samples - expected).sum() < 0.2


def test_constraints_are_satisfied():
    links = link_constraints(6, must_link=[[0, 1]], cannot_link=[[2, 3]])
    world = small_world(n=6, share=1.0, constraints=links, start=[0, 0, 1, 2, 2, 2])
    choices, rng = choices_of(world), np.random.default_rng(0)
    assert choices.splits.tolist() == [2]  # 0 and 1 must stay together
    drawn = AdaptiveSplitMerge().draw(world, choices, AdaptiveSplitMerge().initial(world), rng, 200)
    for draw in drawn:
        if draw.move is None:
            continue
        world.apply(draw.move)
        links.check(world.labels)
        world.undo()
    assert any(draw.move is None for draw in drawn)


def test_only_one_kind_of_move_is_possible():
    world = small_world(n=3, share=1.0)
    choices = choices_of(world)
    assert choices.split_probability(0.3) == 0.0
    world.reset([0, 0, 0])
    assert choices_of(world).split_probability(0.3) == 1.0
    alone = ClusterWorld(pair_features(1, [], np.zeros((0, 1))), PLAIN)
    assert decode(alone, [1.0], "cem_decode").labels.tolist() == [0]


def test_the_wrong_cluster_is_proposed():
    """If two true clusters are merged, the learned proposer splits this cluster far more often than the others."""
    world = document(seed=3)
    labels = np.array(world.truth)
    labels[labels == 1] = 0
    world.reset(labels)
    proposer, rng = (
        AdaptiveSplitMerge(beta=1.0, n_samples=100, max_iter=10, allocation="sequential"),
        np.random.default_rng(0),
    )
    learned, _, _ = proposer.learn(world, proposer.initial(world), rng, model=np.ones(3))
    choices = choices_of(world)
    chance = np.exp(choices.log_probabilities(learned)[0])[
        choices.splits == world.partition.cluster_of(int(np.argmax(labels == 0)))
    ]
    assert chance[0] > 3.0 / choices.splits.size


@pytest.mark.parametrize("sequential", [False, True])
def test_values_of_sampled_moves(sequential):
    """Values of choices from the kernel equal those of the moves; forbidden choices have the value -inf."""
    links = link_constraints(7, must_link=[[0, 1]], cannot_link=[[2, 3]])
    truth = [0, 0, 0, 1, 1, 1, 2]
    world = small_world(n=7, share=1.0, constraints=links, start=[0, 0, 1, 2, 2, 2, 0], truth=truth)
    theta, rng = np.array([0.5, -1.0, 0.0]), np.random.default_rng(0)
    proposer, choices = AdaptiveSplitMerge(allocation="sequential" if sequential else "random"), choices_of(world)
    kernel = proposer._kernel_proposer(world, theta)
    for k in range(choices.splits.size + len(choices.merges)):
        before = world.labels.tolist()
        for score in (None, theta):
            values, move = world.try_choices(choices, np.array([k]), rng, sequential, kernel, score)
            if move is None:
                pair = choices.merges[k - choices.splits.size]
                assert sorted(before[int(world.partition.members(int(slot))[0])] for slot in pair) == [1, 2]
                assert values[0] == -np.inf
                continue
            expected = world.performance_change(move) if score is None else world.score_change(move, theta)
            assert values[0] == pytest.approx(expected)
            world.apply(move)
            links.check(world.labels)
            if k < choices.splits.size:
                assert world.partition.n_clusters == 4
            world.undo()
    values, move = world.try_choices(choices, np.repeat(np.arange(5), 20), rng, sequential, kernel, theta)
    assert world.score_change(move, theta) == pytest.approx(values.max())


def test_best_of_random_moves():
    """The best draw has the highest value of all moves that are allowed, by F and by the score."""
    links = link_constraints(5, cannot_link=[[2, 3]])
    world = small_world(n=5, share=1.0, constraints=links, start=[0, 0, 0, 1, 2], truth=[0, 0, 1, 1, 2])
    theta, rng = np.array([0.5, -1.0, 0.0]), np.random.default_rng(0)
    arrays = SplitMerge().arrays(world.pairs, world.table, theta)
    moves = [world.merge(3, 4), world.merge(0, 4), *(Move(np.array([record])) for record in range(3))]
    for score in (None, theta):
        values = [world.performance_change(m) if score is None else world.score_change(m, theta) for m in moves]
        move, value = world.best_draw(500, rng, arrays, score)
        assert value == pytest.approx(max(values))
        assert value == pytest.approx(
            world.performance_change(move) if score is None else world.score_change(move, theta)
        )
        assert world.is_allowed(move)
    values = [world.best_draw(1, rng, arrays)[1] for _ in range(200)]
    assert min(values) == -np.inf  # the merge that a cannot-link forbids is drawn, and has no value
    assert world.best_draw(0, rng, arrays) == (None, -np.inf)
    single = ClusterWorld(pair_features(1, np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2))), truth=[0])
    assert single.best_draw(5, rng, arrays) == (None, -np.inf)


def test_a_user_defined_metric_gives_the_same_proposals():
    def f1(truth, labels):
        together, true = (given[:, None] == given for given in (labels, truth))
        both = np.triu(together & true, 1).sum()
        return 2.0 * both / (np.triu(together, 1).sum() + np.triu(true, 1).sum())

    proposer, found = AdaptiveSplitMerge(max_iter=2, n_samples=20), []
    for metric in ("pairwise_f1", f1):
        world = document(n=8, n_entities=3, noise=0.3)
        world = ClusterWorld(world.pairs, PLAIN, truth=world.truth, metric=metric)
        # Singletons allow merges only, so that both metrics use the same random numbers.
        learned, _, value = proposer.learn(world, proposer.initial(world), np.random.default_rng(0))
        found.append((value, learned.merge))
    assert found[0][0] == pytest.approx(found[1][0])
    assert found[0][1].shape == found[1][1].shape


def test_learning_starts_at_zero():
    """Parameters that were never reset would collapse to a few moves."""
    proposer, found = AdaptiveSplitMerge(max_iter=1, learn_every=1), []
    for kept in (None, 100.0):
        world = document(n=6, n_entities=2, noise=0.0)
        if kept is not None:
            start = proposer.initial(world)
            world.memory[id(proposer)] = (ProposalWeights(start.split + kept, start.merge + kept, 0.5), 1)
        proposer.propose(world, np.random.default_rng(0))
        found.append(world.memory[id(proposer)][0].merge)
    np.testing.assert_array_equal(*found)


def test_probability_of_splits_is_learned():
    world = document()
    proposer = AdaptiveSplitMerge(learn_beta=True, max_iter=5)
    rng = np.random.default_rng(0)
    world.reset(np.zeros(world.n_sites))
    apart = [j for j in range(world.n_sites) if world.truth[j] != world.truth[0]]
    world.reset([int(j in apart) for j in range(world.n_sites)])  # only splits remain to improve it
    learned, _, _ = proposer.learn(world, proposer.initial(world), rng)
    assert learned.beta > 0.6
    fixed, _, _ = AdaptiveSplitMerge(max_iter=5).learn(world, proposer.initial(world), rng)
    assert fixed.beta == 0.5


def jumps_needed(adapt, seed):
    world = document(seed=1)
    proposer = AdaptiveSplitMerge(adapt=adapt, max_iter=5)
    for k, _ in enumerate(CEMDecode(proposer=proposer, patience=300, max_iter=300).jumps(
        world, None, np.random.default_rng(seed), by="performance"
    )):  # fmt: skip
        if world.performance() > 0.95:
            return k + 1
    return 300


def test_other_worlds_are_rejected():
    with pytest.raises(InvalidInputError, match="choices_of: expected a ClusterWorld, got a dict"):
        choices_of({})
    with pytest.raises(InvalidInputError, match=r"CEMDecode\.jumps: expected a World, got a dict"):
        next(CEMDecode().jumps({}, None, np.random.default_rng(0)))


def test_adapting_needs_fewer_jumps():
    adaptive, uniform = (np.mean([jumps_needed(adapt, seed) for seed in range(2)]) for adapt in (True, False))
    assert adaptive < 0.75 * uniform


def test_learned_proposals_need_fewer_jumps_where_most_moves_change_nothing():
    """With one true pair among many records nearly all merges have the same F, which must not fill the elite."""
    found = []
    for adapt in (True, False):
        for seed in range(4):
            world = document(n=40, n_entities=25, noise=0.3, seed=seed)
            proposer = AdaptiveSplitMerge(adapt=adapt, max_iter=5)
            learned, _, _ = proposer.learn(world, proposer.initial(world), np.random.default_rng(seed))
            choices = choices_of(world)
            chance = np.exp(choices.log_probabilities(learned)[1])
            right = world.truth[choices.merges[:, 0]] == world.truth[choices.merges[:, 1]]
            found.append(float(chance[right].sum()))
    assert min(found[:4]) > 3.0 * max(found[4:])


def test_decoding_reaches_the_score_of_annealing():
    world = document(n=12, n_entities=4, noise=0.5)
    best = decode(world, np.ones(3), "metropolis_hastings")
    found = decode(world, np.ones(3), CEMDecode(proposer=AdaptiveSplitMerge(learn_every=1, max_iter=5)))
    assert found.score == pytest.approx(best.score)
    assert found.labels.tolist() == best.labels.tolist()


def test_ranking_with_an_adaptive_proposer():
    world = document(n=12, n_entities=4, noise=0.5, proposer=AdaptiveSplitMerge(max_iter=3))
    found = SampleRank(max_iter=1, n_proposals=3, walk="truth").fit_worlds([world])
    assert found.history["updates"].sum() > 0
    assert found.history["risk"][-1] < 0.5
    assert found.point.sum() > 0.0
    with pytest.raises(NotSupportedError, match=r"proposer is not a SplitMerge. Use CEMDecode"):
        world.search(np.ones(3), 10, np.random.default_rng(0), 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 1.5}, "beta must be a number in"),
        ({"n_samples": 0}, "n_samples must be an integer"),
        ({"elite_fraction": 0.0}, "elite_fraction must be a number"),
        ({"smoothing": 0.0}, "smoothing must be a number"),
        ({"l2": 0.0}, "l2 must be a number"),
        ({"allocation": "smart"}, "allocation='smart' is not known"),
    ],
)
def test_bad_settings(settings, message):
    world = document(n=5)
    with pytest.raises(InvalidInputError, match=message):
        decode(world, np.ones(3), CEMDecode(proposer=AdaptiveSplitMerge(**settings)))
