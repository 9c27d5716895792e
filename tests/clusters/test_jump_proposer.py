"""User-defined proposers: learning and decoding call them, and apply the moves they return."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia import SampleRank
from intarsia.clusters import CEMDecode, ClusterModel, ClusterWorld, JumpProposer, decode, pair_features


class NearestMerge(JumpProposer):
    """Proposer that merges the clusters of a candidate pair in two clusters."""

    def __init__(self, calls=None):
        self.calls = [] if calls is None else calls

    def propose(self, world, rng, score=None, model=None):
        self.calls.append(score is None)
        labels = world.labels
        apart = [pair for pair in world.pairs.pairs if labels[pair[0]] != labels[pair[1]]]
        if not apart:
            return None, -np.inf
        move = world.merge(*apart[rng.integers(len(apart))])
        return move, world.performance_change(move) if score is None else world.score_change(move, score)


def small_world(proposer=None):
    pairs = pair_features(4, [[0, 1], [2, 3], [1, 2]], [1.0, 1.0, -3.0])
    return ClusterWorld(pairs, ClusterModel(absent=False), truth=[0, 0, 1, 1], proposer=proposer)


def test_learning_values_moves_by_performance():
    proposer = NearestMerge()
    found = SampleRank(max_iter=5).fit_worlds([small_world(proposer)])
    assert proposer.calls
    assert all(proposer.calls)  # the truth is set, so moves are not valued by weights
    assert found.point[0] > 0.0  # similar pairs belong together
    assert found.history["errors"][-1] == 0


@pytest.mark.parametrize(("weight", "labels"), [(1.0, [0, 0, 1, 1]), (-1.0, [0, 1, 1, 2])])
def test_decoding_values_moves_by_score(weight, labels):
    proposer = NearestMerge()
    assert decode(small_world(), [weight], CEMDecode(proposer=proposer)).labels.tolist() == labels
    assert proposer.calls
    assert not any(proposer.calls)
