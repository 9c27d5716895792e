"""The two worked examples run: a matching with the Hungarian algorithm as oracle, and a joint world."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from intarsia import SampleRank
from intarsia.testing import check_world
from intarsia.worlds import decode

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_matching_of_names_is_the_best_assignment():
    program = load("match_names")
    weights = SampleRank(max_iter=2).rank([program.lists(seed, n=10) for seed in range(5)])
    for seed in range(50, 53):
        world = program.lists(seed, n=10)
        result = decode(world, weights, "annealing")
        rows, columns = linear_sum_assignment(world.similarity @ weights, maximize=True)
        assert np.isclose(result.score, (world.similarity @ weights)[rows, columns].sum())
        assert world.performance() > 0.7


def test_the_joint_world_keeps_its_contract_and_learns():
    program = load("tag_and_cluster")
    report = check_world(program.document(0, n=4), n_draws=1000)
    assert set(report.passed) >= {"undo", "features", "performance", "symmetry"}
    weights = SampleRank(max_iter=3).rank([program.document(seed) for seed in range(8)])
    assert weights[0] > 0.0  # evidence for the tag
    assert weights[3] < 0.0  # mentions of one entity have one tag
    world = program.document(50)
    decode(world, weights, "annealing", n_proposals=50)
    assert world.performance() > 0.6
