"""Decoders compared with all clusterings: a few worlds are computed again, and the stored table keeps its promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from intarsia.worlds import decode
from intarsia_reproduction.experiment import load_experiment, load_findings
from intarsia_reproduction.experiments.linkage import decoders

ROOT = Path(__file__).parents[3]


def test_kicks_find_the_best_clustering_of_small_worlds():
    is_best = []
    for seed in range(6):
        world, weights = decoders.small_world(seed, n=6)
        best = decoders.best_score(world, weights)
        result = decode(world, weights, "cem", n_proposals=300)
        assert result.score <= best + 1e-9
        is_best.append(result.score > best - 1e-9)
    assert np.sum(is_best) >= 5


def test_the_number_of_clusterings_is_the_bell_number():
    assert [len(list(decoders.all_clusterings(n))) for n in range(7)] == [1, 1, 2, 5, 15, 52, 203]


def test_the_stored_table_compares_at_equal_proposals():
    findings = load_findings(load_experiment("decoders").tasks, ROOT / "docs" / "results" / "decoders")
    cem, annealing = findings["cem-kicks"].values, findings["annealing"].values
    assert cem[decoders.PROPOSALS] == pytest.approx(annealing[decoders.PROPOSALS], rel=0.05)
    assert findings["cem-paper"].values[decoders.FOUND] < cem[decoders.FOUND]


def test_restarted_greedy_with_many_proposals_finds_the_best_of_all():
    for seed in (3, 4):
        world, weights = decoders.small_world(seed, 5)
        score, n = decoders.restarted_greedy(world, weights, 3000, seed=0)
        assert score == pytest.approx(decoders.best_score(world, weights))
        assert n == 3000


def test_interval_is_that_of_clopper_and_pearson():
    """The end points have tail probabilities of 2.5 per cent."""
    values = decoders._values([True] * 7 + [False] * 3, [1] * 10)
    low, high = values["from"] / 10, values["to"] / 10
    assert binom.sf(6, 10, low) == pytest.approx(0.025)
    assert binom.cdf(7, 10, high) == pytest.approx(0.025)
    assert decoders._values([True] * 10, [1] * 10)["to"] == 10.0
    assert decoders._values([False] * 10, [1] * 10)["from"] == 0.0
