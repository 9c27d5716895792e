"""The cross-entropy method on textbook problems, compared with enumeration; numerical fits with closed forms."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from intarsia import Status
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.worlds import CategoricalProposal, GaussianProposal, PermutationProposal, Proposal, cem_optimize
from intarsia.worlds.cem_optimize import cem_rounds


@pytest.mark.parametrize("seed", range(5))
def test_assignment_problem(seed):
    cost = np.random.default_rng(seed).random((7, 7))
    best = min(cost[np.arange(7), list(order)].sum() for order in itertools.permutations(range(7)))
    result = cem_optimize(
        PermutationProposal(7), lambda task: -cost[np.arange(7), task].sum(), n_samples=300, smoothing=0.4
    )
    assert result.value == pytest.approx(-best)
    assert sorted(result.best.tolist()) == list(range(7))
    assert result.history["best"].max() == result.value
    assert (np.diff(np.maximum.accumulate(result.history["threshold"])) >= 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_max_cut(seed):
    rng = np.random.default_rng(seed)
    edges = np.array([pair for pair in itertools.combinations(range(10), 2) if rng.random() < 0.5])
    weights = rng.random(len(edges))

    def cut(side):
        return weights[side[edges[:, 0]] != side[edges[:, 1]]].sum()

    best = max(cut(np.array(sides)) for sides in itertools.product((0, 1), repeat=10))
    result = cem_optimize(CategoricalProposal([2] * 10), cut, n_samples=300, smoothing=0.4)
    assert result.value == pytest.approx(best)


def test_a_continuous_maximum():
    result = cem_optimize(GaussianProposal([0.0, 0.0], 5.0), lambda x: -((x - [3.0, -2.0]) ** 2).sum(), max_iter=60)
    assert result.best == pytest.approx([3.0, -2.0], abs=0.05)


class Logit(Proposal):
    """Independent bits with log odds as parameters, without a closed form."""

    def initial(self):
        return np.zeros(3)

    def sample(self, parameters, rng):
        return (rng.random(3) < 1.0 / (1.0 + np.exp(-parameters))).astype(int)

    def log_probability(self, parameters, sample):
        return float(sample @ parameters - np.logaddexp(0.0, parameters).sum())


def test_the_numerical_fit_equals_the_closed_form():
    elites = [np.array(bits) for bits in ((1, 0, 1), (1, 1, 0), (0, 1, 1), (1, 1, 0))]
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    frequencies = CategoricalProposal([2, 2, 2]).fit(np.full(6, 0.5), elites, weights).reshape(3, 2)[:, 1]
    fitted = Logit().fit(np.zeros(3), elites, weights)
    # The small regularization moves the numerical optimum a little.
    assert 1.0 / (1.0 + np.exp(-fitted)) == pytest.approx(frequencies, abs=2e-3)


def test_a_proposal_with_a_probability_only():
    result = cem_optimize(Logit(), lambda bits: bits @ [1.0, -2.0, 3.0], n_samples=60, max_iter=20)
    assert result.best.tolist() == [1, 0, 1]


def test_infeasible_samples_are_never_the_best():
    result = cem_optimize(
        CategoricalProposal([2] * 4), lambda bits: -np.inf if bits.sum() > 2 else float(bits.sum()), n_samples=60
    )
    assert result.value == 2.0
    with pytest.raises(InvalidInputError, match="none of the 100 samples of the first round has a finite objective"):
        cem_optimize(CategoricalProposal([2]), lambda bits: np.nan)


def test_ctrl_c_time_limit_and_seed():
    calls = []

    def interrupted(bits):
        calls.append(1)
        if len(calls) > 250:
            raise KeyboardInterrupt
        return float(bits.sum())

    result = cem_optimize(CategoricalProposal([2] * 8), interrupted, tol=0.0)
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 2
    assert result.value == result.history["best"].max()

    def slow(bits):
        time.sleep(0.001)
        return float(bits.sum())

    result = cem_optimize(CategoricalProposal([2] * 8), slow, tol=0.0, max_iter=10**6, time_limit=0.3)
    assert result.status is Status.TIME_LIMIT
    assert result.seconds < 2.0
    first, second = (cem_optimize(CategoricalProposal([3] * 5), sum, random_state=4) for _ in range(2))
    np.testing.assert_array_equal(first.parameters, second.parameters)
    assert first.status is Status.CONVERGED


def test_top_samples_are_the_elite():
    """Algorithm 2 keeps the best samples and moves the parameters by the smoothing step; ties of the best are kept."""
    seen = []

    def fit(parameters, elites):
        seen.append(elites.tolist())
        return np.array([10.0])

    values = np.array([1.0, 5.0, -np.inf, 5.0, 2.0])
    settings = {"elite_fraction": 0.25, "smoothing": 0.4, "max_iter": 1, "tol": 0.0}
    (row,) = cem_rounds(np.array([0.0]), lambda _: (values, "best"), fit, **settings)
    assert seen == [[1, 3]]
    assert row.threshold == 5.0
    assert row.parameters == pytest.approx([4.0])


@pytest.mark.parametrize(
    ("values", "fraction", "expected"),
    [
        ([0.0, 2.0, 0.0, 0.0, 1.0, 0.0], 0.5, [1, 4]),  # ties with the rest do not fill the elite
        ([3.0, 2.0, 1.0, 0.0], 0.5, [0, 1]),
        ([0.0, -np.inf, 0.0], 0.5, [0, 2]),  # the best ones all tie
        ([2.0, 1.0, -np.inf], 1.0, [0, 1]),
    ],
)
def test_the_elite_is_strictly_better_than_the_rest(values, fraction, expected):
    elites = []

    def fit(parameters, elite):
        elites.append(elite.tolist())
        return parameters

    settings = {"elite_fraction": fraction, "smoothing": 1.0, "max_iter": 1, "tol": 0.0}
    (row,) = cem_rounds(np.zeros(1), lambda _: (np.array(values), None), fit, **settings)
    assert elites == [expected]
    assert row.threshold == min(values[k] for k in expected)


def test_numerical_fits_start_no_threads_of_blas():
    """Threads of BLAS wait for each other: under load they took twenty times the processor time of the fit."""

    def n_threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    class Watched(Logit):
        def log_probability(self, parameters, sample):
            seen.extend(n_threads())
            return super().log_probability(parameters, sample)

    seen: list[int] = []
    with threadpool_limits(2, user_api="blas"):
        Watched().fit(np.zeros(3), [np.ones(3)], np.ones(1))
        assert set(n_threads()) == {2}
    assert set(seen) == {1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"proposal": 3}, "proposal is a int, expected a Proposal"),
        ({"objective": 3}, "objective is a int, expected a function"),
        ({"objective": lambda bits: "high"}, r"objective returned 'high' \(str\), expected a number"),
        ({"objective": lambda bits: np.inf}, "objective returned inf"),
        ({"n_samples": 0}, "n_samples must be an integer"),
        ({"elite_fraction": 0.0}, "elite_fraction must be a number"),
        ({"smoothing": 2.0}, "smoothing must be a number"),
        ({"max_iter": 0}, "max_iter must be an integer"),
        ({"time_limit": -1.0}, "time_limit must be a number"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        cem_optimize(**{"proposal": CategoricalProposal([2]), "objective": sum, **arguments})


def test_bad_families():
    with pytest.raises(InvalidInputError, match="n_states"):
        CategoricalProposal([])
    with pytest.raises(InvalidInputError, match="PermutationProposal: n must be an integer"):
        PermutationProposal(0)
    with pytest.raises(InvalidInputError, match="positive standard deviations"):
        GaussianProposal([0.0], 0.0)

    class Nothing(Proposal):
        def initial(self):
            return np.zeros(1)

        def sample(self, parameters, rng):
            return 0

    with pytest.raises(NotSupportedError, match="Nothing defines neither log_probability nor fit"):
        cem_optimize(Nothing(), float)
