"""Decoders compared with all partitions, chains with their target distribution, proposals with enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.oracles.partitions import all_partitions, canonical, pair_table, proposal_matrix, slow_features

from intarsia.clusters import (
    ClusterModel,
    ClusterWorld,
    HillClimbing,
    MetropolisHastings,
    SplitMerge,
    decode,
    link_constraints,
    pair_features,
    sample_coreference,
)
from intarsia.clusters import world as world_module
from intarsia.exceptions import InvalidInputError
from intarsia.learning import SampleRank
from intarsia.worlds import World, sample_world

KINDS = {
    "random": SplitMerge(along_pairs=0.5),
    "sequential": SplitMerge(random=0, sequential=1, along_pairs=0.5),
    "move_one": SplitMerge(random=0, move_one=1, along_pairs=0.5),
    "mixed": SplitMerge(random=1, sequential=1, move_one=1),
}
MODEL = ClusterModel(within="all", absent=True, minimum=["f0"], sizes=(1,), log_size=True)


def small_world(n=5, seed=0, share=0.7, **more):
    rng = np.random.default_rng(seed)
    every = np.array(list(itertools.combinations(range(n), 2)))
    kept = rng.random(len(every)) < share
    pairs = pair_features(n, every[kept], rng.normal(size=(int(kept.sum()), 2)))
    world = ClusterWorld(pairs, MODEL, **more)
    return world, 0.7 * rng.normal(size=world.n_weights)


def scores_of(world, weights, allowed=lambda labels: True):
    return {
        labels: float(weights @ slow_features(world.pairs, MODEL, np.array(labels), {}))
        for labels in all_partitions(world.n_sites)
        if allowed(labels)
    }


@pytest.mark.parametrize("seed", range(3))
def test_hill_climbing_ends_in_a_local_optimum(seed):
    world, weights = small_world(n=6, seed=seed)
    scores = scores_of(world, weights)
    found = decode(world, weights, HillClimbing(patience=200, agglomerate=seed > 0))
    labels = found.labels.tolist()
    neighbours = {canonical(a if c == b else c for c in labels) for a, b in itertools.combinations(set(labels), 2)}
    for sides in itertools.product((0, 10), repeat=6):
        neighbours |= {
            canonical(c + (side if c == k else 0) for c, side in zip(labels, sides, strict=True)) for k in labels
        }
    for i, c in itertools.product(range(6), labels):
        neighbours.add(canonical(c if r == i else labels[r] for r in range(6)))
    assert found.score == pytest.approx(scores[tuple(labels)])
    assert found.score >= max(scores[other] for other in neighbours) - 1e-9
    assert found.score >= decode(world, weights, "agglomeration").score - 1e-9 or seed == 0


@pytest.mark.parametrize("seed", range(4))
def test_annealing_finds_the_best_clustering(seed):
    world, weights = small_world(n=6, seed=seed)
    scores = scores_of(world, weights)
    found = decode(world, weights, "metropolis_hastings", n_chains=3)
    assert found.score == pytest.approx(max(scores.values()))
    assert found.score == pytest.approx(scores[tuple(found.labels.tolist())])
    assert world.labels.tolist() == found.labels.tolist()
    assert found.scores.size == 3
    assert found.n_proposals >= found.n_accepted > 0


def test_every_merge_of_agglomeration_is_the_best():
    """Each merge is the best one, by rescoring all possible merges."""
    world, weights = small_world(n=6, seed=5, share=1.0)
    labels = list(range(6))
    while True:
        now = weights @ slow_features(world.pairs, MODEL, np.array(labels), {})
        merges = [[a if c == b else c for c in labels] for a, b in itertools.combinations(sorted(set(labels)), 2)]
        gains = [weights @ slow_features(world.pairs, MODEL, np.array(new), {}) - now for new in merges]
        if not gains or max(gains) <= 0.0:
            break
        labels = merges[int(np.argmax(gains))]
    assert decode(world, weights, "agglomeration").labels.tolist() == list(canonical(labels))


@pytest.mark.parametrize("stretch", [10_000, 1], ids=["whole", "stretches"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("links", [{}, {"must_link": [[0, 1]], "cannot_link": [[2, 3]]}], ids=["free", "linked"])
def test_chains_sample_from_the_model(kind, links, stretch, monkeypatch):
    monkeypatch.setattr(world_module, "STRETCH", stretch)  # stretches of a single pair, because there are few pairs
    monkeypatch.setattr(world_module, "UNDIVIDED", 2 * stretch)
    n = 4
    world, weights = small_world(n=n, constraints=link_constraints(n, **links), proposer=KINDS[kind])

    def allowed(labels):
        return not links or (labels[0] == labels[1] and labels[2] != labels[3])

    scores = scores_of(world, weights, allowed)
    states = list(scores)
    expected = np.exp(np.array(list(scores.values())))
    expected /= expected.sum()
    rng, counts = np.random.default_rng(1), dict.fromkeys(states, 0)
    n_samples = 5_000
    for _ in range(n_samples):
        world.search(weights, 6, rng, 1.0)
        counts[tuple(world.labels.tolist())] += 1
    share = np.array(list(counts.values())) / n_samples
    # Samples are correlated: allow five standard deviations at a tenth of their number.
    assert np.abs(share - expected).max() < 5 * np.sqrt(0.25 / (n_samples / 10))
    assert np.abs(share - expected).sum() < 0.1


@pytest.mark.parametrize("kind", ["random", "move_one"])
@pytest.mark.parametrize("along", [0.0, 0.5])
def test_log_ratio_equals_enumerated_proposals(kind, along):
    n = 4
    shares = {"random": 0, "move_one": 0, kind: 1}
    world, weights = small_world(n=n, proposer=SplitMerge(**shares, along_pairs=along))
    states, matrix = proposal_matrix(n, pair_table(world.pairs), along, kind)
    number = {labels: k for k, labels in enumerate(states)}
    rng, met = np.random.default_rng(0), set()
    counts = np.zeros_like(matrix)
    for labels in states:
        for _ in range(150):
            world.reset(labels)
            move = world.propose(rng, weights)
            world.apply(move)
            here, there = number[labels], number[tuple(world.labels.tolist())]
            expected = np.log(matrix[there, here] / matrix[here, there]) if matrix[there, here] > 0 else -np.inf
            assert move.log_ratio == pytest.approx(expected)
            met.add((here, there))
            counts[here, there] += 1
    assert len(met) > 30
    assert np.abs(counts / 150 - matrix).max() < 5 * np.sqrt(0.25 / 150)


def test_a_search_uses_all_stretches_of_the_pairs(monkeypatch):
    monkeypatch.setattr(world_module, "STRETCH", 2)
    monkeypatch.setattr(world_module, "UNDIVIDED", 4)
    n = 12
    pairs = pair_features(n, [[k, k + 1] for k in range(0, n, 2)], np.ones(n // 2))
    world = ClusterWorld(pairs, proposer=SplitMerge(along_pairs=1.0))
    for stretch in range(3):  # two pairs per stretch; a merge moves one of their records
        world.search(np.array([1.0, 0.0]), 50, np.random.default_rng(0), 0.0)
        joined = [world.labels[k] == world.labels[k + 1] for k in range(0, n, 2)]
        assert joined == [k <= 2 * stretch + 1 for k in range(6)]


def test_probabilities_of_sequential_splits():
    """For fixed seeds and order, the probabilities of all possible splits sum to one."""
    world, weights = small_world(n=3, share=1.0, proposer=KINDS["sequential"])
    rng, seen = np.random.default_rng(0), {}
    for _ in range(2000):
        world.reset([0, 0, 0])
        move = world.propose(rng, weights)
        world.apply(move)
        chance = np.exp(-move.log_ratio)
        seen.setdefault(tuple(world.labels.tolist()), []).append(chance)
    # A single record remains to allocate: with seeds i and j, it goes to i with probability p.
    f, _ = world.table.pair_weights(weights, 2)
    likeness = {pair: row @ f for pair, row in pair_table(world.pairs).items()}
    expected = {}
    for i, j in itertools.permutations(range(3), 2):
        k = 3 - i - j
        p = 1 / (1 + np.exp(-(likeness[min(i, k), max(i, k)] - likeness[min(j, k), max(j, k)])))
        for side, chance in ((i, p), (j, 1 - p)):
            labels = [0, 0, 0]
            labels[3 - side - k] = 1
            expected.setdefault(canonical(labels), []).append(chance / 6)
    for labels, chances in seen.items():
        assert len(chances) / 2000 == pytest.approx(sum(expected[labels]), abs=0.06)
        assert {round(c, 9) for c in chances} <= {round(6 * c, 9) for c in expected[labels]}


def test_coreference_probabilities():
    world, weights = small_world(n=4, seed=3)
    scores = scores_of(world, weights)
    mass = np.exp(np.array(list(scores.values())))
    mass /= mass.sum()
    found = sample_coreference(world, weights, n_samples=2000)
    for i, j in itertools.combinations(range(4), 2):
        expected = sum(p for labels, p in zip(scores, mass, strict=True) if labels[i] == labels[j])
        assert found[i, j] == pytest.approx(expected, abs=0.06)
        assert found[j, i] == 0.0
    cold = sample_coreference(world, weights, n_samples=20, temperature=0.01, start=MetropolisHastings())
    best = max(scores, key=scores.get)
    assert all(cold[i, j] == float(best[i] == best[j]) for i, j in itertools.combinations(range(4), 2))


def test_random_state_determines_the_result():
    world, weights = small_world(n=6)
    first, second, other = (decode(world, weights, "metropolis_hastings", random_state=s) for s in (0, 0, 1))
    assert first.n_accepted == second.n_accepted != other.n_accepted


def test_proposing_restores_the_proposer():
    world, weights = small_world()
    own = world.proposer
    decode(world, weights, HillClimbing(proposer=SplitMerge(move_one=1)))
    assert world.proposer is own


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "climbing"}, "Did you mean 'hill_climbing'"),
        ({"method": HillClimbing(patience=0)}, "HillClimbing: patience"),
        ({"method": HillClimbing(n_proposals=-1)}, "HillClimbing: n_proposals"),
        ({"method": MetropolisHastings(cold=3.0)}, r"cold must be a number in \(0, 2\]"),
        ({"method": "agglomeration", "min_gain": -1}, "Agglomeration: min_gain"),
        ({"n_chains": 0}, "n_chains"),
        ({"method": HillClimbing(proposer=SplitMerge(random=0))}, "move_one are all 0"),
        ({"method": HillClimbing(proposer=SplitMerge(along_pairs=2))}, "along_pairs"),
        ({"method": HillClimbing(proposer=SplitMerge(temperature=0))}, "temperature"),
    ],
)
def test_bad_settings(settings, message):
    world, weights = small_world()
    with pytest.raises(InvalidInputError, match=message):
        decode(world, weights, **settings)


def test_bad_sampling():
    world, weights = small_world()
    with pytest.raises(InvalidInputError, match="temperature"):
        sample_coreference(world, weights, temperature=0.0)
    with pytest.raises(InvalidInputError, match="n_samples"):
        sample_coreference(world, weights, n_samples=0)


class Bits(World):
    """World whose states are not clusterings: bits that are flipped."""

    n_weights = n_sites = 2

    def __init__(self):
        self.state, self.applied = [0, 0], []

    def propose(self, rng, weights):
        return int(rng.integers(2))

    def features(self):
        return np.array(self.state, dtype=float)

    def apply(self, move):
        self.state[move] = 1 - self.state[move]
        self.applied.append(move)

    def undo(self):
        self.apply(self.applied.pop())
        self.applied.pop()


def test_the_decode_of_clusterings_takes_any_world():
    result = decode(Bits(), [1.0, -1.0])
    assert result.state == [1, 0]
    assert result.score == 1.0


@pytest.mark.parametrize("world", [Bits(), None, [1, 2]], ids=["bits", "none", "list"])
def test_coreference_needs_clusterings(world):
    with pytest.raises(InvalidInputError, match=r"expected a ClusterWorld, got a \w+. For a world of your own, use"):
        sample_coreference(world, [1.0])


@pytest.mark.parametrize("function", [decode, sample_world])
@pytest.mark.parametrize("world", [None, [1, 2]], ids=["none", "list"])
def test_other_objects_are_rejected(function, world):
    with pytest.raises(InvalidInputError, match=r"expected a World, got a \w+. Derive your class from"):
        function(world, [1.0])


def test_sample_rank_rejects_other_objects():
    with pytest.raises(InvalidInputError, match="world 0: expected a World, got a list"):
        SampleRank().fit_worlds([[1, 2]])
