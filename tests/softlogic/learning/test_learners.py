"""All weight learners: satisfied rules gain weight, and the minimum agrees with an independent solver."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from tests.oracles.finite_differences import central_differences
from tests.oracles.paired_objective import exact_objective

from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.inference import Status
from intarsia.softlogic import (
    HINGE_LEARNERS,
    ConsensusADMM,
    EntropyPair,
    HingeLossMRF,
    HingePerceptron,
    LabelLoss,
    LatentSVM,
    LinearRows,
    PairedDual,
    PairedProblem,
    PointEM,
    PrimalSubgradient,
    ProjectedSubgradient,
    evaluate_history,
)
from intarsia.softlogic.learning.learner import spread_rows
from intarsia.softlogic.learning.side_run import SideRun

NAN = np.nan
LATENT = ["paired_dual", "primal_subgradient", "em", "latent_svm"]
TIGHT = ConsensusADMM(tol=1e-8, max_iter=20000)


def two_camps(n=6):
    """Return a model of users in two camps: latent z, labelled y, rules that connect them, and tags of the camps."""
    user = np.arange(n)
    rows, const, group = [], [], []

    def add(entries, b, k):
        row = np.zeros(2 * n)
        for i, c in entries:
            row[i] = c
        rows.append(row)
        const.append(b)
        group.append(k)

    for u in user:
        add([(u, 1.0), (n + u, -1.0)], 0.0, 0)  # z -> y
        add([(u, -1.0), (n + u, -1.0)], 1.0, 1)  # not z -> y
        add([(n + u, 1.0)], 0.0, 2)  # not y
        add([(u, -1.0)] if u % 2 else [(u, 1.0)], 1.0 if u % 2 else 0.0, 3 + u % 2)  # tags
    labels = np.concatenate([np.full(n, NAN), (user % 2).astype(float)])
    return HingeLossMRF(2 * n, LinearRows.from_scipy(np.array(rows), const), 1.0, 2, term_group=group), labels


@pytest.mark.parametrize("name", HINGE_LEARNERS.names)
def test_a_rule_that_the_labels_satisfy_gains_weight(name):
    learner = HINGE_LEARNERS.get(name)(l2=1e-4)
    if learner.takes_latent:
        rows, group = LinearRows([0, 1, 2, 4], [0, 0, 1, 0], [-1.0, 1.0, 1.0, -1.0], [1.0, 0.0, 0.0]), [0, 1, 2]
        model, labels = HingeLossMRF(2, rows, 1.0, 2, term_group=group), [1.0, NAN]
        learner.set_params(symmetry_breaking=0.0)
    else:
        rows = LinearRows([0, 1, 2], [0, 0], [-1.0, 1.0], [1.0, 0.0])
        model, labels = HingeLossMRF(1, rows, 1.0, 2, term_group=[0, 1]), [1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # changes of z are not tested here
        found = learner.fit(model, labels)
    assert found.weights[0] > 1.0 > found.weights[1]  # y = 1 satisfies the first rule and violates the second
    assert (found.weights >= 0.0).all()


@pytest.mark.parametrize("surrogate", [EntropyPair(weight=0.7), LabelLoss(weight=0.2)], ids=repr)
def test_first_step_follows_the_gradient_of_the_exact_objective(surrogate):
    model, labels = two_camps(2)
    weights = np.array([1.0, 0.4, 0.6, 0.9, 1.1])
    problem = PairedProblem.of(model, labels, surrogate)
    optimizer = ProjectedSubgradient(adagrad=False, step_size=1e-3, max_iter=1, average=False)
    learner = PrimalSubgradient(
        surrogate=surrogate, l2=0.1, optimizer=optimizer, symmetry_breaking=0.0, inference=TIGHT
    )
    found = learner.fit(model, labels, start=weights)
    slope = central_differences(lambda w: exact_objective(problem, w, 0.1)[0], weights, step=1e-3)
    np.testing.assert_allclose((weights - found.weights) * problem.counts / 1e-3, slope, atol=2e-3)


@pytest.mark.parametrize("name", ["paired_dual", "primal_subgradient", "em"])
def test_without_latent_variables_all_reach_the_minimum_of_the_convex_objective(name):
    rng = np.random.default_rng(5)
    matrix = np.vstack([np.eye(4), -np.eye(4), rng.choice([-1.0, 0.0, 1.0], (4, 4))])
    const = np.concatenate([np.zeros(4), np.ones(4), rng.uniform(-0.5, 0.5, 4)])
    model = HingeLossMRF(
        4, LinearRows.from_scipy(matrix, const), 1.0, 2, term_group=np.repeat([0, 1, 2], 4), group_names="abc"
    )
    labels = np.array([1.0, 1.0, 0.8, 0.3])
    problem = PairedProblem.of(model, labels, EntropyPair(weight=1.0))
    best = minimize(lambda w: exact_objective(problem, w, 0.1), np.ones(3), jac=True, bounds=[(0.0, None)] * 3)
    optimizer = ProjectedSubgradient(adagrad=False, step_size=1.0, max_iter=400, average=False)
    learner = HINGE_LEARNERS.get(name)(surrogate=EntropyPair(weight=1.0), l2=0.1, optimizer=optimizer)
    found = learner.fit(model, labels)
    np.testing.assert_allclose(found.weights, best.x, atol=5e-3)
    told = evaluate_history(problem, found.weights[None], 0.1, TIGHT)["objective"][0]
    assert told == pytest.approx(best.fun, rel=1e-4)


@pytest.mark.parametrize("name", LATENT)
def test_latent_learners_lower_the_exact_objective_and_find_the_camps(name):
    model, labels = two_camps()
    learner = HINGE_LEARNERS.get(name)(
        optimizer=ProjectedSubgradient(adagrad=False, step_size=0.5, max_iter=150, average=False),
        evaluate=True,
        l2=0.05,
    )
    found = learner.fit(model, labels)
    surrogate = LabelLoss() if name == "latent_svm" else EntropyPair()
    problem = PairedProblem.of(model, labels, surrogate)
    before, after = (exact_objective(problem, w, 0.05)[0] for w in found.history["weights"][[0, -1]])
    np.testing.assert_allclose(found.history["objective"][[0, -1]], [before, after], atol=1e-3)
    assert after < 0.9 * before
    assert found.latent[1::2].min() > found.latent[::2].max() + 0.1  # the tags identify the camps


def test_gradient_at_consensus_differs_from_gradient_at_copies():
    model, labels = two_camps()
    weights = [
        PairedDual(gradient_at=place, optimizer=ProjectedSubgradient(adagrad=False, max_iter=3))
        .fit(model, labels)
        .weights
        for place in ("copies", "consensus")
    ]
    assert np.abs(weights[0] - weights[1]).max() > 1e-4


def test_many_inner_iterations_equal_the_primal_method():
    model, labels = two_camps()
    optimizer = ProjectedSubgradient(adagrad=False, step_size=0.5, max_iter=5, average=False)
    primal = PrimalSubgradient(optimizer=optimizer, inference=TIGHT).fit(model, labels)
    paired = PairedDual(n_inner_iter=2000, optimizer=optimizer, inference=TIGHT).fit(model, labels)
    np.testing.assert_allclose(paired.weights, primal.weights, atol=1e-3)


def test_history_counts_iterations_of_both_problems():
    model, labels = two_camps()
    one = PairedDual(optimizer=ProjectedSubgradient(adagrad=False, max_iter=7)).fit(model, labels)
    np.testing.assert_array_equal(one.history["admm_iterations"], 2 * np.arange(8))
    np.testing.assert_array_equal(one.history["updates"], np.arange(8))
    assert one.history["weights"].shape == (8, 5)
    assert (one.n_iter, one.n_admm_iter) == (7, 14)
    warm = PairedDual(warm_up=10, optimizer=ProjectedSubgradient(adagrad=False, max_iter=2)).fit(model, labels)
    np.testing.assert_array_equal(warm.history["admm_iterations"], [0, 22, 24])
    ten = PairedDual(n_inner_iter=10, optimizer=ProjectedSubgradient(max_admm_iter=45)).fit(model, labels)
    assert 45 <= ten.n_admm_iter <= 60
    assert ten.status is Status.MAX_ITER
    rare = PairedDual(optimizer=ProjectedSubgradient(adagrad=False, max_iter=7, record_every=3)).fit(model, labels)
    np.testing.assert_array_equal(rare.history["updates"], [0, 3, 6, 7])
    np.testing.assert_array_equal(rare.weights, one.weights)


def test_inference_to_convergence_counts_passes_over_all_blocks():
    # A chain of 500 variables and an independent variable need different numbers of iterations.
    n = 500
    rows = np.zeros((n, n + 1))
    rows[np.arange(n - 1), np.arange(n - 1)], rows[np.arange(n - 1), np.arange(1, n)] = 1.0, -1.0
    rows[n - 1, n] = 1.0
    model = HingeLossMRF(n + 1, LinearRows.from_scipy(rows, np.zeros(n)), 1.0, 2, term_group=[0] * n)
    labels = np.concatenate([(np.arange(n) < 2).astype(float), [1.0]])
    problem = PairedProblem.of(model, labels, EntropyPair())
    found = ConsensusADMM().solve(problem.weighted(problem.free, np.ones(1)))
    assert 0 < found.n_passes < found.n_iter
    learner = PrimalSubgradient(optimizer=ProjectedSubgradient(max_iter=1), inference=ConsensusADMM())
    assert learner.fit(model, labels).n_admm_iter == int(np.ceil(found.n_passes))


def test_average_returns_the_mean_of_the_weights():
    model, labels = two_camps()
    mean = PairedDual(optimizer=ProjectedSubgradient(adagrad=False, max_iter=9)).fit(model, labels)
    np.testing.assert_allclose(mean.weights, mean.history["weights"][1:].mean(axis=0), atol=1e-12)
    last = PairedDual(optimizer=ProjectedSubgradient(adagrad=False, max_iter=9, average=False)).fit(model, labels)
    np.testing.assert_array_equal(last.weights, mean.history["weights"][-1])


@pytest.mark.parametrize("name", LATENT)
def test_random_state_determines_the_initial_weights(name):
    model, labels = two_camps()
    learner = HINGE_LEARNERS.get(name)(optimizer=ProjectedSubgradient(adagrad=False, max_iter=5), random_state=3)
    one, again = learner.fit(model, labels), clone(learner).fit(model, labels)
    np.testing.assert_array_equal(one.weights, again.weights)
    other = clone(learner).set_params(random_state=4).fit(model, labels)
    assert (one.history["weights"][0] != other.history["weights"][0]).any()


def test_fixed_weights_are_constant_and_weights_of_the_model_are_initial():
    model, labels = two_camps()
    model = model.with_weights([2.0, 3.0, 0.5, 1.0, 1.0])
    trainable = np.array([True, False, True, True, True])
    learner = PairedDual(optimizer=ProjectedSubgradient(adagrad=False, max_iter=5), symmetry_breaking=0.0)
    found = learner.fit(model, labels, trainable=trainable)
    np.testing.assert_array_equal(found.history["weights"][0], [2.0, 3.0, 0.5, 1.0, 1.0])
    assert found.weights[1] == 3.0
    assert (found.weights != [2.0, 3.0, 0.5, 1.0, 1.0])[trainable].all()


def test_interchangeable_latent_states_need_symmetry_breaking():
    # Two latent states explain y, each with its own rules; they differ in nothing else.
    n = 4
    y = 2 * n + np.arange(n)
    rows, group = [], []
    for s in range(2):
        for u in range(n):
            for sign in (1.0, -1.0):
                row = np.zeros(3 * n)
                row[s * n + u], row[y[u]] = sign, -sign
                rows.append(row)
                group.append(2 * s + (sign < 0))
    model = HingeLossMRF(3 * n, LinearRows.from_scipy(np.array(rows), np.zeros(len(rows))), 1.0, 2, term_group=group)
    labels = np.concatenate([np.full(2 * n, NAN), [1.0, 0.0, 1.0, 1.0]])
    optimizer = ProjectedSubgradient(adagrad=False, max_iter=20)
    same = PairedDual(symmetry_breaking=0.0, optimizer=optimizer).fit(model, labels)
    np.testing.assert_allclose(same.weights[:2], same.weights[2:], atol=1e-12)
    apart = PairedDual(symmetry_breaking=0.2, optimizer=optimizer).fit(model, labels)
    assert np.abs(apart.weights[:2] - apart.weights[2:]).max() > 0.01


def test_latent_variables_without_effect_raise_a_warning():
    model = HingeLossMRF(2, LinearRows([0, 1, 2], [0, 1], [-1.0, 1.0], [1.0, 0.0]), [1.0, 1e-6], 2, term_group=[0, 1])
    learner = PairedDual(symmetry_breaking=0.0, optimizer=ProjectedSubgradient(adagrad=False, max_iter=5))
    with pytest.warns(ConvergenceWarning, match="PairedDual: none of the 1 latent variables changed"):
        learner.fit(model, [1.0, NAN], trainable=[True, False])


@pytest.mark.parametrize("name", ["paired_dual", "primal_subgradient", "em", "latent_svm", "perceptron"])
def test_keyboard_interrupt_returns_the_weights_so_far(name, monkeypatch):
    model, labels = two_camps()
    labels = np.nan_to_num(labels) if name == "perceptron" else labels
    learner = HINGE_LEARNERS.get(name)(optimizer=ProjectedSubgradient(adagrad=False, max_iter=50, average=False))
    inner, calls = type(learner)._gradient, []

    def interrupted(self, *given):
        if len(calls) == 4:
            raise KeyboardInterrupt
        calls.append(1)
        return inner(self, *given)

    monkeypatch.setattr(type(learner), "_gradient", interrupted)
    found = learner.fit(model, labels)
    assert found.status is Status.INTERRUPTED
    assert found.n_iter == 4
    np.testing.assert_array_equal(found.weights, found.history["weights"][-1])


def test_time_limit_and_convergence_set_the_status():
    model, labels = two_camps()
    assert PairedDual(time_limit=0.0).fit(model, labels).status is Status.TIME_LIMIT
    rule = HingeLossMRF(1, LinearRows([0, 1], [0], [-1.0], [1.0]), 1.0, 2)
    optimizer = ProjectedSubgradient(adagrad=False, step_size=5.0, max_iter=10000, average=False)
    assert PrimalSubgradient(l2=0.05, optimizer=optimizer).fit(rule, [1.0]).status is Status.CONVERGED


def test_em_decreases_the_objective_with_every_estimate():
    model, labels = two_camps()
    optimizer = ProjectedSubgradient(adagrad=False, step_size=0.3, max_iter=60, average=False)
    found = PointEM(n_inner_iter=5, optimizer=optimizer, evaluate=True, inference=TIGHT).fit(model, labels)
    assert (np.diff(found.history["objective"]) <= 1e-6).all()


@pytest.mark.parametrize("name", HINGE_LEARNERS.names)
def test_early_stopping_returns_the_recorded_weights_of_the_highest_score(name):
    model, labels = two_camps()
    labels = labels if HINGE_LEARNERS.get(name).takes_latent else np.nan_to_num(labels, nan=1.0)
    learner = HINGE_LEARNERS.resolve(name)
    target = learner.fit(model, labels).history["weights"][1]
    result = learner.fit(model, labels, validation=lambda w: -float(np.abs(w - target).sum()))
    np.testing.assert_array_equal(result.weights, target)
    assert int(np.nanargmax(result.history["validation"])) == 1
    assert len(result.history["validation"]) == len(result.history["weights"])


def test_latent_variables_after_early_stopping_are_those_of_the_returned_weights():
    model, labels = two_camps()
    start = PairedDual().fit(model, labels, validation=lambda w: -float(np.abs(w - 1.0).sum()))
    problem = PairedProblem.of(model, labels, EntropyPair())
    expected = SideRun(problem, problem.clamped, TIGHT)
    expected.solve(start.weights)
    np.testing.assert_allclose(start.latent, expected.point, atol=1e-3)
    assert np.abs(start.latent - PairedDual().fit(model, labels).latent).max() > 1e-2


def test_early_stopping_scores_at_most_thirty_rows_and_the_mean():
    model, labels = two_camps()
    scored = []
    optimizer = ProjectedSubgradient(max_iter=200, tol=0.0)
    fit = PairedDual(optimizer=optimizer).fit(
        model, labels, validation=lambda w: scored.append(w.copy()) or len(scored)
    )
    assert len(scored) <= 32
    np.testing.assert_array_equal(scored[0], fit.history["weights"][0])
    # Later calls score higher, so that the mean of all updates, which is scored last, is the result.
    np.testing.assert_array_equal(fit.weights, PairedDual(optimizer=optimizer).fit(model, labels).weights)


@pytest.mark.parametrize("score", [NAN, "high", None])
def test_a_validation_score_must_be_a_number(score):
    model, labels = two_camps()
    with pytest.raises(InvalidInputError, match=r"PairedDual: validation must return a number, got .*Return a score"):
        PairedDual().fit(model, labels, validation=lambda w: score)


def test_rows_are_spread_and_include_both_ends():
    few = spread_rows(np.array([0, 40, 80]), 10)
    np.testing.assert_array_equal(few, [0, 1, 2])
    many = spread_rows(2 * np.arange(1000), 12)
    assert many[0] == 0
    assert many[-1] == 999
    assert len(many) <= 13
    assert (np.diff(many) > 0).all()


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (PairedDual(n_inner_iter=0), r"n_inner_iter must be an integer in \[1"),
        (PairedDual(warm_up=-1), "warm_up"),
        (PairedDual(gradient_at="copy"), "gradient_at='copy' is not known.*'copies'"),
        (PairedDual(surrogate="pair"), "surrogate='pair' is not known.*Did you mean 'entropy_pair'"),
        (PairedDual(l2=-1.0), "PairedDual: l2"),
        (PairedDual(optimizer="fast"), "optimizer='fast' is not known"),
        (PairedDual(inference=3), "inference must be a name .* or a settings object, got int"),
        (PairedDual(symmetry_breaking=2.0), "symmetry_breaking"),
        (PointEM(n_inner_iter=0), "PointEM: n_inner_iter"),
        (LatentSVM(n_inner_iter=0), "LatentSVM: n_inner_iter"),
        (LatentSVM(loss_weight=0.0), "LabelLoss: weight"),
        (HingePerceptron(), "variable 0 has no label"),
        (PairedDual(optimizer=ProjectedSubgradient(adagrad=False, step_size=-1.0)), "step_size"),
    ],
    ids=lambda given: type(given).__name__ if not isinstance(given, str) else given[:20],
)
def test_invalid_settings_raise(learner, message):
    model, labels = two_camps()
    with pytest.raises(InvalidInputError, match=message):
        learner.fit(model, labels)


def test_missing_labels_raise():
    model, _ = two_camps()
    with pytest.raises(InvalidInputError, match="PairedDual: no variable has a label"):
        PairedDual().fit(model, np.full(12, NAN))
    with pytest.raises(InvalidInputError, match=r"labels must be 0 or 1.*got 0\.5 for variable 6"):
        LatentSVM().fit(model, np.concatenate([np.full(6, NAN), np.full(6, 0.5)]))
