"""Contract tests of worlds: our worlds pass, and each planted fault is named."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.worlds.small_worlds import GainOnly, Line, ListedLine, Matching, matching

from intarsia.clusters import ClusterModel, ClusterWorld, SplitMerge, link_constraints, pair_features
from intarsia.exceptions import InvalidInputError
from intarsia.graph import chain_graph
from intarsia.learning import GraphWorld, example
from intarsia.models import LinearScores
from intarsia.testing import check_world


def clusters(**settings):
    values = np.random.default_rng(0).normal(size=(6, 2))
    pairs = pair_features(4, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]], values)
    return ClusterWorld(pairs, ClusterModel(minimum=["f0"], sizes=(1,)), truth=[0, 0, 1, 1], **settings)


def graph(block):
    features = np.random.default_rng(0).normal(size=(4, 2))
    return GraphWorld(example(LinearScores(chain_graph(4, 2), features), [0, 1, 1, 0]), block)


WORLDS = {
    "matching": lambda: matching(4),
    "changes only": lambda: matching(4, kind=GainOnly),
    "line": Line,
    "listed line": ListedLine,
    "graph": lambda: graph(1),
    "clusters": clusters,
    "clusters, sequential": lambda: clusters(proposer=SplitMerge(random=0.0, sequential=1.0)),
    "clusters, single records": lambda: clusters(proposer=SplitMerge(random=0.0, move_one=1.0)),
    "clusters, linked": lambda: clusters(constraints=link_constraints(4, must_link=[[0, 1]], cannot_link=[[1, 2]])),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("seed", range(2))
def test_worlds_keep_their_contract(name, seed):
    report = check_world(WORLDS[name](), random_state=seed, n_draws=1000)
    assert {"state", "undo", "propose", "symmetry", "restart"} <= set(report.passed)
    if name not in ("changes only",):
        assert "features" in report.passed
    if name == "listed line":
        assert "probabilities" in report.passed


class UndoesNothing(Matching):
    def undo(self):
        self.applied.pop()


class UndoesOnlyOnce(Matching):
    def apply(self, move):
        self.before = self.state.copy()
        super().apply(move)

    def undo(self):
        self.state = self.before.copy()


class ForgetsACache(Matching):
    """Features are stored, and undo does not revert them."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stored = Matching.features(self)

    def features(self):
        return self.stored

    def apply(self, move):
        super().apply(move)
        self.stored = Matching.features(self)

    def undo(self):
        stored = self.stored
        super().undo()
        self.stored = stored

    def restore(self, state):
        super().restore(state)
        self.stored = Matching.features(self)


class WrongFeatures(Matching):
    def feature_change(self, move):
        return super().feature_change(move) + np.array([0.0, 0.1])


class ShortFeatures(Matching):
    def feature_change(self, move):
        return super().feature_change(move)[:1]


class WrongPerformance(Matching):
    def performance_change(self, move):
        return 0.5


class ChangesInPropose(Matching):
    def propose(self, rng, weights):
        self.state = np.roll(self.state, 1)
        return super().propose(rng, weights)


class ChangesInFeatureChange(Matching):
    def feature_change(self, move):
        change = super().feature_change(move)
        self.state = np.roll(self.state, 1)
        return change


class ProposesNothing(Matching):
    def propose(self, rng, weights):
        return None


class SharedSnapshot(Matching):
    def snapshot(self):
        return self.state


class LosesTheState(Matching):
    def restore(self, state):
        self.state = np.arange(self.n_sites)


class Unnormalized(ListedLine):
    total = 1.2

    def propose(self, rng, weights):
        return Line.propose(self, rng, weights)


class OtherProbabilities(ListedLine):
    def propose(self, rng, weights):
        return self.steps(self.state)[0]


class Directed(Matching):
    """Sorted items are proposed for a swap three times as often, which the world does not declare."""

    def propose(self, rng, weights):
        i, j = sorted(super().propose(rng, weights))
        return (i, j) if self.state[i] < self.state[j] or rng.random() < 1 / 3 else None


class RandomRestart(Matching):
    def restart(self, rng):
        self.state = np.random.default_rng().permutation(self.n_sites)


FAULTS = {
    UndoesNothing: r"undo: undo does not restore the state after the move \(",
    UndoesOnlyOnce: "undo: undo reverts only the last move",
    ForgetsACache: "undo: undo restores the state but not the features",
    WrongFeatures: r"features: feature_change\[1\] is .* but features changes by",
    ShortFeatures: r"features: feature_change returned shape \(1,\)",
    WrongPerformance: "performance: performance_change is 0.5 .* but performance changes by",
    ChangesInPropose: "propose: propose changes the state",
    ChangesInFeatureChange: "features: feature_change changes the state",
    ProposesNothing: "propose: propose returned None 50 times",
    SharedSnapshot: "state: apply changes a state that snapshot returned",
    LosesTheState: r"state: restore\(snapshot\(\)\) does not restore the state",
    Unnormalized: "probabilities: the probabilities of moves sum to 1.2, not to 1",
    OtherProbabilities: "probabilities: propose draws a state with frequency",
    Directed: r"symmetry: a move is proposed with frequency .* declares them equally probable \(log_ratio is 0\)",
    RandomRestart: "restart: restart gives two initial states for equal seeds",
}


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_each_planted_fault_is_named(kind):
    if issubclass(kind, Line):
        world = kind(4)
        world.state = 1
    else:
        world = matching(5, kind=kind)
        world.state = np.array([4, 2, 3, 0, 1])
    with pytest.raises(InvalidInputError, match=FAULTS[kind]) as raised:
        check_world(world)
    assert str(raised.value).startswith(f"check_world: {kind.__name__} breaks its contract. ")


def test_an_undeclared_ratio_is_named():
    world = Line(3, declares_ratio=False)
    with pytest.raises(InvalidInputError, match="symmetry: a move is proposed with frequency 1 and its reverse with"):
        check_world(world)


def test_several_faults_are_listed_together():
    class Both(WrongFeatures, WrongPerformance):
        pass

    with pytest.raises(InvalidInputError, match=r"features: feature_change.* performance: performance_change"):
        check_world(matching(5, kind=Both))


def test_bad_arguments():
    with pytest.raises(InvalidInputError, match="check_world: expected a World, got a int"):
        check_world(3)
    with pytest.raises(InvalidInputError, match="n_moves"):
        check_world(Line(), n_moves=0)
    with pytest.raises(InvalidInputError, match="expected 1 finite numbers"):
        check_world(Line(), [1.0, 2.0])


def test_states_of_any_type_are_compared():
    class Box:
        def __init__(self, values):
            self.values = values

    from intarsia.worlds import state_key

    state = {"tags": np.array([1, 2]), "sets": [{1, 2}, frozenset()], "box": Box([1])}
    assert state_key(state) == state_key(copy.deepcopy(state))
    changed = copy.deepcopy(state)
    changed["box"].values[0] = 2
    assert state_key(state) != state_key(changed)
