"""Decoding of worlds that users write, compared with all states; limits, Ctrl-C and errors."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.worlds.small_worlds import GainOnly, Line, ListedLine, Matching, matching

from intarsia import SampleRank, Status
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import chain_graph
from intarsia.learning import GraphWorld, example
from intarsia.models import LinearScores
from intarsia.worlds import HillClimbing, MetropolisHastings, World, decode
from intarsia.worlds.decoder import DECODERS


@pytest.mark.parametrize("method", DECODERS.names)
@pytest.mark.parametrize("kind", [Matching, GainOnly], ids=["features", "changes only"])
def test_every_method_finds_the_best_matching(method, kind):
    for seed in range(3):
        world = matching(5, seed, kind=kind, noise=1.0)
        weights = np.array([1.0, -0.5])
        scores = world.all_scores(weights)
        start = scores[tuple(range(5))]
        n_chains = 30 if method == "hill_climbing" else 2  # it stops at local optima
        settings = {"n_proposals": 150.0} if method == "cem" else {}
        result = decode(world, weights, method, n_chains=n_chains, **settings)
        assert tuple(result.state.tolist()) == max(scores, key=scores.get)
        expected = max(scores.values()) - (0.0 if kind is Matching else start)
        assert result.score == pytest.approx(expected)
        assert world.state.tolist() == result.state.tolist()
        assert result.scores.size == n_chains
        assert result.n_proposals >= result.n_accepted > 0


@pytest.mark.parametrize("method", DECODERS.names)
def test_equal_seeds_give_equal_results(method):
    results = [decode(matching(6, 1), [1.0, 1.0], method, random_state=7, n_proposals=50) for _ in range(2)]
    assert results[0].state.tolist() == results[1].state.tolist()
    assert results[0].n_proposals == results[1].n_proposals
    assert results[0].n_accepted == results[1].n_accepted


@pytest.mark.parametrize("method", DECODERS.names)
@pytest.mark.parametrize("n_before", [0, 30, 350])
def test_ctrl_c_keeps_the_best_state(method, n_before):
    class Interrupted(Matching):
        n_applied, n_calls, best = 0, 0, -np.inf

        def propose(self, rng, weights):
            self.n_calls += 1
            if self.n_calls > n_before:
                self.state[:] = 0  # half of a move
                raise KeyboardInterrupt
            return super().propose(rng, weights)

    world = matching(7, kind=Interrupted)
    before = world.score([1.0, 1.0])
    result = decode(world, [1.0, 1.0], method, n_chains=5)
    assert result.status is Status.INTERRUPTED
    assert sorted(world.state.tolist()) == list(range(7))
    assert result.score >= before
    assert result.score == pytest.approx(world.score([1.0, 1.0]))
    if n_before == 350 and method != "annealing":
        assert result.score > before


@pytest.mark.parametrize("method", ["hill_climbing", "annealing", "cem"])
def test_time_limit(method):
    class Slow(Matching):
        def feature_change(self, move):
            time.sleep(0.0005)
            return super().feature_change(move)

    world = matching(8, kind=Slow)
    start = time.perf_counter()
    result = decode(world, [1.0, 1.0], method, time_limit=0.2, n_proposals=1e6)
    assert time.perf_counter() - start < 2.0
    assert result.status in (Status.TIME_LIMIT, Status.CONVERGED)
    if method == "annealing":
        assert result.status is Status.TIME_LIMIT
    assert sorted(result.state.tolist()) == list(range(8))


def test_statuses():
    assert decode(matching(5), [1.0, 1.0]).status is Status.CONVERGED
    assert decode(matching(5), [1.0, 1.0], n_proposals=0.2).status is Status.MAX_ITER
    assert decode(matching(5), [1.0, 1.0], "annealing").status is Status.MAX_ITER


def test_learned_weights_decode_to_the_truth():
    worlds = [matching(6, seed) for seed in range(6)]
    for settings in ({"update": "perceptron"}, {"update": "mira"}, {"update": "adagrad", "average": False}):
        weights = SampleRank(max_iter=5, **settings).rank(worlds)
        for seed in range(10, 16):
            world = matching(6, seed)
            decode(world, weights, "annealing")
            assert world.performance() == 1.0
    assert SampleRank(max_iter=2).rank(worlds[0]).shape == (2,)


def test_time_limit_of_learning():
    class Slow(Matching):
        def feature_change(self, move):
            time.sleep(0.0005)
            return super().feature_change(move)

    start = time.perf_counter()
    result = SampleRank(time_limit=0.2, max_iter=1000, margin=1e9).fit_worlds([matching(6, kind=Slow)])
    assert time.perf_counter() - start < 2.0
    assert result.status is Status.TIME_LIMIT
    assert np.abs(result.point).sum() > 0.0


def test_a_factor_graph_is_a_world():
    rng = np.random.default_rng(0)
    graph = chain_graph(5, 2)
    features, labels = rng.normal(size=(5, 3)), rng.integers(0, 2, 5)
    world = GraphWorld(example(LinearScores(graph, features), labels), block=2)
    weights = rng.normal(size=world.n_weights)
    result = decode(world, weights, "annealing")
    best = -np.inf
    for code in range(32):
        world.state = np.array([code >> k & 1 for k in range(5)])
        best = max(best, world.score(weights))
    assert result.score == pytest.approx(best)


def test_an_empty_world_and_a_single_item():
    for n in (0, 1):
        world = Matching(np.zeros((n, n, 2)))
        for method in DECODERS.names:
            assert decode(world, [1.0, 1.0], method).state.tolist() == list(range(n))


def test_restart_goes_to_the_first_state():
    world = matching(5)
    decode(world, [1.0, 1.0])
    world.restart(np.random.default_rng(0))
    assert world.state.tolist() == [0, 1, 2, 3, 4]


def test_listed_moves_replace_propose():
    world = ListedLine(5)
    assert decode(world, [1.0]).state == 4
    world.total = 0.7
    with pytest.raises(InvalidInputError, match=r"decode: ListedLine.moves: the probabilities .* sum to 0.7, expected"):
        decode(world, [1.0])


class Bare(World):
    """World with the two abstract methods only."""

    n_weights = n_sites = 2
    state = 0

    def apply(self, move):
        self.state = move

    def undo(self):
        self.state = 0


def test_missing_methods_are_named():
    with pytest.raises(NotSupportedError, match=r"decode: Bare defines neither propose nor moves\. Define propose"):
        decode(Bare(), [1.0, 1.0])

    class WithPropose(Bare):
        def propose(self, rng, weights):
            return 1

    with pytest.raises(NotSupportedError, match=r"WithPropose does not define features\. Define features"):
        decode(WithPropose(), [1.0, 1.0])
    with pytest.raises(InvalidInputError, match=r"world 0: WithPropose does not define performance\. Define"):
        SampleRank().rank(WithPropose())

    class WithoutSize(Matching):
        def __init__(self):
            self.state, self.n_weights = 0, 1

    with pytest.raises(InvalidInputError, match=r"WithoutSize has no n_sites. Set it"):
        decode(WithoutSize(), [1.0])
    with pytest.raises(TypeError, match="abstract"):
        World()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": [1.0]}, r"Matching: weights has shape \(1,\), expected 2 finite numbers"),
        ({"weights": [1.0, np.nan]}, "expected 2 finite numbers"),
        ({"method": "climbing"}, "Did you mean 'hill_climbing'"),
        ({"method": "agglomeration"}, "is not known"),
        ({"method": 3}, "must be a name"),
        ({"n_chains": 0}, "n_chains must be an integer"),
        ({"time_limit": -1.0}, "time_limit must be a number"),
        ({"patience": 0.0}, "HillClimbing: patience"),
        ({"steps": 3}, "setting"),
        ({"method": "annealing", "hot": 0.0}, "hot must be a number"),
        ({"method": "cem", "kick_size": 0}, "kick_size must be an integer"),
        ({"method": "cem", "n_kicks": -1}, "n_kicks must be an integer"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        decode(matching(4), **{"weights": [1.0, 1.0], **settings})


def test_a_proposer_of_clusterings_is_rejected():
    with pytest.raises(NotSupportedError, match="Matching has only its own proposals"):
        decode(matching(4), [1.0, 1.0], HillClimbing(proposer="split_merge"))
    with pytest.raises(NotSupportedError, match="Matching has only its own proposals"):
        decode(matching(4), [1.0, 1.0], MetropolisHastings(proposer="split_merge"))


def test_wrong_feature_changes_are_named():
    class Short(Matching):
        def feature_change(self, move):
            return np.zeros(1)

    class NotANumber(Matching):
        def feature_change(self, move):
            return np.array([np.nan, 0.0])

    class WrongLength(Line):
        def features(self):
            return np.zeros(3)

    for kind, message in (
        (Short, r"Short.feature_change returned shape \(1,\)"),
        (NotANumber, "NaN or infinite values"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            decode(matching(4, kind=kind), [1.0, 1.0])
        with pytest.raises(InvalidInputError, match=message):
            SampleRank().rank(matching(4, kind=kind))
    with pytest.raises(InvalidInputError, match=r"WrongLength.features returned an array of shape \(3,\), expected 1"):
        decode(WrongLength(), [1.0])
