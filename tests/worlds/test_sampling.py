"""Marginals of Metropolis-Hastings compared with enumeration, and effective sample sizes with known chains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.worlds.small_worlds import Line, ListedLine, Matching, matching

from intarsia import Status
from intarsia.clusters import ClusterModel, ClusterWorld, pair_features
from intarsia.exceptions import InvalidInputError
from intarsia.worlds import effective_sample_size, sample_world


def one_hot(world):
    return np.eye(world.n_sites)[world.state]


@pytest.mark.parametrize("kind", [Line, ListedLine])
def test_marginals_with_asymmetric_proposals(kind):
    expected = np.exp(0.5 * np.arange(4))
    expected /= expected.sum()
    samples = sample_world(kind(4), [0.5], {"position": one_hot}, n_samples=2500)
    assert (np.abs(samples.means["position"] - expected) < 5 * samples.standard_errors["position"]).all()
    assert samples.standard_errors["position"].max() < 0.03
    assert samples.best_state == 3
    assert samples.best_score == pytest.approx(1.5)
    assert samples.values["position"].shape == (2500, 4)
    assert 0.0 < samples.acceptance_rate < 1.0


def test_without_the_ratio_the_marginals_are_wrong():
    """The ends have half of the probability of the inner positions if the ratio of proposals is ignored."""
    samples = sample_world(Line(4, declares_ratio=False), [0.0], {"position": one_hot}, n_samples=4000)
    assert abs(samples.means["position"][0] - 0.25) > 5 * samples.standard_errors["position"][0]


def test_marginals_of_a_matching():
    world, weights = matching(4, 3, noise=1.0), np.array([0.8, -0.6])
    scores = world.all_scores(weights)
    mass = np.exp(np.array(list(scores.values())) / 2.0)
    mass /= mass.sum()
    expected = sum(p * np.eye(4)[list(order)] for order, p in zip(scores, mass, strict=True))
    samples = sample_world(world, weights, {"pairs": one_hot}, n_samples=3000, temperature=2.0, start="hill_climbing")
    assert np.abs(samples.means["pairs"] - expected).max() < 5 * samples.standard_errors["pairs"].max()


def test_marginals_of_a_clustering():
    values = np.random.default_rng(0).normal(size=3)
    world = ClusterWorld(pair_features(3, [[0, 1], [0, 2], [1, 2]], values), ClusterModel(absent=False))
    scores = {}
    for labels in ([0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]):
        world.reset(labels)
        scores[tuple(labels)] = np.exp(world.score([1.0]))
    together = {
        f"{i}{j}": (lambda current, i=i, j=j: current.labels[i] == current.labels[j])
        for i, j in itertools.combinations(range(3), 2)
    }
    samples = sample_world(world, [1.0], together, n_samples=4000)
    for i, j in itertools.combinations(range(3), 2):
        expected = sum(p for labels, p in scores.items() if labels[i] == labels[j]) / sum(scores.values())
        assert abs(samples.means[f"{i}{j}"] - expected) < 5 * samples.standard_errors[f"{i}{j}"]


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_size_of_autoregressive_chains(rho):
    rng, n = np.random.default_rng(0), 40_000
    chain = np.zeros((n, 2))
    for k in range(1, n):
        chain[k] = rho * chain[k - 1] + rng.normal(size=2)
    expected = n * (1.0 - rho) / (1.0 + rho)
    assert effective_sample_size(chain) == pytest.approx([expected, expected], rel=0.15)


def test_effective_size_of_constant_and_short_chains():
    assert effective_sample_size(np.ones(10)) == 10.0
    assert effective_sample_size([3.0]) == 1.0
    assert effective_sample_size(np.ones((4, 2, 3))).shape == (2, 3)
    with pytest.raises(InvalidInputError, match="no samples"):
        effective_sample_size([])


def test_default_statistic_is_the_score():
    samples = sample_world(Line(3), [0.3], n_samples=20)
    assert list(samples.means) == ["score"]


def test_ctrl_c_and_time_limit_keep_the_samples():
    class Interrupted(Line):
        n_calls = 0

        def propose(self, rng, weights):
            self.n_calls += 1
            if self.n_calls > 2000:
                raise KeyboardInterrupt
            return super().propose(rng, weights)

    samples = sample_world(Interrupted(), [0.5], {"position": one_hot}, n_samples=100_000)
    assert samples.status is Status.INTERRUPTED
    assert 0 < samples.n_samples < 2000
    limited = sample_world(Line(), [0.5], {"position": one_hot}, n_samples=10**7, time_limit=0.3)
    assert limited.status is Status.TIME_LIMIT
    assert limited.seconds < 3.0
    with pytest.raises(InvalidInputError, match="no sample was drawn within time_limit"):
        sample_world(Line(), [0.5], time_limit=0.0)


def test_equal_seeds_give_equal_samples():
    first, second = (sample_world(Line(), [0.5], n_samples=50, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.values["score"], second.values["score"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"statistics": {}}, "statistics must be a dict"),
        ({"statistics": [1]}, "statistics must be a dict"),
        ({"statistics": {"a": 3}}, r"statistics\['a'\] is a int, expected a function"),
        ({"statistics": {"a": lambda world: np.nan}}, r"statistics\['a'\] returned nan. Change the function"),
        ({"statistics": {"a": lambda world: "x"}}, r"statistics\['a'\]"),
        ({"statistics": {"a": lambda world: np.zeros(world.state + 1)}}, "return arrays of one shape"),
        ({"n_samples": 0}, "n_samples"),
        ({"temperature": 0.0}, "temperature"),
        ({"thinning": -1.0}, "thinning"),
        ({"weights": [1.0, 2.0]}, "expected 1 finite numbers"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        sample_world(Line(), **{"weights": [0.5], "n_samples": 50, **settings})


def test_other_worlds_without_features():
    class Changes(Matching):
        features = matching(3).__class__.__mro__[1].features

    world = Changes(np.random.default_rng(0).normal(size=(3, 3, 1)))
    samples = sample_world(world, [1.0], {"pairs": one_hot}, n_samples=20)
    assert samples.n_samples == 20
