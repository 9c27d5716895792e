"""Every energy: slopes against finite differences, convexity at midpoints, and the constant of smoothness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from tests.energies.energy_models import BIO, ENERGIES, chain
from tests.oracles.finite_differences import central_differences
from tests.oracles.global_energy import all_statistics

from intarsia.energies import (
    Count,
    DistanceToSet,
    EnergySum,
    Hinge,
    MeasuredEnergy,
    PoissonCounts,
    SegmentStarts,
    SparseVector,
    Squared,
    StartsAfter,
    Transitions,
    balanced,
    before,
    segment_preferences,
)
from intarsia.energies.binding.scalar_terms import ScalarTerms
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph import chain_graph, grid_graph

NAMES = list(ENERGIES)
every_energy = pytest.mark.parametrize("name", NAMES)


def distributions(count, seed=0, concentration=0.3):
    """Return random distributions over the labellings of the chain, and the statistics of the labellings."""
    graph, theta = chain()
    statistics = all_statistics(graph, theta)[2]
    rng = np.random.default_rng(seed)
    return graph, rng.dirichlet(np.full(len(statistics), concentration), count), statistics


@every_energy
def test_slopes_equal_finite_differences(name):
    graph, p, statistics = distributions(3, concentration=1.0)
    bound = ENERGIES[name].bind(graph, BIO)
    for mu in p @ statistics:
        expected = central_differences(bound.value, mu, step=1e-6)
        np.testing.assert_allclose(bound.gradient(mu), expected, atol=2e-6 * max(1.0, np.abs(expected).max()))


@every_energy
def test_slope_in_mu_from_slope_in_readings(name):
    """The slope is 0 beyond the variables if only variables are read, because searches then skip the tables."""
    graph, p, statistics = distributions(1, concentration=1.0)
    bound = ENERGIES[name].bind(graph, BIO)
    whole = bound.gradient(p[0] @ statistics)
    n = int(graph.variable_ptr[-1]) if bound.reads == "variables" else graph.n_theta
    mu = p[0] @ statistics
    value, slope = bound.judge(bound.read(mu))
    assert value == pytest.approx(bound.value(mu), rel=1e-13, abs=1e-13)
    np.testing.assert_allclose(bound.spread(slope, n), whole[:n], rtol=1e-13, atol=1e-13)
    assert not whole[n:].any()


@every_energy
def test_slope_in_psi_equals_finite_differences(name):
    graph, p, statistics = distributions(2, concentration=1.0)
    bound = ENERGIES[name].bind(graph, BIO)
    mu, other = p @ statistics
    direction = other - mu
    psi_gradient = bound.psi_gradient(mu, direction)
    expected = central_differences(lambda psi: bound.with_psi(psi).gradient(mu) @ direction, bound.psi.copy())
    np.testing.assert_allclose(psi_gradient, expected, atol=1e-8)


@every_energy
def test_value_is_psi_times_the_preferences(name):
    graph, p, statistics = distributions(1)
    bound = ENERGIES[name].bind(graph, BIO)
    mu = p[0] @ statistics
    assert bound.value(mu) == pytest.approx(bound.psi @ bound.parts(mu))
    doubled = (2.0 * ENERGIES[name]).bind(graph, BIO)
    assert doubled.value(mu) == pytest.approx(2.0 * bound.value(mu))
    assert bound.with_psi(np.zeros(bound.psi.size)).value(mu) == 0.0
    assert bound.value(mu) >= bound.floor - 1e-12


@every_energy
def test_convexity_is_declared_correctly(name):
    graph, p, statistics = distributions(400, concentration=0.02)
    bound = ENERGIES[name].bind(graph, BIO)
    mus = p @ statistics
    gaps = [
        0.5 * bound.value(a) + 0.5 * bound.value(b) - bound.value(0.5 * a + 0.5 * b)
        for a, b in zip(mus[::2], mus[1::2], strict=True)
    ]
    assert (min(gaps) >= -1e-10) == bound.convex
    if ENERGIES[name].convex and not isinstance(ENERGIES[name], EnergySum):
        assert bound.convex


@every_energy
def test_relative_constant_bounds_the_rise_above_tangents(name):
    """L(q) - L(p) - <grad L(p), q - p> <= c KL(q, p) for distributions over labellings."""
    graph, p, statistics = distributions(120, seed=1)
    bound = ENERGIES[name].bind(graph, BIO)
    if bound.lipschitz is None:
        assert not bound.smooth or name in ("poisson", "function")
        return
    mus = p @ statistics
    for a, b, first, second in zip(mus[::2], mus[1::2], p[::2], p[1::2], strict=True):
        rise = bound.value(b) - bound.value(a) - bound.gradient(a) @ (b - a)
        divergence = np.sum(second * np.log(np.maximum(second, 1e-300) / np.maximum(first, 1e-300)))
        assert rise <= bound.lipschitz * divergence + 1e-9


def test_relative_constant_is_psi_c_range_squared_over_four():
    graph, _ = chain()
    bound = MeasuredEnergy(Count("B-x"), Squared(0.0), psi=3.0).bind(graph, BIO)
    assert bound.lipschitz == pytest.approx(3.0 * 1.0 * 3.0**2 / 4)


@pytest.mark.parametrize("kind", ["table", "potts", "truncated_quadratic"])
@pytest.mark.parametrize("shared", [False, True])
def test_ranges_of_measurements_are_bounds(kind, shared):
    graph = grid_graph(2, 2, 3, kind=kind, shared=shared, truncation=2.0)
    rng = np.random.default_rng(0)
    statistics = all_statistics(graph, graph.zeros())[2]
    for _ in range(10):
        entries = rng.choice(graph.n_theta, 8, replace=False)
        a = np.zeros(graph.n_theta)
        a[entries] = rng.standard_normal(8)
        bound = MeasuredEnergy(SparseVector(entries, a[entries]), Squared()).bind(graph)
        assert 2.0 * np.sqrt(bound.lipschitz) >= np.ptp(statistics @ a) - 1e-12


@every_energy
def test_blocks_that_are_read_are_declared_correctly(name):
    graph, p, statistics = distributions(1)
    bound = ENERGIES[name].bind(graph, BIO)
    outside = bound.gradient(p[0] @ statistics)[int(graph.variable_ptr[-1]) :]
    assert bound.reads in ("variables", "tables")
    if bound.reads == "variables":
        assert not outside.any()


@every_energy
def test_settings_survive_clone(name):
    graph, p, statistics = distributions(1)
    mu = p[0] @ statistics
    copied = clone(ENERGIES[name])
    assert copied.bind(graph, BIO).value(mu) == ENERGIES[name].bind(graph, BIO).value(mu)


# ---------------------------------------------------------------- measurements against counts


def segments(y, label):
    """Return the first positions of the maximal runs of a label."""
    return [t for t in range(len(y)) if y[t] == label and (t == 0 or y[t - 1] != label)]


@pytest.mark.parametrize("shared", [False, True])
def test_measurements_of_labellings_are_counts(shared):
    graph, _ = chain(shared, length=4)
    for y in np.random.default_rng(0).integers(0, 3, (30, 4)).tolist():
        statistics = graph.statistics(y)

        def measure(measurement, names=BIO, statistics=statistics):
            terms = MeasuredEnergy(measurement, Squared()).bind(graph, names)
            return (terms.measurements @ statistics).tolist()

        assert measure(Count("B-x")) == [y.count(1)]
        assert measure(Count(2, variables=[0, 3])) == [(y[0] == 2) + (y[3] == 2)]
        assert measure(Transitions("O", "B-y")) == [sum(a == 0 and b == 2 for a, b in itertools.pairwise(y))]
        assert measure(SegmentStarts("x")) == [y.count(1)]
        assert measure(SegmentStarts("b"), ["a", "b", "c"]) == [len(segments(y, 1))]
        assert measure(SegmentStarts("b"), ["O", "I-b", "I-c"]) == [len(segments(y, 1))]
        expected = [float(y[t] == 2) + y[:t].count(1) for t in range(1, 4)]
        assert measure(StartsAfter("x", "y")) == expected


def test_order_of_segments_without_bio_tags():
    graph, _ = chain(length=4)
    names = ["o", "a", "b"]
    for y in np.random.default_rng(1).integers(0, 3, (30, 4)).tolist():
        late = [t for t in segments(y, 1) if any(s < t for s in segments(y, 2))]
        value = before("a", "b", width=0.0).bind(graph, names).value(graph.statistics(y))
        expected = sum(sum(s < t for s in segments(y, 2)) for t in late)
        # Every segment of b after the first adds 1.
        expected += sum(max(len([s for s in segments(y, 2) if s < t]) - 1, 0) for t in range(1, 4) if t not in late)
        assert value == expected


def test_names_per_variable_and_ragged_states():
    from intarsia.graph import from_edges

    graph = from_edges([2, 3], [[0, 1]])
    names = [["a", "b"], ["c", "b", "a"]]
    terms = MeasuredEnergy(Count("a"), Squared()).bind(graph, names)
    assert (terms.measurements @ graph.statistics([0, 2])).tolist() == [2.0]
    pair = MeasuredEnergy(Transitions("a", "b"), Squared()).bind(graph, names)
    assert (pair.measurements @ graph.statistics([0, 1])).tolist() == [1.0]
    only = MeasuredEnergy(Count("c"), Squared()).bind(graph, names)
    assert (only.measurements @ graph.statistics([0, 0])).tolist() == [1.0]


def test_sums_of_terms_are_one_matrix_and_psi_stays_in_order():
    graph, _ = chain()
    bound = ENERGIES["sum"].bind(graph, BIO)
    assert bound.psi.tolist() == [1.0, 1.0, 3.0]
    assert type(bound.members[0]) is ScalarTerms
    assert bound.terms is None
    everything = ENERGIES["segments"].bind(graph, BIO)
    assert isinstance(everything, ScalarTerms)
    assert everything.psi.size == len(ENERGIES["segments"].energies) == 10
    changed = bound.with_psi([0.0, 1.0, 2.0])
    mu = graph.statistics([1, 0, 2])
    assert changed.value(mu) == pytest.approx(bound.parts(mu) @ [0.0, 1.0, 2.0])
    assert bound.psi.tolist() == [1.0, 1.0, 3.0]


def test_number_of_segment_preferences():
    kinds = 4
    names = ["O", *(f"{mark}-{k}" for k in range(kinds) for mark in "BI")]
    pairs = kinds * (kinds - 1)
    assert len(segment_preferences(names).energies) == 2 * kinds + 2 * pairs + 2 * pairs // 2
    assert len(segment_preferences(names, include=["implies"]).energies) == pairs


def test_word_distance_is_the_norm_of_the_difference():
    graph, p, statistics = distributions(5)
    words = [[1, 0, 2], [0, 0, 1], [2, 2, 2]]
    positional = DistanceToSet(words).bind(graph)
    counted = DistanceToSet(words, positional=False).bind(graph)
    onehot = np.eye(3)[np.array(words)]
    for mu in p @ statistics:
        nodes = mu[:9].reshape(3, 3)
        assert positional.value(mu) == pytest.approx(np.abs(onehot - nodes).sum(axis=(1, 2)).min())
        gaps = np.abs(onehot.sum(axis=1) - nodes.sum(axis=0)).sum(axis=1)
        assert counted.value(mu) == pytest.approx(gaps.min())


@pytest.mark.parametrize("positional", [False, True])
def test_a_cap_limits_the_distance_and_then_has_no_slope(positional):
    graph = chain_graph(3, 3)
    words = [[0, 1, 2], [2, 2, 2]]
    plain = DistanceToSet(words, positional=positional, psi=0.5).bind(graph)
    capped = DistanceToSet(words, positional=positional, psi=0.5, cap=2.5).bind(graph)
    is_above = []
    for labels in itertools.product(range(3), repeat=3):
        mu = graph.statistics(list(labels))
        value, slope = plain.value(mu), plain.gradient(mu)
        assert capped.value(mu) == min(value, 1.25)
        np.testing.assert_array_equal(capped.gradient(mu), slope if value <= 1.25 else np.zeros(slope.size))
        is_above.append(value > 1.25)
    assert any(is_above)
    assert not all(is_above)
    with pytest.raises(InvalidInputError, match="cap"):
        DistanceToSet(words, cap=0.0).bind(graph)


def test_words_of_other_lengths_are_ignored_by_the_positional_distance():
    graph, _ = chain()
    nothing = DistanceToSet([[0, 1]]).bind(graph)
    mu = graph.statistics([0, 0, 0])
    assert nothing.value(mu) == 0.0
    assert not nothing.gradient(mu).any()


def test_poisson_is_the_negative_log_likelihood_up_to_a_constant():
    from scipy.stats import poisson

    graph, p, statistics = distributions(2, concentration=2.0)
    counts = np.array([[2, 0, 1], [1, 3, 0], [0, 0, 4]])
    bound = PoissonCounts(counts, rate=4.0, background=0.1).bind(graph)
    a, b = p @ statistics
    exact = [-poisson.logpmf(counts.ravel(), 4.0 * mu[:9] + 0.1).sum() for mu in (a, b)]
    assert bound.value(a) - bound.value(b) == pytest.approx(exact[0] - exact[1])


def test_sparse_vectors_reach_the_first_and_the_last_entry():
    graph, _ = chain()
    mu = np.random.default_rng(0).random(graph.n_theta)
    energy = MeasuredEnergy(SparseVector([0, graph.n_theta - 1], [2.0, -3.0]), Squared())
    assert energy.bind(graph).value(mu) == pytest.approx(0.5 * (2.0 * mu[0] - 3.0 * mu[-1]) ** 2)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda g: MeasuredEnergy(Count("B-z"), Hinge()).bind(g, BIO), r"label='B-z' is not known.*'B-x'"),
        (lambda g: MeasuredEnergy(Count(7), Hinge()).bind(g), r"label='7' is not known"),
        (lambda g: MeasuredEnergy(Count(0), Hinge()).bind(g, ["a"]), r"names has 1 labels.*3 states"),
        (lambda g: MeasuredEnergy(Count(0), Hinge(), psi=-1.0).bind(g), r"psi must be a number in \[0"),
        (lambda g: MeasuredEnergy(Count(0), Hinge()).bind(g).with_psi([-0.5]), r"psi\[0\] is -0.5"),
        (lambda g: MeasuredEnergy(Count(0), Hinge()).bind(g).with_psi([1.0, 2.0]), r"there are 1 preferences"),
        (lambda g: MeasuredEnergy(Count(0), Hinge(side="left")).bind(g), r"side='left' is not known"),
        (lambda g: -1.0 * balanced(0, 1), r"factor must be a number in \[0"),
        (lambda g: PoissonCounts([[-1, 0, 0]] * 3).bind(g), r"variable 0, state 0 is -1.0.*at least 0"),
        (lambda g: PoissonCounts([1, 2]).bind(g), r"counts has 2 numbers.*9 states"),
        (lambda g: before("a", "b").bind(chain_graph(3, 2, shared=True), ["a", "b"]), r"share a table"),
        (lambda g: MeasuredEnergy(Transitions(0, 1), Hinge()).bind(chain_graph(3, 2, kind="potts")), r"kind='table'"),
        (lambda g: DistanceToSet([]).bind(g), r"list of outputs is empty"),
        (lambda g: PoissonCounts([[1, 0, np.inf]] * 3).bind(g), r"variable 0, state 2 is inf.*finite"),
        (lambda g: MeasuredEnergy(SparseVector([99]), Hinge()).bind(g), r"position 99 is outside mu"),
        (lambda g: MeasuredEnergy(SparseVector([g.n_theta]), Hinge()).bind(g), r"is outside mu, which has 27 entries"),
        (lambda g: MeasuredEnergy(SparseVector([0, -1]), Hinge()).bind(g), r"position -1 is outside mu"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(make, words):
    with pytest.raises(InvalidInputError, match=words):
        make(chain()[0])


@pytest.mark.parametrize("name", list(ENERGIES))
@pytest.mark.parametrize("shared", [False, True])
def test_rows_agree_with_single_evaluations(name, shared):
    """Readings, energies and slopes of several mu, each with its own psi."""
    graph, _ = chain(shared=shared)
    energy = ENERGIES[name].bind(graph, BIO)
    rng = np.random.default_rng(5)
    mu = np.array([graph.statistics(rng.integers(0, 3, 3)) for _ in range(4)]) * 0.6 + 0.1
    psi = rng.uniform(0.1, 2.0, (4, energy.psi.size))
    readings = energy.read_rows(mu)
    values, slopes = energy.judge_rows(readings, psi)
    tilt = np.zeros(mu.shape)
    pull = psi[:, energy.psi_of_reading] * slopes
    energy.subtract_rows(-pull, tilt, tilt)
    difference = np.full(mu.shape, np.nan)
    energy.subtract_rows(pull, mu, difference)
    np.testing.assert_allclose(difference, mu - tilt, atol=1e-12)
    direction = rng.normal(size=mu.shape)
    products = slopes * energy.read_rows(direction)
    for i in range(4):
        single = energy.with_psi(psi[i])
        assert values[i] == pytest.approx(single.value(mu[i]), abs=1e-10)
        np.testing.assert_allclose(tilt[i], single.gradient(mu[i]), atol=1e-10)
        by_psi = np.bincount(energy.psi_of_reading, products[i], energy.psi.size)
        np.testing.assert_allclose(by_psi, single.psi_gradient(mu[i], direction[i]), atol=1e-10)
        constant = energy.lipschitz_rows(psi)[i]
        assert (single.lipschitz is None and np.isnan(constant)) or single.lipschitz == pytest.approx(constant)
        assert energy.floor_rows(psi)[i] == pytest.approx(single.floor)


def test_counts_are_refused_by_energies_that_need_marginals():
    bound = ENERGIES["function"].bind(chain()[0], BIO)
    assert not bound.counts_labels
    for call in (bound.read_counts, bound.count_scores):
        with pytest.raises(NotSupportedError, match="reads more than the number of variables"):
            call(np.ones((1, 3)))
