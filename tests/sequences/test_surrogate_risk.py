"""Surrogate likelihood of sequences with energies: value by enumeration, gradient by finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.core.test_worker_threads import PickledCalls

from intarsia.energies import (
    ConstantPsi,
    DistanceToSet,
    LinearPsi,
    MeanMapPsi,
    MeasuredEnergy,
    Squared,
    Transitions,
    at_most_one,
    balanced,
)
from intarsia.energies.binding.batch_energies import ChainEnergies
from intarsia.inference.chains.bethe_chains import project_chains
from intarsia.inference.chains.chain_inference import chain_marginals, path_log_probabilities
from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.models.chain_scores import ChainLayout
from intarsia.sequences import energy_fit as surrogate_risk
from intarsia.sequences.chain_data import ChainExamples, ChainScores, ChainTruth, make_data
from intarsia.sequences.energy_fit import SurrogateRisk
from intarsia.sequences.tag_schemes import find_constraints

NAMES = ["O", "B-x", "B-y"]
SEGMENTS = [at_most_one("x", psi=0.7), balanced("x", "y", psi=1.3)]
ENERGIES = {
    "segments": SEGMENTS,
    "transitions": [MeasuredEnergy(Transitions("O", "B-y"), Squared(2.0)), *SEGMENTS],
    "words": [DistanceToSet([["O", "B-x"], ["B-y", "O", "B-y"]], psi=0.5)],
    "counts": [DistanceToSet([["O", "B-x"], ["B-y", "O", "B-y"]], positional=False, psi=0.5)],
}


def make_examples(hidden=False, edges=False, seed=0):
    rng = np.random.default_rng(seed)
    lengths = np.array([3, 1, 2, 3, 4])
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    given = [rng.normal(size=(max(n - 1, 0), 2)) for n in lengths] if edges else None
    data = make_data(rng.normal(size=(ptr[-1], 2)), ptr, given)
    states = rng.integers(0, 3, ptr[-1])
    allowed = None
    if hidden:
        allowed = states[:, None] == np.arange(3)
        allowed[::3] = True
        allowed[1, 0] = True
        states = np.where(allowed.sum(axis=1) == 1, states, -1)
    truth = ChainTruth(states, allowed, rng.uniform(0.5, 2.0, lengths.size))
    layout = ChainLayout(2, 3, n_edge_features=2 if edges else 0)
    return ChainExamples(data, truth, layout, find_constraints(np.array(NAMES), None, None))


def make_risk(kind="segments", psi=None, fixed=False, method=None, **settings):
    examples = make_examples(**settings)
    weights = 0.5 * np.random.default_rng(2).normal(size=examples.layout.n_weights)
    energies = ChainEnergies(ENERGIES[kind], NAMES, 4)
    risk = SurrogateRisk(
        examples, energies, psi or ConstantPsi(), method or BetheRDA(max_iter=5),
        folds=[(np.arange(len(examples)), weights)] if fixed else None, ridge=0.2, psi_ridge=0.4,
    )  # fmt: skip
    start = risk.start(weights)
    moved = 0.2 * np.random.default_rng(3).normal(size=start.size - risk.n_weights)
    start[risk.n_weights :] += np.abs(moved) if psi is None else moved
    return risk, start


@pytest.mark.parametrize("psi", [None, LinearPsi(), MeanMapPsi(n_components=5)], ids=["constant", "linear", "mean_map"])
@pytest.mark.parametrize("kind", list(ENERGIES))
def test_gradient_with_the_slopes_fixed(kind, psi):
    risk, point = make_risk(kind, psi)
    fixed = risk.with_slopes(point)
    _, gradient = fixed(point)
    for i in range(point.size):
        step = np.zeros(point.size)
        step[i] = 1e-6
        numeric = (fixed(point + step)[0] - fixed(point - step)[0]) / 2e-6
        assert gradient[i] == pytest.approx(numeric, abs=1e-7), i


@pytest.mark.parametrize(("hidden", "edges"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", ["segments", "transitions"])
def test_gradient_with_hidden_labels_and_features_of_steps(kind, hidden, edges):
    risk, point = make_risk(kind, hidden=hidden, edges=edges)
    fixed = risk.with_slopes(point)
    _, gradient = fixed(point)
    rng = np.random.default_rng(0)
    for _ in range(6):
        direction = rng.normal(size=point.size)
        numeric = (fixed(point + 1e-6 * direction)[0] - fixed(point - 1e-6 * direction)[0]) / 2e-6
        assert gradient @ direction == pytest.approx(numeric, abs=1e-6)


def test_value_equals_enumeration():
    risk, point = make_risk("segments", method=BetheMirrorDescent(tol=1e-12))
    examples = risk.examples  # in the order of their lengths
    fixed = risk.with_slopes(point)
    weights, psi_weights = risk.split(point)
    psi = psi_weights[:, 0]
    parts = examples.layout.unpack(weights)
    total, ptr = 0.0, examples.data.ptr
    # With enough iterations, the stored slopes are those at the marginals of the predicting model.
    psi_rows = np.tile(psi, (5, 1))
    scores = ChainScores(examples.data, examples.layout, examples.constraints).batch(weights, 0, 5)
    marginals = chain_marginals(project_chains(scores, risk.energies, psi_rows, risk.method).batch).nodes
    for s, (a, b) in enumerate(itertools.pairwise(ptr)):
        mu = marginals[a:b]
        starts = mu.sum(axis=0)[1:]  # of x and of y
        # Slopes of the smoothed hinge at 1 and of Huber's function at 0, both of width 1.
        slope_one, slope_both = np.clip(starts[0] - 1.0, 0, 1), np.clip(starts[0] - starts[1], -1, 1)
        slope = psi[0] * slope_one * np.array([0, 1, 0]) + psi[1] * slope_both * np.array([0, 1, -1])
        nodes = examples.data.matrix[a:b] @ parts.states - slope

        def score(y, nodes=nodes):
            found = sum(nodes[t, label] for t, label in enumerate(y)) + parts.start[y[0]] + parts.end[y[-1]]
            return found + sum(parts.transitions[u, v] for u, v in itertools.pairwise(y))

        every = [score(y) for y in itertools.product(range(3), repeat=int(b - a))]
        total -= examples.truth.weight[s] * (score(examples.truth.states[a:b].tolist()) - np.logaddexp.reduce(every))
    expected = total / examples.mass + 0.1 * weights @ weights
    assert fixed(point)[0] == pytest.approx(expected, abs=1e-7)


def test_frozen_weights_are_not_in_the_point():
    whole, point = make_risk("segments")
    alone, psi_point = make_risk("segments", fixed=True)
    assert psi_point.size == 2
    assert point.size == whole.n_weights + 2
    value, gradient = whole.with_slopes(point)(point)
    same, psi_gradient = alone.with_slopes(psi_point)(psi_point)
    np.testing.assert_allclose(psi_gradient, gradient[-2:], atol=1e-12)
    assert same == pytest.approx(value - 0.1 * point[:-2] @ point[:-2], abs=1e-12)


def test_regularization_is_half_the_squared_norm():
    """All weights w are regularized, and the weights of psi except the constant feature."""
    risk, point = make_risk("segments", LinearPsi())
    penalised = risk.with_slopes(point)(point)[0]
    risk.ridge = risk.psi_ridge = 0.0
    weights, psi_weights = risk.split(point)
    squares = 0.2 * weights @ weights + 0.4 * (psi_weights[:, 1:] ** 2).sum()
    assert penalised - risk.with_slopes(point)(point)[0] == pytest.approx(squares / 2, rel=1e-9)


def test_parts_add_up_to_the_whole():
    risk, point = make_risk("words", method=BetheMirrorDescent(max_iter=50))
    value, gradient = risk(point)
    penalty = 0.1 * point[: risk.n_weights] @ point[: risk.n_weights]
    pull = np.concatenate([0.2 * point[: risk.n_weights], np.zeros(1)])
    parts = [risk.subset(chosen) for chosen in ([0, 3], [1, 2, 4])]
    found = [part(point) for part in parts]
    together = sum(part.mass * (one[0] - penalty) for part, one in zip(parts, found, strict=True)) / risk.mass
    slopes = sum(part.mass * (one[1] - pull) for part, one in zip(parts, found, strict=True)) / risk.mass
    assert value == pytest.approx(together + penalty, abs=1e-12)
    np.testing.assert_allclose(gradient, slopes + pull, atol=1e-12)


def test_value_is_the_likelihood_of_the_predicting_model():
    """Also without convergence and at kinks: Q has the scores of the last dual iterate."""
    for kind in ENERGIES:
        risk, point = make_risk(kind, fixed=True)
        examples, psi = risk.examples, np.tile(risk.split(point)[1][:, 0], (5, 1))
        tilted = project_chains(risk._batch(np.empty(0), 0, 5), risk.energies, psi, risk.method).batch
        likelihood = examples.truth.weight @ path_log_probabilities(tilted, examples.truth.states)
        assert risk(point)[0] == pytest.approx(-likelihood / examples.mass, abs=1e-12)


@pytest.mark.parametrize("fixed", [False, True])
def test_results_do_not_depend_on_threads_or_processes(fixed, monkeypatch):
    settings = {"kind": "transitions", "psi": LinearPsi(), "fixed": fixed, "hidden": True, "edges": True}
    whole, point = make_risk(**settings)
    assert len(whole.parts()) == 1
    monkeypatch.setattr(surrogate_risk, "TILTED_CHUNK", 4)
    monkeypatch.setattr(surrogate_risk, "MAX_GROUPS", 2)
    cut = make_risk(**settings)[0]
    assert [len(part) for part in cut.parts()] == [2, 1]
    for risk in (cut, cut.with_slopes(point)):
        value, gradient = risk(point)
        assert value == pytest.approx(whole(point)[0], abs=1e-12)
        np.testing.assert_allclose(gradient, whole(point)[1], atol=1e-12)
    moved = point + 0.1  # here the stored slopes differ from new slopes
    expected = [cut(moved), cut.with_slopes(point)(moved), cut.subset([0, 2, 4])(moved)]
    assert abs(expected[0][0] - expected[1][0]) > 1e-6

    def check():
        again = make_risk(**settings)[0]
        again.n_jobs = 2
        for found, (value, gradient) in zip(
            (again(moved), again.with_slopes(point)(moved), again.subset([0, 2, 4])(moved)), expected, strict=True
        ):
            assert found[0] == value
            np.testing.assert_array_equal(found[1], gradient)

    check()
    travels = PickledCalls(monkeypatch)
    check()
    assert len(travels.bytes) == 4  # one call per group computes slopes, three calls compute sums


def test_huge_points_have_infinite_risk():
    risk, point = make_risk("segments")
    point[0] = 1e150
    assert risk(point)[0] == np.inf
